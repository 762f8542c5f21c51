"""The observation block of the cells around a robot (grid only)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel
from bridge.warehouse.fleet import Fleet
from bridge.warehouse.floor import Floor

__all__ = ["WINDOW_CHANNELS", "WindowPlace", "observe_window", "pad_racks"]

Float32 = NDArray[np.float32]

WINDOW_CHANNELS: Final = ("racks", "robots", "ways")
_WISH: Final = 0.25


class WindowPlace(NamedTuple):
    """Where the block lies in an observation, and how many cells it sees to each side."""

    at: int
    radius: int


def pad_racks(blocked: NDArray[np.bool_], radius: int) -> Float32:
    """(H + 2r, W + 2r) float32, 1 for racks, walls and everything outside the floor."""
    return np.pad(blocked.astype(np.float32), radius, constant_values=1.0)


@kernel
def observe_window(
    floor: Floor,
    fleet: Fleet,
    racks: Float32,
    window: WindowPlace,
    first: int,
    envs: NDArray[np.bool_],
    observations: Float32,
) -> None:
    """Write the block: three maps of (2r + 1, 2r + 1) cells, top row first, the robot in the middle.

    ``racks`` is 1 for racks, walls and outside; ``robots`` is 1 for other robots; ``ways`` is
    0.25 for every other robot whose shortest way leads into the cell next.

    Args:
        floor: The floor plan.
        fleet: What robots do.
        racks: Of :func:`pad_racks`.
        window: Where and how large.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written.
    """
    radius = window.radius
    edge = 2 * radius + 1
    robots = np.zeros_like(racks)
    ways = np.zeros_like(racks)
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for other in range(fleet.cell.shape[1]):
            if fleet.alive[env, other]:
                robots[
                    fleet.cell[env, other] // floor.width + radius, fleet.cell[env, other] % floor.width + radius
                ] = 1
                _add_ways(floor, fleet, env, other, radius, _WISH, ways)
        for slot in range(observations.shape[1]):
            robot = first + slot
            if not fleet.alive[env, robot]:
                continue
            row, column = fleet.cell[env, robot] // floor.width, fleet.cell[env, robot] % floor.width
            # The robot itself and its own way are taken out while its window is copied.
            robots[row + radius, column + radius] = 0.0
            _add_ways(floor, fleet, env, robot, radius, -_WISH, ways)
            at = window.at
            for line in range(edge):
                observations[env, slot, at : at + edge] = racks[row + line, column : column + edge]
                middle = at + edge * edge
                observations[env, slot, middle : middle + edge] = robots[row + line, column : column + edge]
                back = middle + edge * edge
                observations[env, slot, back : back + edge] = ways[row + line, column : column + edge]
                at += edge
            robots[row + radius, column + radius] = 1.0
            _add_ways(floor, fleet, env, robot, radius, _WISH, ways)
        for other in range(fleet.cell.shape[1]):
            if fleet.alive[env, other]:
                robots[
                    fleet.cell[env, other] // floor.width + radius, fleet.cell[env, other] % floor.width + radius
                ] = 0
                _add_ways(floor, fleet, env, other, radius, -_WISH, ways)


@kernel
def _add_ways(floor: Floor, fleet: Fleet, env: int, robot: int, radius: int, value: float, ways: Float32) -> None:
    """Add ``value`` to every cell that brings a robot nearer to its goal; multiples of 1/4 are exact."""
    cell = fleet.cell[env, robot]
    for move in range(1, 5):
        if fleet.route[env, robot] >> (move - 1) & 1:
            other = floor.moves[cell, move]
            ways[other // floor.width + radius, other % floor.width + radius] += value
