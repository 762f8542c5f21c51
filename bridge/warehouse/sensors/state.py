"""The global state for critics: everything that no robot may see."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel, number_of
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
        for robot in range(num_robots):
            row = state[env, robot * _SIZE : (robot + 1) * _SIZE]
            if not fleet.alive[env, robot]:
                row[:] = 0.0
                continue
            goal = fleet.goal[env, robot]
            target = floor.goal_cell[goal] if goal >= 0 else fleet.cell[env, robot]
            row[0] = pose.x[env, robot] * scale
            row[1] = pose.y[env, robot] * scale
            row[2] = pose.cos[env, robot]
            row[3] = pose.sin[env, robot]
            row[4] = pose.vx[env, robot] * per_speed
            row[5] = pose.vy[env, robot] * per_speed
            row[6] = number_of(fleet.loaded, env, robot)
            row[7] = fleet.charge[env, robot]
            row[8] = floor.x[target] * scale
            row[9] = floor.y[target] * scale
            row[10] = fleet.pickup[env, robot] >= 0
            row[11] = 1.0
        state[env, num_robots * _SIZE] = 1.0 - steps[env] / episode_steps
