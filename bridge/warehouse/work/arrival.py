"""When a robot has reached the place that it is sent to."""

from __future__ import annotations

from bridge.jit import kernel_part
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.floor import Floor

__all__ = ["has_arrived"]


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
    cell = floor.goal_cell[fleet.goal[env, robot]]
    if radius_m < 0.0:
        return bool(fleet.cell[env, robot] == cell)
    dx = floor.x[cell] - pose.x[env, robot]
    dy = floor.y[cell] - pose.y[env, robot]
    return bool(dx * dx + dy * dy <= radius_m * radius_m)
