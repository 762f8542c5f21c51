"""The observation block of a flat laser scanner: distances to racks, walls and robots.

Exact for the simulated geometry: blocked cells are merged into few
rectangles, and for every cell there is a list of those in range, so a beam is
cut by some seven boxes instead of being marched through cells; the outer
walls are the exit distance of the floor's rectangle. All beams of a robot are cut
by one box at a time, two beams on one line together. Then robots, which are circles
(``lidar_robots``; others: ``lidar_rectangles``), cut those few beams that can meet them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.layout import Layout
from bridge.warehouse.sensors.beams import AHEAD, BACK, INVERSE_X, INVERSE_Y, Beams, LidarPlace
from bridge.warehouse.sensors.buckets import Buckets
from bridge.warehouse.sensors.lidar_robots import Sightings, cut_by_robots
from bridge.warehouse.sensors.nearest import Nearest

__all__ = ["Walls", "make_walls", "merge_blocked", "observe_lidar"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

_PARALLEL: Final = np.float32(1e-9)
_FAR: Final = np.float32(np.inf)


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
    sightings: Sightings,
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
        sightings: Of :func:`bridge.warehouse.sensors.lidar_robots.make_sightings`.
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
        cut_by_robots(
            pose, radius, fleet.alive[env], buckets, nearest, sightings, beams, lidar, first, env, observations[env]
        )


@kernel_part
def _scan_walls(
    fleet: Fleet, pose: Pose, walls: Walls, beams: Beams, lidar: LidarPlace, env: int, robot: int, row: Float32
) -> None:
    """The scan of one robot on an empty floor."""
    x, y = pose.x[env, robot], pose.y[env, robot]
    _turn_lines(pose.cos[env, robot], pose.sin[env, robot], beams)
    _cut_by_outer_walls(walls, x, y, lidar.range_m, beams)
    cell = index(fleet.cell[env, robot])
    for place in range(index(walls.start[cell]), index(walls.start[cell + np.uint64(1)])):
        _cut_by_box(walls.boxes[index(walls.near[place])], x, y, beams)
    scale, lines = np.float32(1.0 / lidar.range_m), beams.lines
    for line in range(lines):
        row[line] = beams.fields[AHEAD + np.uint64(line)] * scale
    for line in range(len(row) - lines):
        row[lines + line] = beams.fields[BACK + np.uint64(line)] * scale


@kernel_part
def _turn_lines(cos: np.float32, sin: np.float32, beams: Beams) -> None:
    """Inverses of the directions of the lines in the floor frame; no component is exactly 0."""
    fields = beams.fields
    for number in range(beams.padded_lines):
        line = np.uint64(number)
        ux = cos * beams.cos[line] - sin * beams.sin[line]
        uy = sin * beams.cos[line] + cos * beams.sin[line]
        fields[INVERSE_X + line] = np.float32(1.0) / (_PARALLEL if abs(ux) < _PARALLEL else ux)
        fields[INVERSE_Y + line] = np.float32(1.0) / (_PARALLEL if abs(uy) < _PARALLEL else uy)


@kernel_part
def _cut_by_outer_walls(walls: Walls, x: float, y: float, range_m: float, beams: Beams) -> None:
    left, right = np.float32(-x), np.float32(walls.width_m - x)
    bottom, top = np.float32(-y), np.float32(walls.height_m - y)
    longest, fields = np.float32(range_m), beams.fields
    for number in range(beams.padded_lines):
        line = np.uint64(number)
        x1, x2 = left * fields[INVERSE_X + line], right * fields[INVERSE_X + line]
        y1, y2 = bottom * fields[INVERSE_Y + line], top * fields[INVERSE_Y + line]
        fields[AHEAD + line] = min(longest, min(max(x1, x2), max(y1, y2)))
        fields[BACK + line] = min(longest, -max(min(x1, x2), min(y1, y2)))


@kernel_part
def _cut_by_box(box: Float64, x: float, y: float, beams: Beams) -> None:
    """Slab test of one box against all lines; the robot's centre is never inside."""
    left, right = np.float32(box[0] - x), np.float32(box[2] - x)
    bottom, top = np.float32(box[1] - y), np.float32(box[3] - y)
    fields = beams.fields
    for number in range(beams.padded_lines):
        line = np.uint64(number)
        x1, x2 = left * fields[INVERSE_X + line], right * fields[INVERSE_X + line]
        y1, y2 = bottom * fields[INVERSE_Y + line], top * fields[INVERSE_Y + line]
        enter = max(min(x1, x2), min(y1, y2))
        leave = min(max(x1, x2), max(y1, y2))
        ahead = enter if enter <= leave else _FAR
        back = -leave if enter <= leave else _FAR
        # What is not in that direction is negative; its bits are those of a larger number than any distance.
        fields[AHEAD + line] = _nearer(fields[AHEAD + line], ahead)
        fields[BACK + line] = _nearer(fields[BACK + line], back)


@kernel_part
def _nearer(distance: np.float32, other: np.float32) -> np.float32:
    """The smaller one of two numbers, the first of which is not negative; a negative one does not count."""
    one, two = np.float32(distance).view(np.uint32), np.float32(other).view(np.uint32)
    return np.uint32(min(one, two)).view(np.float32)
