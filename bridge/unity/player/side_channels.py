"""Side channels as the player sees them: settings that come in, statistics that go out.

Framing, both ways and repeated: 16 bytes of channel id (little-endian GUID),
int32 length, payload. Strings are an int32 length and ASCII bytes. A channel
whose payload cannot be read is logged and skipped, as in the C# package.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import UUID

from bridge.errors import UnityProtocolError
from bridge.unity.messages import (
    ENGINE_CONFIGURATION_CHANNEL,
    ENVIRONMENT_PARAMETERS_CHANNEL,
    FLOAT_PROPERTIES_CHANNEL,
    SEED_HIGH,
    SEED_LOW,
    STATS_CHANNEL,
    TRAINING_ANALYTICS_CHANNEL,
)
from bridge.unity.player.log import PlayerLog

__all__ = ["SideChannels"]

_FLOAT_PARAMETER = 0
_MOST_RECENT = 1
_HEADER = struct.Struct("<16si")
_INT = struct.Struct("<i")
_FLOAT = struct.Struct("<f")


class SideChannels:
    """Keeps the environment parameters and queues statistics.

    Attributes:
        parameters: Environment parameters and float properties that have arrived, by key.
    """

    def __init__(self, log: PlayerLog) -> None:
        self.parameters: dict[str, float] = {}
        self._log = log
        self._outgoing: list[bytes] = []
        self._fresh: set[str] = set()
        self._handlers: dict[UUID, Callable[[bytes], None]] = {
            ENVIRONMENT_PARAMETERS_CHANNEL: self._on_environment_parameter,
            FLOAT_PROPERTIES_CHANNEL: self._on_float_property,
            # There is no screen and no wall clock to configure, and nobody to report analytics to.
            ENGINE_CONFIGURATION_CHANNEL: lambda payload: None,
            TRAINING_ANALYTICS_CHANNEL: lambda payload: None,
        }

    def process(self, data: bytes) -> None:
        """Take in the ``side_channel`` bytes of a reply.

        Raises:
            UnityProtocolError: The framing is broken.
        """
        offset = 0
        while offset < len(data):
            if offset + _HEADER.size > len(data):
                raise UnityProtocolError(f"player: side channel data: expected a header at byte {offset}, got its end.")
            raw_id, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
            if length < 0 or offset + length > len(data):
                rest = len(data) - offset
                raise UnityProtocolError(
                    f"player: side channel data: expected a payload of at most {rest} bytes, got {length}."
                )
            self._dispatch(UUID(bytes_le=raw_id), data[offset : offset + length])
            offset += length

    def send_statistic(self, key: str, value: float) -> None:
        """Queue a statistic of which the trainer keeps the most recent value."""
        payload = _string(key) + _FLOAT.pack(value) + _INT.pack(_MOST_RECENT)
        self._outgoing.append(_HEADER.pack(STATS_CHANNEL.bytes_le, len(payload)) + payload)

    def take_outgoing(self) -> bytes:
        """The queued messages, framed; the queue is empty afterwards."""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def take_seed(self) -> int | None:
        """The seed that has arrived since the last call, if both its halves have arrived."""
        if not {SEED_HIGH, SEED_LOW} <= self._fresh:
            return None
        self._fresh.clear()
        return (int(self.parameters[SEED_HIGH]) << 24) | int(self.parameters[SEED_LOW])

    def _dispatch(self, channel: UUID, payload: bytes) -> None:
        handler = self._handlers.get(channel)
        if handler is None:
            self._log.write(f"Unknown side channel {channel} ({len(payload)} bytes), message dropped.")
            return
        try:
            handler(payload)
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            self._log.write(f"Side channel {channel}: message skipped: {error}")

    def _on_environment_parameter(self, payload: bytes) -> None:
        key, offset = _read_string(payload)
        (kind,) = _INT.unpack_from(payload, offset)
        if kind != _FLOAT_PARAMETER:
            self._log.write(f"Environment parameter {key!r}: samplers are not used by this player.")
            return
        (value,) = _FLOAT.unpack_from(payload, offset + _INT.size)
        if key in (SEED_HIGH, SEED_LOW):
            if not (0 <= value < 1 << 24 and value == int(value)):
                raise ValueError(f"{key}: expected an integer in [0, 2^24), got {value}.")
            self._fresh.add(key)
        self.parameters[key] = value

    def _on_float_property(self, payload: bytes) -> None:
        key, offset = _read_string(payload)
        (self.parameters[key],) = _FLOAT.unpack_from(payload, offset)


def _string(text: str) -> bytes:
    encoded = text.encode("ascii", errors="replace")
    return _INT.pack(len(encoded)) + encoded


def _read_string(payload: bytes) -> tuple[str, int]:
    (length,) = _INT.unpack_from(payload)
    end = _INT.size + length
    if length < 0 or end > len(payload):
        raise ValueError(f"expected a string of at most {len(payload) - _INT.size} bytes, got {length}.")
    return payload[_INT.size : end].decode("ascii"), end
