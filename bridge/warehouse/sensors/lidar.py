"""The observation block of a flat laser scanner: distances to racks, walls and robots.

Exact for the simulated geometry: blocked cells are merged into few
rectangles, and for every cell there is a list of those in range, so a beam is
cut by some seven boxes instead of being marched through cells; the outer
walls are the exit distance of the floor's rectangle, robots are circles (others:
``lidar_rectangles``). All beams of a robot are cut by one box at a time, and by
each circle those few that can meet it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.layout import Layout
from bridge.warehouse.sensors.buckets import Buckets, place_in_runs, runs_near
from bridge.warehouse.sensors.nearest import NOBODY, Nearest

__all__ = ["Beams", "LidarPlace", "Walls", "make_beams", "make_walls", "merge_blocked", "observe_lidar"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

_PARALLEL: Final = np.float32(1e-9)
_QUARTER: Final = np.float32(0.5 * np.pi)
_HALF: Final = np.float32(np.pi)
# Fitted to the arc tangent on [0, 1] with the least largest error, 8e-5.
_ARC_1, _ARC_3 = np.float32(0.99921381), np.float32(-0.32117489)
_ARC_5, _ARC_7 = np.float32(0.14626427), np.float32(-0.03898638)
# x + 0.5708 x^3 is at least the arc sine of x, and equal at 0 and 1.
_ARC_SINE: Final = np.float32(0.5708)
_ANGLE_ERROR: Final = np.float32(1e-3)
_VECTOR: Final = 8
_FAR: Final = np.float32(np.inf)


class LidarPlace(NamedTuple):
    """Where the block lies in an observation, its number of beams, and its range."""

    at: int
    beams: int
    range_m: float


class Walls(NamedTuple):
    """What beams hit besides robots.

    Attributes:
        width_m: Width of the floor.
        height_m: Height of the floor.
        boxes: (B, 4) float64, left, bottom, right, top in m.
        start: (cells + 1,) int32, where each cell's list begins in ``near``.
        near: int32, boxes in range of each cell, cell after cell.
    """

    width_m: float
    height_m: float
    boxes: Float64
    start: Int32
    near: Int32


class Beams(NamedTuple):
    """Beams of one robot, padded to whole vectors of the machine; P beams with the padding.

    Attributes:
        cos: (P,) float32, direction in the body frame, counter-clockwise from straight ahead.
        sin: (P,) float32.
        rays: (4, P) float32, scratch: direction in the floor frame, and its inverse.
        hits: (2, P) float32, scratch: distance of the nearest hit in m, before and after a box.
    """

    cos: Float32
    sin: Float32
    rays: Float32
    hits: Float32


def make_beams(number: int) -> Beams:
    """Evenly spread beams; those of the padding repeat the first ones and are never shown."""
    padded = -(-number // _VECTOR) * _VECTOR
    angles = 2.0 * np.pi * np.arange(padded) / number
    return Beams(
        np.cos(angles).astype(np.float32),
        np.sin(angles).astype(np.float32),
        np.zeros((4, padded), np.float32),
        np.zeros((2, padded), np.float32),
    )


def merge_blocked(blocked: NDArray[np.bool_]) -> Int32:
    """Cover all blocked cells by disjoint rectangles, greedily: as wide as possible, then as high as possible.

    Returns:
        (B, 4) int32, first row, first column, row behind the last, column behind the last.
    """
    left_over = blocked.copy()
    boxes = []
    for row, column in np.argwhere(blocked):
        if not left_over[row, column]:
            continue
        free = np.flatnonzero(~left_over[row, column:])
        width = int(free[0]) if len(free) else blocked.shape[1] - column
        bottom = row + 1
        while bottom < blocked.shape[0] and left_over[bottom, column : column + width].all():
            bottom += 1
        left_over[row:bottom, column : column + width] = False
        boxes.append((row, column, bottom, column + width))
    return np.array(boxes, np.int32).reshape(-1, 4)


def make_walls(layout: Layout, range_m: float) -> Walls:
    """Rectangles of a floor, and the list of those in range of any point of each cell."""
    size, height, width = layout.cell_size_m, layout.height, layout.width
    merged = merge_blocked(layout.blocked)
    reach = int(np.ceil(range_m / size))
    cells, boxes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, (top, left, bottom, right) in enumerate(merged):
        # A square margin of whole cells around the box: no point outside it is within range.
        rows = np.arange(max(top - reach, 0), min(bottom + reach, height))
        columns = np.arange(max(left - reach, 0), min(right + reach, width))
        # Gaps between cell and box, in cells; touching cells have none.
        gap_y = np.maximum(np.maximum(top - rows - 1, rows - bottom), 0)
        gap_x = np.maximum(np.maximum(left - columns - 1, columns - right), 0)
        near = np.hypot(gap_y[:, None], gap_x[None, :]) * size <= range_m
        found = (rows[:, None] * width + columns[None, :])[near]
        cells.append(found)
        boxes.append(np.full(len(found), number))
    cell, box = np.concatenate(cells), np.concatenate(boxes)
    order = np.argsort(cell, kind="stable")
    start = np.zeros(height * width + 1, np.int32)
    np.cumsum(np.bincount(cell, minlength=height * width), out=start[1:])
    metres = np.stack([merged[:, 1], height - merged[:, 2], merged[:, 3], height - merged[:, 0]], axis=1) * size
    return Walls(width * size, height * size, metres.astype(np.float64), start, box[order].astype(np.int32))


@lean_kernel
def observe_lidar(
    fleet: Fleet,
    pose: Pose,
    radius: Float64,
    walls: Walls,
    buckets: Buckets,
    nearest: Nearest,
    beams: Beams,
    lidar: LidarPlace,
    first: int,
    envs: NDArray[np.bool_],
    observations: Float32,
) -> None:
    """Write the block: distance from the robot's centre along each beam, divided by the range; 1 for nothing.

    Args:
        fleet: ``cell`` and ``alive`` of robots.
        pose: Where robots are.
        radius: (N,) float64, footprints in m.
        walls: Racks and walls.
        buckets: Robots by place; the edge is at least the range plus the largest radius.
        nearest: Found by ``find_nearest`` within the range plus the largest radius.
        beams: Of :func:`make_beams`.
        lidar: Where and what.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written.
    """
    # First all scans of racks and walls, then all of robots: as one they keep the processor waiting for itself.
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for slot in range(observations.shape[1]):
            robot = index(first + slot)
            if fleet.alive[env, robot]:
                row = observations[env, slot, lidar.at : lidar.at + lidar.beams]
                _scan_walls(fleet, pose, walls, beams, lidar, env, robot, row)
        for slot in range(observations.shape[1]):
            robot = index(first + slot)
            if fleet.alive[env, robot]:
                _scan_robots(buckets, nearest, pose, radius, env, robot, lidar, beams, observations[env, slot])


@kernel_part
def _scan_walls(
    fleet: Fleet, pose: Pose, walls: Walls, beams: Beams, lidar: LidarPlace, env: int, robot: int, row: Float32
) -> None:
    """The scan of one robot on an empty floor."""
    x, y = pose.x[env, robot], pose.y[env, robot]
    rays = beams.rays
    _turn_beams(pose.cos[env, robot], pose.sin[env, robot], beams)
    before, hits = beams.hits[1], beams.hits[0]
    _cut_by_outer_walls(walls, x, y, lidar.range_m, rays, hits)
    cell = index(fleet.cell[env, robot])
    for place in range(index(walls.start[cell]), index(walls.start[cell + np.uint64(1)])):
        before, hits = hits, before
        _cut_by_box(walls.boxes[index(walls.near[place])], x, y, rays, before, hits)
    scale = np.float32(1.0 / lidar.range_m)
    for beam in range(len(row)):
        row[beam] = hits[beam] * scale


@kernel_part
def _turn_beams(cos: np.float32, sin: np.float32, beams: Beams) -> None:
    """Directions of the beams in the floor frame, and their inverses; no component is exactly 0."""
    rays = beams.rays
    for beam in range(len(beams.cos)):
        ux = cos * beams.cos[beam] - sin * beams.sin[beam]
        uy = sin * beams.cos[beam] + cos * beams.sin[beam]
        ux = _PARALLEL if abs(ux) < _PARALLEL else ux
        uy = _PARALLEL if abs(uy) < _PARALLEL else uy
        rays[0, beam] = ux
        rays[1, beam] = uy
        rays[2, beam] = np.float32(1.0) / ux
        rays[3, beam] = np.float32(1.0) / uy


@kernel_part
def _cut_by_outer_walls(walls: Walls, x: float, y: float, range_m: float, rays: Float32, hits: Float32) -> None:
    left, right = np.float32(-x), np.float32(walls.width_m - x)
    bottom, top = np.float32(-y), np.float32(walls.height_m - y)
    longest = np.float32(range_m)
    for beam in range(len(hits)):
        along_x = max(left * rays[2, beam], right * rays[2, beam])
        along_y = max(bottom * rays[3, beam], top * rays[3, beam])
        hits[beam] = min(longest, min(along_x, along_y))


@kernel_part
def _cut_by_box(box: Float64, x: float, y: float, rays: Float32, before: Float32, hits: Float32) -> None:
    """Slab test of one box against all beams; the robot's centre is never inside."""
    left, right = np.float32(box[0] - x), np.float32(box[2] - x)
    bottom, top = np.float32(box[1] - y), np.float32(box[3] - y)
    for beam in range(len(hits)):
        x1, x2 = left * rays[2, beam], right * rays[2, beam]
        y1, y2 = bottom * rays[3, beam], top * rays[3, beam]
        enter = max(min(x1, x2), min(y1, y2))
        leave = min(max(x1, x2), max(y1, y2))
        # From one array to another: in one, the compiler would store under a condition, which is much slower.
        distance = enter if (enter <= leave) & (enter >= np.float32(0.0)) else _FAR
        hits[beam] = min(before[beam], distance)


