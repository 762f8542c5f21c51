"""The global state for critics: everything that no robot may see."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, lean_kernel, number_of
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.floor import Floor

__all__ = ["STATE_FIELDS", "state_size", "write_state"]

STATE_FIELDS: Final = (
    "x", "y", "cos", "sin", "vx", "vy", "loaded", "charge", "target_x", "target_y", "has_task", "alive",
)  # fmt: skip
_SIZE: Final = len(STATE_FIELDS)


def state_size(num_robots: int) -> int:
    """Length of the state: the fields of every robot, then the share of the episode that is left."""
    return num_robots * _SIZE + 1


@lean_kernel
def write_state(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    steps: NDArray[np.int32],
    episode_steps: int,
    max_speed: float,
    envs: NDArray[np.bool_],
    state: NDArray[np.float32],
) -> None:
    """Write the state of the environments in ``envs``.

    Per robot, in the order of the robot axis: position over the floor's longer side, cosine and
    sine of the heading, velocity over the largest speed, load, charge, position of the target
    (its own without one), whether it has a task, whether it is on the floor; all 0 where it is not.

    Args:
        floor: The floor plan.
        fleet: What robots do.
        pose: Where robots are.
        steps: (E,) int32, steps of the episode so far.
        episode_steps: Steps until the episode is cut.
        max_speed: m/s that velocities are divided by.
        envs: (E,) bool, environments to treat.
        state: (E, N * 12 + 1) float32, written; values in about [-1, 1].
    """
    num_robots = fleet.cell.shape[1]
    scale, per_speed = 1.0 / (max(floor.width, floor.height) * floor.cell_size_m), 1.0 / max_speed
    for env in range(len(envs)):
        if not envs[env]:
            continue
        row, at = state[env], np.uint64(0)
        for robot in range(num_robots):
            if fleet.alive[env, robot]:
                goal = fleet.goal[env, robot]
                target = index(floor.goal_cell[index(goal)] if goal >= 0 else fleet.cell[env, robot])
                row[at] = pose.x[env, robot] * scale
                row[at + np.uint64(1)] = pose.y[env, robot] * scale
                row[at + np.uint64(2)] = pose.cos[env, robot]
                row[at + np.uint64(3)] = pose.sin[env, robot]
                row[at + np.uint64(4)] = pose.vx[env, robot] * per_speed
                row[at + np.uint64(5)] = pose.vy[env, robot] * per_speed
                row[at + np.uint64(6)] = number_of(fleet.loaded, env, robot)
                row[at + np.uint64(7)] = fleet.charge[env, robot]
                row[at + np.uint64(8)] = floor.x[target] * scale
                row[at + np.uint64(9)] = floor.y[target] * scale
                row[at + np.uint64(10)] = fleet.pickup[env, robot] >= 0
                row[at + np.uint64(11)] = 1.0
            else:
                for offset in range(_SIZE):
                    row[at + np.uint64(offset)] = 0.0
            at += np.uint64(_SIZE)
        state[env, num_robots * _SIZE] = 1.0 - steps[env] / episode_steps
