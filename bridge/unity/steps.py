"""Decoded agents in ML-Agents' form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.unity.actions import split_branches
from bridge.unity.behaviors import Behavior
from bridge.unity.decode import AgentBatch
from bridge.unity.mlagents_types import DecisionSteps, TerminalSteps

__all__ = ["batch_to_steps", "decision_steps", "terminal_steps"]


def batch_to_steps(batch: AgentBatch, behavior: Behavior) -> tuple[Any, Any]:
    """``DecisionSteps`` and ``TerminalSteps`` of ``mlagents_envs``."""
    return decision_steps(batch.rows(~batch.done), behavior), terminal_steps(batch.rows(batch.done), behavior)


def _sensor_arrays(batch: AgentBatch, behavior: Behavior) -> list[NDArray[np.float32]]:
    arrays = []
    start = 0
    for sensor in behavior.sensors:
        part = batch.observations[:, start : start + sensor.size]
        # (N, size) -> (N, *shape); several sensors get memory of their own, because users keep single ones.
        arrays.append(np.ascontiguousarray(part).reshape(len(batch), *sensor.shape))
        start += sensor.size
    return arrays


def decision_steps(batch: AgentBatch, behavior: Behavior) -> Any:
    """``DecisionSteps`` of entries that all ask for a decision."""
    # ML-Agents' mask says which actions are forbidden, the batch's which are allowed.
    masks = [~allowed for allowed in split_branches(batch.action_mask, behavior)] if len(batch) else []
    return DecisionSteps(
        _sensor_arrays(batch, behavior),
        batch.reward,
        batch.agent_id,
        masks or None,
        batch.group_id,
        batch.group_reward,
    )


def terminal_steps(ended: AgentBatch, behavior: Behavior) -> Any:
    """``TerminalSteps`` of entries that are all ended lives."""
    return TerminalSteps(
        _sensor_arrays(ended, behavior),
        ended.reward,
        ended.interrupted,
        ended.agent_id,
        ended.group_id,
        ended.group_reward,
    )
