"""Integer arrays as few bytes, in a form that a browser turns back into typed arrays by one short loop.

The bytes are, deflated as a whole (zlib format): the length of the header (uint32,
little-endian), the header (JSON, UTF-8), then the arrays one after the other. Of
each array the rows along the first axis (time) are laid out series by series, replaced by
differences modulo the width of the type, and split into planes of equal significance:
a robot that stands still, or drives straight on, costs next to nothing once deflated.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MISSING", "encode", "quantise"]

MISSING: Final = -(1 << 31)
"""What :func:`quantise` writes for a value that is not a number; an array with one is 32 bits wide."""

_COMPRESSION: Final = 9
# Types that JavaScript has an array for, narrowest first: smallest and largest value.
_LIMITS: Final = {"<u1": (0, 255), "<i2": (-(1 << 15), (1 << 15) - 1), "<i4": (MISSING, -MISSING - 1)}


def quantise(values: NDArray[Any], resolution: float) -> NDArray[np.int32]:
    """Multiples of ``resolution`` nearest to ``values``, cut to 31 bits; :data:`MISSING` for NaN."""
    scaled = np.rint(np.asarray(values, np.float64) / resolution)
    limited = np.clip(scaled, MISSING + 1, -MISSING - 1)
    return np.where(np.isnan(limited), MISSING, limited).astype(np.int32)


def encode(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Deflate a header and arrays of integers.

    Args:
        header: What JSON can hold; the key ``arrays`` is added: name, type and shape of each array.
        arrays: Integers of at most 32 bits, or booleans, by name; differences are taken along the first axis.
    """
    directory: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for name, values in arrays.items():
        dtype = _narrowest(values)
        directory.append({"name": name, "type": dtype, "shape": list(values.shape)})
        parts.append(_planes(values.astype(dtype)))
    text = json.dumps({**header, "arrays": directory}, allow_nan=False, separators=(",", ":")).encode()
    return zlib.compress(struct.pack("<I", len(text)) + text + b"".join(parts), _COMPRESSION)


def _narrowest(values: NDArray[Any]) -> str:
    """The narrowest of the types that holds all values; an array without any takes the first."""
    smallest, largest = (int(values.min()), int(values.max())) if values.size else (0, 0)
    fitting = [dtype for dtype, (low, high) in _LIMITS.items() if low <= smallest and largest <= high]
    assert fitting, f"expected integers of at most 32 bits, got {smallest} to {largest}"
    return fitting[0]


def _planes(values: NDArray[Any]) -> bytes:
    # (T, ...) -> (series, T)
    num_series = values.size // max(len(values), 1)
    series = np.ascontiguousarray(values.reshape(len(values), num_series).T)
    unsigned = series.view(f"<u{series.itemsize}")
    differences = unsigned.copy()
    # Unsigned subtraction wraps round, as the typed array that adds it up again will.
    np.subtract(unsigned[:, 1:], unsigned[:, :-1], out=differences[:, 1:])
    # (values, bytes) -> (bytes, values)
    planes = differences.reshape(-1, 1).view(np.uint8).T
    return np.ascontiguousarray(planes).tobytes()
