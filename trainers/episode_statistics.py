"""Returns, lengths and the world's own metrics of the episodes that ended last."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
        scenarios: The same by scenario where several are played; those of which no episode is among the last
            are left out.
    """

    num_episodes: int
    return_sum: float
    return_mean: float
    length: float
    role_returns: dict[str, float]
    metrics: dict[str, float]
    scenarios: dict[str, EpisodeSummary] = field(default_factory=dict)

    @classmethod
    def nothing(cls) -> EpisodeSummary:
        """The summary of no episode."""
        return cls(0, float("nan"), float("nan"), float("nan"), {}, {})


@dataclass(frozen=True)
class _Episode:
    """What an episode came to: (R,) returns by role, steps, (K,) metrics, and the scenario that it was played on."""

    returns: Float64
    length: int
    metrics: Float64
    scenario: int


class EpisodeStatistics:
    """Adds up rewards per environment and keeps what the last ``window`` episodes came to.

    Args:
        spec: What the world looks like.
        num_envs: Number of environments E.
        window: Number of episodes to look back on.
        scenarios: Names of the scenarios where several are played, in the order of their numbers.
        on_episode: Called with the number of the scenario and the figures of every episode that ends.
    """

    def __init__(
        self,
        spec: WorldSpec,
        num_envs: int,
        window: int = 100,
        *,
        scenarios: Sequence[str] = (),
        on_episode: Callable[[int, dict[str, float]], None] | None = None,
    ) -> None:
        self._spec = spec
        self._num_slots = sum(role.num_slots for role in spec.roles)
        self._scenarios = tuple(scenarios)
        self._on_episode = on_episode
        self._returns = np.zeros((num_envs, len(spec.roles)))
        self._lengths = np.zeros(num_envs, np.int64)
        self._ended: deque[_Episode] = deque(maxlen=window)

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
            episode = _Episode(
                self._returns[env].copy(),
                int(self._lengths[env]),
                arrays.metrics[env].copy(),
                int(arrays.final_scenario[env]),
            )
            self._ended.append(episode)
            if self._on_episode is not None:
                summary = self._summary([episode])
                figures = {"return_sum": summary.return_sum, "return_mean": summary.return_mean, **summary.metrics}
                self._on_episode(episode.scenario, figures)
            self._returns[env] = 0.0
            self._lengths[env] = 0

    def summary(self) -> EpisodeSummary:
        """Means over the last episodes."""
        parts = {
            name: self._summary([episode for episode in self._ended if episode.scenario == index])
            for index, name in enumerate(self._scenarios)
        }
        played = {name: part for name, part in parts.items() if part.num_episodes}
        return replace(self._summary(list(self._ended)), scenarios=played)

    def _summary(self, episodes: list[_Episode]) -> EpisodeSummary:
        if not episodes:
            return EpisodeSummary.nothing()
        returns = np.mean([episode.returns for episode in episodes], axis=0)
        metrics = np.mean([episode.metrics for episode in episodes], axis=0)
        return EpisodeSummary(
            num_episodes=len(episodes),
            return_sum=float(returns.sum()),
            return_mean=float(returns.sum()) / self._num_slots,
            length=float(np.mean([episode.length for episode in episodes])),
            role_returns={role.name: float(value) for role, value in zip(self._spec.roles, returns, strict=True)},
            metrics={name: float(value) for name, value in zip(self._spec.metric_names, metrics, strict=True)},
        )

    def state(self) -> dict[str, Any]:
        """The episodes that ended, as arrays for a checkpoint."""
        ended = len(self._ended)
        return {
            "returns": np.array([episode.returns for episode in self._ended]).reshape(ended, len(self._spec.roles)),
            "lengths": np.array([episode.length for episode in self._ended], np.int64),
            "metrics": np.array([episode.metrics for episode in self._ended]).reshape(ended, len(self._spec.metrics)),
            "scenarios": np.array([episode.scenario for episode in self._ended], np.int64),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state`; no episode is under way afterwards."""
        self.restart()
        self._ended.clear()
        columns = (state["returns"], state["lengths"], state["metrics"], state["scenarios"])
        for returns, length, metrics, scenario in zip(*columns, strict=True):
            self._ended.append(_Episode(np.array(returns), int(length), np.array(metrics), int(scenario)))
