"""Zones of lower speed for robots that move from cell to cell, and the observation block ``speed_limit``.

A robot on the grid drives a cell per step. In a cell whose limit is lower than that it takes
``ceil(cell size / (limit * step))`` steps per cell: it shows in the cell in the first of them, and is
*held* for the others, whatever it is told. Differential drive has the limit in its kernel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel
from bridge.warehouse.config import DifferentialDriveConfig
from bridge.warehouse.feature import HELD_SLOW, Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome
from bridge.warehouse.layout import Layout

__all__ = ["SpeedLimitView", "SpeedZones", "hold_slow_robots", "steps_per_cell"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]


def steps_per_cell(layout: Layout, step_s: float) -> Int32:
    """(H*W,) int32, steps that a robot takes for each cell; 1 where there is no limit."""
    if layout.speed_limit_mps is None:
        return np.ones(layout.blocked.size, np.int32)
    limits = np.nan_to_num(layout.speed_limit_mps.astype(np.float64), nan=np.inf)
    return np.maximum(np.ceil(layout.cell_size_m / (limits * step_s) - 1e-6), 1.0).astype(np.int32)


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
            drive, fastest = parts.config.drive, parts.layout.cell_size_m / parts.step_s
            if isinstance(drive, DifferentialDriveConfig):
                fastest = max(drive.max_speed_mps, drive.max_reverse_mps)
            self._shares = np.minimum(parts.floor.speed_limit / fastest, 1.0).astype(np.float32)

    def observe(self, first: int, envs: Bool, observations: NDArray[np.float32]) -> None:
        """See :class:`Feature`."""
        slots = slice(first, first + observations.shape[1])
        seen = envs[:, None] & self._parts.fleet.alive[:, slots]
        observations[seen, self._at] = self._shares[self._parts.fleet.cell[:, slots][seen]]
