"""Side channels as the player sees them: settings that come in, statistics and announcements that go out.

Framing, both ways and repeated: 16 bytes of channel id (little-endian GUID),
int32 length, payload. Strings are an int32 length and ASCII bytes. A channel
whose payload cannot be read is logged and skipped, as in the C# package.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError
from bridge.unity.messages import (
    ENGINE_CONFIGURATION_CHANNEL,
    ENVIRONMENT_PARAMETERS_CHANNEL,
    FLOAT_PROPERTIES_CHANNEL,
    GLOBAL_STATE_CHANNEL,
    ROSTER_CHANNEL,
    SCENARIO_CHANNEL,
    SEED_HIGH,
    SEED_LOW,
    STATS_CHANNEL,
    TRAINING_ANALYTICS_CHANNEL,
)
from bridge.unity.player.log import PlayerLog
from bridge.unity.player.parameters import Parameters

__all__ = ["Newcomer", "ScenarioRequest", "SideChannels"]

_MOST_RECENT = 1
_VERSION = 1  # of the project's own channels
_MAX_REASON_BYTES = 4096
_HEADER = struct.Struct("<16si")
_INT = struct.Struct("<i")
_FLOAT = struct.Struct("<f")
_ENGINE_SETTINGS = {
    0: ("resolution", struct.Struct("<ii")),
    1: ("quality level", _INT),
    2: ("time scale", _FLOAT),
    3: ("target frame rate", _INT),
    4: ("capture frame rate", _INT),
}


class Newcomer(NamedTuple):
    """An agent that was enabled: its id, area, role, and slot in both."""

    agent_id: int
    area: int
    role: str
    slot: int


class ScenarioRequest(NamedTuple):
    """A scenario that the trainer wants to have played from the next reset on; JSON."""

    number: int
    text: str


class SideChannels:
    """Keeps what arrives and queues what goes out.

    Args:
        log: Where messages are reported that mean nothing to the player.
        echo: A channel of raw bytes whose messages are sent back, or None.

    Attributes:
        parameters: Environment parameters and float properties that have arrived.
        engine: The latest engine settings, by name. There is no screen and no clock that they could change.
    """

    def __init__(self, log: PlayerLog, echo: UUID | None = None) -> None:
        self.parameters = Parameters()
        self.engine: dict[str, tuple[float, ...]] = {}
        self._log = log
        self._outgoing: list[bytes] = []
        self._fresh_seed: set[str] = set()
        self._scenario: ScenarioRequest | None = None
        self._handlers: dict[UUID, Callable[[bytes], None]] = {
            ENVIRONMENT_PARAMETERS_CHANNEL: self._on_environment_parameter,
            FLOAT_PROPERTIES_CHANNEL: self._on_float_property,
            ENGINE_CONFIGURATION_CHANNEL: self._on_engine_configuration,
            # Analytics are for Unity; there is nobody to report them to.
            TRAINING_ANALYTICS_CHANNEL: lambda payload: None,
            SCENARIO_CHANNEL: self._on_scenario,
        }
        if echo is not None:
            self._handlers[echo] = lambda payload: self._send(echo, payload)

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
        self._send(STATS_CHANNEL, _string(key) + _FLOAT.pack(value) + _INT.pack(_MOST_RECENT))

    def announce(self, newcomers: Iterable[Newcomer]) -> None:
        """Queue a message of the roster channel; none if nobody is new."""
        agents = [
            struct.pack("<ii", one.agent_id, one.area) + _string(one.role) + _INT.pack(one.slot) for one in newcomers
        ]
        if agents:
            self._send(ROSTER_CHANNEL, struct.pack("<ii", _VERSION, len(agents)) + b"".join(agents))

    def send_state(self, area: int, state: NDArray[np.float32], *, final: bool) -> None:
        """Queue the global state of an area: the one of now, or the last one of an episode that has ended."""
        head = struct.pack("<iiii", _VERSION, area, int(final), state.size)
        self._send(GLOBAL_STATE_CHANNEL, head + state.astype("<f4").tobytes())

    def answer_scenario(self, number: int, refusal: str | None) -> None:
        """Queue the answer to a request: None, or why it is refused."""
        reason = _string((refusal or "")[:_MAX_REASON_BYTES])
        self._send(SCENARIO_CHANNEL, struct.pack("<iii", _VERSION, number, int(refusal is None)) + reason)

    def take_outgoing(self) -> bytes:
        """The queued messages, framed; the queue is empty afterwards."""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def take_seed(self) -> int | None:
        """The seed that has arrived since the last call, if both its halves have arrived."""
        if not {SEED_HIGH, SEED_LOW} <= self._fresh_seed:
            return None
        self._fresh_seed.clear()
        return (int(self.parameters.get(SEED_HIGH)) << 24) | int(self.parameters.get(SEED_LOW))

    def take_scenario(self) -> ScenarioRequest | None:
        """The latest scenario that has arrived since the last call."""
        request, self._scenario = self._scenario, None
        return request

    def _send(self, channel: UUID, payload: bytes) -> None:
        self._outgoing.append(_HEADER.pack(channel.bytes_le, len(payload)) + payload)

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
        if key not in (SEED_HIGH, SEED_LOW):
            self.parameters.read_setting(key, payload[offset:])
            return
        kind, value = struct.unpack_from("<if", payload, offset)
        if not (kind == 0 and 0 <= value < 1 << 24 and value == int(value)):
            raise ValueError(f"{key}: expected an integer in [0, 2^24), got {value}.")
        self.parameters.set(key, value)
        self._fresh_seed.add(key)

    def _on_float_property(self, payload: bytes) -> None:
        key, offset = _read_string(payload)
        self.parameters.set(key, _FLOAT.unpack_from(payload, offset)[0])

    def _on_engine_configuration(self, payload: bytes) -> None:
        (kind,) = _INT.unpack_from(payload)
        if kind not in _ENGINE_SETTINGS:
            raise ValueError(f"expected an engine setting of 0 to {max(_ENGINE_SETTINGS)}, got {kind}.")
        name, form = _ENGINE_SETTINGS[kind]
        self.engine[name] = form.unpack_from(payload, _INT.size)

    def _on_scenario(self, payload: bytes) -> None:
        version, number = struct.unpack_from("<ii", payload)
        if version != _VERSION:
            raise ValueError(f"expected version {_VERSION}, got {version}.")
        text, _ = _read_string(payload[8:])
        self._scenario = ScenarioRequest(number, text)


def _string(text: str) -> bytes:
    encoded = text.encode("ascii", errors="replace")
    return _INT.pack(len(encoded)) + encoded


def _read_string(payload: bytes) -> tuple[str, int]:
    (length,) = _INT.unpack_from(payload)
    end = _INT.size + length
    if length < 0 or end > len(payload):
        raise ValueError(f"expected a string of at most {len(payload) - _INT.size} bytes, got {length}.")
    return payload[_INT.size : end].decode("ascii"), end