@kernel_part
def _scan_robots(
    buckets: Buckets,
    nearest: Nearest,
    pose: Pose,
    radius: Float64,
    env: int,
    robot: int,
    lidar: LidarPlace,
    beams: Beams,
    row: Float32,
) -> None:
    """Cut those beams of a robot's observation that meet other robots."""
    keys = nearest.keys[env, robot]
    if keys[len(keys) - 1] == NOBODY:
        # All that are in range are listed.
        place = 0
        while keys[place] != NOBODY:
            _cut_by_robot(pose, radius, env, robot, index(keys[place] & nearest.slot_bits), lidar, beams, row)
            place += 1
        return
    runs = runs_near(buckets, env, pose.x[env, robot], pose.y[env, robot])
    for candidate in range(runs.number):
        other = index(buckets.robot[env, place_in_runs(runs, candidate)])
        dx, dy = pose.x[env, other] - pose.x[env, robot], pose.y[env, other] - pose.y[env, robot]
        if other != robot and dx * dx + dy * dy < nearest.reach:
            _cut_by_robot(pose, radius, env, robot, other, lidar, beams, row)


@kernel_part
def _cut_by_robot(
    pose: Pose, radius: Float64, env: int, robot: int, other: int, lidar: LidarPlace, beams: Beams, row: Float32
) -> None:
    """Cut the beams that meet one other robot, which is seen in the body frame: there the beams do not change."""
    dx = np.float32(pose.x[env, other]) - np.float32(pose.x[env, robot])
    dy = np.float32(pose.y[env, other]) - np.float32(pose.y[env, robot])
    cos, sin, size = pose.cos[env, robot], pose.sin[env, robot], np.float32(radius[other])
    ahead, aside = cos * dx + sin * dy, cos * dy - sin * dx
    begin, end = _beams_towards(ahead, aside, size, lidar.beams)
    # Most are met by no more than two; one beam too many costs less than a branch.
    _cut_by_circle(ahead, aside, size, begin, beams, lidar, row)
    _cut_by_circle(ahead, aside, size, begin + 1, beams, lidar, row)
    for beam in range(begin + 2, end + 1):
        _cut_by_circle(ahead, aside, size, beam, beams, lidar, row)


