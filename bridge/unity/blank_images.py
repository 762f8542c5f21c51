"""Notices cameras that see nothing because their player runs without graphics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from bridge.unity.behaviors import Behavior
from bridge.unity.decode import AgentBatch

__all__ = ["EXCHANGES_UNTIL_WARNING", "BlankImageWatch"]

_LOG = logging.getLogger(__name__)

EXCHANGES_UNTIL_WARNING: Final = 10
"""Exchanges in which a sensor may send one value only before that is said."""


class BlankImageWatch:
    """Warns once of every rank-3 sensor that begins with one and the same value for all of its pixels and agents.

    A sensor that has once sent anything else is not looked at again.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._decided: set[tuple[str, int]] = set()

    def look(self, behaviors: Mapping[str, Behavior], batches: Mapping[str, AgentBatch]) -> None:
        """Look at one exchange."""
        for name, batch in batches.items():
            start = 0
            for index, sensor in enumerate(behaviors[name].sensors):
                columns = slice(start, start + sensor.size)
                start += sensor.size
                if len(sensor.shape) == 3 and (name, index) not in self._decided and len(batch):
                    self._look_at(behaviors[name], index, batch, columns)

    def _look_at(self, behavior: Behavior, index: int, batch: AgentBatch, columns: slice) -> None:
        key = (behavior.name, index)
        values = batch.observations[:, columns]
        if values.min() != values.max():
            self._decided.add(key)
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] == EXCHANGES_UNTIL_WARNING:
            self._decided.add(key)
            _LOG.warning(
                "behavior %r: sensor %d (%r): expected pictures, got nothing but %g in the first %d exchanges. The "
                "player runs without graphics, where cameras see nothing: if this is a camera, start the player with "
                "graphics (no_graphics: false).",
                behavior.name,
                index,
                behavior.sensors[index].name,
                values[0, 0],
                EXCHANGES_UNTIL_WARNING,
            )
