"""Checks on the actions that a policy has written into a roster's arrays.

A wrong action is an error that names the robot, never a silent repair; what a
robot that is not asked has in its row does not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.errors import ActionError
from bridge.roster import RoleArrays, RosterArrays
from bridge.specs import RoleSpec, WorldSpec

__all__ = ["require_valid_actions"]


def require_valid_actions(spec: WorldSpec, arrays: RosterArrays, where: str, first_env: int = 0) -> None:
    """Raise unless every robot that is asked has an action in range and allowed.

    Args:
        spec: What the world looks like.
        arrays: Arrays with the actions.
        where: Beginning of the message, e.g. ``"Roster.step"``.
        first_env: Index of the first environment among all environments of the run.

    Raises:
        ActionError: Names the first robot with a wrong action.
    """
    for role in spec.roles:
        values = arrays.roles[role.name]
        if role.action.num_continuous:
            _require_in_range(role, values, where, first_env)
        if role.action.num_branches:
            _require_allowed(role, values, where, first_env)


def _require_in_range(role: RoleSpec, values: RoleArrays, where: str, first_env: int) -> None:
    # NaN is in no range: the comparison is false for it.
    inside = (np.abs(values.continuous_actions) <= 1.0).all(axis=-1)
    wrong = values.decision_mask & ~inside
    if wrong.any():
        env, slot = _first(wrong)
        raise ActionError(
            f"{_who(where, role, values, env, slot, first_env)}: expected continuous values in [-1, 1], "
            f"got {values.continuous_actions[env, slot].tolist()}. Clip or squash the policy's output."
        )


def _require_allowed(role: RoleSpec, values: RoleArrays, where: str, first_env: int) -> None:
    start = 0
    for branch, size in enumerate(role.action.discrete_branches):
        chosen = values.discrete_actions[..., branch]
        outside = values.decision_mask & ((chosen < 0) | (chosen >= size))
        if outside.any():
            env, slot = _first(outside)
            raise ActionError(
                f"{_who(where, role, values, env, slot, first_env)}: expected branch {branch} in [0, {size - 1}], "
                f"got {chosen[env, slot]}. Choose one of the {size} actions."
            )
        allowed = values.action_mask[..., start : start + size]
        index = np.clip(chosen, 0, size - 1)[..., np.newaxis]
        masked = values.decision_mask & ~np.take_along_axis(allowed, index, axis=-1)[..., 0]
        if masked.any():
            env, slot = _first(masked)
            choices = np.flatnonzero(allowed[env, slot]).tolist()
            raise ActionError(
                f"{_who(where, role, values, env, slot, first_env)}: expected branch {branch} to be one of the allowed "
                f"{choices}, got the masked {chosen[env, slot]}. Obey the action mask."
            )
        start += size


def _first(flags: NDArray[np.bool_]) -> tuple[int, int]:
    env, slot = np.argwhere(flags)[0]
    return int(env), int(slot)


def _who(where: str, role: RoleSpec, values: RoleArrays, env: int, slot: int, first_env: int) -> str:
    alone = len(values.decision_mask) == 1 and first_env == 0
    return f"{where}: agent {role.agent_ids[slot]!r}" + ("" if alone else f" of environment {first_env + env}")
