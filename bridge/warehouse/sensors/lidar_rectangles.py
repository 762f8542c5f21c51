"""What a laser scanner sees of robots with rectangular footprints; a fleet of discs alone does without.

``observe_lidar`` is given the rectangles as points at their centres (:func:`points_for_rectangles`), which the beams
cannot reach: :func:`cut_scans_by_rectangles` shortens them where they enter the rectangle around.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.fleet import Pose
from bridge.warehouse.sensors.beams import Beams, LidarPlace
from bridge.warehouse.sensors.buckets import Buckets, place_in_runs, runs_near

__all__ = ["Found", "Rectangles", "cut_scans_by_rectangles", "make_rectangles", "points_for_rectangles"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

_POINT_M: Final = 1e-6
_PARALLEL: Final = np.float32(1e-9)
_FAR: Final = np.float32(np.inf)


class Found(NamedTuple):
    """Scratch: rectangles in range of one robot, N at most.

    Attributes:
        dx: (N + 1,) float32, m, centre relative to the robot that looks.
        dy: (N + 1,) float32, m, likewise.
        robot: (N + 1,) int32, whose it is.
    """

    dx: Float32
    dy: Float32
    robot: Int32


class Rectangles(NamedTuple):
    """Rectangular footprints.

    Attributes:
        half_length: (N,) float32, along the heading in m, 0 for discs.
        half_width: (N,) float32, across it, likewise.
        radius: (N,) float32, of the discs around them, likewise.
        found: Scratch.
    """

    half_length: Float32
    half_width: Float32
    radius: Float32
    found: Found


def make_rectangles(half_length: Float64, half_width: Float64) -> Rectangles | None:
    """The footprints of a fleet as ``fleet.half_sides`` gives them; None if all are discs."""
    if len(half_length) == 0:
        return None
    sides = half_length.astype(np.float32), half_width.astype(np.float32)
    robots = np.zeros(len(half_length) + 1, np.float32)
    return Rectangles(*sides, np.hypot(*sides), Found(robots, robots.copy(), robots.astype(np.int32)))


def points_for_rectangles(radius: Float64, rectangles: Rectangles) -> Float64:
    """(N,) float64, radii in m for ``observe_lidar``: those of discs as they are, a micrometre for rectangles."""
    return np.where(rectangles.half_length > 0.0, _POINT_M, radius)


@lean_kernel
def cut_scans_by_rectangles(
    alive: Bool,
    pose: Pose,
    rectangles: Rectangles,
    buckets: Buckets,
    beams: Beams,
    lidar: LidarPlace,
    first: int,
    envs: Bool,
    observations: Float32,
) -> None:
    """Shorten the beams of one role, as ``observe_lidar`` has written them, where they enter other robots' rectangles.

    Args:
        alive: (E, N) bool, robots on the floor.
        pose: Where robots are.
        rectangles: Of :func:`make_rectangles`.
        buckets: Robots by place; the edge is at least the range plus the largest radius.
        beams: Of ``make_beams``.
        lidar: Where and what.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, advanced.
    """
    for env in range(len(envs)):
        for slot in range(observations.shape[1]):
            if envs[env] and alive[env, first + slot]:
                row = observations[env, slot, lidar.at : lidar.at + lidar.beams]
                _cut_scan(pose, rectangles, buckets, beams, lidar.range_m, env, first + slot, row)


@kernel_part
def _cut_scan(
    pose: Pose,
    rectangles: Rectangles,
    buckets: Buckets,
    beams: Beams,
    range_m: float,
    env: int,
    robot: int,
    row: Float32,
) -> None:
    """The scan of one robot."""
    found = rectangles.found
    num_found = _find_rectangles(pose, rectangles, buckets, found, range_m, env, robot)
    before, hits = beams.hits[1], beams.hits[0]
    for beam in range(len(row)):
        hits[beam] = row[beam]
    cos, sin = pose.cos[env, robot], pose.sin[env, robot]
    # Lengths as shares of the range, as distances are: what is not shortened keeps all its bits.
    per_m = np.float32(1.0 / range_m)
    for index in range(num_found):
        other = found.robot[index]
        dx, dy = found.dx[index] * per_m, found.dy[index] * per_m
        other_cos, other_sin = pose.cos[env, other], pose.sin[env, other]
        before, hits = hits, before
        _cut_by_rectangle(
            -dx * other_cos - dy * other_sin,
            dx * other_sin - dy * other_cos,
            cos * other_cos + sin * other_sin,
            sin * other_cos - cos * other_sin,
            rectangles.half_length[other] * per_m,
            rectangles.half_width[other] * per_m,
            beams,
            before,
            hits,
        )
    for beam in range(len(row)):
        row[beam] = hits[beam]


@kernel_part
def _find_rectangles(
    pose: Pose, rectangles: Rectangles, buckets: Buckets, found: Found, range_m: float, env: int, robot: int
) -> int:
    """Write the rectangles in range of a robot, other than its own; returns their number."""
    x, y = pose.x[env, robot], pose.y[env, robot]
    runs = runs_near(buckets, env, x, y)
    number = np.uint32(0)
    for candidate in range(runs.number):
        place = place_in_runs(runs, candidate)
        other = buckets.robot[env, place]
        dx, dy = buckets.x[env, place] - np.float32(x), buckets.y[env, place] - np.float32(y)
        reach = np.float32(range_m) + rectangles.radius[other]
        # Written in any case, and kept by counting on: whether a robot is in range is a coin toss.
        found.dx[number] = dx
        found.dy[number] = dy
        found.robot[number] = other
        is_rectangle = rectangles.half_length[other] > np.float32(0.0)
        number += np.uint32(is_rectangle & (other != robot) & (dx * dx + dy * dy < reach * reach))
    return int(number)


@kernel_part
def _cut_by_rectangle(
    ahead: np.float32,
    aside: np.float32,
    cos: np.float32,
    sin: np.float32,
    half_length: np.float32,
    half_width: np.float32,
    beams: Beams,
    before: Float32,
    hits: Float32,
) -> None:
    """Slab test of one rectangle against all beams, in its own frame; the robot that looks is never inside.

    Args:
        ahead: Where the robot is that looks, along the rectangle, as a share of the range.
        aside: Across it, to the left.
        cos: Of its heading, from that of the rectangle.
        sin: Likewise.
        half_length: Of the rectangle, as a share of the range.
        half_width: Likewise.
        beams: In the frame of the robot that looks.
        before: (P,) float32, distances as shares of the range.
        hits: (P,) float32, those distances shortened; written.
    """
    front, rear, left, right = half_length - ahead, -half_length - ahead, half_width - aside, -half_width - aside
    for beam in range(len(hits)):
        ux = cos * beams.cos[beam] - sin * beams.sin[beam]
        uy = sin * beams.cos[beam] + cos * beams.sin[beam]
        ux = _PARALLEL if abs(ux) < _PARALLEL else ux
        uy = _PARALLEL if abs(uy) < _PARALLEL else uy
        per_x, per_y = np.float32(1.0) / ux, np.float32(1.0) / uy
        x1, x2, y1, y2 = front * per_x, rear * per_x, left * per_y, right * per_y
        enter = max(min(x1, x2), min(y1, y2))
        leave = min(max(x1, x2), max(y1, y2))
        distance = enter if (enter <= leave) & (enter >= np.float32(0.0)) else _FAR
        # From one array to another: in one, the compiler would store under a condition, which is much slower.
        hits[beam] = min(before[beam], distance)
