"""Rows of environments between the arrays of one roster and those of another that it plays in turn.

A roster that is made of several rosters, of which each environment plays in one at a time, has
arrays of its own: actions are handed over to the roster that an environment plays in, what came
of them is copied back. The inner arrays may have fewer slots, or a shorter state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.roster import RoleArrays, RosterArrays
from bridge.specs import WorldSpec

__all__ = ["clear_outcomes", "copy_outcomes", "copy_views", "hand_over_actions", "take_first_choices"]

Rows = NDArray[np.int64]

_OUTCOMES: Final = ("rewards", "terminated", "truncated")
_VIEWS: Final = ("observations", "action_mask", "agent_mask", "decision_mask")


def clear_outcomes(arrays: RosterArrays, envs: Rows) -> None:
    """Forget what came of the last step in the environments ``envs``, which have been reset."""
    arrays.episode_over[envs] = False
    for values in arrays.roles.values():
        for name in _OUTCOMES:
            getattr(values, name)[envs] = 0


def hand_over_actions(outer: RosterArrays, inner: RosterArrays, envs: Rows) -> None:
    """Copy the actions of the environments ``envs``, which play in ``inner``."""
    for name, its in inner.roles.items():
        mine, slots = outer.roles[name], its.agent_mask.shape[1]
        its.continuous_actions[envs] = mine.continuous_actions[envs, :slots]
        its.discrete_actions[envs] = mine.discrete_actions[envs, :slots]


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


def copy_outcomes(outer: RosterArrays, inner: RosterArrays, envs: Rows) -> None:
    """Copy what came of a step, and of the episodes that it ended, in the environments ``envs``."""
    outer.episode_over[envs] = inner.episode_over[envs]
    # What is stale inside depends on who else was stepped; only what is fresh leaves.
    over = envs[inner.episode_over[envs]]
    outer.metrics[over] = inner.metrics[over]
    _fill(outer.final_state, inner.final_state, over)
    for name, values in inner.roles.items():
        target = outer.roles[name]
        _copy_role(target, values, _OUTCOMES, envs)
        rows, slots = np.nonzero(values.terminated[envs] | values.truncated[envs])
        target.final_observations[envs[rows], slots] = values.final_observations[envs[rows], slots]


def copy_views(outer: RosterArrays, inner: RosterArrays, envs: Rows) -> None:
    """Copy what robots and critics see now in the environments ``envs``."""
    _fill(outer.state, inner.state, envs)
    for name, values in inner.roles.items():
        _copy_role(outer.roles[name], values, _VIEWS, envs)


def _copy_role(outer: RoleArrays, inner: RoleArrays, names: Sequence[str], envs: Rows) -> None:
    for name in names:
        _fill(getattr(outer, name), getattr(inner, name), envs, padding=name == "action_mask")


def _fill(outer: NDArray[np.generic], inner: NDArray[np.generic], envs: Rows, padding: bool = False) -> None:
    """Copy the rows ``envs``; what ``outer`` has more along its second axis becomes ``padding``."""
    size = inner.shape[1]
    outer[envs, :size] = inner[envs]
    if size < outer.shape[1]:
        outer[envs, size:] = padding
