"""Compiled kernel that reads the actions of one behavior's agents from the bytes of a ``ListAgentActionProto``.

Fields may come in any order, repeated values packed or not; unknown fields are
skipped. The bytes come from outside: nothing is loaded before it is known to
lie within them, and lengths are compared with what is left.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel

__all__ = ["BAD_CONTINUOUS", "BAD_DISCRETE", "FEWER_AGENTS", "MALFORMED", "read_actions"]

FEWER_AGENTS: Final = 1
BAD_CONTINUOUS: Final = 2
BAD_DISCRETE: Final = 3
MALFORMED: Final = 4
"""No message, or one with groups, which only protobuf reads."""

Bytes = NDArray[np.uint8]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_AGENT: Final = 1 << 3 | _BYTES
_CONTINUOUS: Final = 6 << 3 | _FIXED32
_CONTINUOUS_PACKED: Final = 6 << 3 | _BYTES
_DISCRETE: Final = 7 << 3 | _VARINT
_DISCRETE_PACKED: Final = 7 << 3 | _BYTES

_MAX_VARINT_BYTES: Final = 10


@lean_kernel
def read_actions(data: Bytes, continuous: Bytes, discrete: NDArray[np.int32]) -> tuple[int, int]:
    """Read the actions of the first n agents; more are ignored.

    Args:
        data: (L,) uint8, the message.
        continuous: (n, 4 C) uint8, filled with little-endian float32.
        discrete: (n, B) int32, filled.

    Returns:
        0 and n; or what is wrong, and how many agents, continuous values or branches there are instead.
    """
    num_asked, row, position, stop = len(discrete), 0, 0, len(data)
    while row < num_asked and position < stop:
        tag, start, position = _field(data, position, stop)
        if position < 0:
            return MALFORMED, row
        if tag != _AGENT:
            continue
        num_continuous, num_discrete = _read_agent(data, start, position, continuous[row], discrete[row])
        if num_continuous < 0:
            return MALFORMED, row
        if 4 * num_continuous != continuous.shape[1]:
            return BAD_CONTINUOUS, num_continuous
        if num_discrete != discrete.shape[1]:
            return BAD_DISCRETE, num_discrete
        row += 1
    return (0 if row == num_asked else FEWER_AGENTS), row


@kernel_part
def _read_agent(
    data: Bytes, position: int, stop: int, continuous: Bytes, discrete: NDArray[np.int32]
) -> tuple[int, int]:
    """Read an ``AgentActionProto``; returns how many values of each kind it has, of which more than fit are dropped."""
    num_bytes = num_discrete = 0
    while position < stop:
        tag, start, position = _field(data, position, stop)
        if position < 0:
            return -1, 0
        if tag in (_CONTINUOUS, _CONTINUOUS_PACKED):
            size = 4 if tag == _CONTINUOUS else position - start
            if size % 4 != 0:
                return -1, 0
            for index in range(min(size, len(continuous) - num_bytes)):
                continuous[num_bytes + index] = data[start + index]
            num_bytes += size
        elif tag == _DISCRETE:
            if num_discrete < len(discrete):
                discrete[num_discrete] = np.int32(start)
            num_discrete += 1
        elif tag == _DISCRETE_PACKED:
            while start < position:
                value, start = _varint(data, start, position)
                if start < 0:
                    return -1, 0
                if num_discrete < len(discrete):
                    discrete[num_discrete] = np.int32(value)
                num_discrete += 1
    return num_bytes // 4, num_discrete


@kernel_part
def _field(data: Bytes, position: int, stop: int) -> tuple[int, int, int]:
    """One field: tag, value, and the position behind it, which is negative if there is none.

    The value is that of a varint, else the position where the content starts.
    """
    tag, start = _varint(data, position, stop)
    if start < 0 or tag < 8 or tag > 0xFFFFFFFF:
        return tag, start, -1
    kind = tag & 7
    if kind == _VARINT:
        value, after = _varint(data, start, stop)
        return tag, value, after
    if kind == _BYTES:
        length, start = _varint(data, start, stop)
        if start < 0 or length < 0 or length > stop - start:
            return tag, start, -1
        return tag, start, start + length
    if kind in (_FIXED32, _FIXED64):
        size = 4 if kind == _FIXED32 else 8
        return tag, start, (start + size if size <= stop - start else -1)
    return tag, start, -1


@kernel_part
def _varint(data: Bytes, position: int, stop: int) -> tuple[int, int]:
    """Value (64 bits, signed) and the position behind it, which is negative if there is none."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if position + index >= stop:
            break
        byte = int(data[position + index])
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    return 0, -1
