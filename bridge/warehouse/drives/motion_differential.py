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

The test (``footprints``) is exact: disc or rectangle against the boxes of the blocked
cells, and against the footprints of the robots at their present places. Robots
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

The protective field and rectangular footprints are compiled only for scenarios that have
them: where ``DriveLimits`` holds None, the compiler drops the branch (of a function that is
given it as an argument of its own).

Contacts under ``block`` are measured afterwards from the final places, so that
a fault of the rule would show.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.drives.cell_lists import CellLists, link, make_cell_lists, relink, unlink
from bridge.warehouse.drives.drive_limits import DriveLimits, FieldLimits, OwnLimits, Sides
from bridge.warehouse.drives.footprints import (
    TOLERANCE_M,
    count_touched,
    disc_meets_rack,
    footprint_meets_rack,
    footprints_meet,
)
from bridge.warehouse.drives.protective_field import clear_way, safe_speed
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.random_streams import draw

__all__ = ["DriveScratch", "drive_differential", "make_drive_scratch"]

Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

# A quarter turn: so many bits that its multiples are exact, and what is missing.
_QUARTER: Final = 1.5707963267341256
_QUARTER_REST: Final = 6.077100506506192e-11
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
            scratch.cos[robot], scratch.sin[robot] = _cos_and_sin(pose.heading[env, robot])
            if fleet.alive[env, robot]:
                link(fleet.cell[env, robot], robot, lists)
        for tick in range(limits.decision_steps):
            counter = int(steps[env]) * limits.decision_steps + tick
            offset = int(draw(keys[env], counter) % np.uint64(num_robots))
            for turn in range(num_robots):
                robot = index(offset + turn if offset + turn < num_robots else offset + turn - num_robots)
                if fleet.alive[env, robot] and not outcome.leaving[env, robot]:
                    _tick(
                        floor, fleet, pose, outcome, limits, limits.sides, limits.field, limits.own, radius, actions,
                        env, robot, despawn, scratch,
                    )  # fmt: skip
        per_s = 1.0 / np.float64(limits.step_s * limits.decision_steps)
        for robot in range(num_robots):
            pose.vx[env, robot] = (pose.vx[env, robot] + pose.x[env, robot]) * per_s
            pose.vy[env, robot] = (pose.vy[env, robot] + pose.y[env, robot]) * per_s
            if fleet.alive[env, robot] and not despawn:
                _measure_contacts(floor, pose, outcome, limits.widest, limits.sides, radius, env, robot, lists)
        for robot in range(num_robots):
            lists.first[fleet.cell[env, robot]] = -1


