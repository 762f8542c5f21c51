"""The observation blocks about the robot itself: ``self``, ``target`` and ``path``.

Nothing here depends on where on the floor a robot is, on the size of the floor
or on the size of the fleet. The body frame of robots on the grid, which have
no heading, is the floor frame: x to the right, y up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel, number_of
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor, cell_after_next, units_left

__all__ = ["URGENCY_STEPS", "OwnBlocks", "observe_own"]

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]

URGENCY_STEPS = 32.0


class OwnBlocks(NamedTuple):
    """Where the blocks lie in an observation (-1: not used), what they are scaled by, and scratch.

    Attributes:
        self_at: Of ``self``.
        target_at: Of ``target``.
        path_at: Of ``path``.
        target_range_m: Distance of a target that shows as 1.
        path_range_m: Length of a way that shows as 1.
        max_speed: In m/s.
        max_turn_rate: In rad/s.
        cell_after: (N,) int32, scratch: the second next cell on the way of each robot that drives; -1 for none.
    """

    self_at: int
    target_at: int
    path_at: int
    target_range_m: float
    path_range_m: float
    max_speed: float
    max_turn_rate: float
    cell_after: Int32


@lean_kernel
def observe_own(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    blocks: OwnBlocks,
    turning: bool,
    first: int,
    envs: Bool,
    observations: Float32,
) -> None:
    """Write the three blocks, and zeros into the whole observation of slots without a robot.

    Args:
        floor: The floor plan.
        fleet: What robots do.
        pose: Where robots are.
        outcome: ``refused`` of the last step.
        blocks: Which blocks, and where.
        turning: Robots have a heading (differential drive).
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written.
    """
    for env in range(len(envs)):
        if not envs[env]:
            continue
        if turning and blocks.path_at >= 0:
            _look_ahead(floor, fleet, blocks, env, first, observations.shape[1])
        for slot in range(observations.shape[1]):
            robot = index(first + slot)
            row = observations[env, slot]
            if not fleet.alive[env, robot]:
                row[:] = 0.0
                continue
            if blocks.self_at >= 0:
                _write_self(fleet, pose, outcome, blocks, turning, env, robot, row)
            if blocks.target_at >= 0:
                _write_target(floor, fleet, pose, blocks, turning, env, robot, row)
            if blocks.path_at >= 0:
                if turning:
                    _write_way_points(floor, fleet, pose, blocks, env, robot, row)
                else:
                    _write_moves(floor, fleet, blocks, env, robot, row)


@kernel_part
def _look_ahead(floor: Floor, fleet: Fleet, blocks: OwnBlocks, env: int, first: int, number: int) -> None:
    """Find the second next cells.

    In a loop of its own: the route table is larger than the caches, and many look-ups are under way at once.
    """
    for robot in range(index(first), index(first + number)):
        goal, cell, route = fleet.goal[env, robot], fleet.cell[env, robot], fleet.route[env, robot]
        after = -1
        if fleet.alive[env, robot] and goal >= 0 and route >> 4 >= 1:
            after = cell_after_next(floor, goal, cell, route)
        blocks.cell_after[robot] = after


@kernel_part
def _write_self(
    fleet: Fleet, pose: Pose, outcome: Outcome, blocks: OwnBlocks, turning: bool, env: int, robot: int, row: Float32
) -> None:
    at = np.uint64(blocks.self_at)
    if turning:
        row[at] = pose.speed[env, robot] * (1.0 / blocks.max_speed)
        row[at + np.uint64(1)] = pose.turn_rate[env, robot] * (1.0 / blocks.max_turn_rate)
        at += np.uint64(2)
    waiting = np.float32(fleet.waiting[env, robot])
    row[at] = number_of(fleet.loaded, env, robot)
    row[at + np.uint64(1)] = fleet.charge[env, robot]
    row[at + np.uint64(2)] = fleet.charge[env, robot] <= 0.0
    row[at + np.uint64(3)] = number_of(outcome.refused, env, robot)
    row[at + np.uint64(4)] = waiting / (waiting + np.float32(URGENCY_STEPS))


@kernel_part
def _write_target(
    floor: Floor, fleet: Fleet, pose: Pose, blocks: OwnBlocks, turning: bool, env: int, robot: int, row: Float32
) -> None:
    at = np.uint64(blocks.target_at)
    goal = fleet.goal[env, robot]
    if goal < 0:
        for offset in range(6):
            row[at + np.uint64(offset)] = 0.0
        return
    cell = index(floor.goal_cell[index(goal)])
    # Single precision from the difference on: its roots and quotients take half the time.
    dx, dy = np.float32(floor.x[cell] - pose.x[env, robot]), np.float32(floor.y[cell] - pose.y[env, robot])
    distance = np.sqrt(dx * dx + dy * dy)
    one = np.float32(1.0)
    per_m = np.float32(1.0 / blocks.target_range_m)
    if turning:
        per_distance = one / distance if distance > np.float32(0.0) else np.float32(0.0)
        row[at] = (pose.cos[env, robot] * dx + pose.sin[env, robot] * dy) * per_distance
        row[at + np.uint64(1)] = (pose.cos[env, robot] * dy - pose.sin[env, robot] * dx) * per_distance
    else:
        row[at] = min(max(dx * per_m, -one), one)
        row[at + np.uint64(1)] = min(max(dy * per_m, -one), one)
    row[at + np.uint64(2)] = min(distance * per_m, one)
    has_task, loaded = fleet.pickup[env, robot] >= 0, number_of(fleet.loaded, env, robot)
    row[at + np.uint64(3)] = 1 - loaded if has_task else 0
    row[at + np.uint64(4)] = loaded
    row[at + np.uint64(5)] = not has_task


@kernel_part
def _write_moves(floor: Floor, fleet: Fleet, blocks: OwnBlocks, env: int, robot: int, row: Float32) -> None:
    """Grid: for each move 1 if it shortens the way, -1 if a rack or wall is there, else 0; then the way's length."""
    at = np.uint64(blocks.path_at)
    cell, route = fleet.cell[env, robot], fleet.route[env, robot]
    for move in range(1, 5):
        # No robot's way leads into a rack.
        row[at + np.uint64(move - 1)] = (route >> (move - 1) & 1) - (floor.moves[index(cell), index(move)] == cell)
    row[at + np.uint64(4)] = min((route >> 4) * (floor.cell_size_m / blocks.path_range_m), 1.0)


