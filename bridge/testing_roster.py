"""The part of the conformance kit that follows a roster step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.roster import RoleArrays, Roster, RosterArrays
from bridge.specs import RoleSpec

__all__ = ["RosterWatch", "copy_arrays", "require", "require_equal_arrays"]

Bool = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]


def require(condition: bool, message: str) -> None:
    """Raise ``AssertionError(message)`` unless the condition holds; unlike ``assert``, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def copy_arrays(arrays: RosterArrays, view: bool = False) -> Arrays:
    """All arrays by name as in :func:`bridge.roster.array_shapes`: copies, or the arrays themselves."""
    named = {f"{name}/{key}": array for name, role in arrays.roles.items() for key, array in vars(role).items()}
    named |= {key: array for key, array in vars(arrays).items() if key != "roles"}
    return named if view else {key: array.copy() for key, array in named.items()}


def require_equal_arrays(found: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]], what: str) -> None:
    """Raise unless all arrays are equal, bit for bit.

    Raises:
        AssertionError: Names the first array that differs.
    """
    for key, array in expected.items():
        if found[key].tobytes() != array.tobytes():
            raise AssertionError(f"check_roster: {what}: expected equal {key}, got {found[key]} instead of {array}.")


class RosterWatch:
    """Checks a roster's arrays after every reset and step against the rules of ``bridge/roster.py``."""

    def __init__(self, roster: Roster) -> None:
        """Watch a roster; call the methods around its own."""
        self._roster = roster
        self._arrays = roster.arrays
        self._memory = copy_arrays(roster.arrays, view=True)
        self._before: Arrays = {}
        self._step = 0

    def after_reset(self, env_mask: Bool, episode: NDArray[np.int64]) -> None:
        """Check after a reset.

        Args:
            env_mask: (E,) bool, environments that were reset.
            episode: (E,) int64, the episode numbers that are expected now.
        """
        self._require_same_memory()
        for role in self._roster.spec.roles:
            values = self._arrays.roles[role.name]
            for name in ("rewards", "terminated", "truncated"):
                stained = env_mask[:, np.newaxis] & (getattr(values, name) != 0)
                self._forbid(stained, role, f"expected cleared {name} after reset, got some left")
            self._check_present(role, values)
        over = bool(self._arrays.episode_over[env_mask].any())
        require(not over, f"{self._where()}: expected cleared episode_over after reset, got some left.")
        self._require_finite("state", self._arrays.state)
        self._require_episode(episode)

    def before_step(self) -> None:
        """Remember what a step must be compared with."""
        self._before = copy_arrays(self._arrays)

    def after_step(self) -> None:
        """Check after a step."""
        self._step += 1
        self._require_same_memory()
        over = self._arrays.episode_over
        for role in self._roster.spec.roles:
            values = self._arrays.roles[role.name]
            self._check_outcome(role, values, over)
            self._check_present(role, values)
        self._require_finite("final_state", self._arrays.final_state[over])
        self._require_finite("state", self._arrays.state)
        self._require_episode(self._before["episode"] + over)

    def _check_outcome(self, role: RoleSpec, values: RoleArrays, over: Bool) -> None:
        """What the step did to the lives that were running before it."""
        lived = self._before[f"{role.name}/agent_mask"]
        ended = values.terminated | values.truncated
        self._forbid(values.terminated & values.truncated, role, "expected one flag for the end of a life, got both")
        self._forbid(ended & ~lived, role, "expected no end flag where nobody lived before the step, got one")
        self._forbid((values.rewards != 0) & ~lived, role, "expected zero reward where nobody lived, got some")
        last = over[:, np.newaxis] & lived & ~ended
        self._forbid(last, role, "expected the end of every life at the end of the episode, got none")
        vanished = ~over[:, np.newaxis] & lived & ~ended & ~values.agent_mask
        self._forbid(vanished, role, "expected a flag for the end of a life, got a robot that vanished without one")
        self._check_range(role, values.final_observations, ended, "final_observations", zeros_allowed=True)
        waiting = ~over[:, np.newaxis] & lived & ~ended & values.agent_mask & ~values.decision_mask
        changed = (values.observations != self._before[f"{role.name}/observations"]).any(axis=-1)
        self._forbid(waiting & changed, role, "expected a robot that is not asked to keep its observation, got another")

    def _check_present(self, role: RoleSpec, values: RoleArrays) -> None:
        """What holds after every reset and step."""
        alive, asked = values.agent_mask, values.decision_mask
        self._forbid(~np.isfinite(values.rewards), role, "expected finite rewards, got others")
        self._forbid(asked & ~alive, role, "expected no decision of a slot without a robot, got one asked")
        seen = (values.observations != 0).any(axis=-1)
        self._forbid(~alive & seen, role, "expected zero observations in a slot without a robot, got others")
        self._check_range(role, values.observations, alive, "observations")
        if role.action.num_branches:
            masked = ~values.action_mask.all(axis=-1)
            self._forbid(~asked & masked, role, "expected all actions allowed where nobody is asked, got a mask")
        start = 0
        for branch, size in enumerate(role.action.discrete_branches):
            allowed = values.action_mask[..., start : start + size].any(axis=-1)
            self._forbid(asked & ~allowed, role, f"expected an allowed action in branch {branch}, got none")
            start += size

    def _check_range(
        self, role: RoleSpec, observations: NDArray[np.float32], rows: Bool, name: str, zeros_allowed: bool = False
    ) -> None:
        self._forbid(rows & ~np.isfinite(observations).all(axis=-1), role, f"expected finite {name}, got others")
        if zeros_allowed:
            rows = rows & (observations != 0).any(axis=-1)
        for block in role.observation.blocks:
            part = observations[..., role.observation.slice_of(block.name)]
            low = np.float32(-np.inf if block.low is None else block.low)
            high = np.float32(np.inf if block.high is None else block.high)
            outside = rows & ((part < low) | (part > high)).any(axis=-1)
            self._forbid(outside, role, f"expected {name} of block {block.name!r} in [{low}, {high}], got others")

    def _require_finite(self, name: str, values: NDArray[np.float32]) -> None:
        require(bool(np.isfinite(values).all()), f"{self._where()}: expected a finite {name}, got others.")

    def _require_episode(self, expected: NDArray[Any]) -> None:
        found = self._arrays.episode.tolist()
        require(found == expected.tolist(), f"{self._where()}: expected episodes {expected.tolist()}, got {found}.")

    def _require_same_memory(self) -> None:
        same = self._roster.arrays is self._arrays and all(
            array is self._memory[key] for key, array in copy_arrays(self._arrays, view=True).items()
        )
        require(same, f"{self._where()}: expected the arrays to stay the same objects, got new ones.")

    def _forbid(self, flags: Bool, role: RoleSpec, rule: str) -> None:
        if flags.any():
            env, slot = np.argwhere(flags)[0]
            raise AssertionError(f"{self._where()}: environment {env}, agent {role.agent_ids[slot]!r}: {rule}.")

    def _where(self) -> str:
        return f"check_roster: step {self._step}"
