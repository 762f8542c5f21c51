"""Compiled kernels that write agents as a request carries them: the bytes of a ``ListAgentInfoProto``.

Equal to protobuf's own bytes: fields in the order of their numbers, and none
that has its default value. Every agent's message is written around a gap for
its observations, which one sensor after another then fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel

__all__ = ["AgentColumns", "SensorMessages", "agents_to_bytes"]

Bytes = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_AGENT: Final = 1 << 3 | 2
_REWARD: Final = 7 << 3 | 5
_DONE: Final = 8 << 3
_MAX_STEP_REACHED: Final = 9 << 3
_ID: Final = 10 << 3
_ACTION_MASK: Final = 11 << 3 | 2
_OBSERVATION: Final = 13 << 3 | 2
_GROUP_ID: Final = 14 << 3
_GROUP_REWARD: Final = 15 << 3 | 5

_MOST_BYTES: Final = 64
"""More than everything in an agent's message but its mask and its observations takes."""


class AgentColumns(NamedTuple):
    """What n agents report beside their observations.

    Attributes:
        numbers: (2, n) int32, ids and group ids.
        rewards: (2, n) float32, rewards and group rewards.
        limits: (n,) bool, ended by a limit.
        forbidden: (n, M) bool, choices that are masked; M is 0 where nothing is said about masks.
        done: Whether these are ends of lives.
    """

    numbers: NDArray[np.int32]
    rewards: NDArray[np.float32]
    limits: NDArray[np.bool_]
    forbidden: NDArray[np.bool_]
    done: bool


class SensorMessages(NamedTuple):
    """One ``ObservationProto`` per agent: ``head``, then ``data[starts[i]:starts[i + 1]]``.

    Attributes:
        head: (H,) uint8, how all of them begin.
        data: (L,) uint8, how they go on, one after the other.
        starts: (n + 1,) int64, ascending from 0 to L.
    """

    head: Bytes
    data: Bytes
    starts: Int64

    @classmethod
    def joined(cls, messages: Sequence[bytes]) -> Self:
        """Messages that have nothing in common."""
        starts = np.zeros(len(messages) + 1, np.int64)
        np.cumsum([len(message) for message in messages], out=starts[1:])
        return cls(np.empty(0, np.uint8), np.frombuffer(b"".join(messages), np.uint8), starts)


def agents_to_bytes(agents: AgentColumns, sensors: Sequence[SensorMessages]) -> bytes:
    """The bytes of a ``ListAgentInfoProto``.

    Args:
        agents: n agents.
        sensors: Their observations, in order.
    """
    count = agents.numbers.shape[1]
    observed = np.zeros(count, np.int64)
    for sensor in sensors:
        _add_sizes(sensor.starts, len(sensor.head), observed)
    num_choices = agents.forbidden.shape[1]
    target = np.empty(int(observed.sum()) + count * (_MOST_BYTES + num_choices), np.uint8)
    gaps = np.empty(count, np.int64)
    size = _write_agents(
        agents.numbers,
        agents.rewards.view(np.int32),
        agents.done,
        agents.limits,
        agents.forbidden.view(np.uint8),
        observed,
        target,
        gaps,
    )
    for sensor in sensors:
        _write_observations(sensor.head, sensor.data, sensor.starts, target, gaps)
    return target[:size].tobytes()


@lean_kernel
def _add_sizes(starts: Int64, head_size: int, observed: Int64) -> None:
    """Add the bytes that each agent's observation by one sensor takes, tag and length included."""
    for row in range(len(observed)):
        size = head_size + starts[row + 1] - starts[row]
        observed[row] += 1 + _varint_size(size) + size


