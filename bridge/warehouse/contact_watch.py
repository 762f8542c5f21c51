"""Protective stops after a refused motion, and near misses.

Contact rule ``stop``: motions that would touch are refused as under ``block``,
and a robot whose motion was refused stands for ``stop_s``, whatever it is told.

A robot is in a near miss while the gap between its footprint and another
robot's is smaller than ``near_miss_m``; it counts once, until the gap is larger
again. A robot is compared with those around it, in rings of cells, until none that is further
away could matter: the cost per robot does not grow with the fleet at equal density.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.drives.cell_lists import CellLists, make_cell_lists
from bridge.warehouse.drives.rectangles import rectangle_distance
from bridge.warehouse.durations import steps_of
from bridge.warehouse.feature import HELD_STOPPED, Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome, Pose, half_sides
from bridge.warehouse.floor import Floor

__all__ = [
    "NEAR_MISS_METRICS",
    "STOP_METRICS",
    "Figures",
    "NearMisses",
    "ProtectiveStops",
    "find_near_misses",
    "make_figures",
    "stop_robots",
]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

STOP_METRICS: Final = (
    MetricSpec("protective_stops", "times that a robot was stopped because its motion was refused", False),
    MetricSpec("stopped_s", "time that robots stood because of it, in s", False),
)
NEAR_MISS_METRICS: Final = (
    MetricSpec("near_misses", "times that a robot came nearer to another one than contact.near_miss_m", False),
    MetricSpec("min_gap_m", "smallest gap between the footprints of two robots in m", True),
)


class ProtectiveStops(Feature):
    """Stops robots whose motion was refused."""

    def __init__(self, parts: Parts, stop_s: float) -> None:
        self._parts = parts
        self._steps = max(steps_of(stop_s, parts.step_s), 1)
        self._left = np.zeros(parts.fleet.cell.shape, np.int32)
        self._sums = np.zeros((len(parts.steps), 2))
        self._self_at = parts.column("self", "stopped")

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._left[envs] = 0
        self._parts.fleet.held[envs] &= ~HELD_STOPPED
        self.clear_figures(envs)

    def before_service(self) -> None:
        """See :class:`Feature`."""
        stop_robots(self._parts.fleet, self._parts.outcome, self._steps, self._left, self._sums)

    def observe(self, first: int, envs: Bool, observations: NDArray[np.float32]) -> None:
        """See :class:`Feature`."""
        if self._self_at >= 0:
            # (E, N) -> (E', A)
            observations[envs, :, self._self_at] = self._left[envs, first : first + observations.shape[1]] > 0

    def clear_figures(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._sums[envs] = 0.0

    def figures(self, envs: Bool) -> Float64:
        """See :class:`Feature`; in the order of ``STOP_METRICS``."""
        values: Float64 = self._sums[envs] * np.array([1.0, self._parts.step_s])
        return values


class NearMisses(Feature):
    """Measures how near robots come to each other."""

    def __init__(self, parts: Parts, margin_m: float) -> None:
        self._parts = parts
        self._margin_m = margin_m
        self._figures_of_robots = make_figures(parts.config, parts.traits.radius_m)
        self._lists = make_cell_lists(parts.layout.blocked.size, parts.config.num_robots)
        self._near = np.zeros(parts.fleet.cell.shape, np.bool_)
        self._count = np.zeros(len(parts.steps), np.int64)
        self._smallest = np.zeros(len(parts.steps))

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._near[envs] = False
        self.clear_figures(envs)

    def before_service(self) -> None:
        """See :class:`Feature`."""
        parts = self._parts
        find_near_misses(
            parts.floor,
            parts.fleet,
            parts.pose,
            self._figures_of_robots,
            self._margin_m,
            self._lists,
            self._near,
            self._count,
            self._smallest,
        )

    def clear_figures(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._count[envs] = 0
        self._smallest[envs] = np.inf

    def figures(self, envs: Bool) -> Float64:
        """See :class:`Feature`; in the order of ``NEAR_MISS_METRICS``; the gap of a robot that is alone is infinite."""
        return np.stack([self._count[envs], self._smallest[envs]], axis=1)


@lean_kernel
def stop_robots(fleet: Fleet, outcome: Outcome, stop_steps: int, left: Int32, sums: Float64) -> None:
    """Count down the robots that are stopped, and stop those whose motion was refused.

    Args:
        fleet: ``held`` is written.
        outcome: ``refused`` and ``leaving`` of the step.
        stop_steps: Steps of a stop.
        left: (E, N) int32, steps that each robot still stands; advanced.
        sums: (E, 2) float64, stops and steps stood; advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            if not fleet.alive[env, robot] or outcome.leaving[env, robot]:
                left[env, robot] = 0
            elif left[env, robot] > 0:
                left[env, robot] -= 1
                sums[env, 1] += 1.0
            elif outcome.refused[env, robot]:
                left[env, robot] = stop_steps
                sums[env, 0] += 1.0
            held = fleet.held[env, robot] & ~HELD_STOPPED
            fleet.held[env, robot] = held | HELD_STOPPED if left[env, robot] > 0 else held


