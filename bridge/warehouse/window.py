"""The observation block of the cells around a robot (grid only)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet
from bridge.warehouse.floor import Floor

__all__ = ["WINDOW_CHANNELS", "WindowPlace", "make_maps", "observe_window"]

Float32 = NDArray[np.float32]

WINDOW_CHANNELS: Final = ("racks", "robots", "ways")
_ROBOT: Final = np.float32(1.0)
_WAY: Final = np.float32(0.25)


class WindowPlace(NamedTuple):
    """Where the block lies in an observation, and how many cells it sees to each side."""

    at: int
    radius: int


def make_maps(blocked: NDArray[np.bool_], radius: int) -> Float32:
    """(3, H + 2r, W + 2r) float32: 1 for racks, walls and everything outside the floor; two maps of zeros."""
    racks = np.pad(blocked.astype(np.float32), radius, constant_values=1.0)
    return np.stack([racks, np.zeros_like(racks), np.zeros_like(racks)])


@lean_kernel
def observe_window(
    floor: Floor,
    fleet: Fleet,
    maps: Float32,
    window: WindowPlace,
    first: int,
    envs: NDArray[np.bool_],
    observations: Float32,
) -> None:
    """Write the block: three maps of (2r + 1, 2r + 1) cells, top row first, the robot in the middle.

    ``racks`` is 1 for racks, walls and outside; ``robots`` is 1 for other robots; ``ways`` is
    0.25 for every other robot that the cell would bring nearer to its goal.

    Args:
        floor: The floor plan.
        fleet: What robots do.
        maps: Of :func:`make_maps`; used for scratch and left as it was found.
        window: Where and how large.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written.
    """
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for robot in range(fleet.cell.shape[1]):
            _draw(floor, fleet, env, robot, window.radius, np.float32(1.0), maps)
        for slot in range(observations.shape[1]):
            robot = first + slot
            if fleet.alive[env, robot]:
                # The robot itself and its own way are taken out while its window is copied.
                _draw(floor, fleet, env, robot, window.radius, np.float32(-1.0), maps)
                cell = fleet.cell[env, robot]
                _copy(maps, window, cell // floor.width, cell % floor.width, observations[env, slot])
                _draw(floor, fleet, env, robot, window.radius, np.float32(1.0), maps)
        for robot in range(fleet.cell.shape[1]):
            _draw(floor, fleet, env, robot, window.radius, np.float32(-1.0), maps)


@kernel_part
def _draw(floor: Floor, fleet: Fleet, env: int, robot: int, radius: int, sign: np.float32, maps: Float32) -> None:
    """Draw a robot and its ways into the maps, or (``sign`` -1) take it out; multiples of 1/4 are exact."""
    if not fleet.alive[env, robot]:
        return
    cell = fleet.cell[env, robot]
    maps[1, cell // floor.width + radius, cell % floor.width + radius] += sign * _ROBOT
    for move in range(1, 5):
        if fleet.route[env, robot] >> (move - 1) & 1:
            other = floor.moves[cell, move]
            maps[2, other // floor.width + radius, other % floor.width + radius] += sign * _WAY


@kernel_part
def _copy(maps: Float32, window: WindowPlace, row: int, column: int, observation: Float32) -> None:
    edge = 2 * window.radius + 1
    at = window.at
    for channel in range(maps.shape[0]):
        for line in range(row, row + edge):
            # Views instead of offsets: indices that start at 0 need no check for negative ones.
            source = maps[channel, line, column : column + edge]
            target = observation[at : at + edge]
            for index in range(edge):
                target[index] = source[index]
            at += edge
