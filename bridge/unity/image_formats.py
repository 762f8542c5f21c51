"""How the pictures of a player's sensors are read.

A channel mapping comes with every observation. Scenes hardly ever change theirs, so a format is made once per mapping
and kept.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from bridge.unity.images import MAX_MAPPED_CHANNELS, ImageError, ImageFormat
from bridge.unity.messages import Observation

__all__ = ["ImageFormats"]

_MAX_KEPT: Final = 256
_VARINT_BYTES: Final = 10
_MAPPING_TAG: Final = 5 << 3 | 2
_LOW_BITS: Final = 0x7F


class ImageFormats:
    """Formats of the observations of one player."""

    def __init__(self) -> None:
        self._kept: dict[tuple[tuple[int, ...], bytes, bool], ImageFormat] = {}

    def of(self, shape: tuple[int, ...], mapping: bytes, channels_first: bool) -> ImageFormat:
        """The format of observations of a shape with a channel mapping.

        Args:
            shape: Shape of the sensor's observations.
            mapping: The mapping as it is on the wire, packed; empty for none.
            channels_first: The shape is channel, row, column; else row, column, channel.

        Raises:
            ImageError: There can be no such pictures.
        """
        key = shape, mapping, channels_first
        known = self._kept.get(key)
        if known is None:
            known = ImageFormat.of(shape, _unpacked(mapping), channels_first)
            if len(self._kept) == _MAX_KEPT:  # a player that changes them all the time gets no more memory
                self._kept.clear()
            self._kept[key] = known
        return known


def _unpacked(mapping: bytes) -> tuple[int, ...]:
    if len(mapping) > _VARINT_BYTES * MAX_MAPPED_CHANNELS:
        raise ImageError(f"a mapping of at most {MAX_MAPPED_CHANNELS} channels, got {len(mapping)} bytes of one.")
    size = len(mapping)
    head = bytearray([_MAPPING_TAG])
    while size > _LOW_BITS:
        head.append(size & _LOW_BITS | _LOW_BITS + 1)
        size >>= 7
    head.append(size)
    try:
        channels = tuple(Observation.FromString(bytes(head) + mapping).compressed_channel_mapping)
    except DecodeError as error:
        raise ImageError(f"a channel mapping, got {len(mapping)} bytes that are none: {error}.") from error
    if len(channels) > MAX_MAPPED_CHANNELS:
        raise ImageError(f"a mapping of at most {MAX_MAPPED_CHANNELS} channels, got {len(channels)}.")
    return channels
