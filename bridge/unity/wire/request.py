"""What is in a request: its status, and where its agents and other parts are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError
from bridge.unity.messages import STATUS_OK, STATUS_QUIT, UnityMessage
from bridge.unity.wire import layout, walker

__all__ = [
    "MAX_AGENTS",
    "MAX_BEHAVIORS",
    "MAX_INITIALIZATION_BYTES",
    "MAX_UNUSUAL_BYTES",
    "Request",
    "canonical",
    "read_request",
]

MAX_AGENTS: Final = 100_000
"""Most entries of agents in one request."""

MAX_BEHAVIORS: Final = 1024
"""Most behaviors in one request, and of one player."""

MAX_INITIALIZATION_BYTES: Final = 1 << 20
"""Largest description of a player and its new behaviors; protobuf may need fifty times as much memory."""

MAX_UNUSUAL_BYTES: Final = 1 << 20
"""Largest request in a form that only protobuf reads."""

_CHECK_PLAYER: Final = "Check that a Unity player with com.unity.ml-agents is at the other end."


@dataclass(frozen=True)
class Request:
    """A request and where its parts are.

    Attributes:
        data: (L,) uint8, its bytes; keeps them alive.
        status: 200, or 400 for goodbye.
        side_channel: Frames of the side channels.
        initialization: Bytes of the ``InitializationOutput``, None without one.
        agents: (layout.ENTRY_COLUMNS,) int64 per behavior, by its name: where its agents are.
    """

    data: NDArray[np.uint8]
    status: int
    side_channel: bytes
    initialization: bytes | None
    agents: dict[str, NDArray[np.int64]]

    def first_agent(self, behavior: str) -> tuple[bytes, int]:
        """The bytes of a behavior's first ``AgentInfo``, and how many observations are in it."""
        start, stop = self.agents[behavior][4:6].tolist()
        return self.data[start:stop].tobytes(), max(int(walker.count_observations(self.data, start, stop)), 0)


def read_request(data: bytes) -> Request:
    """Read everything in a request but the agents.

    Raises:
        UnityProtocolError: The bytes are no message, its status is unknown, or there is too much in it.
    """
    table = np.frombuffer(data, np.uint8)
    head = np.empty(layout.HEAD_SIZE, np.int64)
    entries = np.empty((MAX_BEHAVIORS, layout.ENTRY_COLUMNS), np.int64)
    fault = walker.scan(table, head, entries, MAX_AGENTS)
    if fault == layout.FAULT_RARE:
        data = canonical(data)
        table = np.frombuffer(data, np.uint8)
        fault = walker.scan(table, head, entries, MAX_AGENTS)
    numbers: list[int] = head.tolist()
    if fault:
        raise _fault_error(fault, numbers[layout.FAULT_AT], len(data))
    status = numbers[layout.STATUS]
    if status not in (STATUS_OK, STATUS_QUIT):
        text = _span(data, numbers, layout.MESSAGE) or b""
        raise UnityProtocolError(
            f"player: expected status {STATUS_OK} or {STATUS_QUIT}, got {status}: "
            f"{text[:200].decode(errors='replace')!r}."
        )
    initialization = _span(data, numbers, layout.INITIALIZATION)
    if initialization is not None and len(initialization) > MAX_INITIALIZATION_BYTES:
        raise UnityProtocolError(
            f"player: expected a description of at most {MAX_INITIALIZATION_BYTES} bytes, got {len(initialization)}. "
            "Use fewer behaviors and shorter names."
        )
    agents = {_name(data, *row[:2].tolist()): row for row in entries[: numbers[layout.NUM_ENTRIES]].copy()}
    return Request(table, status, _span(data, numbers, layout.SIDE_CHANNEL) or b"", initialization, agents)


def _span(data: bytes, numbers: list[int], where: int) -> bytes | None:
    start, stop = numbers[where : where + 2]
    return None if start < 0 else data[start:stop]


def _name(data: bytes, start: int, stop: int) -> str:
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError as error:
        raise UnityProtocolError(
            f"player: byte {start}: expected a behavior name in UTF-8, got {data[start:stop][:40]!r}. {_CHECK_PLAYER}"
        ) from error


def canonical(data: bytes) -> bytes:
    """The same message in the form that every player uses.

    Raises:
        UnityProtocolError: It is too large, or no message.
    """
    if len(data) > MAX_UNUSUAL_BYTES:
        raise UnityProtocolError(
            f"player: expected a message without groups and repeated map values, got one of {len(data)} bytes with "
            f"some. {_CHECK_PLAYER}"
        )
    try:
        message = UnityMessage.FromString(data)
    except DecodeError as error:
        raise UnityProtocolError(
            f"player: expected a protocol message, got {len(data)} bytes that are none: {error}. {_CHECK_PLAYER}"
        ) from error
    message.DiscardUnknownFields()
    serialized: bytes = message.SerializeToString()
    return serialized


def _fault_error(fault: int, position: int, size: int) -> UnityProtocolError:
    if fault == layout.FAULT_TOO_MANY:
        return UnityProtocolError(
            f"player: expected at most {MAX_BEHAVIORS} behaviors and {MAX_AGENTS} agents in one message, got more. "
            "Split the scene between several players."
        )
    return UnityProtocolError(
        f"player: expected a protocol message, got {size} bytes that are none from byte {position} on. {_CHECK_PLAYER}"
    )
