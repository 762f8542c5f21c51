"""Whether a robot's footprint, disc or rectangle, overlaps racks, walls or other robots at a place; touching is none.

The test is exact: against the boxes of the blocked cells, and against the footprints of the robots at their
present places. Without rectangles (``sides`` is None) nothing about them is compiled.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.drives.cell_lists import CellLists
from bridge.warehouse.drives.drive_limits import Sides
from bridge.warehouse.drives.rectangles import disc_meets_rectangle, rectangle_meets_rack, rectangles_meet
from bridge.warehouse.fleet import Pose
from bridge.warehouse.floor import Floor, cells_between

__all__ = ["TOLERANCE_M", "count_touched", "disc_meets_rack", "footprint_meets_rack", "footprints_meet"]

Float64 = NDArray[np.float64]

TOLERANCE_M: Final = 1e-9
"""Overlap in m that is put down to rounding."""


@kernel_part
def disc_meets_rack(floor: Floor, x: float, y: float, radius: float) -> bool:
    """Whether a disc overlaps a blocked cell or the outside of the floor."""
    size = floor.cell_size_m
    width_m, height_m = floor.width * size, floor.height * size
    if x < radius or y < radius or x > width_m - radius or y > height_m - radius:
        return True
    top, bottom = int((height_m - y - radius) * floor.cells_per_m), int((height_m - y + radius) * floor.cells_per_m)
    left, right = int((x - radius) * floor.cells_per_m), int((x + radius) * floor.cells_per_m)
    bottom, right = min(bottom, floor.height - 1), min(right, floor.width - 1)
    if bottom - top <= 1 and right - left <= 1:
        # Nearly always the disc lies in four free cells at most, which are soon looked at.
        blocked, upper, lower = floor.blocked, np.uint64(top * floor.width), np.uint64(bottom * floor.width)
        first, last = np.uint64(left), np.uint64(right)
        if not (blocked[upper + first] | blocked[upper + last] | blocked[lower + first] | blocked[lower + last]):
            return False
    return _disc_meets_cells(floor, x, y, radius, top, bottom, left, right)


@kernel_part
def _disc_meets_cells(
    floor: Floor, x: float, y: float, radius: float, top: int, bottom: int, left: int, right: int
) -> bool:
    """Whether a disc overlaps one of the blocked cells between these rows and columns."""
    size = floor.cell_size_m
    height_m = floor.height * size
    for row in range(top, bottom + 1):
        for column in range(left, right + 1):
            if floor.blocked[row * floor.width + column]:
                west, south = column * size, height_m - (row + 1) * size
                dx = x - min(max(x, west), west + size)
                dy = y - min(max(y, south), south + size)
                if dx * dx + dy * dy < radius * radius:
                    return True
    return False


@kernel_part
def footprint_meets_rack(
    floor: Floor, sides: Sides | None, radius: Float64, robot: int, x: float, y: float, cos: float, sin: float,
    tolerance: float,
) -> bool:  # fmt: skip
    """Whether a footprint overlaps a blocked cell or the outside of the floor, by more than a tolerance."""
    if sides is None or sides.half_length[robot] == 0.0:
        return disc_meets_rack(floor, x, y, radius[robot] - tolerance)
    half_length, half_width = sides.half_length[robot] - tolerance, sides.half_width[robot] - tolerance
    return rectangle_meets_rack(floor, x, y, cos, sin, half_length, half_width)


@kernel_part
def count_touched(
    floor: Floor,
    pose: Pose,
    widest: float,
    sides: Sides | None,
    radius: Float64,
    env: int,
    robot: int,
    x: float,
    y: float,
    cos: float,
    sin: float,
    lists: CellLists,
) -> int:
    """Number of other robots that a robot would overlap at (x, y)."""
    touched = 0
    reach = radius[robot] + widest
    top, bottom, left, right = cells_between(floor, x - reach, x + reach, y - reach, y + reach)
    for row in range(top, bottom):
        for column in range(left, right):
            other = lists.first[row * floor.width + column]
            while other >= 0:
                if other != robot and footprints_meet(pose, sides, radius, env, robot, other, x, y, cos, sin):
                    touched += 1
                other = lists.follower[other]
    return touched


@kernel_part
def footprints_meet(
    pose: Pose, sides: Sides | None, radius: Float64, env: int, robot: int, other: int, x: float, y: float, cos: float,
    sin: float,
) -> bool:  # fmt: skip
    """Whether a robot at (x, y) would overlap another one."""
    dx, dy = pose.x[env, other] - x, pose.y[env, other] - y
    reach = radius[robot] + radius[other] - TOLERANCE_M
    near = bool(dx * dx + dy * dy < reach * reach)
    if sides is None:
        return near
    return near and _figures_meet(pose, sides, radius, env, robot, other, dx, dy, cos, sin)


@lean_kernel
def _figures_meet(
    pose: Pose, sides: Sides, radius: Float64, env: int, robot: int, other: int, dx: float, dy: float,
    cos: float, sin: float,
) -> bool:  # fmt: skip
    """Whether two footprints overlap whose discs around them do."""
    length, width = sides.half_length[robot], sides.half_width[robot]
    other_length, other_width = sides.half_length[other], sides.half_width[other]
    other_cos, other_sin = float(pose.cos[env, other]), float(pose.sin[env, other])
    if length == 0.0 and other_length == 0.0:
        return True
    if length == 0.0:
        disc = radius[robot] - TOLERANCE_M
        return disc_meets_rectangle(-dx, -dy, disc, other_cos, other_sin, other_length, other_width)
    if other_length == 0.0:
        return disc_meets_rectangle(dx, dy, radius[other] - TOLERANCE_M, cos, sin, length, width)
    length, width = length - TOLERANCE_M, width - TOLERANCE_M
    return rectangles_meet(dx, dy, cos, sin, length, width, other_cos, other_sin, other_length, other_width)
