"""Tasks that arrive while as many as may wait are waiting: nobody will ever do them, and they are counted."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.specs import MetricSpec
from bridge.warehouse.feature import Feature, Parts

__all__ = ["ARRIVAL_METRICS", "TurnedAway"]

ARRIVAL_METRICS: Final = (
    MetricSpec("tasks_turned_away", "tasks that arrived while tasks.open others waited, and were lost", False),
)


class TurnedAway(Feature):
    """Reports what ``tasks.dispatch`` has counted."""

    def __init__(self, parts: Parts) -> None:
        self._count = parts.pool.turned_away

    def begin(self, envs: NDArray[np.bool_]) -> None:
        """See :class:`Feature`."""
        self.clear_figures(envs)

    def clear_figures(self, envs: NDArray[np.bool_]) -> None:
        """See :class:`Feature`."""
        self._count[envs] = 0

    def figures(self, envs: NDArray[np.bool_]) -> NDArray[np.float64]:
        """See :class:`Feature`; in the order of ``ARRIVAL_METRICS``."""
        return self._count[envs, None].astype(np.float64)
