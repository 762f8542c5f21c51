"""Rows of environments between the arrays of one roster and those of another that it plays in turn.

A roster that is made of several rosters, of which each environment plays in one at a time, has
arrays of its own: actions are handed over to the roster that an environment plays in, what came
of them is copied back. The inner arrays may have fewer slots, or a shorter state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, kernel_part, lean_kernel
from bridge.roster import RosterArrays
from bridge.specs import WorldSpec

__all__ = ["PlayedRows", "clear_outcomes", "take_first_choices"]

Rows = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]

_OUTCOMES: Final = ("rewards", "terminated", "truncated")
_ACTIONS: Final = ("continuous_actions", "discrete_actions")
_ENDS: Final = (*_OUTCOMES, "final_observations")
_VIEWS: Final = ("observations", "action_mask", "agent_mask", "decision_mask")


class PlayedRows:
    """Copies the rows of the environments that play in one of several rosters, there and back.

    Args:
        outer: Arrays of the whole.
        inner: Arrays of one part, of the same roles.
        playing: (E,) int64, the number of the part that each environment plays in; read at every call.
        number: The number of this part.
    """

    def __init__(self, outer: RosterArrays, inner: RosterArrays, playing: Rows, number: int) -> None:
        self._actions = [
            bind(_copy_actions, playing, number, *_both(outer, inner, role, _ACTIONS)) for role in inner.roles
        ]
        self._ends = [bind(_copy_ends, playing, number, *_both(outer, inner, role, _ENDS)) for role in inner.roles]
        self._ends.append(bind(_copy_episodes, playing, number, *_world(outer), *_world(inner)))
        self._views = [bind(_copy_views, playing, number, *_both(outer, inner, role, _VIEWS)) for role in inner.roles]
        self._views.append(bind(_copy_states, playing, number, outer.state, inner.state))

    def hand_over_actions(self) -> None:
        """Copy the actions of those who play."""
        _call(self._actions)

    def fetch_outcomes(self) -> None:
        """Copy what came of a step, and of the lives and episodes that it ended."""
        _call(self._ends)

    def fetch_views(self) -> None:
        """Copy what robots and critics see now."""
        _call(self._views)


def clear_outcomes(arrays: RosterArrays, envs: Rows) -> None:
    """Forget what came of the last step in the environments ``envs``, which have been reset."""
    arrays.episode_over[envs] = False
    for values in arrays.roles.values():
        for name in _OUTCOMES:
            getattr(values, name)[envs] = 0


def take_first_choices(spec: WorldSpec, inner: RosterArrays, envs: Rows) -> None:
    """Let the robots of the environments ``envs``, which nobody drives, do the first thing that is allowed."""
    for role in spec.roles:
        values = inner.roles[role.name]
        values.continuous_actions[envs] = 0.0
        start = 0
        for branch, size in enumerate(role.action.discrete_branches):
            allowed = values.action_mask[envs, :, start : start + size]
            values.discrete_actions[envs, :, branch] = allowed.argmax(axis=-1)
            start += size


def _both(outer: RosterArrays, inner: RosterArrays, role: str, names: tuple[str, ...]) -> list[Any]:
    """Arrays of a role: those of the whole, then those of the part."""
    return [getattr(arrays.roles[role], name) for arrays in (outer, inner) for name in names]


def _world(arrays: RosterArrays) -> list[Any]:
    return [arrays.episode_over, arrays.metrics, arrays.final_state]


def _call(copies: list[Callable[[], None]]) -> None:
    for copy in copies:
        copy()


@lean_kernel
def _copy_actions(
    playing: Rows,
    number: int,
    continuous: Float32,
    discrete: NDArray[np.int32],
    its_continuous: Float32,
    its_discrete: NDArray[np.int32],
) -> None:
    for env in range(len(playing)):
        if playing[env] == number:
            for slot in range(its_continuous.shape[1]):
                _copy_row(continuous[env, slot], its_continuous[env, slot])
                _copy_row(discrete[env, slot], its_discrete[env, slot])


@lean_kernel
def _copy_ends(
    playing: Rows,
    number: int,
    rewards: Float32,
    terminated: Bool,
    truncated: Bool,
    final: Float32,
    its_rewards: Float32,
    its_terminated: Bool,
    its_truncated: Bool,
    its_final: Float32,
) -> None:
    """Rewards and flags; last observations where a life ended, for elsewhere they are stale."""
    for env in range(len(playing)):
        if playing[env] == number:
            for slot in range(rewards.shape[1]):
                exists = slot < its_rewards.shape[1]
                rewards[env, slot] = its_rewards[env, slot] if exists else np.float32(0.0)
                terminated[env, slot] = exists and its_terminated[env, slot]
                truncated[env, slot] = exists and its_truncated[env, slot]
                if terminated[env, slot] or truncated[env, slot]:
                    _copy_row(its_final[env, slot], final[env, slot])


@lean_kernel
def _copy_episodes(
    playing: Rows,
    number: int,
    over: Bool,
    metrics: NDArray[np.float64],
    final_state: Float32,
    its_over: Bool,
    its_metrics: NDArray[np.float64],
    its_final_state: Float32,
) -> None:
    """Ends of episodes; figures and last states where one ended, for elsewhere they are stale."""
    for env in range(len(playing)):
        if playing[env] == number:
            over[env] = its_over[env]
            if over[env]:
                _copy_row(its_metrics[env], metrics[env])
                _copy_row(its_final_state[env], final_state[env])
                final_state[env, its_final_state.shape[1] :] = 0.0


@lean_kernel
def _copy_views(
    playing: Rows,
    number: int,
    observations: Float32,
    action_mask: Bool,
    agent_mask: Bool,
    decision_mask: Bool,
    its_observations: Float32,
    its_action_mask: Bool,
    its_agent_mask: Bool,
    its_decision_mask: Bool,
) -> None:
    """What robots see; slots that the part lacks see zeros, and may do anything."""
    for env in range(len(playing)):
        if playing[env] == number:
            for slot in range(observations.shape[1]):
                exists = slot < its_observations.shape[1]
                agent_mask[env, slot] = exists and its_agent_mask[env, slot]
                decision_mask[env, slot] = exists and its_decision_mask[env, slot]
                if exists:
                    _copy_row(its_observations[env, slot], observations[env, slot])
                    _copy_row(its_action_mask[env, slot], action_mask[env, slot])
                else:
                    observations[env, slot, :] = 0.0
                    action_mask[env, slot, :] = True


@lean_kernel
def _copy_states(playing: Rows, number: int, state: Float32, its_state: Float32) -> None:
    """States, followed by zeros where the whole has a longer one."""
    for env in range(len(playing)):
        if playing[env] == number:
            _copy_row(its_state[env], state[env])
            state[env, its_state.shape[1] :] = 0.0


@kernel_part
def _copy_row(source: NDArray[np.generic], target: NDArray[np.generic]) -> None:
    """Value by value: numba copies a slice to another one by way of new memory."""
    for index in range(len(source)):
        target[index] = source[index]