@kernel_part
def _write_way_points(
    floor: Floor, fleet: Fleet, pose: Pose, blocks: OwnBlocks, env: int, robot: int, row: Float32
) -> None:
    """Differential drive: directions to the next two way-points in the body frame; then the way's length."""
    at = np.uint64(blocks.path_at)
    goal = fleet.goal[env, robot]
    if goal < 0:
        for offset in range(5):
            row[at + np.uint64(offset)] = 0.0
        return
    x, y = pose.x[env, robot], pose.y[env, robot]
    dx, dy = np.float32(fleet.way_x[env, robot] - x), np.float32(fleet.way_y[env, robot] - y)
    length = np.sqrt(dx * dx + dy * dy)
    route = fleet.route[env, robot]
    _write_direction(pose, env, robot, dx, dy, length, row, at)
    cell = fleet.cell[env, robot]
    way_m = max((route >> 4) - 1, 0) * floor.cell_size_m + length
    if len(floor.drive_costs) > 0:
        units = units_left(floor, cell, route, length / floor.cell_size_m)
        way_m = units * floor.cells_per_unit * floor.cell_size_m
    row[at + np.uint64(4)] = min(way_m * (1.0 / blocks.path_range_m), 1.0)
    if blocks.cell_after[robot] >= 0:
        after = index(blocks.cell_after[robot])
        dx, dy = np.float32(floor.x[after] - x), np.float32(floor.y[after] - y)
        length = np.sqrt(dx * dx + dy * dy)
    _write_direction(pose, env, robot, dx, dy, length, row, at + np.uint64(2))


@kernel_part
def _write_direction(
    pose: Pose,
    env: int,
    robot: int,
    dx: np.float32,
    dy: np.float32,
    length: np.float32,
    row: Float32,
    at: np.uint64,
) -> None:
    """Unit vector of (dx, dy) in the body frame; zeros for no way."""
    per_length = np.float32(1.0) / length if length > np.float32(1e-9) else np.float32(0.0)
    row[at] = (pose.cos[env, robot] * dx + pose.sin[env, robot] * dy) * per_length
    row[at + np.uint64(1)] = (pose.cos[env, robot] * dy - pose.sin[env, robot] * dx) * per_length
