"""Compiled kernel that writes the actions of one behavior's agents as a reply carries them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel

__all__ = ["actions_to_bytes", "write_actions"]

_AGENT: Final = 1 << 3 | 2
_CONTINUOUS: Final = 6 << 3 | 2
_DISCRETE: Final = 7 << 3 | 2

_VARINT_BYTES: Final = 10
_LENGTH_BYTES: Final = 6
"""Most bytes of a field's tag and its length."""


def actions_to_bytes(continuous: NDArray[np.float32], discrete: NDArray[np.int32]) -> memoryview:
    """The bytes of a ``ListAgentActionProto``.

    Args:
        continuous: (N, C) float32.
        discrete: (N, B) int32.
    """
    values = np.ascontiguousarray(continuous, np.float32).view(np.uint8)
    choices = np.ascontiguousarray(discrete, np.int32)
    most = 3 * _LENGTH_BYTES + values.shape[1] + _VARINT_BYTES * choices.shape[1]
    target = np.empty(len(values) * most, np.uint8)
    return target[: write_actions(values, choices, target)].data


@lean_kernel
def write_actions(values: NDArray[np.uint8], choices: NDArray[np.int32], target: NDArray[np.uint8]) -> int:
    """Write the actions of N agents; returns the number of bytes.

    Args:
        values: (N, 4 C) uint8, float32 values as they are.
        choices: (N, B) int32.
        target: (L,) uint8, large enough.
    """
    num_values, num_choices = values.shape[1], choices.shape[1]
    position = 0
    for row in range(len(values)):
        packed = 0
        for branch in range(num_choices):
            packed += _varint_size(np.uint64(np.int64(choices[row, branch])))
        size = 0
        if num_values > 0:
            size += 1 + _varint_size(np.uint64(num_values)) + num_values
        if num_choices > 0:
            size += 1 + _varint_size(np.uint64(packed)) + packed
        position = _field_head(target, position, _AGENT, size)
        if num_values > 0:
            position = _field_head(target, position, _CONTINUOUS, num_values)
            for index in range(num_values):
                target[position + index] = values[row, index]
            position += num_values
        if num_choices > 0:
            position = _field_head(target, position, _DISCRETE, packed)
            for branch in range(num_choices):
                position = _varint(target, position, np.uint64(np.int64(choices[row, branch])))
    return position


@kernel_part
def _varint_size(value: np.uint64) -> int:
    size = 1
    while value > np.uint64(0x7F):
        value >>= np.uint64(7)
        size += 1
    return size


@kernel_part
def _field_head(target: NDArray[np.uint8], position: int, tag: int, size: int) -> int:
    target[position] = np.uint8(tag)
    return _varint(target, position + 1, np.uint64(size))


@kernel_part
def _varint(target: NDArray[np.uint8], position: int, value: np.uint64) -> int:
    while value > np.uint64(0x7F):
        target[position] = np.uint8((value & np.uint64(0x7F)) | np.uint64(0x80))
        value >>= np.uint64(7)
        position += 1
    target[position] = np.uint8(value)
    return position + 1
