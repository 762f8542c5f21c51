"""Collects T steps of E environments into arrays that are allocated once.

Axes are (T, E, A, ...). Arrays of what was seen have T + 1 rows; the last one
is what is seen after the last step. Data is valid until the next collection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bridge.errors import TrainingError
from bridge.roster import RosterArrays
from bridge.specs import RoleSpec, WorldSpec
from trainers.episode_statistics import EpisodeStatistics
from trainers.policy import TorchPolicy

__all__ = ["FinalViews", "RoleRollout", "Rollout", "RolloutCollector", "SteppedWorld"]

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


class SteppedWorld(Protocol):
    """What the collector needs of a vector environment (``bridge.vector``)."""

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        ...

    @property
    def arrays(self) -> RosterArrays:
        """The arrays of the last step; always the same objects."""
        ...

    def step_async(self) -> None:
        """Take the actions from the arrays and start a step."""
        ...

    def step_wait(self) -> None:
        """Wait until the arrays hold the outcome."""
        ...


@dataclass(frozen=True)
class RoleRollout:
    """Data of one role; T steps, E environments, A slots.

    Attributes:
        observations: (T + 1, E, A, F) float32.
        action_mask: (T, E, A, M) bool.
        agent_mask: (T + 1, E, A) bool, a robot lived before the step.
        decision_mask: (T + 1, E, A) bool, it was asked for an action.
        continuous_actions: (T, E, A, C) float32, before squashing.
        discrete_actions: (T, E, A, B) int64.
        log_probs: (T, E, A) float32, of the action when it was chosen.
        rewards: (T, E, A) float32.
        terminated: (T, E, A) bool.
        truncated: (T, E, A) bool.
    """

    observations: Float32
    action_mask: Bool
    agent_mask: Bool
    decision_mask: Bool
    continuous_actions: Float32
    discrete_actions: NDArray[np.int64]
    log_probs: Float32
    rewards: Float32
    terminated: Bool
    truncated: Bool

    @classmethod
    def allocate(cls, role: RoleSpec, steps: int, num_envs: int) -> RoleRollout:
        """Zeroed arrays."""
        slots, action = (num_envs, role.num_slots), role.action
        return cls(
            observations=np.zeros((steps + 1, *slots, role.observation.size), np.float32),
            action_mask=np.zeros((steps, *slots, action.mask_size), np.bool_),
            agent_mask=np.zeros((steps + 1, *slots), np.bool_),
            decision_mask=np.zeros((steps + 1, *slots), np.bool_),
            continuous_actions=np.zeros((steps, *slots, action.num_continuous), np.float32),
            discrete_actions=np.zeros((steps, *slots, action.num_branches), np.int64),
            log_probs=np.zeros((steps, *slots), np.float32),
            rewards=np.zeros((steps, *slots), np.float32),
            terminated=np.zeros((steps, *slots), np.bool_),
            truncated=np.zeros((steps, *slots), np.bool_),
        )

    def poison(self) -> None:
        """Fill with NaN and -1, so that use before writing shows."""
        for field in fields(self):
            array = getattr(self, field.name)
            if array.dtype == np.float32:
                array.fill(np.nan)
            elif array.dtype == np.int64:
                array.fill(-1)


@dataclass(frozen=True)
class FinalViews:
    """The world at the end of lives that were truncated, one row per (step, environment); K rows.

    A slot whose life was truncated in that step has its last observation; one
    whose robot lives on has its present one; others are zero and masked.

    Attributes:
        steps: (K,) int64.
        envs: (K,) int64.
        state: (K, S) float32.
        observations: (K, A, F) float32 per role.
        agent_mask: (K, A) bool per role.
    """

    steps: NDArray[np.int64]
    envs: NDArray[np.int64]
    state: Float32
    observations: dict[str, Float32]
    agent_mask: dict[str, Bool]


@dataclass(frozen=True)
class Rollout:
    """T steps of E environments.

    Attributes:
        roles: Data per role.
        state: (T + 1, E, S) float32; S is 0 where the world has no state.
        final: The ends of truncated lives.
        num_decisions: Decisions of robots in the rollout, over all roles.
    """

    roles: dict[str, RoleRollout]
    state: Float32
    final: FinalViews
    num_decisions: int


class RolloutCollector:
    """Runs a policy and remembers what happened.

    Args:
        world: A vector environment that has been reset.
        policy: The policy that acts; stochastic.
        steps: Steps T per rollout.
        statistics: Takes in rewards and ends of episodes.
        debug: Poison arrays before use and check afterwards that nothing is left.
    """

    def __init__(
        self,
        world: SteppedWorld,
        policy: TorchPolicy,
        steps: int,
        statistics: EpisodeStatistics,
        *,
        debug: bool = False,
    ) -> None:
        self._world = world
        self._policy = policy
        self._steps = steps
        self._statistics = statistics
        self._debug = debug
        num_envs = world.arrays.num_envs
        self._roles = {role.name: RoleRollout.allocate(role, steps, num_envs) for role in world.spec.roles}
        self._state = np.zeros((steps + 1, num_envs, world.spec.state_size), np.float32)

    def collect(self, should_stop: Callable[[], bool] = lambda: False) -> Rollout | None:
        """Play T steps. None if ``should_stop`` said so on the way.

        Raises:
            TrainingError: The world gave a value that is not finite; names role, environment and agent.
            WorldDiedError, WorldTimeoutError: From the vector environment.
        """
        if self._debug:
            self._state.fill(np.nan)
            for data in self._roles.values():
                data.poison()
        finals: list[FinalViews] = []
        for step in range(self._steps):
            if should_stop():
                return None
            self._act(step)
            self._world.step_async()
            self._world.step_wait()
            self._record_outcome(step, finals)
        self._record_view(self._steps)
        self._check()
        return Rollout(
            roles=self._roles,
            state=self._state,
            final=_concatenate(self._world.spec, finals),
            num_decisions=sum(int(data.decision_mask[:-1].sum()) for data in self._roles.values()),
        )

    def _record_view(self, step: int) -> None:
        arrays = self._world.arrays
        self._state[step] = arrays.state
        for name, data in self._roles.items():
            values = arrays.roles[name]
            data.observations[step] = values.observations
            data.agent_mask[step] = values.agent_mask
            data.decision_mask[step] = values.decision_mask

    def _act(self, step: int) -> None:
        self._record_view(step)
        for role in self._world.spec.roles:
            values, data = self._world.arrays.roles[role.name], self._roles[role.name]
            data.action_mask[step] = values.action_mask
            sample = self._policy.sample(role, values)
            data.continuous_actions[step] = sample.continuous.numpy()
            data.discrete_actions[step] = sample.discrete.numpy()
            data.log_probs[step] = sample.log_probs.numpy()

    def _record_outcome(self, step: int, finals: list[FinalViews]) -> None:
        arrays = self._world.arrays
        cut = np.zeros(arrays.num_envs, np.bool_)
        for name, data in self._roles.items():
            values = arrays.roles[name]
            data.rewards[step] = values.rewards
            data.terminated[step] = values.terminated
            data.truncated[step] = values.truncated
            cut |= (values.truncated & ~values.terminated).any(axis=-1)
        if cut.any():
            finals.append(_final_views(arrays, step, np.flatnonzero(cut)))
        self._statistics.record_step(arrays)

    def _check(self) -> None:
        for role in self._world.spec.roles:
            data = self._roles[role.name]
            alive = data.agent_mask[:-1]
            _require_finite("rewards", data.rewards[..., np.newaxis], alive, role)
            _require_finite("observations", data.observations, data.agent_mask, role)
        if not np.isfinite(self._state).all():
            step, env, index = (int(i) for i in np.argwhere(~np.isfinite(self._state))[0])
            raise TrainingError(
                f"rollout: step {step}, environment {env}: expected a finite state, "
                f"got {self._state[step, env, index]} at index {index}. The world is at fault."
            )


def _require_finite(what: str, values: Float32, alive: Bool, role: RoleSpec) -> None:
    # One pass without temporaries in the usual case: a sum is finite only if all its parts are.
    if np.isfinite(values.sum(dtype=np.float64)):
        return
    wrong = ~np.isfinite(values).all(axis=-1) & alive
    if wrong.any():
        step, env, slot = (int(index) for index in np.argwhere(wrong)[0])
        raise TrainingError(
            f"rollout: role {role.name!r}, step {step}, environment {env}, agent {role.agent_ids[slot]!r}: "
            f"expected finite {what}, got {values[step, env, slot].tolist()}. The world is at fault."
        )


def _final_views(arrays: RosterArrays, step: int, envs: NDArray[np.int64]) -> FinalViews:
    over = arrays.episode_over[envs]
    observations: dict[str, Float32] = {}
    masks: dict[str, Bool] = {}
    for name, values in arrays.roles.items():
        cut = values.truncated[envs] & ~values.terminated[envs]
        lives_on = values.agent_mask[envs] & ~over[:, np.newaxis] & ~cut
        seen = np.where(cut[..., np.newaxis], values.final_observations[envs], values.observations[envs])
        masks[name] = cut | lives_on
        observations[name] = np.where(masks[name][..., np.newaxis], seen, np.float32(0.0))
    # Only the end of an episode has a final state; where it goes on, the state after the step is the last one.
    state = np.where(over[:, np.newaxis], arrays.final_state[envs], arrays.state[envs])
    return FinalViews(np.full(len(envs), step, np.int64), envs.astype(np.int64), state, observations, masks)


def _concatenate(spec: WorldSpec, finals: list[FinalViews]) -> FinalViews:
    if not finals:
        empty = np.zeros(0, np.int64)
        slots = {role.name: (0, role.num_slots) for role in spec.roles}
        return FinalViews(
            empty,
            empty,
            np.zeros((0, spec.state_size), np.float32),
            {role.name: np.zeros((*slots[role.name], role.observation.size), np.float32) for role in spec.roles},
            {name: np.zeros(shape, np.bool_) for name, shape in slots.items()},
        )
    names = [role.name for role in spec.roles]
    return FinalViews(
        np.concatenate([final.steps for final in finals]),
        np.concatenate([final.envs for final in finals]),
        np.concatenate([final.state for final in finals]),
        {name: np.concatenate([final.observations[name] for final in finals]) for name in names},
        {name: np.concatenate([final.agent_mask[name] for final in finals]) for name in names},
    )
