"""Returns, lengths and the world's own metrics of the episodes that ended last."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.roster import RosterArrays
from bridge.specs import WorldSpec

__all__ = ["EpisodeStatistics", "EpisodeSummary"]

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class EpisodeSummary:
    """Means over the last episodes; empty dicts and NaN where none has ended yet.

    Attributes:
        num_episodes: Episodes that the means are taken over.
        return_sum: Reward of all robots together, per episode.
        return_mean: The same per slot: what papers mean by it differs, so both are given.
        length: Steps per episode.
        role_returns: Reward of all robots of a role, by role.
        metrics: The world's own figures by name.
    """

    num_episodes: int
    return_sum: float
    return_mean: float
    length: float
    role_returns: dict[str, float]
    metrics: dict[str, float]


class EpisodeStatistics:
    """Adds up rewards per environment and keeps what the last ``window`` episodes came to.

    Args:
        spec: What the world looks like.
        num_envs: Number of environments E.
        window: Number of episodes to look back on.
    """

    def __init__(self, spec: WorldSpec, num_envs: int, window: int = 100) -> None:
        self._spec = spec
        self._num_slots = sum(role.num_slots for role in spec.roles)
        self._returns = np.zeros((num_envs, len(spec.roles)))
        self._lengths = np.zeros(num_envs, np.int64)
        self._ended: deque[tuple[Float64, int, Float64]] = deque(maxlen=window)

    def restart(self) -> None:
        """Forget the episodes that are under way; those that ended count on."""
        self._returns[:] = 0.0
        self._lengths[:] = 0

    def record_step(self, arrays: RosterArrays) -> None:
        """Take in the step that was just made."""
        for index, role in enumerate(self._spec.roles):
            self._returns[:, index] += arrays.roles[role.name].rewards.sum(axis=-1)
        self._lengths += 1
        for env in np.flatnonzero(arrays.episode_over):
            self._ended.append((self._returns[env].copy(), int(self._lengths[env]), arrays.metrics[env].copy()))
            self._returns[env] = 0.0
            self._lengths[env] = 0

    def summary(self) -> EpisodeSummary:
        """Means over the last episodes."""
        if not self._ended:
            return EpisodeSummary(0, float("nan"), float("nan"), float("nan"), {}, {})
        returns = np.mean([episode[0] for episode in self._ended], axis=0)
        metrics = np.mean([episode[2] for episode in self._ended], axis=0)
        return EpisodeSummary(
            num_episodes=len(self._ended),
            return_sum=float(returns.sum()),
            return_mean=float(returns.sum()) / self._num_slots,
            length=float(np.mean([episode[1] for episode in self._ended])),
            role_returns={role.name: float(value) for role, value in zip(self._spec.roles, returns, strict=True)},
            metrics={name: float(value) for name, value in zip(self._spec.metric_names, metrics, strict=True)},
        )

    def state(self) -> dict[str, Any]:
        """The episodes that ended, as arrays for a checkpoint."""
        ended = len(self._ended)
        return {
            "returns": np.array([episode[0] for episode in self._ended]).reshape(ended, len(self._spec.roles)),
            "lengths": np.array([episode[1] for episode in self._ended], np.int64),
            "metrics": np.array([episode[2] for episode in self._ended]).reshape(ended, len(self._spec.metrics)),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state`; no episode is under way afterwards."""
        self.restart()
        self._ended.clear()
        for returns, length, metrics in zip(state["returns"], state["lengths"], state["metrics"], strict=True):
            self._ended.append((np.array(returns), int(length), np.array(metrics)))
