"""Figures of an episode, from what a scene hands to Unity's ``StatsRecorder``.

Two kinds become metrics of the world:

- ``episode/<area>/<figure>``: the scene says how the episode of an area went, in the exchange that ends it.
- Any other key that the scenario lists: what came since the last end of an episode in an environment, put
  together as the scene asked (average, sum, most recent; a histogram is averaged). It tells of the whole player.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.unity.mlagents_types import StatsAggregationMethod

__all__ = ["EpisodeFigures"]

_FIGURE = re.compile(r"episode/(\d{1,6})/(.+)", re.ASCII)


class EpisodeFigures:
    """Collects the figures of E environments.

    Args:
        names: Names of the world's metrics, K of them.
        num_envs: Number of environments E.
    """

    def __init__(self, names: Sequence[str], num_envs: int) -> None:
        self._columns = {name: column for column, name in enumerate(names)}
        self._reported: NDArray[np.float64] = np.full((num_envs, len(names)), np.nan)
        self._sums: NDArray[np.float64] = np.zeros((num_envs, len(names)))
        self._counts: NDArray[np.int64] = np.zeros((num_envs, len(names)), np.int64)
        self.is_reported: NDArray[np.bool_] = np.zeros(num_envs, np.bool_)
        """(E,) bool, the scene has said how the running episode went."""

    def clear(self) -> None:
        """Forget everything; a reset has cut the episodes."""
        self.take(np.ones(len(self._sums), np.bool_))

    def add(self, statistics: Iterable[tuple[str, float, Any]]) -> None:
        """Take in statistics, oldest first: key, value and ``StatsAggregationMethod``."""
        for key, value, aggregation in statistics:
            match = _FIGURE.fullmatch(key)
            if match is not None:
                self._report(int(match[1]), match[2], value)
            elif key in self._columns:
                self._aggregate(self._columns[key], value, aggregation)

    def take(self, over: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The figures of some environments, whose next episodes begin.

        Args:
            over: (E,) bool, their episodes are over.

        Returns:
            (n, K) float64; NaN where the scene said nothing.
        """
        counts = self._counts[over]
        means = self._sums[over] / np.maximum(counts, 1)
        figures = np.where(counts > 0, means, self._reported[over])
        self._reported[over] = np.nan
        self._sums[over] = 0.0
        self._counts[over] = 0
        self.is_reported[over] = False
        return figures

    def _report(self, area: int, name: str, value: float) -> None:
        if area < len(self._sums):
            self.is_reported[area] = True
            if name in self._columns:
                self._reported[area, self._columns[name]] = value

    def _aggregate(self, column: int, value: float, aggregation: Any) -> None:
        match aggregation:
            case StatsAggregationMethod.MOST_RECENT:
                self._sums[:, column] = value
                self._counts[:, column] = 1
            case StatsAggregationMethod.SUM:
                self._sums[:, column] += value
                self._counts[:, column] = 1
            case _:
                self._sums[:, column] += value
                self._counts[:, column] += 1
