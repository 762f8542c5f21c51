"""Which robots may touch another one within a step, and which do.

The floor is divided into squares so wide that robots which are not in the same or in neighbouring squares
cannot come to touch each other before the step ends, whatever they do. Most robots are alone in their nine
squares, and most of the others are too far away or too slow to reach anybody.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part
from bridge.warehouse.drives.drive_limits import DriveLimits, Sides, largest_acceleration, largest_way
from bridge.warehouse.drives.footprints import footprints_meet
from bridge.warehouse.fleet import Pose
from bridge.warehouse.floor import Floor

__all__ = ["Crowd", "count_contacts", "first_from", "make_crowd", "split_crowd"]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

# More than any rounding of a distance or a speed.
_MARGIN: Final = 1.0 + 1e-6


class Crowd(NamedTuple):
    """Robots of one environment by square; scratch.

    Attributes:
        per_m: Squares per metre.
        columns: Squares of a row, with one more at either end that stays empty.
        speed_gain: What no robot's speed can grow by within a step, m/s.
        duration_s: Of a step.
        first: (squares,) int32, a robot in each; -1 for nobody, also between calls.
        follower: (N,) int32, another robot in the same square; -1 for none.
        square: (N,) int32, where each robot is.
        alone: (N,) int32, robots that nobody can touch.
        near: (N,) int32, the others, in the order of their slots.
        around: (N,) int32, who is in the nine squares around one of them.
    """

    per_m: float
    columns: int
    speed_gain: float
    duration_s: float
    first: Int32
    follower: Int32
    square: Int32
    alone: Int32
    near: Int32
    around: Int32


def make_crowd(floor: Floor, num_robots: int, limits: DriveLimits) -> Crowd:
    """Squares for a floor and a fleet."""
    reach_m = 2.0 * (limits.widest + largest_way(limits)) * _MARGIN
    # At least as wide as a cell: then there are no more squares than cells, but for those around the floor.
    per_m = 1.0 / max(reach_m, floor.cell_size_m)
    columns = int(floor.width * floor.cell_size_m * per_m) + 3
    rows = int(floor.height * floor.cell_size_m * per_m) + 3
    duration_s = limits.step_s * limits.decision_steps
    return Crowd(
        per_m=float(per_m),
        columns=columns,
        speed_gain=largest_acceleration(limits) * duration_s,
        duration_s=duration_s,
        first=np.full(rows * columns, -1, np.int32),
        follower=np.full(num_robots, -1, np.int32),
        square=np.zeros(num_robots, np.int32),
        alone=np.zeros(num_robots, np.int32),
        near=np.zeros(num_robots, np.int32),
        around=np.zeros(num_robots, np.int32),
    )


@kernel_part
def _enter_squares(alive: Bool, pose: Pose, crowd: Crowd, env: int) -> None:
    """Put the living robots into their squares."""
    columns = np.int32(crowd.columns)
    for robot in range(alive.shape[1]):
        row, column = np.int32(pose.y[env, robot] * crowd.per_m), np.int32(pose.x[env, robot] * crowd.per_m)
        crowd.square[robot] = (row + np.int32(1)) * columns + column + np.int32(1)
    for robot in range(alive.shape[1]):
        if alive[env, robot]:
            square = index(crowd.square[robot])
            crowd.follower[robot] = crowd.first[square]
            crowd.first[square] = robot


@kernel_part
def _clear_squares(alive: Bool, crowd: Crowd, env: int) -> None:
    """Take all robots out again."""
    for robot in range(alive.shape[1]):
        if alive[env, robot]:
            crowd.first[index(crowd.square[robot])] = -1


@kernel_part
def split_crowd(pose: Pose, radius: Float64, alive: Bool, crowd: Crowd, env: int, apart: bool) -> tuple[int, int]:
    """Fill ``alone`` and ``near``; returns how many are in each. Without ``apart`` all living robots are near."""
    num_alone = num_near = 0
    if not apart:
        for robot in range(alive.shape[1]):
            if alive[env, robot]:
                crowd.near[index(num_near)] = robot
                num_near += 1
        return num_alone, num_near
    _enter_squares(alive, pose, crowd, env)
    num_together, num_alone = _list_together(alive, crowd, env)
    for place in range(num_together):
        robot = index(crowd.near[index(place)])
        if _may_touch(pose, radius, crowd, env, robot):
            crowd.near[index(num_near)] = robot
            num_near += 1
        else:
            crowd.alone[index(num_alone)] = robot
            num_alone += 1
    _clear_squares(alive, crowd, env)
    return num_alone, num_near


@kernel_part
def _list_together(alive: Bool, crowd: Crowd, env: int) -> tuple[int, int]:
    """List in ``near`` who has others in the nine squares around, in ``alone`` who has not; returns their numbers."""
    num_alone = num_together = np.uint64(0)
    for robot in range(alive.shape[1]):
        # Written to both lists, and kept by counting on: who is alone is a coin toss.
        crowd.alone[num_alone] = robot
        crowd.near[num_together] = robot
        together = _is_together(crowd, robot) if alive[env, robot] else False
        num_together += np.uint64(together)
        num_alone += np.uint64(alive[env, robot]) - np.uint64(together)
    return int(np.int64(num_together)), int(np.int64(num_alone))


@kernel_part
def _is_together(crowd: Crowd, robot: int) -> bool:
    """Whether another robot is in the nine squares around a robot."""
    first, one, columns = crowd.first, np.uint64(1), np.uint64(crowd.columns)
    middle = np.uint64(crowd.square[robot])
    above, below = middle - columns, middle + columns
    # Nobody is -1, which has all bits.
    around = first[above - one] & first[above] & first[above + one] & first[middle - one] & first[middle + one]
    around &= first[below - one] & first[below] & first[below + one] & crowd.follower[robot]
    return bool((around != -1) | (first[middle] != robot))


@kernel_part
def _list_around(crowd: Crowd, robot: int) -> int:
    """List in ``around`` who else is in the nine squares around a robot; returns their number."""
    number = 0
    for row in range(-1, 2):
        for column in range(-1, 2):
            other = crowd.first[index(crowd.square[robot] + row * crowd.columns + column)]
            while other >= 0:
                crowd.around[index(number)] = other
                number += other != robot
                other = crowd.follower[index(other)]
    return number


@kernel_part
def _may_touch(pose: Pose, radius: Float64, crowd: Crowd, env: int, robot: int) -> bool:
    """Whether a robot and one of those around may come to touch each other within the step."""
    found = False
    own = radius[robot] + _longest_way(pose, crowd, env, robot)
    for place in range(_list_around(crowd, robot)):
        other = index(crowd.around[index(place)])
        dx, dy = pose.x[env, other] - pose.x[env, robot], pose.y[env, other] - pose.y[env, robot]
        reach = own + radius[other] + _longest_way(pose, crowd, env, other)
        found |= dx * dx + dy * dy < reach * reach
    return found


@kernel_part
def _longest_way(pose: Pose, crowd: Crowd, env: int, robot: int) -> float:
    """What a robot cannot drive more than within the step, m."""
    return float((abs(pose.speed[env, robot]) + crowd.speed_gain) * crowd.duration_s * _MARGIN)


@kernel_part
def count_contacts(
    pose: Pose, alive: Bool, sides: Sides | None, radius: Float64, crowd: Crowd, env: int, contacts: Int32
) -> None:
    """Write how many others each robot overlaps; contacts are (E, N) int32, 0 before."""
    _enter_squares(alive, pose, crowd, env)
    num_together, _ = _list_together(alive, crowd, env)
    for place in range(num_together):
        robot = index(crowd.near[index(place)])
        x, y = pose.x[env, robot], pose.y[env, robot]
        cos, sin = float(pose.cos[env, robot]), float(pose.sin[env, robot])
        for neighbour in range(_list_around(crowd, robot)):
            other = index(crowd.around[index(neighbour)])
            contacts[env, robot] += footprints_meet(pose, sides, radius, env, robot, other, x, y, cos, sin)
    _clear_squares(alive, crowd, env)


@kernel_part
def first_from(robots: Int32, number: int, slot: int) -> int:
    """Place of the first of ``number`` robots, in the order of slots, whose slot is not below ``slot``."""
    place = 0
    for each in range(number):
        place += robots[index(each)] < slot
    return place
