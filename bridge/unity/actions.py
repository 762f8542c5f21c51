"""Actions in ML-Agents' form: chosen by a user and checked, or filled in where none were chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.errors import ActionError
from bridge.unity.behaviors import Behavior
from bridge.unity.decode import AgentBatch
from bridge.unity.encode import BehaviorActions
from bridge.unity.mlagents_types import ActionTuple

__all__ = ["checked_actions", "default_actions", "split_branches"]


def default_actions(batch: AgentBatch, behavior: Behavior) -> BehaviorActions:
    """For every entry: zeros, and of each branch the first choice that is allowed."""
    discrete = np.zeros((len(batch), behavior.action.num_branches), np.int32)
    for branch, allowed in enumerate(split_branches(batch.action_mask, behavior)):
        discrete[:, branch] = allowed.argmax(axis=1)
    return BehaviorActions(np.zeros((len(batch), behavior.action.num_continuous), np.float32), discrete)


def split_branches(mask: NDArray[np.bool_], behavior: Behavior) -> list[NDArray[np.bool_]]:
    """(N, M) -> one (N, size) array per branch."""
    return np.split(mask, np.cumsum(behavior.action.discrete_branches)[:-1], axis=1) if mask.shape[1] else []


def checked_actions(
    where: str, behavior: Behavior, batch: AgentBatch | None, action: Any, rows: NDArray[np.intp]
) -> BehaviorActions:
    """The arrays of an ``ActionTuple`` for some rows of a batch of decisions, copied.

    Raises:
        ActionError: Wrong shape, a value that is not finite, or a masked action.
    """
    if not isinstance(action, ActionTuple):
        raise ActionError(f"{where}: expected an ActionTuple, got {type(action).__name__}.")
    wanted = ((len(rows), behavior.action.num_continuous), (len(rows), behavior.action.num_branches))
    empty = np.zeros((len(rows), 0))
    continuous = np.array(empty if action.continuous is None else action.continuous, np.float32)
    discrete = np.array(empty if action.discrete is None else action.discrete, np.int32)
    if (continuous.shape, discrete.shape) != wanted:
        raise ActionError(
            f"{where}: expected continuous and discrete actions of shapes {wanted[0]} and {wanted[1]}, "
            f"got {continuous.shape} and {discrete.shape}."
        )
    if not np.isfinite(continuous).all():
        raise ActionError(
            f"{where}: expected finite continuous actions, got {continuous[~np.isfinite(continuous)][0]}."
        )
    if batch is not None and behavior.action.num_branches:
        _require_allowed(where, behavior, batch.rows(rows), discrete)
    return BehaviorActions(continuous, discrete)


def _require_allowed(where: str, behavior: Behavior, batch: AgentBatch, discrete: NDArray[np.int32]) -> None:
    for branch, allowed in enumerate(split_branches(batch.action_mask, behavior)):
        chosen, size = discrete[:, branch], allowed.shape[1]
        inside = (chosen >= 0) & (chosen < size)
        legal = inside & allowed[np.arange(len(batch)), np.where(inside, chosen, 0)]
        if not legal.all():
            row = int((~legal).argmax())
            choices = np.flatnonzero(allowed[row]).tolist()
            raise ActionError(
                f"{where}: agent {batch.agent_id[row]}: branch {branch}: expected one of the allowed choices "
                f"{choices}, got {chosen[row]}."
            )
