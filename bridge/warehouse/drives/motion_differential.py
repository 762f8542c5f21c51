"""Differential drive: forward speed and turn rate with limits, contact of discs or rectangles with racks and robots.

A step is ``decision_steps`` physics steps. In each of them, robot after robot
(slots counted up from an offset that is drawn anew every time):

1. speed and turn rate approach their commands within the acceleration limits;
2. the heading turns, and the centre moves along the middle heading;
3. if the footprint at the new place would touch a rack, a wall or a robot, then
   under rule ``block`` the robot keeps its place and its speed becomes 0 (it
   may still turn; a rectangle that has no room for that keeps its heading, and
   its turn rate becomes 0), and under rule ``despawn`` it leaves the floor
   together with the robots that it would touch.

The test is exact: disc or rectangle against the boxes of the blocked cells, and
against the footprints of the robots at their present places. Robots
already moved in this physics step are where they now are, so footprints never
overlap. The border of a one-way cell is a wall for the centre of a
robot that comes from the wrong side. A speed limit scales the command of a robot
whose centre is in its cell; it brakes within its limits when it comes in faster.
A robot covers less than the radius of its footprint, or than half its shorter side,
in a physics step (checked when the scenario is validated), so nothing is jumped over.

Options, each off unless the scenario asks for it:

- *Lag*: speed and turn rate close only the share ``1 - exp(-dt / tau)`` of their
  gap to the command in a step (a first-order lag), within the acceleration limits. Once
  a robot is told to stand, what is left below 1 mm/s, or 1 mrad/s, is cut.
- *Friction*: factors of the running episode on the largest speeds, and on how
  fast speed and turn rate change.
- *Protective field* (``protective_field``): the command is limited to the speed
  from which the robot can stop in the way that it has straight on; a robot that is
  faster brakes.

Contacts under ``block`` are measured afterwards from the final places, so that
a fault of the rule would show.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.drives.cell_lists import CellLists, link, make_cell_lists, relink, unlink
from bridge.warehouse.drives.drive_limits import DriveLimits
from bridge.warehouse.drives.protective_field import clear_way, safe_speed
from bridge.warehouse.drives.rectangles import disc_meets_rectangle, rectangle_meets_rack, rectangles_meet
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.random_streams import draw

__all__ = ["DriveScratch", "drive_differential", "make_drive_scratch"]

Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

_TOLERANCE_M: Final = 1e-9
_STANDS: Final = 1e-3


class DriveScratch(NamedTuple):
    """Memory of the drive, one environment after the other.

    Attributes:
        lists: Robots by cell.
        cos: (N,) float64, cosine of the heading within a step.
        sin: (N,) float64, sine of it.
    """

    lists: CellLists
    cos: Float64
    sin: Float64


def make_drive_scratch(num_cells: int, num_robots: int) -> DriveScratch:
    """Scratch for a floor and a fleet."""
    return DriveScratch(make_cell_lists(num_cells, num_robots), np.zeros(num_robots), np.zeros(num_robots))


@lean_kernel
def drive_differential(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    scratch: DriveScratch,
    limits: DriveLimits,
    radius: Float64,
    actions: Float32,
    keys: NDArray[np.uint64],
    steps: Int32,
    despawn: bool,
) -> None:
    """Move all robots by one step.

    Args:
        floor: The floor plan.
        fleet: ``cell`` is advanced.
        pose: Advanced.
        outcome: ``refused``, ``robot_contacts``, ``rack_contacts``, ``leaving`` and ``moved_m`` are written.
        scratch: Of :func:`make_drive_scratch`.
        limits: Of :func:`bridge.warehouse.drives.drive_limits.make_limits`.
        radius: (N,) float64, footprints, or the discs around rectangular ones, in m.
        actions: (E, N, 2) float32 in [-1, 1], forward speed and turn rate as shares of their limits.
        keys: (E,) uint64, stream of the right of way.
        steps: (E,) int32, number of the step in its episode.
        despawn: Contact rule: robots that would touch leave the floor.
    """
    num_envs, num_robots = fleet.cell.shape
    lists = scratch.lists
    for env in range(num_envs):
        for robot in range(num_robots):
            outcome.refused[env, robot] = False
            outcome.robot_contacts[env, robot] = 0
            outcome.rack_contacts[env, robot] = 0
            outcome.leaving[env, robot] = False
            outcome.moved_m[env, robot] = 0.0
            pose.vx[env, robot] = -pose.x[env, robot]
            pose.vy[env, robot] = -pose.y[env, robot]
            scratch.cos[robot] = np.cos(pose.heading[env, robot])
            scratch.sin[robot] = np.sin(pose.heading[env, robot])
            if fleet.alive[env, robot]:
                link(fleet.cell[env, robot], robot, lists)
        for tick in range(limits.decision_steps):
            counter = int(steps[env]) * limits.decision_steps + tick
            offset = int(draw(keys[env], counter) % np.uint64(num_robots))
            for index in range(num_robots):
                robot = offset + index if offset + index < num_robots else offset + index - num_robots
                if fleet.alive[env, robot] and not outcome.leaving[env, robot]:
                    _tick(floor, fleet, pose, outcome, limits, radius, actions, env, robot, despawn, scratch)
        per_s = 1.0 / np.float64(limits.step_s * limits.decision_steps)
        for robot in range(num_robots):
            pose.vx[env, robot] = (pose.vx[env, robot] + pose.x[env, robot]) * per_s
            pose.vy[env, robot] = (pose.vy[env, robot] + pose.y[env, robot]) * per_s
            if fleet.alive[env, robot] and not despawn:
                _measure_contacts(floor, pose, outcome, limits, radius, env, robot, lists)
        for robot in range(num_robots):
            lists.first[fleet.cell[env, robot]] = -1


@kernel_part
def _tick(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    limits: DriveLimits,
    radius: Float64,
    actions: Float32,
    env: int,
    robot: int,
    despawn: bool,
    scratch: DriveScratch,
) -> None:
    """One physics step of one robot."""
    lists = scratch.lists
    wanted_speed = 0.0
    wanted_turn = 0.0
    if fleet.charge[env, robot] > 0.0:
        share = float(actions[env, robot, 0])
        fastest = limits.max_speed if share > 0.0 else limits.max_reverse
        if len(floor.speed_limit) > 0:
            fastest = min(fastest, floor.speed_limit[fleet.cell[env, robot]])
        wanted_speed = share * fastest
        wanted_turn = float(actions[env, robot, 1]) * limits.max_turn_rate
    faster, slower = limits.max_acceleration * limits.step_s, limits.max_deceleration * limits.step_s
    turn_step = limits.max_turn_acceleration * limits.step_s
    if len(limits.traction) > 0:
        wanted_speed *= limits.speed_factor[env]
        faster, slower = faster * limits.traction[env], slower * limits.traction[env]
        turn_step *= limits.traction[env]
    if limits.field_margin >= 0.0:
        wanted_speed = _stop_in_time(floor, pose, limits, radius, env, robot, wanted_speed, lists)
    speed, turn = pose.speed[env, robot], pose.turn_rate[env, robot]
    if limits.response < 1.0:
        wanted_speed = _lag(speed, wanted_speed, limits.response)
        wanted_turn = _lag(turn, wanted_turn, limits.response)
    speed = _approach(speed, wanted_speed, faster, slower)
    turn = _approach(turn, wanted_turn, turn_step, turn_step)
    heading = pose.heading[env, robot] + turn * limits.step_s
    heading -= 2.0 * np.pi * np.floor((heading + np.pi) * (0.5 / np.pi))
    pose.speed[env, robot] = speed
    pose.turn_rate[env, robot] = turn
    if len(limits.half_length) > 0:
        middle = pose.heading[env, robot] + 0.5 * turn * limits.step_s
        _move_figure(
            floor, fleet, pose, outcome, limits, radius, env, robot, despawn, lists, speed, turn, middle, heading
        )
        return
    half_cos, half_sin = _turned(0.5 * turn * limits.step_s)
    before_cos, before_sin = scratch.cos[robot], scratch.sin[robot]
    cos, sin = before_cos * half_cos - before_sin * half_sin, before_sin * half_cos + before_cos * half_sin
    scratch.cos[robot], scratch.sin[robot] = cos * half_cos - sin * half_sin, sin * half_cos + cos * half_sin
    pose.heading[env, robot] = heading
    pose.cos[env, robot] = scratch.cos[robot]
    pose.sin[env, robot] = scratch.sin[robot]
    if speed == 0.0:
        return
    x = pose.x[env, robot] + speed * limits.step_s * cos
    y = pose.y[env, robot] + speed * limits.step_s * sin
    on_rack = _touches_rack(floor, x, y, radius[robot])
    if floor.one_way and not on_rack:
        on_rack = not _may_enter(floor, fleet.cell[env, robot], _cell_at(floor, x, y))
    touched = _count_touched(floor, pose, limits, radius, env, robot, x, y, 0.0, 0.0, lists)
    if not on_rack and touched == 0:
        pose.x[env, robot] = x
        pose.y[env, robot] = y
        outcome.moved_m[env, robot] += abs(speed) * limits.step_s
        relink(fleet.cell[env], robot, _cell_at(floor, x, y), lists)
        return
    pose.speed[env, robot] = 0.0
    if despawn:
        outcome.rack_contacts[env, robot] += on_rack
        _remove_touching(floor, fleet, pose, outcome, limits, radius, env, robot, x, y, 0.0, 0.0, lists)
    else:
        outcome.refused[env, robot] = True


@lean_kernel
def _move_figure(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    limits: DriveLimits,
    radius: Float64,
    env: int,
    robot: int,
    despawn: bool,
    lists: CellLists,
    speed: float,
    turn: float,
    middle: float,
    heading: float,
) -> None:
    """The second half of a physics step where some footprints are rectangles: turning needs room, too."""
    if speed == 0.0 and turn == 0.0:
        return
    cos, sin = float(np.float32(np.cos(heading))), float(np.float32(np.sin(heading)))
    # Drive and turn, or at least turn, or stay.
    for driven in (speed, 0.0):
        x = pose.x[env, robot] + driven * limits.step_s * np.cos(middle)
        y = pose.y[env, robot] + driven * limits.step_s * np.sin(middle)
        on_rack = _figure_meets_rack(floor, limits, radius, robot, x, y, cos, sin, 0.0)
        if floor.one_way and not on_rack:
            on_rack = not _may_enter(floor, fleet.cell[env, robot], _cell_at(floor, x, y))
        touched = _count_touched(floor, pose, limits, radius, env, robot, x, y, cos, sin, lists)
        if not on_rack and touched == 0:
            pose.x[env, robot] = x
            pose.y[env, robot] = y
            pose.heading[env, robot] = heading
            pose.cos[env, robot] = cos
            pose.sin[env, robot] = sin
            outcome.moved_m[env, robot] += abs(driven) * limits.step_s
            relink(fleet.cell[env], robot, _cell_at(floor, x, y), lists)
            return
        pose.speed[env, robot] = 0.0
        if despawn:
            outcome.rack_contacts[env, robot] += on_rack
            _remove_touching(floor, fleet, pose, outcome, limits, radius, env, robot, x, y, cos, sin, lists)
            return
        outcome.refused[env, robot] = True
    pose.turn_rate[env, robot] = 0.0


@lean_kernel
def _stop_in_time(
    floor: Floor, pose: Pose, limits: DriveLimits, radius: Float64, env: int, robot: int, wanted: float,
    lists: CellLists,
) -> float:  # fmt: skip
    """The command, limited to the speed from which the robot can stop before the next obstacle straight on."""
    speed = pose.speed[env, robot]
    ahead = speed if speed != 0.0 else wanted
    if ahead == 0.0:
        return wanted
    braking, lag_s = limits.field_deceleration, limits.lag_s
    most = max(abs(speed), abs(wanted))
    # Far enough that nothing beyond matters; robots that come the other way need as much.
    reach = 2.0 * most * (0.5 * most / braking + limits.step_s + lag_s) + limits.field_margin
    clear = clear_way(
        floor, pose, radius, limits.half_length, limits.half_width, lists.first, lists.follower, env, robot,
        ahead < 0.0, reach, limits.widest, braking, lag_s,
    )  # fmt: skip
    safe = safe_speed(clear - limits.field_margin, braking, limits.step_s, lag_s)
    if abs(speed) > safe and limits.response < 1.0:
        # A drive that lags has to be told more than what it is to do.
        return 0.0
    return min(wanted, safe) if ahead > 0.0 else max(wanted, -safe)


@kernel_part
def _turned(angle: float) -> tuple[float, float]:
    """Cosine and sine of an angle, by their series where it is small, as that of a physics step is."""
    if abs(angle) > 0.25:
        return np.cos(angle), np.sin(angle)
    # Factors instead of divisors, by which the compiler may not replace them.
    s = angle * angle
    cos = 1.0 - s * (0.5 - s * ((1 / 24) - s * ((1 / 720) - s * ((1 / 40320) - s * (1 / 3628800)))))
    sin = 1.0 - s * ((1 / 6) - s * ((1 / 120) - s * ((1 / 5040) - s * ((1 / 362880) - s * (1 / 39916800)))))
    return cos, angle * sin


@kernel_part
def _lag(value: float, target: float, response: float) -> float:
    """What a first-order lag makes of a command; what is left of one to stand is cut."""
    if target == 0.0 and abs(value) < _STANDS:
        return 0.0
    return value + response * (target - value)


@kernel_part
def _approach(value: float, target: float, faster: float, slower: float) -> float:
    """``target``, or the nearest to it that the limits on speeding up and on braking allow; braking ends at 0."""
    change = target - value
    limit = slower if value * change < 0.0 else faster
    changed = value + min(max(change, -limit), limit)
    return 0.0 if value * changed < 0.0 else changed


@kernel_part
def _cell_at(floor: Floor, x: float, y: float) -> int:
    column = min(max(int(x * floor.cells_per_m), 0), floor.width - 1)
    row = min(max(floor.height - 1 - int(y * floor.cells_per_m), 0), floor.height - 1)
    return row * floor.width + column


@kernel_part
def _may_enter(floor: Floor, cell: int, other: int) -> bool:
    """Whether the exits let a robot go from its cell to the same or a near one; across a corner by either way."""
    if cell == other:
        return True
    for move in range(1, 5):
        beside = floor.moves[cell, move]
        if beside == other:
            return True
        if beside != cell:
            for following in range(1, 5):
                if floor.moves[beside, following] == other:
                    return True
    return False


@kernel_part
def _touches_rack(floor: Floor, x: float, y: float, radius: float) -> bool:
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
def _figure_meets_rack(
    floor: Floor, limits: DriveLimits, radius: Float64, robot: int, x: float, y: float, cos: float, sin: float,
    tolerance: float,
) -> bool:  # fmt: skip
    """Whether a footprint overlaps a blocked cell or the outside of the floor, by more than a tolerance."""
    if len(limits.half_length) == 0 or limits.half_length[robot] == 0.0:
        return _touches_rack(floor, x, y, radius[robot] - tolerance)
    half_length, half_width = limits.half_length[robot] - tolerance, limits.half_width[robot] - tolerance
    return rectangle_meets_rack(floor, x, y, cos, sin, half_length, half_width)


@kernel_part
def _count_touched(
    floor: Floor,
    pose: Pose,
    limits: DriveLimits,
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
    reach = radius[robot] + limits.widest
    south, north = int(max(y - reach, 0.0) * floor.cells_per_m), int((y + reach) * floor.cells_per_m)
    west, east = int(max(x - reach, 0.0) * floor.cells_per_m), int((x + reach) * floor.cells_per_m)
    for near_row in range(floor.height - 1 - min(north, floor.height - 1), floor.height - south):
        for near_column in range(west, min(east + 1, floor.width)):
            other = lists.first[near_row * floor.width + near_column]
            while other >= 0:
                if other != robot and _overlap(pose, limits, radius, env, robot, other, x, y, cos, sin):
                    touched += 1
                other = lists.follower[other]
    return touched


@kernel_part
def _overlap(
    pose: Pose, limits: DriveLimits, radius: Float64, env: int, robot: int, other: int, x: float, y: float, cos: float,
    sin: float,
) -> bool:  # fmt: skip
    dx, dy = pose.x[env, other] - x, pose.y[env, other] - y
    reach = radius[robot] + radius[other] - _TOLERANCE_M
    near = bool(dx * dx + dy * dy < reach * reach)
    if len(limits.half_length) == 0 or not near:
        return near
    return _figures_meet(pose, limits, radius, env, robot, other, dx, dy, cos, sin)


@lean_kernel
def _figures_meet(
    pose: Pose, limits: DriveLimits, radius: Float64, env: int, robot: int, other: int, dx: float, dy: float,
    cos: float, sin: float,
) -> bool:  # fmt: skip
    """Whether two footprints overlap whose discs around them do."""
    length, width = limits.half_length[robot], limits.half_width[robot]
    other_length, other_width = limits.half_length[other], limits.half_width[other]
    other_cos, other_sin = float(pose.cos[env, other]), float(pose.sin[env, other])
    if length == 0.0 and other_length == 0.0:
        return True
    if length == 0.0:
        disc = radius[robot] - _TOLERANCE_M
        return disc_meets_rectangle(-dx, -dy, disc, other_cos, other_sin, other_length, other_width)
    if other_length == 0.0:
        return disc_meets_rectangle(dx, dy, radius[other] - _TOLERANCE_M, cos, sin, length, width)
    length, width = length - _TOLERANCE_M, width - _TOLERANCE_M
    return rectangles_meet(dx, dy, cos, sin, length, width, other_cos, other_sin, other_length, other_width)


@kernel_part
def _remove_touching(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    limits: DriveLimits,
    radius: Float64,
    env: int,
    robot: int,
    x: float,
    y: float,
    cos: float,
    sin: float,
    lists: CellLists,
) -> None:
    """Rule ``despawn``: the robot and those that it would overlap at (x, y) leave the floor."""
    for other in range(len(radius)):
        present = fleet.alive[env, other] and not outcome.leaving[env, other] and other != robot
        if present and _overlap(pose, limits, radius, env, robot, other, x, y, cos, sin):
            outcome.robot_contacts[env, robot] += 1
            outcome.robot_contacts[env, other] += 1
            outcome.leaving[env, other] = True
            unlink(fleet.cell[env, other], other, lists)
    outcome.leaving[env, robot] = True
    unlink(fleet.cell[env, robot], robot, lists)


@kernel_part
def _measure_contacts(
    floor: Floor,
    pose: Pose,
    outcome: Outcome,
    limits: DriveLimits,
    radius: Float64,
    env: int,
    robot: int,
    lists: CellLists,
) -> None:
    x, y = pose.x[env, robot], pose.y[env, robot]
    cos, sin = float(pose.cos[env, robot]), float(pose.sin[env, robot])
    on_rack = _figure_meets_rack(floor, limits, radius, robot, x, y, cos, sin, _TOLERANCE_M)
    outcome.rack_contacts[env, robot] = on_rack
    outcome.robot_contacts[env, robot] = _count_touched(floor, pose, limits, radius, env, robot, x, y, cos, sin, lists)
