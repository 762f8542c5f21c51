"""Generalised advantage estimation over lives that begin, pause and end inside a rollout.

Two masks stay apart (Schulman et al. 2016, equation 16; Pardo et al. 2018):
a life that was *terminated* has no future, a life that was *truncated* is
worth the value of its last observation, and the recursion is cut at both.

A transition runs from one decision of a robot to its next decision. Rewards of
steps in which it was not asked are added to it without discount, as ML-Agents
does; ``gamma`` therefore counts decisions, not steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel

__all__ = ["Advantages", "LifeHistory", "estimate_advantages", "normalise_advantages"]

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class LifeHistory:
    """What happened in every slot; T steps, E environments, A slots.

    Attributes:
        rewards: (T, E, A) float32, reward of step t to the robot that lived before it.
        terminated: (T, E, A) bool, its life was ended by the task in step t.
        truncated: (T, E, A) bool, its life was cut in step t.
        agent_mask: (T + 1, E, A) bool, a robot lived before step t (last row: lives now).
        decision_mask: (T + 1, E, A) bool, it was asked for an action before step t (last row: is asked now).
        values: (T + 1, E, A) float32, value of what it saw before step t.
        final_values: (T, E, A) float32, value of the last observation of a life cut in step t; else unused.
    """

    rewards: Float32
    terminated: Bool
    truncated: Bool
    agent_mask: Bool
    decision_mask: Bool
    values: Float32
    final_values: Float32


@dataclass(frozen=True)
class Advantages:
    """Advantages of decisions.

    Attributes:
        advantages: (T, E, A) float32, 0 where not valid.
        returns: (T, E, A) float32, advantage plus value: the critic's target; 0 where not valid.
        valid: (T, E, A) bool, a robot was asked and the outcome is known. The last decision of a robot that is
            still busy at the end of the rollout is left out; its value closes the decision before it.
    """

    advantages: Float32
    returns: Float32
    valid: Bool


def estimate_advantages(history: LifeHistory, gamma: float, gae_lambda: float) -> Advantages:
    """GAE(gamma, lambda) for every decision of every life.

    Entries of slots in which nobody lived are never read.
    """
    advantages = np.zeros(history.rewards.shape, np.float32)
    valid = np.zeros(history.rewards.shape, np.bool_)
    steps = history.rewards.shape[0]
    # (T, E, A) -> (T, E*A): slots are independent of each other.
    _sweep(
        history.rewards.reshape(steps, -1),
        history.terminated.reshape(steps, -1),
        history.truncated.reshape(steps, -1),
        history.agent_mask.reshape(steps + 1, -1),
        history.decision_mask.reshape(steps + 1, -1),
        history.values.reshape(steps + 1, -1),
        history.final_values.reshape(steps, -1),
        np.float32(gamma),
        np.float32(gae_lambda),
        advantages.reshape(steps, -1),
        valid.reshape(steps, -1),
    )
    returns = np.where(valid, advantages + history.values[:-1], np.float32(0.0))
    return Advantages(advantages, returns, valid)


def normalise_advantages(
    parts: dict[str, Advantages], over: Literal["role", "agent", "all", "none"]
) -> dict[str, Float32]:
    """Advantages of every role with mean 0 and std 1 over the valid samples of a role, a slot, or all roles."""
    if over == "all":
        pooled = np.concatenate([part.advantages[part.valid] for part in parts.values()])
        return {name: _standardise(part.advantages, part.valid, pooled) for name, part in parts.items()}
    if over == "role":
        return {
            name: _standardise(part.advantages, part.valid, part.advantages[part.valid]) for name, part in parts.items()
        }
    result = {name: part.advantages.copy() for name, part in parts.items()}
    if over == "agent":
        for name, part in parts.items():
            for slot in range(part.valid.shape[-1]):
                own, valid = part.advantages[..., slot], part.valid[..., slot]
                result[name][..., slot] = _standardise(own, valid, own[valid])
    return result


def _standardise(advantages: Float32, valid: Bool, samples: Float32) -> Float32:
    if samples.size == 0:
        return np.zeros_like(advantages)
    mean = np.float32(samples.mean(dtype=np.float64))
    std = np.float32(samples.std(dtype=np.float64))
    return np.where(valid, (advantages - mean) / (std + np.float32(1e-8)), np.float32(0.0))


@kernel
def _sweep(
    rewards: Float32,
    terminated: Bool,
    truncated: Bool,
    agent_mask: Bool,
    decision_mask: Bool,
    values: Float32,
    final_values: Float32,
    gamma: np.float32,
    gae_lambda: np.float32,
    advantages: Float32,
    valid: Bool,
) -> None:
    """Backwards in time, one slot after the other; writes ``advantages`` and ``valid``."""
    steps, slots = rewards.shape
    for slot in range(slots):
        known = agent_mask[steps, slot] and decision_mask[steps, slot]
        bootstrap = values[steps, slot] if known else np.float32(0.0)
        trace = np.float32(0.0)
        reward = np.float32(0.0)
        for step in range(steps - 1, -1, -1):
            if not agent_mask[step, slot]:
                continue
            if terminated[step, slot] or truncated[step, slot]:
                known = True
                bootstrap = np.float32(0.0) if terminated[step, slot] else final_values[step, slot]
                trace = np.float32(0.0)
                reward = np.float32(0.0)
            reward += rewards[step, slot]
            if decision_mask[step, slot]:
                value = values[step, slot]
                if known:
                    trace = reward + gamma * bootstrap - value + gamma * gae_lambda * trace
                    advantages[step, slot] = trace
                    valid[step, slot] = True
                known = True
                bootstrap = value
                reward = np.float32(0.0)
