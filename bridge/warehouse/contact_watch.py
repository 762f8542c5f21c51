"""Protective stops after a refused motion, and near misses.

Contact rule ``stop``: motions that would touch are refused as under ``block``,
and a robot whose motion was refused stands for ``stop_s``, whatever it is told.

A robot is in a near miss while the gap between its footprint and another
robot's is smaller than ``near_miss_m``; it counts once, until the gap is larger
again. All pairs are compared: the cost grows with the square of the fleet.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.feature import HELD_STOPPED, Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome, Pose

__all__ = ["NEAR_MISS_METRICS", "STOP_METRICS", "NearMisses", "ProtectiveStops", "find_near_misses", "stop_robots"]

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
        self._steps = int(np.ceil(stop_s / parts.step_s - 1e-9))
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
        radius_m = parts.traits.radius_m
        find_near_misses(parts.fleet, parts.pose, radius_m, self._margin_m, self._near, self._count, self._smallest)

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


@lean_kernel
def find_near_misses(
    fleet: Fleet,
    pose: Pose,
    radius_m: Float64,
    margin_m: float,
    near: Bool,
    count: NDArray[np.int64],
    smallest: Float64,
) -> None:
    """Compare all pairs of robots on the floor.

    Args:
        fleet: Who is there.
        pose: Where.
        radius_m: (N,) float64, footprints.
        margin_m: Gap below which two robots are in a near miss.
        near: (E, N) bool, robots that are in one; advanced.
        count: (E,) int64, advanced by the robots that came into one.
        smallest: (E,) float64, smallest gap so far; advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            gap = np.inf
            if fleet.alive[env, robot]:
                for other in range(num_robots):
                    if other != robot and fleet.alive[env, other]:
                        dx = pose.x[env, other] - pose.x[env, robot]
                        dy = pose.y[env, other] - pose.y[env, robot]
                        gap = min(gap, np.sqrt(dx * dx + dy * dy) - radius_m[robot] - radius_m[other])
            is_near = gap < margin_m
            count[env] += is_near and not near[env, robot]
            near[env, robot] = is_near
            smallest[env] = min(smallest[env], gap)
