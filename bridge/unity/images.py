"""Visual observations that travel as PNG: read with every size checked before a pixel is decoded.

An observation of C channels is one PNG of three channels after another, as
many as it takes; channels that are left over belong to nobody. A sensor may
say with a channel mapping where each channel of the PNGs goes. Packages before
3.0 send row, column, channel; later ones channel, row, column.

Unity writes 8 bits of red, green and blue. Every other kind of PNG is read as
what it looks like in those: grey in all three, a palette's colours, the upper
8 of 16 bits, and without its transparency, which is no channel of a sensor.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["IMAGE_RANK", "MAX_MAPPED_CHANNELS", "ImageError", "ImageFormat", "sends_channels_first"]

IMAGE_RANK: Final = 3
"""Dimensions of an observation that may travel as PNG."""

MAX_MAPPED_CHANNELS: Final = 3072
"""Most entries of a channel mapping, which are the channels of all PNGs of an observation together."""

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = 3
_CHUNK_OVERHEAD: Final = 12  # length, type and checksum, 4 bytes each
_HEADER: Final = struct.Struct(">IIBBBBB")
_GREY, _RGB, _PALETTE, _GREY_ALPHA, _RGBA = 0, 2, 3, 4, 6
_KINDS: Final = {
    _GREY: (1, 2, 4, 8, 16),
    _RGB: (8, 16),
    _PALETTE: (1, 2, 4, 8),
    _GREY_ALPHA: (8, 16),
    _RGBA: (8, 16),
}
"""Numbers of bits that go with a colour type."""
_EIGHT_BITS: Final = 8
_MAX_PALETTE_BYTES: Final = 3 * 256
_AFTER_HEADER: Final = len(_SIGNATURE) + _CHUNK_OVERHEAD + _HEADER.size
_COLOUR_AT: Final = len(_SIGNATURE) + 8 + 9
_MAX_VALUE: Final = np.float32(255.0)


class ImageError(Exception):
    """What an observation was expected to be, and what it is: ``<what>, got <value>``."""


def sends_channels_first(package_version: str) -> bool:
    """Whether a version of com.unity.ml-agents sends channel, row, column.

    A version that cannot be read counts as a new one.
    """
    match = re.match(r"(\d{1,6})\.", package_version, re.ASCII)
    return match is None or int(match[1]) >= 3


@dataclass(frozen=True)
class ImageFormat:
    """What the PNGs of one sensor look like, and where their channels go.

    Attributes:
        height: Rows in pixels.
        width: Columns in pixels.
        num_channels: Channels C of the observation.
        channels_first: The observation is (C, height, width); else (height, width, C).
        targets: For each channel of the PNGs together, the channel of the observation that it counts into,
            or -1 for none. Several that count into the same one are averaged.
    """

    height: int
    width: int
    num_channels: int
    channels_first: bool
    targets: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], channel_mapping: Sequence[int], channels_first: bool) -> ImageFormat:
        """The format of a sensor.

        Args:
            shape: Shape of its observations.
            channel_mapping: As it is sent; empty for none.
            channels_first: Order of the shape.

        Raises:
            ImageError: PNGs cannot carry such an observation.
        """
        if len(shape) != IMAGE_RANK:
            raise ImageError(f"compressed values only where there are three dimensions, got the shape {shape}.")
        num_channels, height, width = shape if channels_first else (shape[2], shape[0], shape[1])
        if num_channels > MAX_MAPPED_CHANNELS:
            order = "channel, row, column" if channels_first else "row, column, channel"
            raise ImageError(f"at most {MAX_MAPPED_CHANNELS} channels in PNGs, got {num_channels} ({order}).")
        targets = tuple(channel_mapping) or _default_targets(num_channels)
        if len(targets) % _CHANNELS != 0:
            raise ImageError(f"a channel mapping for PNGs of 3 channels each, got one of {len(targets)} channels.")
        if min(targets) < -1 or {target for target in targets if target >= 0} != set(range(num_channels)):
            raise ImageError(
                f"a channel mapping to all of the {num_channels} channels and to no others, got {list(targets[:12])}."
            )
        return cls(height, width, num_channels, channels_first, targets)

    def decode(self, data: bytes, values: NDArray[np.float32]) -> None:
        """Read the PNGs of one observation.

        Args:
            data: The PNGs, one after the other.
            values: (C * height * width,) float32, filled with values in [0, 1].

        Raises:
            ImageError: They are malformed, or others than expected.
        """
        size = (self.height, self.width)
        # (F,) -> (C, H, W), in either case a view.
        channels = (
            values.reshape(self.num_channels, *size)
            if self.channels_first
            else values.reshape(*size, self.num_channels).transpose(2, 0, 1)
        )
        counts = [0] * self.num_channels
        position = 0
        for first in range(0, len(self.targets), _CHANNELS):
            picture, position = self._picture(data, position, first // _CHANNELS)
            for channel, target in enumerate(self.targets[first : first + _CHANNELS]):
                if target < 0:
                    continue
                if counts[target] == 0:
                    np.divide(picture[..., channel], _MAX_VALUE, out=channels[target])
                else:
                    channels[target] += picture[..., channel] / _MAX_VALUE
                counts[target] += 1
        if position != len(data):
            raise ImageError(
                f"{len(self.targets) // _CHANNELS} PNGs for {self.num_channels} channels, got {len(data) - position} "
                "bytes more."
            )
        for target, count in enumerate(counts):
            if count > 1:
                channels[target] /= np.float32(count)

    def _picture(self, data: bytes, position: int, number: int) -> tuple[NDArray[np.uint8], int]:
        """One PNG: (height, width, 3) uint8, and where it ends."""
        plain, end = _without_extras(data, position, number)
        start = len(_SIGNATURE) + 8
        width, height, bits, colour, *_ = _HEADER.unpack_from(plain, start)
        if (width, height) != (self.width, self.height):
            raise ImageError(
                f"PNGs of {self.width} x {self.height} pixels, got one of {width} x {height}. Check that the "
                "version of the ML-Agents package is announced as it is."
            )
        if bits not in _KINDS.get(colour, ()):
            raise ImageError(
                f"PNGs of grey, colours or a palette with a number of bits that they may have, got {bits} bits of "
                f"colour type {colour}."
            )
        if colour == _PALETTE and plain[_AFTER_HEADER + 4 : _AFTER_HEADER + 8] != b"PLTE":
            raise ImageError(f"a palette in a PNG of colour type {colour} at byte {position}, got none.")
        try:
            with Image.open(io.BytesIO(plain), formats=("PNG",)) as image:
                picture = _as_rgb(image, bits, colour)
        except (OSError, SyntaxError, ValueError) as error:  # what Pillow says of a damaged PNG
            raise ImageError(f"a whole PNG, got a damaged one at byte {position}: {str(error)[:200]}.") from error
        return picture, end


def _default_targets(num_channels: int) -> tuple[int, ...]:
    """Without a mapping: a single channel is the mean of three, of more the last ones may be left over."""
    if num_channels == 1:
        return (0,) * _CHANNELS
    unused = -num_channels % _CHANNELS
    return (*range(num_channels), *[-1] * unused)


def _as_rgb(image: Image.Image, bits: int, colour: int) -> NDArray[np.uint8]:
    """(height, width, 3) uint8, what a picture looks like in red, green and blue."""
    if (bits, colour) == (_EIGHT_BITS, _RGB):
        return np.asarray(image)
    if colour in (_GREY, _GREY_ALPHA):
        # Pillow keeps all bits of 16 bits of grey, of other kinds the upper 8.
        deep = (bits, colour) == (16, _GREY)
        grey = (np.asarray(image) >> _EIGHT_BITS).astype(np.uint8) if deep else np.asarray(image.convert("L"))
        return np.broadcast_to(grey[..., None], (*grey.shape, _CHANNELS))
    return np.asarray(image.convert("RGB"))


def _without_extras(data: bytes, position: int, number: int) -> tuple[bytes, int]:
    """The PNG at a position with the chunks that make the picture, and where it ends.

    Texts, animations, profiles and transparency are left out, so that nothing has to read them.
    """
    begin = position
    position += len(_SIGNATURE)
    if data[begin:position] != _SIGNATURE:
        raise ImageError(f"PNG {number} at byte {begin}, got {data[begin:position]!r}.")
    parts = [_SIGNATURE]
    kind = b""
    while kind != b"IEND":
        if len(data) - position < _CHUNK_OVERHEAD:
            raise ImageError(f"a whole PNG at byte {begin}, got one that ends at byte {len(data)}.")
        size, kind = struct.unpack_from(">I4s", data, position)
        end = position + _CHUNK_OVERHEAD + size
        if end > len(data):
            raise ImageError(f"a whole PNG at byte {begin}, got one that ends at byte {len(data)}.")
        if len(parts) == 1 and (kind, size) != (b"IHDR", _HEADER.size):
            raise ImageError(f"a PNG that begins with its sizes at byte {begin}, got the chunk {kind!r}.")
        if len(parts) == 1 or kind in (b"IDAT", b"IEND"):  # a second header would change the sizes
            parts.append(data[position:end])
        elif kind == b"PLTE" and len(parts) == 2 and data[begin + _COLOUR_AT] == _PALETTE:
            if size % _CHANNELS or not 0 < size <= _MAX_PALETTE_BYTES:
                raise ImageError(f"a palette of 1 to 256 colours, got one of {size} bytes.")
            parts.append(data[position:end])
        position = end
    return b"".join(parts), position
