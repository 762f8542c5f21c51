"""Statistics that a player reports by key."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from bridge.errors import UnityProtocolError
from bridge.unity.messages import STATS_CHANNEL
from bridge.unity.mlagents_types import SideChannel, StatsAggregationMethod

__all__ = ["MAX_STATISTICS", "StatsChannel"]

MAX_STATISTICS: Final = 100_000
"""Most values that are kept until somebody takes them; the oldest go first."""

_LENGTH: Final = struct.Struct("<i")
_VALUE: Final = struct.Struct("<fi")


class StatsChannel(SideChannel):  # type: ignore[misc]
    """Receives what a scene hands to Unity's ``StatsRecorder``."""

    def __init__(self) -> None:
        super().__init__(STATS_CHANNEL)
        self._received: list[tuple[str, float, Any]] = []

    def on_message_received(self, message: Any) -> None:
        """Keep one statistic.

        Raises:
            UnityProtocolError: The message is cut off or not a statistic.
        """
        self._received.append(_parse(bytes(message.buffer)))
        if len(self._received) > MAX_STATISTICS:
            del self._received[: len(self._received) // 2]

    def take(self) -> list[tuple[str, float, Any]]:
        """Key, value and ``StatsAggregationMethod`` of everything received since the last call, oldest first."""
        received, self._received = self._received, []
        return received


def _parse(payload: bytes) -> tuple[str, float, Any]:
    length = _LENGTH.unpack_from(payload)[0] if len(payload) >= _LENGTH.size else -1
    end = _LENGTH.size + length
    if length < 0 or end + _VALUE.size != len(payload):
        raise UnityProtocolError(
            f"StatsChannel: expected a key, a float and an aggregation, "
            f"got {len(payload)} bytes with a key of {length}."
        )
    value, aggregation = _VALUE.unpack_from(payload, end)
    if not 0 <= aggregation <= StatsAggregationMethod.HISTOGRAM.value or not math.isfinite(value):
        raise UnityProtocolError(
            f"StatsChannel: expected a finite value and an aggregation of 0 to 3, got {value} and {aggregation}."
        )
    return payload[_LENGTH.size : end].decode("ascii", errors="replace"), value, StatsAggregationMethod(aggregation)
