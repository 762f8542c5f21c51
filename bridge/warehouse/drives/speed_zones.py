"""Zones of lower speed for robots that move from cell to cell, what they make ways cost, and a block that shows them.

A robot on the grid drives a cell per step. In a cell whose limit is lower than that it takes
``ceil(cell size / (limit * step))`` steps per cell: it shows in the cell in the first of them, and is
*held* for the others, whatever it is told. Differential drive has the limit in its kernel.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel
from bridge.warehouse.config import DifferentialDriveConfig, DriveConfig, HeadingGridConfig
from bridge.warehouse.feature import HELD_SLOW, Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome
from bridge.warehouse.layout import Layout
from bridge.warehouse.routes import RouteCosts

__all__ = ["SpeedLimitView", "SpeedZones", "hold_slow_robots", "route_costs", "steps_per_cell"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]

_DRIVE_UNITS: Final = 4
_DEAREST: Final = 4096


def steps_per_cell(layout: Layout, step_s: float) -> Int32:
    """(H*W,) int32, steps that a robot takes for each cell; 1 where there is no limit."""
    if layout.speed_limit_mps is None:
        return np.ones(layout.blocked.size, np.int32)
    limits = np.nan_to_num(layout.speed_limit_mps.astype(np.float64), nan=np.inf)
    return np.maximum(np.ceil(layout.cell_size_m / (limits * step_s) - 1e-6), 1.0).astype(np.int32)


def route_costs(drive: DriveConfig, layout: Layout) -> RouteCosts:
    """What ways cost the robots of a scenario: the time that they take, of which a cell without a limit is one.

    Grid: steps, those of quarter turns included where robots have a heading. Differential drive: quarters of the
    time that a cell takes at full speed; turns are left out, because a robot can drive curves.
    """
    if isinstance(drive, DifferentialDriveConfig):
        limits = np.full(layout.blocked.size, np.inf)
        if layout.speed_limit_mps is not None:
            limits = np.nan_to_num(layout.speed_limit_mps.astype(np.float64), nan=np.inf)
        slower = drive.max_speed_mps / np.minimum(limits, drive.max_speed_mps)
        return _costs(layout, RouteCosts(_DRIVE_UNITS, np.zeros(0, np.int32), halves=True), slower)
    plain = RouteCosts(1, np.zeros(0, np.int32), turn=1 if isinstance(drive, HeadingGridConfig) else 0)
    return _costs(layout, plain, steps_per_cell(layout, drive.step_s))


def _costs(layout: Layout, plain: RouteCosts, times: NDArray[np.float64] | Int32) -> RouteCosts:
    # Slower than this counts as this, so that no sum leaves the 28 bits of a route entry.
    most = min(_DEAREST, (1 << 27) // layout.blocked.size)
    cells = np.rint(np.minimum(times * plain.units, most)).astype(np.int32)
    if (cells == plain.units).all():
        return RouteCosts(1, plain.cells, plain.turn)
    return plain._replace(cells=np.maximum(cells, plain.units))


class SpeedZones(Feature):
    """Holds robots that drive from cell to cell where they may not drive a cell per step."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._steps = steps_per_cell(parts.layout, parts.step_s)
        self._left = np.zeros(parts.moves.shape, np.int32)

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._left[envs] = 0
        self._parts.fleet.held[envs] &= ~HELD_SLOW

    def before_service(self) -> None:
        """See :class:`Feature`."""
        hold_slow_robots(self._parts.fleet, self._parts.outcome, self._steps, self._left)


@lean_kernel
def hold_slow_robots(fleet: Fleet, outcome: Outcome, steps: Int32, left: Int32) -> None:
    """Hold the robots that have come into a cell that takes them longer, and count down the others.

    Args:
        fleet: ``held`` is written.
        outcome: Of the motion.
        steps: (cells,) int32, steps per cell.
        left: (E, N) int32, steps for which each robot is still held; advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            if not fleet.alive[env, robot] or outcome.leaving[env, robot]:
                left[env, robot] = 0
            elif outcome.moved_m[env, robot] > 0.0:
                left[env, robot] = steps[fleet.cell[env, robot]] - 1
            elif left[env, robot] > 0:
                left[env, robot] -= 1
            held = fleet.held[env, robot] & ~HELD_SLOW
            fleet.held[env, robot] = held | HELD_SLOW if left[env, robot] > 0 else held


class SpeedLimitView(Feature):
    """Writes the block ``speed_limit``: the limit of the robot's cell as a share of its largest speed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._at = parts.spec.roles[0].observation.slice_of("speed_limit").start
        self._shares = np.ones(parts.layout.blocked.size, np.float32)
        if len(parts.floor.speed_limit):
            drive, fastest = parts.config.fastest_drive, parts.layout.cell_size_m / parts.step_s
            if isinstance(drive, DifferentialDriveConfig):
                fastest = max(drive.max_speed_mps, drive.max_reverse_mps)
            self._shares = np.minimum(parts.floor.speed_limit / fastest, 1.0).astype(np.float32)

    def observe(self, first: int, envs: Bool, observations: NDArray[np.float32]) -> None:
        """See :class:`Feature`."""
        slots = slice(first, first + observations.shape[1])
        seen = envs[:, None] & self._parts.fleet.alive[:, slots]
        observations[seen, self._at] = self._shares[self._parts.fleet.cell[:, slots][seen]]
