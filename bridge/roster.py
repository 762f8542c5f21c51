"""What trainers and policies see of a world: every slot in every step, in fixed arrays.

PettingZoo's dicts change their keys when robots come and go; learning wants
arrays that do not. A :class:`Roster` steps ``E`` environments at once and
keeps one :class:`RoleArrays` per role, with a row for every slot whether or
not a robot lives in it. This module holds the arrays and the contract; who
fills them is a world's adapter.

Rules (``docs/semantics.md`` shows them as sequences):

- A slot without a living robot has ``agent_mask=False``, zero observations and
  zero reward, and its action is ignored.
- ``decision_mask`` tells which living robots are asked for an action next. A
  robot that is not asked keeps its last observation and collects reward.
- A life ends once: ``terminated`` (by the task) or ``truncated`` (by a limit, a
  reset, or a crash of the world), in the step in which it ended, with its whole
  reward. ``final_observations`` then holds its last observation; the
  ``observations`` may already be those of the next life.
- An environment whose episode ended is reset in the same step:
  ``episode_over`` is True, ``metrics`` and ``final_state`` are those of the
  ended episode, everything else is already the next episode's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bridge.specs import RoleSpec, WorldSpec

__all__ = ["RoleArrays", "Roster", "RosterArrays", "array_shapes"]

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class RoleArrays:
    """Per-step arrays of one role; E environments, A slots, F observation values.

    Attributes:
        observations: (E, A, F) float32, what each robot sees now.
        final_observations: (E, A, F) float32, the last observation of a life that ended in this step; else stale.
        action_mask: (E, A, M) bool, True = allowed; all True where nobody is asked.
            M is ``action.mask_size`` (0 without discrete branches).
        rewards: (E, A) float32, reward of the life that was running before the step.
        terminated: (E, A) bool, that life was ended by the task.
        truncated: (E, A) bool, that life was cut.
        agent_mask: (E, A) bool, a robot lives in the slot now.
        decision_mask: (E, A) bool, it is asked for an action now.
        continuous_actions: (E, A, C) float32 in [-1, 1], written by the policy.
        discrete_actions: (E, A, B) int32, written by the policy.
    """

    observations: Float32
    final_observations: Float32
    action_mask: Bool
    rewards: Float32
    terminated: Bool
    truncated: Bool
    agent_mask: Bool
    decision_mask: Bool
    continuous_actions: Float32
    discrete_actions: NDArray[np.int32]

    def envs(self, start: int, stop: int) -> Self:
        """Views of the environments ``start`` to ``stop - 1``."""
        return type(self)(**{field.name: getattr(self, field.name)[start:stop] for field in fields(self)})


@dataclass(frozen=True)
class RosterArrays:
    """All per-step arrays of E environments.

    Attributes:
        roles: Arrays per role, keyed by role name, in the order of the world's spec.
        state: (E, S) float32, global state for critics; S is 0 where the world has none.
        final_state: (E, S) float32, last state of an episode that ended in this step; else stale.
        episode_over: (E,) bool, the episode ended in this step and the environment was reset.
        episode: (E,) int64, number of the running episode since the last seeded reset, from 0.
        metrics: (E, K) float64, figures of the episode that just ended; else stale.
        final_scenario: (E,) int64, which of several scenarios (``bridge/scenario_mix.py``) the episode that
            just ended was played on; 0 with a single one; else stale.
    """

    roles: dict[str, RoleArrays]
    state: Float32
    final_state: Float32
    episode_over: Bool
    episode: NDArray[np.int64]
    metrics: NDArray[np.float64]
    final_scenario: NDArray[np.int64]

    @classmethod
    def allocate(cls, spec: WorldSpec, num_envs: int) -> Self:
        """Zeroed arrays in ordinary memory."""
        blocks = {key: np.zeros(shape, dtype) for key, (shape, dtype) in array_shapes(spec, num_envs).items()}
        return cls.from_blocks(spec, blocks)

    @classmethod
    def from_blocks(cls, spec: WorldSpec, blocks: dict[str, NDArray[np.generic]]) -> Self:
        """Arrays over memory that the caller owns, keyed as in :func:`array_shapes`."""
        roles = {
            role.name: RoleArrays(**{f.name: blocks[f"{role.name}/{f.name}"] for f in fields(RoleArrays)})  # type: ignore[arg-type]
            for role in spec.roles
        }
        world = {f.name: blocks[f.name] for f in fields(cls) if f.name != "roles"}
        return cls(roles=roles, **world)  # type: ignore[arg-type]

    def envs(self, start: int, stop: int) -> Self:
        """Views of the environments ``start`` to ``stop - 1``."""
        world = {f.name: getattr(self, f.name)[start:stop] for f in fields(self) if f.name != "roles"}
        return type(self)(roles={name: role.envs(start, stop) for name, role in self.roles.items()}, **world)

    @property
    def num_envs(self) -> int:
        """Number of environments E."""
        return len(self.episode_over)


def array_shapes(spec: WorldSpec, num_envs: int) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
    """Name, shape and dtype of every per-step array; role arrays are named ``<role>/<array>``."""
    shapes: dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]] = {}
    for role in spec.roles:
        shapes.update({f"{role.name}/{name}": entry for name, entry in _role_shapes(role, num_envs).items()})
    shapes["state"] = ((num_envs, spec.state_size), np.dtype(np.float32))
    shapes["final_state"] = ((num_envs, spec.state_size), np.dtype(np.float32))
    shapes["episode_over"] = ((num_envs,), np.dtype(np.bool_))
    shapes["episode"] = ((num_envs,), np.dtype(np.int64))
    shapes["metrics"] = ((num_envs, len(spec.metrics)), np.dtype(np.float64))
    shapes["final_scenario"] = ((num_envs,), np.dtype(np.int64))
    return shapes


def _role_shapes(role: RoleSpec, num_envs: int) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
    slots = (num_envs, role.num_slots)
    float32, boolean = np.dtype(np.float32), np.dtype(np.bool_)
    return {
        "observations": ((*slots, role.observation.size), float32),
        "final_observations": ((*slots, role.observation.size), float32),
        "action_mask": ((*slots, role.action.mask_size), boolean),
        "rewards": (slots, float32),
        "terminated": (slots, boolean),
        "truncated": (slots, boolean),
        "agent_mask": (slots, boolean),
        "decision_mask": (slots, boolean),
        "continuous_actions": ((*slots, role.action.num_continuous), float32),
        "discrete_actions": ((*slots, role.action.num_branches), np.dtype(np.int32)),
    }


@runtime_checkable
class Roster(Protocol):
    """E environments that are stepped together."""

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        ...

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill; always the same objects."""
        ...

    def reset(self, seed: int | None = None, env_mask: Bool | None = None) -> None:
        """Start an episode in every environment, or in those of ``env_mask``.

        With a seed, the episode counter starts again from 0; without one, the
        next episode of the current seed begins. Afterwards the flags, rewards
        and ``episode_over`` of the reset environments are cleared.

        Raises:
            CallOrderError: There was no seeded reset before an unseeded one, the roster is closed, or
                ``env_mask`` leaves out environments that this world can only reset together (nothing has
                changed then).
        """
        ...

    def step(self) -> None:
        """Take the actions from the arrays, advance by one step, and fill the arrays.

        Raises:
            ActionError: An action of a robot that was asked is out of range or masked; names the agent.
            CallOrderError: Before the first reset, or after close.
            WorldDiedError: The world's process has ended.
            WorldTimeoutError: The world did not answer in time.
        """
        ...

    def close(self) -> None:
        """Release everything; may be called twice."""
        ...