@kernel_part
def _beams_towards(ahead: np.float32, aside: np.float32, radius: np.float32, num_beams: int) -> tuple[int, int]:
    """First and last beam that can meet a circle, counted from straight ahead to both sides.

    Never too few, and at most one too many at either side: the angles are estimated by polynomials,
    the arc tangent within 1e-4, the arc sine from above.
    """
    per_rad = np.float32(num_beams / (2.0 * np.pi))
    far, near = max(abs(ahead), abs(aside)), min(abs(ahead), abs(aside))
    a = near / max(far, _PARALLEL)
    s = a * a
    angle = a * (_ARC_1 + s * (_ARC_3 + s * (_ARC_5 + s * _ARC_7)))
    angle = _QUARTER - angle if abs(aside) > abs(ahead) else angle
    angle = _HALF - angle if ahead < np.float32(0.0) else angle
    angle = -angle if aside < np.float32(0.0) else angle
    ratio = radius / max(np.sqrt(ahead * ahead + aside * aside), radius)
    half = ratio + _ARC_SINE * ratio * ratio * ratio + _ANGLE_ERROR
    return int(np.ceil((angle - half) * per_rad)), int(np.floor((angle + half) * per_rad))


@kernel_part
def _cut_by_circle(
    ahead: np.float32, aside: np.float32, radius: np.float32, beam: int, beams: Beams, lidar: LidarPlace, row: Float32
) -> None:
    """One circle against one beam, counted from straight ahead to both sides; the robot's centre is never inside."""
    number = lidar.beams
    which = np.uint64(beam + number if beam < 0 else beam - number if beam >= number else beam)
    along = ahead * beams.cos[which] + aside * beams.sin[which]
    # Squared distance of the centre from the beam, free of the cancellation of |d|^2 - along^2.
    across = ahead * beams.sin[which] - aside * beams.cos[which]
    inside = radius * radius - across * across
    distance = (along - np.sqrt(max(inside, np.float32(0.0)))) * np.float32(1.0 / lidar.range_m)
    at = np.uint64(lidar.at) + which
    # One comparison, which a select can do; two would be a branch.
    row[at] = min(row[at], distance if min(inside, along) >= np.float32(0.0) else _FAR)
