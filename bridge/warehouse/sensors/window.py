"""The observation block of the cells around a robot (grid only).

Every robot's window is cut out of maps of the whole floor, line by line. All
robots are on the maps; a robot takes itself and its own ways out of its window.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet

__all__ = ["WINDOW_CHANNELS", "WindowMaps", "WindowPlace", "make_maps", "observe_window"]

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]

WINDOW_CHANNELS: Final = ("racks", "robots", "ways")
_ROBOT: Final = np.float32(1.0)
_WAY: Final = np.float32(0.25)
_RUN: Final = 16
"""Values that are copied at once, whether or not a line has as many."""


class WindowPlace(NamedTuple):
    """Where the block lies in an observation, and how many cells it sees to each side."""

    at: int
    radius: int


class WindowMaps(NamedTuple):
    """Maps of the floor with a margin of ``radius`` cells, and of one run more at the right.

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
    racks = np.pad(blocked.astype(np.float32), ((radius, radius), (radius, radius + _RUN)), constant_values=1.0)
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
    robots, ways = maps.values[1], maps.values[2]
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for robot in range(fleet.cell.shape[1]):
            if fleet.alive[env, robot]:
                place = maps.corner[fleet.cell[env, robot]] + middle
                robots[place] += _ROBOT
                _add_ways(ways, place, maps.width, fleet.route[env, robot], _WAY)
        for slot in range(observations.shape[1]):
            robot = first + slot
            if fleet.alive[env, robot]:
                block = observations[env, slot, window.at : window.at + size]
                _copy(maps, maps.corner[fleet.cell[env, robot]], edge, block)
                centre = window.radius * (edge + 1)
                block[edge * edge + centre] -= _ROBOT
                _add_ways(block, 2 * edge * edge + centre, edge, fleet.route[env, robot], -_WAY)
        for robot in range(fleet.cell.shape[1]):
            place = maps.corner[fleet.cell[env, robot]] + middle
            robots[place] = 0.0
            for neighbour in (place - maps.width, place + 1, place + maps.width, place - 1):
                ways[neighbour] = 0.0


@kernel_part
def _add_ways(values: Float32, place: int, width: int, route: int, weight: np.float32) -> None:
    """Add to the cells around a place that a route leads to; multiples of 1/4 are exact."""
    values[place - width] += weight * np.float32(route & 1)
    values[place + 1] += weight * np.float32(route >> 1 & 1)
    values[place + width] += weight * np.float32(route >> 2 & 1)
    values[place - 1] += weight * np.float32(route >> 3 & 1)


@kernel_part
def _copy(maps: WindowMaps, corner: int, edge: int, block: Float32) -> None:
    """Copy the window that begins at a corner.

    A line is copied in whole runs, which machines do in one go; what is too much lies where the next
    line goes. Only the last lines, behind which something else begins, are copied exactly.
    """
    # Indices that cannot be negative need no check for counting from the end.
    at, size = np.uint64(0), np.uint64(len(block))
    step, run = np.uint64(edge), np.uint64(_RUN)
    for channel in range(3):
        values = maps.values[channel]
        place = np.uint64(corner)
        for _ in range(edge):
            if at + step + run <= size:
                for begin in range(np.uint64(0), step, run):
                    _copy_run(values, place + begin, block, at + begin)
            else:
                for index in range(step):
                    block[at + index] = values[place + index]
            place += np.uint64(maps.width)
            at += step


@kernel_part
def _copy_run(source: Float32, start: np.uint64, target: Float32, at: np.uint64) -> None:
    """Copy a run; all is read before the first value is written, so that the compiler need not keep their order."""
    a, b, c, d = _four(source, start)
    e, f, g, h = _four(source, start + np.uint64(4))
    i, j, k, l = _four(source, start + np.uint64(8))  # noqa: E741
    m, n, o, p = _four(source, start + np.uint64(12))
    _set_four(target, at, a, b, c, d)
    _set_four(target, at + np.uint64(4), e, f, g, h)
    _set_four(target, at + np.uint64(8), i, j, k, l)
    _set_four(target, at + np.uint64(12), m, n, o, p)


@kernel_part
def _four(values: Float32, at: np.uint64) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    return values[at], values[at + np.uint64(1)], values[at + np.uint64(2)], values[at + np.uint64(3)]


@kernel_part
def _set_four(values: Float32, at: np.uint64, a: np.float32, b: np.float32, c: np.float32, d: np.float32) -> None:
    values[at] = a
    values[at + np.uint64(1)] = b
    values[at + np.uint64(2)] = c
    values[at + np.uint64(3)] = d
