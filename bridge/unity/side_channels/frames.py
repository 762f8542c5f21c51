"""The framing of side-channel data: channel id, length, payload, repeated.

16 bytes of channel id (a GUID as .NET writes it, :attr:`uuid.UUID.bytes_le`),
int32 little-endian length, payload.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from bridge.errors import UnityProtocolError

__all__ = ["MAX_FRAMES", "pack_frames", "unpack_frames"]

MAX_FRAMES: Final = 100_000
"""Most frames in one exchange."""

_HEADER: Final = struct.Struct("<16si")


def pack_frames(frames: Iterable[tuple[UUID, bytes]]) -> bytes:
    """The bytes of some messages, each with the id of its channel."""
    return b"".join(_HEADER.pack(channel.bytes_le, len(payload)) + payload for channel, payload in frames)


def unpack_frames(data: bytes) -> list[tuple[UUID, bytes]]:
    """The inverse of :func:`pack_frames`.

    Raises:
        UnityProtocolError: A frame is cut off, has a negative length, or there are too many.
    """
    frames: list[tuple[UUID, bytes]] = []
    offset = 0
    while offset < len(data):
        if len(frames) == MAX_FRAMES:
            raise UnityProtocolError(f"side channels: expected at most {MAX_FRAMES} messages, got more.")
        if len(data) - offset < _HEADER.size:
            raise UnityProtocolError(
                f"side channels: message {len(frames)}: expected a header of {_HEADER.size} bytes, "
                f"got {len(data) - offset}."
            )
        raw_id, length = _HEADER.unpack_from(data, offset)
        channel = UUID(bytes_le=raw_id)
        offset += _HEADER.size
        if not 0 <= length <= len(data) - offset:
            raise UnityProtocolError(
                f"side channels: message {len(frames)} of channel {channel}: expected a length of 0 to "
                f"{len(data) - offset} bytes, got {length}."
            )
        frames.append((channel, data[offset : offset + length]))
        offset += length
    return frames
