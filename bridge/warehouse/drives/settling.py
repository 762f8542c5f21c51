"""The second half of a physics step of a differential drive: a robot takes its new place if that is free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.drives.cell_lists import CellLists, relink, unlink
from bridge.warehouse.drives.drive_lanes import COS, HEADING, SIN, SPEED, TURN_RATE, Lanes, X, Y, retake_lane
from bridge.warehouse.drives.drive_limits import DriveLimits, Sides
from bridge.warehouse.drives.footprints import count_touched, footprint_meets_rack, footprints_meet
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor

__all__ = ["settle"]

Float64 = NDArray[np.float64]


@kernel_part
def settle(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    lists: CellLists,
    limits: DriveLimits,
    sides: Sides | None,
    radius: Float64,
    lanes: Lanes,
    number: int,
    env: int,
    near: bool,
    despawn: bool,
) -> None:
    """Move the robot of a lane to where the lane says, or refuse it; the lane says afterwards where it really is.

    Args:
        floor: The floor plan.
        fleet: ``cell`` is advanced.
        pose: Advanced.
        outcome: Advanced.
        lists: By cell, the robots that others may touch.
        limits: Of the drive.
        sides: Those of ``limits``: what is None is not even compiled.
        radius: (N,) float64, footprints, or the discs around rectangular ones, in m.
        lanes: Advanced by a physics step.
        number: Of the lane.
        env: The environment.
        near: Others may touch the robot; it is in ``lists``.
        despawn: Contact rule: robots that would touch leave the floor.
    """
    robot, lane, values = index(lanes.robot[index(number)]), np.uint64(number), lanes.values
    if outcome.leaving[env, robot]:
        return
    speed, turn = values[SPEED + lane], values[TURN_RATE + lane]
    pose.speed[env, robot] = speed
    pose.turn_rate[env, robot] = turn
    if sides is not None:
        middle = pose.heading[env, robot] + 0.5 * turn * limits.step_s
        _settle_figure(
            floor, fleet, pose, outcome, lists, limits, sides, radius, speed, turn, middle, values[HEADING + lane], env,
            robot, near, despawn,
        )  # fmt: skip
        retake_lane(lanes, number, pose, env, robot)
        return
    pose.heading[env, robot] = values[HEADING + lane]
    lanes.cos[robot], lanes.sin[robot] = values[COS + lane], values[SIN + lane]
    pose.cos[env, robot] = values[COS + lane]
    pose.sin[env, robot] = values[SIN + lane]
    if speed == 0.0:
        return
    x, y = values[X + lane], values[Y + lane]
    on_rack, touched = _obstacles(
        floor, fleet, pose, lists, limits, None, radius, x, y, 0.0, 0.0, env, robot, near
    )  # fmt: skip
    if not on_rack and touched == 0:
        _go(floor, fleet, pose, outcome, lists, x, y, speed * limits.step_s, env, robot, near)
        return
    _refuse(fleet, pose, outcome, lists, None, radius, x, y, 0.0, 0.0, on_rack, env, robot, near, despawn)
    values[SPEED + lane] = 0.0
    values[X + lane], values[Y + lane] = pose.x[env, robot], pose.y[env, robot]


@lean_kernel
def _settle_figure(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    lists: CellLists,
    limits: DriveLimits,
    sides: Sides,
    radius: Float64,
    speed: float,
    turn: float,
    middle: float,
    heading: float,
    env: int,
    robot: int,
    near: bool,
    despawn: bool,
) -> None:
    """The same where some footprints are rectangles: turning needs room, too."""
    if speed == 0.0 and turn == 0.0:
        return
    cos, sin = float(np.float32(np.cos(heading))), float(np.float32(np.sin(heading)))
    # Drive and turn, or at least turn, or stay.
    for driven in (speed, 0.0):
        x = pose.x[env, robot] + driven * limits.step_s * np.cos(middle)
        y = pose.y[env, robot] + driven * limits.step_s * np.sin(middle)
        on_rack, touched = _obstacles(
            floor, fleet, pose, lists, limits, sides, radius, x, y, cos, sin, env, robot, near
        )  # fmt: skip
        if not on_rack and touched == 0:
            pose.heading[env, robot] = heading
            pose.cos[env, robot] = cos
            pose.sin[env, robot] = sin
            _go(floor, fleet, pose, outcome, lists, x, y, driven * limits.step_s, env, robot, near)
            return
        _refuse(fleet, pose, outcome, lists, sides, radius, x, y, cos, sin, on_rack, env, robot, near, despawn)
        if despawn:
            return
    pose.turn_rate[env, robot] = 0.0


@kernel_part
def _obstacles(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    lists: CellLists,
    limits: DriveLimits,
    sides: Sides | None,
    radius: Float64,
    x: float,
    y: float,
    cos: float,
    sin: float,
    env: int,
    robot: int,
    near: bool,
) -> tuple[bool, int]:
    """Whether a rack, a wall or a border of a one-way cell keeps a robot from a place, and how many robots do."""
    on_rack = footprint_meets_rack(floor, sides, radius, robot, x, y, cos, sin, 0.0)
    if floor.one_way and not on_rack:
        on_rack = not _may_enter(floor, fleet.cell[env, robot], _cell_at(floor, x, y))
    touched = 0
    if near:
        touched = count_touched(floor, pose, limits.widest, sides, radius, env, robot, x, y, cos, sin, lists)
    return on_rack, touched


@kernel_part
def _go(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    lists: CellLists,
    x: float,
    y: float,
    way_m: float,
    env: int,
    robot: int,
    near: bool,
) -> None:
    """Put a robot where it wants to be."""
    pose.x[env, robot] = x
    pose.y[env, robot] = y
    outcome.moved_m[env, robot] += abs(way_m)
    if near:
        relink(fleet.cell[env], robot, _cell_at(floor, x, y), lists)
    else:
        fleet.cell[env, robot] = _cell_at(floor, x, y)


@kernel_part
def _refuse(
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    lists: CellLists,
    sides: Sides | None,
    radius: Float64,
    x: float,
    y: float,
    cos: float,
    sin: float,
    on_rack: bool,
    env: int,
    robot: int,
    near: bool,
    despawn: bool,
) -> None:
    """What a contact at (x, y) does under either rule."""
    pose.speed[env, robot] = 0.0
    if not despawn:
        outcome.refused[env, robot] = True
        return
    outcome.rack_contacts[env, robot] += on_rack
    outcome.leaving[env, robot] = True
    if near:
        _remove_touching(fleet, pose, outcome, lists, sides, radius, x, y, cos, sin, env, robot)


@kernel_part
def _remove_touching(
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    lists: CellLists,
    sides: Sides | None,
    radius: Float64,
    x: float,
    y: float,
    cos: float,
    sin: float,
    env: int,
    robot: int,
) -> None:
    """Take a robot, and those that it would overlap at (x, y), off the floor."""
    for other in range(len(radius)):
        present = fleet.alive[env, other] and not outcome.leaving[env, other]
        if present and footprints_meet(pose, sides, radius, env, robot, other, x, y, cos, sin):
            outcome.robot_contacts[env, robot] += 1
            outcome.robot_contacts[env, other] += 1
            outcome.leaving[env, other] = True
            unlink(fleet.cell[env, other], other, lists)
    unlink(fleet.cell[env, robot], robot, lists)


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