@kernel_part
def _tick(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    limits: DriveLimits,
    sides: Sides | None,
    field: FieldLimits | None,
    own: OwnLimits | None,
    radius: Float64,
    actions: Float32,
    env: int,
    robot: int,
    despawn: bool,
    scratch: DriveScratch,
) -> None:
    """One physics step of one robot; what is None of the limits is not even compiled."""
    lists = scratch.lists
    ahead, back, turn_limit = limits.max_speed, limits.max_reverse, limits.max_turn_rate
    faster, slower, turn_step = limits.max_acceleration, limits.max_deceleration, limits.max_turn_acceleration
    if own is not None:
        ahead, back, turn_limit = own.max_speed[robot], own.max_reverse[robot], own.max_turn_rate[robot]
        faster, slower = own.max_acceleration[robot], own.max_deceleration[robot]
        turn_step = own.max_turn_acceleration[robot]
    wanted_speed = 0.0
    wanted_turn = 0.0
    if fleet.charge[env, robot] > 0.0:
        share = float(actions[env, robot, 0])
        fastest = ahead if share > 0.0 else back
        if len(floor.speed_limit) > 0:
            fastest = min(fastest, floor.speed_limit[fleet.cell[env, robot]])
        wanted_speed = share * fastest
        wanted_turn = float(actions[env, robot, 1]) * turn_limit
    faster, slower, turn_step = faster * limits.step_s, slower * limits.step_s, turn_step * limits.step_s
    if len(limits.traction) > 0:
        wanted_speed *= limits.speed_factor[env]
        faster, slower = faster * limits.traction[env], slower * limits.traction[env]
        turn_step *= limits.traction[env]
    if field is not None:
        wanted_speed = _stop_in_time(floor, pose, limits, sides, field, radius, env, robot, wanted_speed, lists)
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
    if sides is not None:
        middle = pose.heading[env, robot] + 0.5 * turn * limits.step_s
        _move_figure(
            floor, fleet, pose, outcome, limits, sides, radius, env, robot, despawn, lists, speed, turn, middle, heading
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
    on_rack = disc_meets_rack(floor, x, y, radius[robot])
    if floor.one_way and not on_rack:
        on_rack = not _may_enter(floor, fleet.cell[env, robot], _cell_at(floor, x, y))
    touched = count_touched(floor, pose, limits.widest, None, radius, env, robot, x, y, 0.0, 0.0, lists)
    if not on_rack and touched == 0:
        pose.x[env, robot] = x
        pose.y[env, robot] = y
        outcome.moved_m[env, robot] += abs(speed) * limits.step_s
        relink(fleet.cell[env], robot, _cell_at(floor, x, y), lists)
        return
    pose.speed[env, robot] = 0.0
    if despawn:
        outcome.rack_contacts[env, robot] += on_rack
        _remove_touching(fleet, pose, outcome, None, radius, env, robot, x, y, 0.0, 0.0, lists)
    else:
        outcome.refused[env, robot] = True


@lean_kernel
def _move_figure(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    limits: DriveLimits,
    sides: Sides,
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
        on_rack = footprint_meets_rack(floor, sides, radius, robot, x, y, cos, sin, 0.0)
        if floor.one_way and not on_rack:
            on_rack = not _may_enter(floor, fleet.cell[env, robot], _cell_at(floor, x, y))
        touched = count_touched(floor, pose, limits.widest, sides, radius, env, robot, x, y, cos, sin, lists)
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
            _remove_touching(fleet, pose, outcome, sides, radius, env, robot, x, y, cos, sin, lists)
            return
        outcome.refused[env, robot] = True
    pose.turn_rate[env, robot] = 0.0


@lean_kernel
def _stop_in_time(
    floor: Floor, pose: Pose, limits: DriveLimits, sides: Sides | None, field: FieldLimits, radius: Float64, env: int,
    robot: int, wanted: float, lists: CellLists,
) -> float:  # fmt: skip
    """The command, limited to the speed from which the robot can stop before the next obstacle straight on."""
    speed = pose.speed[env, robot]
    ahead = speed if speed != 0.0 else wanted
    if ahead == 0.0:
        return wanted
    braking, lag_s = field.deceleration, limits.lag_s
    most = max(abs(speed), abs(wanted))
    # Far enough that nothing beyond matters; robots that come the other way need as much.
    reach = 2.0 * most * (0.5 * most / braking + limits.step_s + lag_s) + field.margin_m
    clear = clear_way(
        floor, pose, radius, sides, lists.first, lists.follower, env, robot, ahead < 0.0, reach, limits.widest, braking,
        lag_s,
    )  # fmt: skip
    safe = safe_speed(clear - field.margin_m, braking, limits.step_s, lag_s)
    if abs(speed) > safe and limits.response < 1.0:
        # A drive that lags has to be told more than what it is to do.
        return 0.0
    return min(wanted, safe) if ahead > 0.0 else max(wanted, -safe)


@kernel_part
def _cos_and_sin(angle: float) -> tuple[float, float]:
    """Cosine and sine of an angle in about [-pi, pi], within 1e-15: a quarter of what the general functions take."""
    quarters = np.floor(angle * (2.0 / np.pi) + 0.5)
    rest = (angle - quarters * _QUARTER) - quarters * _QUARTER_REST
    # Their series, up to the terms that no longer count at an eighth of a turn.
    s = rest * rest
    cos = (1 / 3628800) - s * ((1 / 479001600) - s * ((1 / 87178291200) - s * (1 / 20922789888000)))
    cos = 1.0 - s * (0.5 - s * ((1 / 24) - s * ((1 / 720) - s * ((1 / 40320) - s * cos))))
    sin = (1 / 362880) - s * ((1 / 39916800) - s * ((1 / 6227020800) - s * (1 / 1307674368000)))
    sin = rest * (1.0 - s * ((1 / 6) - s * ((1 / 120) - s * ((1 / 5040) - s * sin))))
    turned = int(quarters) & 3
    one, two = (sin, cos) if turned & 1 else (cos, sin)
    return (-one if turned == 1 or turned == 2 else one), (-two if turned >= 2 else two)


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
def _remove_touching(
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    sides: Sides | None,
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
        if present and footprints_meet(pose, sides, radius, env, robot, other, x, y, cos, sin):
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
    widest: float,
    sides: Sides | None,
    radius: Float64,
    env: int,
    robot: int,
    lists: CellLists,
) -> None:
    x, y = pose.x[env, robot], pose.y[env, robot]
    cos, sin = float(pose.cos[env, robot]), float(pose.sin[env, robot])
    on_rack = footprint_meets_rack(floor, sides, radius, robot, x, y, cos, sin, TOLERANCE_M)
    outcome.rack_contacts[env, robot] = on_rack
    touched = count_touched(floor, pose, widest, sides, radius, env, robot, x, y, cos, sin, lists)
    outcome.robot_contacts[env, robot] = touched