class Figures(NamedTuple):
    """Footprints of the robots.

    Attributes:
        radius: (N,) float64, discs around the footprints in m.
        half_length: (N,) float64, of rectangles in m, 0 for discs; empty if there are none.
        half_width: Likewise.
    """

    radius: Float64
    half_length: Float64
    half_width: Float64


def make_figures(config: WarehouseConfig, radius_m: Float64) -> Figures:
    """The footprints of a scenario, whose discs around them have ``radius_m``: (N,) float64."""
    return Figures(radius_m, *half_sides(config.fleet))


@lean_kernel
def find_near_misses(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    figures: Figures,
    margin_m: float,
    lists: CellLists,
    near: Bool,
    count: NDArray[np.int64],
    smallest: Float64,
) -> None:
    """Look for the robots around every robot on the floor.

    Args:
        floor: The floor plan.
        fleet: Who is there.
        pose: Where.
        figures: Of :func:`make_figures`.
        margin_m: Gap below which two robots are in a near miss.
        lists: Of ``make_cell_lists``.
        near: (E, N) bool, robots that are in one; advanced.
        count: (E,) int64, advanced by the robots that came into one.
        smallest: (E,) float64, smallest gap so far; advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    first, follower = lists.first, lists.follower
    widest = 0.0
    for robot in range(num_robots):
        widest = max(widest, figures.radius[robot])
    for env in range(num_envs):
        for robot in range(num_robots):
            if fleet.alive[env, robot]:
                cell = fleet.cell[env, robot]
                follower[robot] = first[cell]
                first[cell] = robot
        for robot in range(num_robots):
            gap = np.inf
            if fleet.alive[env, robot]:
                gap = _nearest_gap(floor, fleet, pose, figures, lists, env, robot, widest, max(margin_m, smallest[env]))
            is_near = gap < margin_m
            count[env] += is_near and not near[env, robot]
            near[env, robot] = is_near
            smallest[env] = min(smallest[env], gap)
        for robot in range(num_robots):
            first[fleet.cell[env, robot]] = -1


@kernel_part
def _nearest_gap(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    figures: Figures,
    lists: CellLists,
    env: int,
    robot: int,
    widest: float,
    most: float,
) -> float:
    """Gap to the nearest robot; if there is none below ``most``, any number that is not smaller."""
    row, column = fleet.cell[env, robot] // floor.width, fleet.cell[env, robot] % floor.width
    gap = np.inf
    for ring in range(max(floor.width, floor.height)):
        # No centre in this ring is nearer than this.
        if (ring - 1) * floor.cell_size_m - figures.radius[robot] - widest >= min(gap, most):
            break
        for near_row in range(max(row - ring, 0), min(row + ring + 1, floor.height)):
            stride = 1 if near_row == row - ring or near_row == row + ring else max(2 * ring, 1)
            for near_column in range(column - ring, column + ring + 1, stride):
                if 0 <= near_column < floor.width:
                    other = lists.first[near_row * floor.width + near_column]
                    while other >= 0:
                        if other != robot:
                            gap = min(gap, _gap(pose, figures, env, robot, other))
                        other = lists.follower[other]
    return gap


@kernel_part
def _gap(pose: Pose, figures: Figures, env: int, robot: int, other: int) -> float:
    """Gap between the footprints of two robots."""
    dx = pose.x[env, other] - pose.x[env, robot]
    dy = pose.y[env, other] - pose.y[env, robot]
    if len(figures.half_length) == 0:
        return float(np.sqrt(dx * dx + dy * dy) - figures.radius[robot] - figures.radius[other])
    length, width = figures.half_length[robot], figures.half_width[robot]
    other_length, other_width = figures.half_length[other], figures.half_width[other]
    cos, sin = float(pose.cos[env, robot]), float(pose.sin[env, robot])
    other_cos, other_sin = float(pose.cos[env, other]), float(pose.sin[env, other])
    apart = rectangle_distance(dx, dy, cos, sin, length, width, other_cos, other_sin, other_length, other_width)
    rounded = figures.radius[robot] if length == 0.0 else 0.0
    other_rounded = figures.radius[other] if other_length == 0.0 else 0.0
    return float(apart - rounded - other_rounded)
