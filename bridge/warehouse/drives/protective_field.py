"""How far a robot can drive straight on before it touches something, and how fast it may be to stop in time.

The strip that a robot sweeps when it drives straight on, ahead or back, is
measured up to the nearest rack, wall or robot, as by a laser scanner that
never errs: exactly, but that another robot with a rectangular footprint counts
as the disc around it, whichever way it may turn.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.drives.drive_limits import Sides
from bridge.warehouse.fleet import Pose
from bridge.warehouse.floor import Floor, cells_between

__all__ = ["clear_way", "safe_speed"]

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

# What a robot touches lies beside its strip, not in it.
_SLACK_M: Final = 1e-6


@lean_kernel
def safe_speed(clear_m: float, deceleration: float, step_s: float, lag_s: float) -> float:
    """Largest speed in m/s for the next physics step from which a robot can still stop within a way.

    It solves ``v^2 / (2 d) + v * (dt / 2 + lag) + d * dt^2 / 8 = clear``: braking that begins with the step after it
    at the latest, in steps of ``d * dt``; a first-order lag adds less than ``v * lag``.

    Args:
        clear_m: The way in m.
        deceleration: Braking d in m/s2.
        step_s: Physics step dt in s.
        lag_s: Time constant of the drive in s.
    """
    left = clear_m - deceleration * step_s * step_s / 8.0
    if left <= 0.0:
        return 0.0
    delay = 0.5 * step_s + lag_s
    return float(deceleration * (np.sqrt(delay * delay + 2.0 * left / deceleration) - delay))


@lean_kernel
def clear_way(
    floor: Floor,
    pose: Pose,
    radius: Float64,
    sides: Sides | None,
    first: Int32,
    follower: Int32,
    env: int,
    robot: int,
    backwards: bool,
    reach_m: float,
    widest_m: float,
    deceleration: float,
    lag_s: float,
) -> float:
    """Way in m that a robot has straight on, less some micrometres; ``reach_m`` if there is nothing within it.

    Args:
        floor: The floor plan.
        pose: Where robots are.
        radius: (N,) float64, discs around the footprints in m.
        sides: Of rectangles; None if there are none.
        first: Robots by cell, see ``cell_lists.CellLists``.
        follower: Likewise.
        env: Environment.
        robot: Robot.
        backwards: It drives backwards.
        reach_m: How far to look.
        widest_m: Largest of ``radius``.
        deceleration: Braking in m/s2 of a robot that comes the other way: its way to a stop is not free.
        lag_s: Time constant of its drive in s.
    """
    cos, sin = float(pose.cos[env, robot]), float(pose.sin[env, robot])
    if backwards:
        cos, sin = -cos, -sin
    is_disc, half, front = True, radius[robot], 0.0
    if sides is not None and sides.half_length[robot] > 0.0:
        is_disc, half, front = False, sides.half_width[robot], sides.half_length[robot]
    x, y = pose.x[env, robot], pose.y[env, robot]
    clear = min(reach_m, _way_to_walls(floor, x, y, cos, sin, half - _SLACK_M, front, is_disc))
    size = floor.cell_size_m
    around = radius[robot] + widest_m
    low_x, high_x = min(x, x + reach_m * cos) - around, max(x, x + reach_m * cos) + around
    low_y, high_y = min(y, y + reach_m * sin) - around, max(y, y + reach_m * sin) + around
    top, bottom, left, right = cells_between(floor, low_x, high_x, low_y, high_y)
    for row in range(top, bottom):
        for column in range(left, right):
            cell = row * floor.width + column
            if floor.blocked[cell]:
                dx, dy = (column + 0.5) * size - x, (floor.height - row - 0.5) * size - y
                if sides is None or is_disc:
                    way = _disc_to_box(dx, dy, cos, sin, 0.5 * size, half - _SLACK_M)
                else:
                    way = _strip_to_box(dx, dy, cos, sin, 0.5 * size, half - _SLACK_M) - front
                clear = min(clear, max(way, 0.0))
            other = first[cell]
            while other >= 0:
                if other != robot:
                    dx, dy = pose.x[env, other] - x, pose.y[env, other] - y
                    way = _way_to_disc(dx, dy, cos, sin, half - _SLACK_M, front, is_disc, radius[other])
                    towards = -pose.speed[env, other] * (pose.cos[env, other] * cos + pose.sin[env, other] * sin)
                    towards = max(towards, 0.0)
                    way -= towards * (0.5 * towards / deceleration + lag_s)
                    clear = min(clear, max(way, 0.0))
                other = follower[other]
    return max(clear - 2.0 * _SLACK_M, 0.0)


@lean_kernel
def _way_to_walls(
    floor: Floor, x: float, y: float, cos: float, sin: float, half: float, front: float, is_disc: bool
) -> float:
    """Way to the outside of the floor."""
    reach_x = half if is_disc else abs(cos) * front + abs(sin) * half
    reach_y = half if is_disc else abs(sin) * front + abs(cos) * half
    way = np.inf
    if abs(cos) > 1e-9:
        left_x = floor.width * floor.cell_size_m - x if cos > 0.0 else x
        way = (left_x - reach_x) / abs(cos)
    if abs(sin) > 1e-9:
        left_y = floor.height * floor.cell_size_m - y if sin > 0.0 else y
        way = min(way, (left_y - reach_y) / abs(sin))
    return max(way, 0.0)


@lean_kernel
def _way_to_disc(
    dx: float, dy: float, cos: float, sin: float, half: float, front: float, is_disc: bool, radius: float
) -> float:
    """Way until the front of a disc, or of a strip, meets a disc whose centre lies ahead; else infinite."""
    ahead, aside = dx * cos + dy * sin, abs(dy * cos - dx * sin)
    reach = radius + half if is_disc else radius
    off = aside if is_disc else max(aside - half, 0.0)
    if ahead <= 0.0 or off >= reach:
        return np.inf
    return float(ahead - np.sqrt(reach * reach - off * off) - front)


@lean_kernel
def _disc_to_box(dx: float, dy: float, cos: float, sin: float, half_box: float, radius: float) -> float:
    """Way of the centre of a disc until it meets a square around (dx, dy): the square with a rounded border."""
    way = min(
        _ray_to_box(dx, dy, cos, sin, half_box + radius, half_box),
        _ray_to_box(dx, dy, cos, sin, half_box, half_box + radius),
    )
    for right in (-half_box, half_box):
        for up in (-half_box, half_box):
            way = min(way, _way_to_disc(dx + right, dy + up, cos, sin, 0.0, 0.0, True, radius))
    return way


@lean_kernel
def _ray_to_box(dx: float, dy: float, cos: float, sin: float, half_x: float, half_y: float) -> float:
    """Way along a ray until it enters a box around (dx, dy); infinite if it does not, or comes from inside."""
    enters, leaves = -np.inf, np.inf
    for towards, gap, half in ((cos, dx, half_x), (sin, dy, half_y)):
        if abs(towards) < 1e-12:
            if abs(gap) >= half:
                return np.inf
        else:
            one, other = (gap - half) / towards, (gap + half) / towards
            enters, leaves = max(enters, min(one, other)), min(leaves, max(one, other))
    return enters if 0.0 <= enters < leaves else np.inf


@lean_kernel
def _strip_to_box(dx: float, dy: float, cos: float, sin: float, half_box: float, half: float) -> float:
    """Way from the centre of a strip of half a width to the first point of a square ahead in it; else infinite."""
    way = np.inf
    for corner in range(4):
        ahead, aside = _corner(dx, dy, cos, sin, half_box, corner)
        next_ahead, next_aside = _corner(dx, dy, cos, sin, half_box, (corner + 1) % 4)
        if abs(aside) < half and ahead > 0.0:
            way = min(way, ahead)
        for border in (-half, half):
            if (aside - border) * (next_aside - border) < 0.0:
                share = (border - aside) / (next_aside - aside)
                crossing = ahead + share * (next_ahead - ahead)
                if crossing > 0.0:
                    way = min(way, crossing)
    return way


@kernel_part
def _corner(dx: float, dy: float, cos: float, sin: float, half_box: float, corner: int) -> tuple[float, float]:
    """A corner of a square, counter-clockwise: how far ahead, and how far to the left."""
    x = dx + (half_box if corner == 0 or corner == 3 else -half_box)
    y = dy + (half_box if corner < 2 else -half_box)
    return x * cos + y * sin, y * cos - x * sin
