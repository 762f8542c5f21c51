"""Counter-based random numbers: one stream per seed, environment, episode and purpose.

A number depends on its key and its counter alone, not on what was drawn
before. That makes results bit-identical for any split of environments over
workers, and a new purpose changes none of the others.

The generator is SplitMix64 (Steele, Lea, Flood 2014): the output function
applied to ``key + counter * golden ratio``. It is fixed: any change would change
every episode of every seed.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel

__all__ = ["Purpose", "draw", "stream_keys", "uniform"]

UInt64 = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SHIFT_30, _SHIFT_27, _SHIFT_31, _SHIFT_11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


class Purpose(IntEnum):
    """What a stream is for; append, never reorder."""

    START_CELL = 0
    START_CHARGE = 1
    START_HEADING = 2
    TASK = 3
    ARRIVAL = 4
    RIGHT_OF_WAY = 5
    RESPAWN = 6
    RELOCATION = 7
    SERVICE = 8
    MESSAGE_LOSS = 9
    MESSAGE_LATENCY = 10
    MESSAGE_BURST = 11
    ERRAND = 12
    FLEET_SIZE = 13
    LIDAR_NOISE = 14
    LIDAR_DROPOUT = 15
    POSITION_NOISE = 16
    NEIGHBOUR_DROPOUT = 17
    ACTION_DELAY = 18
    SPEED_FACTOR = 19
    TRACTION_FACTOR = 20
    EXECUTION_DELAY = 21
    EXECUTION_DURATION = 22
    FACING = 23
    LAYOUT = 24
    ODOMETRY_NOISE = 25


@lean_kernel
def draw(key: np.uint64, counter: int) -> np.uint64:
    """The number at ``counter`` of the stream ``key``: 64 random bits."""
    bits = key + np.uint64(counter + 1) * _GOLDEN
    bits = (bits ^ (bits >> _SHIFT_30)) * _FIRST
    bits = (bits ^ (bits >> _SHIFT_27)) * _SECOND
    return bits ^ (bits >> _SHIFT_31)


@lean_kernel
def uniform(key: np.uint64, counter: int) -> float:
    """The number at ``counter`` of the stream ``key``, uniform in [0, 1), with 53 random bits."""
    return float(draw(key, counter) >> _SHIFT_11) * (1.0 / 9007199254740992.0)


def stream_keys(seeds: UInt64, envs: NDArray[np.int64], episodes: NDArray[np.int64]) -> UInt64:
    """Keys of all streams of some episodes.

    Args:
        seeds: (E,) uint64, seed of the run.
        envs: (E,) int64, index of the environment among all environments of the run.
        episodes: (E,) int64, number of the episode since the last seeded reset.

    Returns:
        (E, len(Purpose)) uint64.
    """
    key = _mix(seeds)
    for part in (envs, episodes):
        # Mixed after every part: a bare combination would give seed 1, environment 2 the key of seed 2, environment 1.
        key = _mix(_mix(key) ^ part.astype(np.uint64))
    purposes = np.arange(len(Purpose), dtype=np.uint64)
    return _mix(_mix(key)[:, None] ^ purposes[None, :])


def _mix(values: UInt64) -> UInt64:
    """SplitMix64's output function on an array."""
    bits = values + _GOLDEN
    bits = (bits ^ (bits >> _SHIFT_30)) * _FIRST
    bits = (bits ^ (bits >> _SHIFT_27)) * _SECOND
    return bits ^ (bits >> _SHIFT_31)
