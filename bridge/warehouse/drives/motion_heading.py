"""Cells with heading: robots face one of four ways, drive one cell forward, or turn by a quarter on the spot.

Actions: stay, forward, turn left, turn right. Each takes a whole step. A turn
is never refused. Forward is the move into the cell that the robot faces, and
follows the rule of ``motion_grid``: all robots wish at once, and a robot that
turns or stays keeps its cell. What robots see is in the body frame, as with
differential drive.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.random_streams import draw

__all__ = ["HEADING_MOVE_NAMES", "face_at_random", "mask_blocked_forward", "note_speeds", "turn_robots"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]

HEADING_MOVE_NAMES: Final = ("stay", "forward", "turn_left", "turn_right")

_FORWARD: Final = 1
_TURN_LEFT: Final = 2
_TURN_RIGHT: Final = 3


@kernel_part
def _faced_move(pose: Pose, env: int, robot: int) -> int:
    """The move (up, right, down, left: 1 to 4) into the cell that a robot faces."""
    if abs(pose.cos[env, robot]) > 0.5:
        return 2 if pose.cos[env, robot] > 0.0 else 4
    return 1 if pose.sin[env, robot] > 0.0 else 3


@kernel_part
def _face(pose: Pose, env: int, robot: int, move: int) -> None:
    pose.cos[env, robot] = 1.0 if move == 2 else -1.0 if move == 4 else 0.0
    pose.sin[env, robot] = 1.0 if move == 1 else -1.0 if move == 3 else 0.0
    pose.heading[env, robot] = 0.0 if move == 2 else -np.pi if move == 4 else 0.5 * np.pi * (2 - move)


@lean_kernel
def face_at_random(pose: Pose, keys: NDArray[np.uint64], envs: Bool) -> None:
    """Turn all robots of the environments in ``envs``, (E,) bool, to one of the four sides; ``keys``: (E,) uint64."""
    for env in range(len(envs)):
        if envs[env]:
            for robot in range(pose.x.shape[1]):
                _face(pose, env, robot, 1 + int(draw(keys[env], robot) % np.uint64(4)))


@lean_kernel
def turn_robots(fleet: Fleet, pose: Pose, moves: Int32, step_s: float) -> None:
    """Turn the robots that are told to, and translate actions into moves between cells.

    Args:
        fleet: Robots without charge do not turn.
        pose: Heading and ``turn_rate`` are written.
        moves: (E, N) int32, actions of this drive; overwritten by stay, up, right, down or left.
        step_s: Simulated time of a step.
    """
    num_envs, num_robots = moves.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            action = moves[env, robot]
            faced = _faced_move(pose, env, robot)
            moves[env, robot] = faced if action == _FORWARD else 0
            pose.turn_rate[env, robot] = 0.0
            if action >= _TURN_LEFT and fleet.charge[env, robot] > 0.0:
                # Up, right, down, left go round clockwise.
                side = 1 if action == _TURN_RIGHT else 3
                _face(pose, env, robot, (faced - 1 + side) % 4 + 1)
                pose.turn_rate[env, robot] = (-0.5 if action == _TURN_RIGHT else 0.5) * np.pi / step_s


@lean_kernel
def note_speeds(outcome: Outcome, pose: Pose, step_s: float) -> None:
    """Write the forward speed of the last step from the way driven."""
    num_envs, num_robots = outcome.moved_m.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            pose.speed[env, robot] = outcome.moved_m[env, robot] / step_s


@lean_kernel
def mask_blocked_forward(floor: Floor, fleet: Fleet, pose: Pose, first: int, mask: Bool) -> None:
    """Forbid forward into racks and walls: writes (E, A, 4) bool, all True in slots without a robot."""
    for env in range(mask.shape[0]):
        for slot in range(mask.shape[1]):
            mask[env, slot] = True
            robot = first + slot
            if fleet.alive[env, robot]:
                cell = fleet.cell[env, robot]
                mask[env, slot, _FORWARD] = floor.moves[cell, _faced_move(pose, env, robot)] != cell
