"""Differential drive: forward speed and turn rate with limits, circular footprint, contact with racks and robots.

A step is ``decision_steps`` physics steps. In each of them, robot after robot
(slots counted up from an offset that is drawn anew every time):

1. speed and turn rate approach their commands within the acceleration limits;
2. the heading turns, and the centre moves along the middle heading;
3. if the disc at the new place would touch a rack, a wall or a robot, then
   under rule ``block`` the robot keeps its place and its speed becomes 0 (it
   may still turn), and under rule ``despawn`` it leaves the floor together
   with the robots that it would touch.

The test is exact: disc against the boxes of the blocked cells, and centre
distance against the sum of the radii at the robots' present places. Robots
already moved in this physics step are where they now are, so discs never
overlap. The border of a one-way cell is a wall for the centre of a
robot that comes from the wrong side. A speed limit scales the command of a robot
whose centre is in its cell; it brakes within its limits when it comes in faster.
A robot covers less than its radius in a physics step (checked when
the scenario is validated), so nothing is jumped over.

Contacts under ``block`` are measured afterwards from the final places, so that
a fault of the rule would show.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.config import DifferentialDriveConfig
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.random_streams import draw

__all__ = ["CellLists", "DriveLimits", "drive_differential", "make_cell_lists", "make_limits"]

Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

_TOLERANCE_M: Final = 1e-9


class DriveLimits(NamedTuple):
    """Limits of the drive: m/s, m/s2, rad/s, rad/s2 and the physics steps (s, count)."""

    step_s: float
    decision_steps: int
    max_speed: float
    max_reverse: float
    max_acceleration: float
    max_deceleration: float
    max_turn_rate: float
    max_turn_acceleration: float


def make_limits(drive: DifferentialDriveConfig) -> DriveLimits:
    """The limits of a scenario."""
    return DriveLimits(
        step_s=float(drive.step_s),
        decision_steps=drive.decision_steps,
        max_speed=float(drive.max_speed_mps),
        max_reverse=float(drive.max_reverse_mps),
        max_acceleration=float(drive.max_acceleration_mps2),
        max_deceleration=float(drive.max_deceleration_mps2),
        max_turn_rate=float(drive.max_turn_rate_radps),
        max_turn_acceleration=float(drive.max_turn_acceleration_radps2),
    )


class CellLists(NamedTuple):
    """Robots of one environment by cell, as linked lists.

    Attributes:
        first: (cells,) int32, a robot in each cell; -1 for nobody, also between calls.
        follower: (N,) int32, another robot in the same cell; -1 for none.
    """

    first: Int32
    follower: Int32


def make_cell_lists(num_cells: int, num_robots: int) -> CellLists:
    """Empty lists for a floor and a fleet."""
    return CellLists(np.full(num_cells, -1, np.int32), np.full(num_robots, -1, np.int32))


@lean_kernel
def drive_differential(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    lists: CellLists,
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
        lists: Of :func:`make_cell_lists`.
        limits: Limits of the drive.
        radius: (N,) float64, footprints in m.
        actions: (E, N, 2) float32 in [-1, 1], forward speed and turn rate as shares of their limits.
        keys: (E,) uint64, stream of the right of way.
        steps: (E,) int32, number of the step in its episode.
        despawn: Contact rule: robots that would touch leave the floor.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            outcome.refused[env, robot] = False
            outcome.robot_contacts[env, robot] = 0
            outcome.rack_contacts[env, robot] = 0
            outcome.leaving[env, robot] = False
            outcome.moved_m[env, robot] = 0.0
            pose.vx[env, robot] = -pose.x[env, robot]
            pose.vy[env, robot] = -pose.y[env, robot]
            if fleet.alive[env, robot]:
                _link(fleet.cell[env, robot], robot, lists)
        for tick in range(limits.decision_steps):
            counter = int(steps[env]) * limits.decision_steps + tick
            offset = int(draw(keys[env], counter) % np.uint64(num_robots))
            for index in range(num_robots):
                robot = offset + index if offset + index < num_robots else offset + index - num_robots
                if fleet.alive[env, robot] and not outcome.leaving[env, robot]:
                    _tick(floor, fleet, pose, outcome, limits, radius, actions, env, robot, despawn, lists)
        duration = np.float64(limits.step_s * limits.decision_steps)
        for robot in range(num_robots):
            pose.vx[env, robot] = (pose.vx[env, robot] + pose.x[env, robot]) / duration
            pose.vy[env, robot] = (pose.vy[env, robot] + pose.y[env, robot]) / duration
            if fleet.alive[env, robot] and not despawn:
                _measure_contacts(floor, pose, outcome, radius, env, robot, lists)
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
    lists: CellLists,
) -> None:
    """One physics step of one robot."""
    wanted_speed = 0.0
    wanted_turn = 0.0
    if fleet.charge[env, robot] > 0.0:
        share = float(actions[env, robot, 0])
        fastest = limits.max_speed if share > 0.0 else limits.max_reverse
        if len(floor.speed_limit) > 0:
            fastest = min(fastest, floor.speed_limit[fleet.cell[env, robot]])
        wanted_speed = share * fastest
        wanted_turn = float(actions[env, robot, 1]) * limits.max_turn_rate
    speed = _approach(
        pose.speed[env, robot],
        wanted_speed,
        limits.max_acceleration * limits.step_s,
        limits.max_deceleration * limits.step_s,
    )
    turn_step = limits.max_turn_acceleration * limits.step_s
    turn = _approach(pose.turn_rate[env, robot], wanted_turn, turn_step, turn_step)
    middle = pose.heading[env, robot] + 0.5 * turn * limits.step_s
    heading = pose.heading[env, robot] + turn * limits.step_s
    heading -= 2.0 * np.pi * np.floor((heading + np.pi) / (2.0 * np.pi))
    pose.heading[env, robot] = heading
    pose.cos[env, robot] = np.cos(heading)
    pose.sin[env, robot] = np.sin(heading)
    pose.speed[env, robot] = speed
    pose.turn_rate[env, robot] = turn
    if speed == 0.0:
        return
    x = pose.x[env, robot] + speed * limits.step_s * np.cos(middle)
    y = pose.y[env, robot] + speed * limits.step_s * np.sin(middle)
    on_rack = _touches_rack(floor, x, y, radius[robot])
    if floor.one_way and not on_rack:
        on_rack = not _may_enter(floor, fleet.cell[env, robot], _cell_at(floor, x, y))
    touched = _count_touched(floor, pose, radius, env, robot, x, y, lists)
    if not on_rack and touched == 0:
        pose.x[env, robot] = x
        pose.y[env, robot] = y
        outcome.moved_m[env, robot] += abs(speed) * limits.step_s
        _relink(fleet.cell[env], robot, _cell_at(floor, x, y), lists)
        return
    pose.speed[env, robot] = 0.0
    if despawn:
        outcome.rack_contacts[env, robot] += on_rack
        _remove_touching(floor, fleet, pose, outcome, radius, env, robot, x, y, lists)
    else:
        outcome.refused[env, robot] = True


@kernel_part
def _approach(value: float, target: float, faster: float, slower: float) -> float:
    """``target``, or the nearest to it that the limits on speeding up and on braking allow; braking ends at 0."""
    change = target - value
    limit = slower if value * change < 0.0 else faster
    changed = value + min(max(change, -limit), limit)
    return 0.0 if value * changed < 0.0 else changed


@kernel_part
def _cell_at(floor: Floor, x: float, y: float) -> int:
    column = min(max(int(x / floor.cell_size_m), 0), floor.width - 1)
    row = min(max(floor.height - 1 - int(y / floor.cell_size_m), 0), floor.height - 1)
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
    for row in range(int((height_m - y - radius) / size), int((height_m - y + radius) / size) + 1):
        for column in range(int((x - radius) / size), int((x + radius) / size) + 1):
            inside = row < floor.height and column < floor.width
            if inside and floor.blocked[row * floor.width + column]:
                left, bottom = column * size, height_m - (row + 1) * size
                dx = x - min(max(x, left), left + size)
                dy = y - min(max(y, bottom), bottom + size)
                if dx * dx + dy * dy < radius * radius:
                    return True
    return False


@kernel_part
def _count_touched(
    floor: Floor,
    pose: Pose,
    radius: Float64,
    env: int,
    robot: int,
    x: float,
    y: float,
    lists: CellLists,
) -> int:
    """Number of other robots that a robot would overlap at (x, y); a footprint is at most a cell wide."""
    touched = 0
    cell = _cell_at(floor, x, y)
    row, column = cell // floor.width, cell % floor.width
    for near_row in range(max(row - 1, 0), min(row + 2, floor.height)):
        for near_column in range(max(column - 1, 0), min(column + 2, floor.width)):
            other = lists.first[near_row * floor.width + near_column]
            while other >= 0:
                if other != robot and _overlap(pose, radius, env, robot, other, x, y):
                    touched += 1
                other = lists.follower[other]
    return touched


@kernel_part
def _overlap(pose: Pose, radius: Float64, env: int, robot: int, other: int, x: float, y: float) -> bool:
    dx, dy = pose.x[env, other] - x, pose.y[env, other] - y
    reach = radius[robot] + radius[other] - _TOLERANCE_M
    return bool(dx * dx + dy * dy < reach * reach)


@kernel_part
def _remove_touching(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    radius: Float64,
    env: int,
    robot: int,
    x: float,
    y: float,
    lists: CellLists,
) -> None:
    """Rule ``despawn``: the robot and those that it would overlap at (x, y) leave the floor."""
    for other in range(len(radius)):
        present = fleet.alive[env, other] and not outcome.leaving[env, other] and other != robot
        if present and _overlap(pose, radius, env, robot, other, x, y):
            outcome.robot_contacts[env, robot] += 1
            outcome.robot_contacts[env, other] += 1
            outcome.leaving[env, other] = True
            _unlink(fleet.cell[env, other], other, lists)
    outcome.leaving[env, robot] = True
    _unlink(fleet.cell[env, robot], robot, lists)


@kernel_part
def _measure_contacts(
    floor: Floor,
    pose: Pose,
    outcome: Outcome,
    radius: Float64,
    env: int,
    robot: int,
    lists: CellLists,
) -> None:
    x, y = pose.x[env, robot], pose.y[env, robot]
    outcome.rack_contacts[env, robot] = _touches_rack(floor, x, y, radius[robot] - _TOLERANCE_M)
    outcome.robot_contacts[env, robot] = _count_touched(floor, pose, radius, env, robot, x, y, lists)


@kernel_part
def _link(cell: int, robot: int, lists: CellLists) -> None:
    lists.follower[robot] = lists.first[cell]
    lists.first[cell] = robot


@kernel_part
def _unlink(cell: int, robot: int, lists: CellLists) -> None:
    first, follower = lists.first, lists.follower
    if first[cell] == robot:
        first[cell] = follower[robot]
        return
    other = first[cell]
    while follower[other] != robot:
        other = follower[other]
    follower[other] = follower[robot]


@kernel_part
def _relink(cells: Int32, robot: int, cell: int, lists: CellLists) -> None:
    """Note that a robot is in another cell now."""
    if cell != cells[robot]:
        _unlink(cells[robot], robot, lists)
        _link(cell, robot, lists)
        cells[robot] = cell
