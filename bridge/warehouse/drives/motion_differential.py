"""Differential drive: forward speed and turn rate with limits, contact of discs or rectangles with racks and robots.

A step is ``decision_steps`` physics steps. In each of them, robot after robot
(slots counted up from an offset that is drawn anew every time; robots that nobody
can reach within the step need not wait for their turn, see ``crowd``):

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.drives.cell_lists import CellLists, link, make_cell_lists
from bridge.warehouse.drives.crowd import Crowd, count_contacts, first_from, make_crowd, split_crowd
from bridge.warehouse.drives.drive_lanes import (
    LANES,
    WANTED_SPEED,
    Lanes,
    advance_lanes,
    command_lane,
    make_lanes,
    set_cos_and_sin,
    take_lane,
)
from bridge.warehouse.drives.drive_limits import DriveLimits, FieldLimits, Sides
from bridge.warehouse.drives.footprints import TOLERANCE_M, footprint_meets_rack
from bridge.warehouse.drives.protective_field import clear_way, safe_speed
from bridge.warehouse.drives.settling import settle
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.random_streams import draw

__all__ = ["DriveScratch", "drive_differential", "make_drive_scratch"]

Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


class DriveScratch(NamedTuple):
    """Memory of the drive, one environment after the other.

    Attributes:
        lists: By cell, robots that others may touch.
        crowd: Who may touch whom in this step.
        lanes: Robots whose physics step is being worked out.
    """

    lists: CellLists
    crowd: Crowd
    lanes: Lanes


def make_drive_scratch(floor: Floor, num_robots: int, limits: DriveLimits) -> DriveScratch:
    """Scratch for a floor, a fleet and the limits that it is going to drive with."""
    lists = make_cell_lists(len(floor.blocked), num_robots)
    return DriveScratch(lists, make_crowd(floor, num_robots, limits), make_lanes(num_robots, limits))


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
    per_s = 1.0 / np.float64(limits.step_s * limits.decision_steps)
    for env in range(num_envs):
        for robot in range(num_robots):
            outcome.refused[env, robot] = False
            outcome.robot_contacts[env, robot] = 0
            outcome.rack_contacts[env, robot] = 0
            outcome.leaving[env, robot] = False
            outcome.moved_m[env, robot] = 0.0
            pose.vx[env, robot] = -pose.x[env, robot]
            pose.vy[env, robot] = -pose.y[env, robot]
        set_cos_and_sin(pose.heading[env], scratch.lanes.cos, scratch.lanes.sin)
        _drive_all(floor, fleet, pose, outcome, scratch, limits, radius, actions, keys[env], steps[env], env, despawn)
        for robot in range(num_robots):
            pose.vx[env, robot] = (pose.vx[env, robot] + pose.x[env, robot]) * per_s
            pose.vy[env, robot] = (pose.vy[env, robot] + pose.y[env, robot]) * per_s
        if not despawn:
            _measure_contacts(floor, fleet, pose, outcome, limits.sides, radius, scratch.crowd, env)


@kernel_part
def _drive_all(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    scratch: DriveScratch,
    limits: DriveLimits,
    radius: Float64,
    actions: Float32,
    key: np.uint64,
    step: np.int32,
    env: int,
    despawn: bool,
) -> None:
    """All physics steps of one environment: first those of robots that nobody can touch, then of the others in turn."""
    crowd, lanes, lists = scratch.crowd, scratch.lanes, scratch.lists
    num_robots, ticks = fleet.cell.shape[1], limits.decision_steps
    # What a protective field allows depends on where the others are at this moment: one robot at a time.
    width = LANES if limits.field is None else 1
    num_alone, num_near = split_crowd(pose, radius, fleet.alive, crowd, env, limits.field is None)
    for place in range(num_near):
        robot = index(crowd.near[index(place)])
        link(fleet.cell[env, robot], robot, lists)
    for sweep in range(1 + ticks):
        near = sweep > 0
        robots, number, first = crowd.alone, num_alone, 0
        if near:
            offset = int(draw(key, int(step) * ticks + sweep - 1) % np.uint64(num_robots))
            robots, number, first = crowd.near, num_near, first_from(crowd.near, num_near, offset)
        for begin in range(0, number, width):
            num_lanes = min(width, number - begin)
            for lane in range(num_lanes):
                turn = first + begin + lane
                robot = index(robots[index(turn - number if turn >= number else turn)])
                take_lane(lanes, lane, pose, limits, limits.own, env, robot)
            for tick in range(1 if near else ticks):
                for lane in range(num_lanes):
                    if tick == 0 or len(floor.speed_limit) > 0:
                        command_lane(lanes, lane, floor, fleet, limits, limits.own, actions, env)
                    _heed_field(floor, pose, limits, limits.sides, limits.field, radius, env, lanes, lane, lists)
                advance_lanes(lanes, num_lanes, limits)
                for lane in range(num_lanes):
                    settle(
                        floor,
                        fleet,
                        pose,
                        outcome,
                        lists,
                        limits,
                        limits.sides,
                        radius,
                        lanes,
                        lane,
                        env,
                        near,
                        despawn,
                    )
    for place in range(num_near):
        lists.first[fleet.cell[env, index(crowd.near[index(place)])]] = -1


@kernel_part
def _heed_field(
    floor: Floor,
    pose: Pose,
    limits: DriveLimits,
    sides: Sides | None,
    field: FieldLimits | None,
    radius: Float64,
    env: int,
    lanes: Lanes,
    lane: int,
    lists: CellLists,
) -> None:
    """Limit the command of the robot in a lane to what its protective field allows."""
    if field is not None:
        robot, place = index(lanes.robot[index(lane)]), WANTED_SPEED + np.uint64(lane)
        wanted = lanes.values[place]
        lanes.values[place] = _stop_in_time(floor, pose, limits, sides, field, radius, env, robot, wanted, lists)


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
def _measure_contacts(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    sides: Sides | None,
    radius: Float64,
    crowd: Crowd,
    env: int,
) -> None:
    """Note what robots overlap at their final places."""
    for robot in range(fleet.cell.shape[1]):
        if fleet.alive[env, robot]:
            x, y = pose.x[env, robot], pose.y[env, robot]
            cos, sin = float(pose.cos[env, robot]), float(pose.sin[env, robot])
            on_rack = footprint_meets_rack(floor, sides, radius, robot, x, y, cos, sin, TOLERANCE_M)
            outcome.rack_contacts[env, robot] = on_rack
    count_contacts(pose, fleet.alive, sides, radius, crowd, env, outcome.robot_contacts)
