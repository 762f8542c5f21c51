"""When a robot has reached the place that it is sent to."""

from __future__ import annotations

from bridge.jit import kernel_part
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.floor import Floor

__all__ = ["has_arrived", "is_at"]


@kernel_part
def has_arrived(floor: Floor, fleet: Fleet, pose: Pose, env: int, robot: int, radius_m: float) -> bool:
    """Whether a robot with a goal is there.

    Args:
        floor: The floor plan.
        fleet: ``goal`` >= 0.
        pose: Where robots are.
        env: Environment.
        robot: Robot.
        radius_m: How near to the centre of the goal's cell counts as there; negative: in its cell.
    """
    return is_at(floor, fleet, pose, int(fleet.goal[env, robot]), env, robot, radius_m)


@kernel_part
def is_at(floor: Floor, fleet: Fleet, pose: Pose, goal: int, env: int, robot: int, radius_m: float) -> bool:
    """As :func:`has_arrived`, for any goal: whether the robot is there."""
    cell = floor.goal_cell[goal]
    if radius_m < 0.0:
        return bool(fleet.cell[env, robot] == cell)
    dx = floor.x[cell] - pose.x[env, robot]
    dy = floor.y[cell] - pose.y[env, robot]
    return bool(dx * dx + dy * dy <= radius_m * radius_m)
