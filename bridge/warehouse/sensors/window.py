"""The observation block of the cells around a robot (grid only).

Every robot's window is cut out of maps of the whole floor, line by line. All
robots are on the maps; a robot takes itself and its own ways out of its window.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet

__all__ = ["WINDOW_CHANNELS", "WindowMaps", "WindowPlace", "make_maps", "observe_window"]

Float32 = NDArray[np.float32]
Four: TypeAlias = tuple[np.float32, np.float32, np.float32, np.float32]
Int32 = NDArray[np.int32]

WINDOW_CHANNELS: Final = ("racks", "robots", "ways")
_ROBOT: Final = np.float32(1.0)
# By the four moves of a route entry: what is added above, to the right, below and to the left.
_WAYS: Final = np.float32(0.25) * (np.arange(16)[:, None] >> np.arange(4) & 1).astype(np.float32)
_WAYS_OFF: Final = -_WAYS


class WindowPlace(NamedTuple):
    """Where the block lies in an observation, and how many cells it sees to each side."""

    at: int
    radius: int


class WindowMaps(NamedTuple):
    """Maps of the floor with a margin of ``radius`` cells.

    Attributes:
        width: Values in a line of a map.
        values: (3, lines * width) float32: 1 for racks, walls and everything outside the floor; two maps of zeros,
            between calls, too.
        corner: (cells,) int32, where the window of a robot in each cell begins in a map.
    """

    width: int
    values: Float32
    corner: Int32


def make_maps(blocked: NDArray[np.bool_], radius: int) -> WindowMaps:
    """Maps of a floor: (H, W) bool."""
    racks = np.pad(blocked.astype(np.float32), radius, constant_values=1.0)
    values = np.stack([racks.ravel(), np.zeros(racks.size, np.float32), np.zeros(racks.size, np.float32)])
    rows, columns = np.indices(blocked.shape)
    corner = (rows * racks.shape[1] + columns).ravel().astype(np.int32)
    return WindowMaps(racks.shape[1], values, corner)


@lean_kernel
def observe_window(
    fleet: Fleet,
    maps: WindowMaps,
    window: WindowPlace,
    first: int,
    envs: NDArray[np.bool_],
    observations: Float32,
) -> None:
    """Write the block: three maps of (2r + 1, 2r + 1) cells, top row first, the robot in the middle.

    ``racks`` is 1 for racks, walls and outside; ``robots`` is 1 for other robots; ``ways`` is
    0.25 for every other robot that the cell would bring nearer to its goal.

    Args:
        fleet: What robots do.
        maps: Of :func:`make_maps`; used for scratch and left as it was found.
        window: Where and how large.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written.
    """
    edge = 2 * window.radius + 1
    size = 3 * edge * edge
    middle = window.radius * (maps.width + 1)
    centre = window.radius * (edge + 1)
    robots, ways, width = maps.values[1], maps.values[2], maps.width
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for robot in range(fleet.cell.shape[1]):
            if fleet.alive[env, robot]:
                place = maps.corner[index(fleet.cell[env, robot])] + middle
                robots[index(place)] += _ROBOT
                _add_ways(ways, place, width, fleet.route[env, robot], _WAYS)
        for slot in range(observations.shape[1]):
            robot = index(first + slot)
            if fleet.alive[env, robot]:
                block = observations[env, slot, window.at : window.at + size]
                _copy(maps, maps.corner[index(fleet.cell[env, robot])], edge, block)
                block[index(edge * edge + centre)] -= _ROBOT
                _add_ways(block, 2 * edge * edge + centre, edge, fleet.route[env, robot], _WAYS_OFF)
        for robot in range(fleet.cell.shape[1]):
            place = maps.corner[index(fleet.cell[env, robot])] + middle
            robots[index(place)] = 0.0
            ways[index(place - width)] = 0.0
            ways[index(place + 1)] = 0.0
            ways[index(place + width)] = 0.0
            ways[index(place - 1)] = 0.0


@kernel_part
def _add_ways(values: Float32, place: int, width: int, route: int, weights: Float32) -> None:
    """Add to the cells around a place that a route leads to; multiples of 1/4 are exact."""
    moves = index(route & 15)
    values[index(place - width)] += weights[moves, 0]
    values[index(place + 1)] += weights[moves, 1]
    values[index(place + width)] += weights[moves, 2]
    values[index(place - 1)] += weights[moves, 3]


@kernel_part
def _copy(maps: WindowMaps, corner: int, edge: int, block: Float32) -> None:
    """Copy the window that begins at a corner, line after line."""
    # Indices that cannot be negative need no check for counting from the end.
    at, width, step = np.uint64(0), np.uint64(maps.width), np.uint64(edge)
    for channel in range(3):
        values, place = maps.values[channel], np.uint64(corner)
        for _ in range(edge):
            _copy_line(values, place, block, at, step)
            place += width
            at += step


@kernel_part
def _copy_line(source: Float32, start: np.uint64, target: Float32, at: np.uint64, length: np.uint64) -> None:
    """Copy a line in runs of eight and four, which machines do in one go; the last one overlaps the one before.

    What is copied twice is the same. The lines of usual windows need no loop.
    """
    four, eight = np.uint64(4), np.uint64(8)
    if length > np.uint64(16):
        for begin in range(np.uint64(0), length - eight, eight):
            _copy_eight(source, start + begin, target, at + begin)
        _copy_eight(source, start + length - eight, target, at + length - eight)
    elif length > np.uint64(12):
        _copy_eight(source, start, target, at)
        _copy_eight(source, start + length - eight, target, at + length - eight)
    elif length > eight:
        _copy_eight(source, start, target, at)
        _set_four(target, at + length - four, _four(source, start + length - four))
    elif length > four:
        _set_four(target, at, _four(source, start))
        _set_four(target, at + length - four, _four(source, start + length - four))
    else:
        for offset in range(length):
            target[at + offset] = source[start + offset]


@kernel_part
def _copy_eight(source: Float32, start: np.uint64, target: Float32, at: np.uint64) -> None:
    """Copy eight cells; all are read before the first is written, so that the compiler need not keep their order."""
    one, two = _four(source, start), _four(source, start + np.uint64(4))
    _set_four(target, at, one)
    _set_four(target, at + np.uint64(4), two)


@kernel_part
def _four(values: Float32, at: np.uint64) -> Four:
    return values[at], values[at + np.uint64(1)], values[at + np.uint64(2)], values[at + np.uint64(3)]


@kernel_part
def _set_four(values: Float32, at: np.uint64, four: Four) -> None:
    values[at] = four[0]
    values[at + np.uint64(1)] = four[1]
    values[at + np.uint64(2)] = four[2]
    values[at + np.uint64(3)] = four[3]