@lean_kernel
def _write_agents(
    numbers: NDArray[np.int32],
    reward_bits: NDArray[np.int32],
    done: bool,
    limits: NDArray[np.bool_],
    forbidden: Bytes,
    observed: Int64,
    target: Bytes,
    gaps: Int64,
) -> int:
    """Write n agents without their observations; returns the number of bytes, gaps included.

    Args:
        numbers: (2, n) int32, ids and group ids.
        reward_bits: (2, n) int32, rewards and group rewards as they lie in memory.
        done: Whether these are ends of lives.
        limits: (n,) bool.
        forbidden: (n, M) uint8, 0 or 1.
        observed: (n,) int64, bytes of each agent's observations.
        target: (L,) uint8, large enough.
        gaps: (n,) int64, filled: where each agent's observations belong.
    """
    num_choices = forbidden.shape[1]
    mask_size = 1 + _varint_size(num_choices) + num_choices if num_choices else 0
    position = 0
    for row in range(len(observed)):
        before = (
            _float_size(reward_bits[0, row])
            + (2 if done else 0)
            + (2 if limits[row] else 0)
            + _number_size(numbers[0, row])
            + mask_size
        )
        after = _number_size(numbers[1, row]) + _float_size(reward_bits[1, row])
        target[position] = _AGENT
        position = _varint(target, position + 1, before + observed[row] + after)
        position = _float(target, position, _REWARD, reward_bits[0, row])
        position = _number(target, position, _DONE, 1 if done else 0)
        position = _number(target, position, _MAX_STEP_REACHED, 1 if limits[row] else 0)
        position = _number(target, position, _ID, numbers[0, row])
        if num_choices:
            target[position] = _ACTION_MASK
            position = _varint(target, position + 1, num_choices)
            for choice in range(num_choices):
                target[position + choice] = forbidden[row, choice]
            position += num_choices
        gaps[row] = position
        position = _number(target, position + observed[row], _GROUP_ID, numbers[1, row])
        position = _float(target, position, _GROUP_REWARD, reward_bits[1, row])
    return position


@lean_kernel
def _write_observations(head: Bytes, data: Bytes, starts: Int64, target: Bytes, gaps: Int64) -> None:
    """Write the observations of n agents by one sensor into their gaps, whose starts move on.

    Args:
        head: (H,) uint8.
        data: (L,) uint8.
        starts: (n + 1,) int64.
        target: (T,) uint8, written.
        gaps: (n,) int64, what is left of each gap starts here.
    """
    for row in range(len(gaps)):
        start, size = starts[row], starts[row + 1] - starts[row]
        target[gaps[row]] = _OBSERVATION
        position = _varint(target, gaps[row] + 1, len(head) + size)
        _copy(head, 0, len(head), target, position)
        _copy(data, start, size, target, position + len(head))
        gaps[row] = position + len(head) + size


@kernel_part
def _copy(source: Bytes, start: int, size: int, target: Bytes, position: int) -> None:
    # Unsigned: an index that might be negative would be looked at byte by byte.
    origin, place = np.uint64(start), np.uint64(position)
    for index in range(np.uint64(size)):
        target[place + index] = source[origin + index]


@kernel_part
def _float_size(bits: int) -> int:
    return 5 if bits else 0


@kernel_part
def _number_size(value: int) -> int:
    return 1 + _varint_size(value) if value else 0


@kernel_part
def _varint_size(value: int) -> int:
    rest = np.uint64(np.int64(value))
    size = 1
    while rest > np.uint64(0x7F):
        rest >>= np.uint64(7)
        size += 1
    return size


@kernel_part
def _number(target: Bytes, position: int, tag: int, value: int) -> int:
    """Write an integer field unless it is 0; returns the position behind it."""
    if not value:
        return position
    target[position] = tag
    return _varint(target, position + 1, value)


@kernel_part
def _float(target: Bytes, position: int, tag: int, bits: int) -> int:
    """Write a float32 field, little-endian, unless it is 0; returns the position behind it."""
    if not bits:
        return position
    target[position] = tag
    for index in range(4):
        target[position + 1 + index] = (bits >> (8 * index)) & 0xFF
    return position + 5


@kernel_part
def _varint(target: Bytes, position: int, value: int) -> int:
    rest = np.uint64(np.int64(value))
    while rest > np.uint64(0x7F):
        target[position] = np.uint8((rest & np.uint64(0x7F)) | np.uint64(0x80))
        rest >>= np.uint64(7)
        position += 1
    target[position] = np.uint8(rest)
    return position + 1
