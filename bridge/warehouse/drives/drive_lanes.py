"""How a differential drive answers its commands, for eight robots at a time.

A physics step of a robot, before it is known whether its new place is free: speed and turn rate approach
their commands, the heading turns, the centre moves along the middle heading. Nothing of it depends on other
robots, so each of eight is a lane of the processor's vector registers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part
from bridge.warehouse.drives.drive_limits import DriveLimits, OwnLimits, largest_turn
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.floor import Floor

__all__ = [
    "COS",
    "HEADING",
    "LANES",
    "SIN",
    "SPEED",
    "TURN_RATE",
    "WANTED_SPEED",
    "Lanes",
    "X",
    "Y",
    "advance_lanes",
    "command_lane",
    "make_lanes",
    "retake_lane",
    "set_cos_and_sin",
    "take_lane",
]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

LANES: Final = 8
# Fields of a lane, one after the other; those of the commands and limits last.
X: Final = np.uint64(0)
Y: Final = np.uint64(LANES)
HEADING: Final = np.uint64(2 * LANES)
COS: Final = np.uint64(3 * LANES)
SIN: Final = np.uint64(4 * LANES)
SPEED: Final = np.uint64(5 * LANES)
TURN_RATE: Final = np.uint64(6 * LANES)
WANTED_SPEED: Final = np.uint64(7 * LANES)
_WANTED_TURN: Final = np.uint64(8 * LANES)
_FASTER: Final = np.uint64(9 * LANES)
_SLOWER: Final = np.uint64(10 * LANES)
_TURN_STEP: Final = np.uint64(11 * LANES)
_NUM_FIELDS: Final = 12

# A quarter turn: so many bits that its multiples are exact, and what is missing.
_QUARTER: Final = 1.5707963267341256
_QUARTER_REST: Final = 6.077100506506192e-11
_LITTLE: Final = 0.25
_STANDS: Final = 1e-3


class Lanes(NamedTuple):
    """Robots in their lanes; scratch.

    Attributes:
        values: (96,) float64, the fields of eight lanes.
        robot: (8,) int32, who is in each lane.
        cos: (N,) float64, cosine of every robot's heading within a step.
        sin: (N,) float64, sine of it.
        turns_little: No robot turns by more in half a physics step than the short series allow.
    """

    values: Float64
    robot: NDArray[np.int32]
    cos: Float64
    sin: Float64
    turns_little: bool


def make_lanes(num_robots: int, limits: DriveLimits) -> Lanes:
    """Lanes for a fleet."""
    half_turn = 0.5 * largest_turn(limits)
    zeros = np.zeros(num_robots), np.zeros(num_robots)
    return Lanes(
        np.zeros(_NUM_FIELDS * LANES), np.zeros(LANES, np.int32), *zeros, turns_little=bool(half_turn <= _LITTLE)
    )


@kernel_part
def take_lane(
    lanes: Lanes, number: int, pose: Pose, limits: DriveLimits, own: OwnLimits | None, env: int, robot: int
) -> None:
    """Put a robot into a lane."""
    values, lane = lanes.values, np.uint64(number)
    lanes.robot[index(number)] = robot
    retake_lane(lanes, number, pose, env, robot)
    values[COS + lane] = lanes.cos[robot]
    values[SIN + lane] = lanes.sin[robot]
    faster, slower, turn_step = limits.max_acceleration, limits.max_deceleration, limits.max_turn_acceleration
    if own is not None:
        faster, slower = own.max_acceleration[robot], own.max_deceleration[robot]
        turn_step = own.max_turn_acceleration[robot]
    faster, slower, turn_step = faster * limits.step_s, slower * limits.step_s, turn_step * limits.step_s
    if len(limits.traction) > 0:
        faster, slower = faster * limits.traction[env], slower * limits.traction[env]
        turn_step *= limits.traction[env]
    values[_FASTER + lane] = faster
    values[_SLOWER + lane] = slower
    values[_TURN_STEP + lane] = turn_step


@kernel_part
def retake_lane(lanes: Lanes, number: int, pose: Pose, env: int, robot: int) -> None:
    """Note again where the robot in a lane is, and how fast."""
    values, lane = lanes.values, np.uint64(number)
    values[X + lane] = pose.x[env, robot]
    values[Y + lane] = pose.y[env, robot]
    values[HEADING + lane] = pose.heading[env, robot]
    values[SPEED + lane] = pose.speed[env, robot]
    values[TURN_RATE + lane] = pose.turn_rate[env, robot]


@kernel_part
def command_lane(
    lanes: Lanes,
    number: int,
    floor: Floor,
    fleet: Fleet,
    limits: DriveLimits,
    own: OwnLimits | None,
    actions: Float32,
    env: int,
) -> None:
    """Tell the robot in a lane what its action asks of it where it is; an empty battery asks it to stand."""
    robot, lane = index(lanes.robot[index(number)]), np.uint64(number)
    ahead, back, turn_limit = limits.max_speed, limits.max_reverse, limits.max_turn_rate
    if own is not None:
        ahead, back, turn_limit = own.max_speed[robot], own.max_reverse[robot], own.max_turn_rate[robot]
    if len(floor.speed_limit) > 0:
        limit = floor.speed_limit[index(fleet.cell[env, robot])]
        ahead, back = min(ahead, limit), min(back, limit)
    share, turn_share = float(actions[env, robot, 0]), float(actions[env, robot, 1])
    if fleet.charge[env, robot] <= 0.0:
        share = turn_share = 0.0
    # One of both is 0: no choice by a sign that nobody can foresee.
    wanted_speed = max(share, 0.0) * ahead + min(share, 0.0) * back
    if len(limits.speed_factor) > 0:
        wanted_speed *= limits.speed_factor[env]
    lanes.values[WANTED_SPEED + lane] = wanted_speed
    lanes.values[_WANTED_TURN + lane] = turn_share * turn_limit


@kernel_part
def advance_lanes(lanes: Lanes, num_lanes: int, limits: DriveLimits) -> None:
    """One physics step of the robots in the lanes, as if there were nothing in the way.

    Written so that it becomes one sequence of vector instructions: a length that is not known when it is
    compiled, one array whose parts provably do not overlap, no branch.
    """
    values = lanes.values
    if limits.response < 1.0:
        for number in range(_whole(num_lanes)):
            lane = np.uint64(number)
            values[WANTED_SPEED + lane] = _lag(values[SPEED + lane], values[WANTED_SPEED + lane], limits.response)
            values[_WANTED_TURN + lane] = _lag(values[TURN_RATE + lane], values[_WANTED_TURN + lane], limits.response)
    if lanes.turns_little:
        for number in range(_whole(num_lanes)):
            lane = np.uint64(number)
            half = 0.5 * _speed_up(values, lane) * limits.step_s
            # Factors instead of divisors, by which the compiler may not replace them.
            s = half * half
            cos = 1.0 - s * (0.5 - s * ((1 / 24) - s * ((1 / 720) - s * ((1 / 40320) - s * (1 / 3628800)))))
            sin = 1.0 - s * ((1 / 6) - s * ((1 / 120) - s * ((1 / 5040) - s * ((1 / 362880) - s * (1 / 39916800)))))
            _drive_on(values, lane, cos, half * sin, limits.step_s)
    else:
        for number in range(num_lanes):
            lane = np.uint64(number)
            half = 0.5 * _speed_up(values, lane) * limits.step_s
            _drive_on(values, lane, np.cos(half), np.sin(half), limits.step_s)


@kernel_part
def _whole(num_lanes: int) -> int:
    return (num_lanes + LANES - 1) & ~(LANES - 1)


@kernel_part
def _speed_up(values: Float64, lane: np.uint64) -> float:
    """Speed and turn rate approach their commands; returns the turn rate."""
    faster, slower = values[_FASTER + lane], values[_SLOWER + lane]
    values[SPEED + lane] = _approach(values[SPEED + lane], values[WANTED_SPEED + lane], faster, slower)
    step = values[_TURN_STEP + lane]
    turn = _approach(values[TURN_RATE + lane], values[_WANTED_TURN + lane], step, step)
    values[TURN_RATE + lane] = turn
    return turn


@kernel_part
def _drive_on(values: Float64, lane: np.uint64, half_cos: float, half_sin: float, step_s: float) -> None:
    """The heading turns by twice an angle; the centre moves along the heading in the middle of that."""
    before_cos, before_sin = values[COS + lane], values[SIN + lane]
    cos, sin = before_cos * half_cos - before_sin * half_sin, before_sin * half_cos + before_cos * half_sin
    values[COS + lane], values[SIN + lane] = cos * half_cos - sin * half_sin, sin * half_cos + cos * half_sin
    heading = values[HEADING + lane] + values[TURN_RATE + lane] * step_s
    values[HEADING + lane] = heading - 2.0 * np.pi * np.floor((heading + np.pi) * (0.5 / np.pi))
    way = values[SPEED + lane] * step_s
    values[X + lane] += way * cos
    values[Y + lane] += way * sin


@kernel_part
def _lag(value: float, target: float, response: float) -> float:
    """What a first-order lag makes of a command; what is left of one to stand is cut."""
    stands = (target == 0.0) & (abs(value) < _STANDS)
    return 0.0 if stands else value + response * (target - value)


@kernel_part
def _approach(value: float, target: float, faster: float, slower: float) -> float:
    """``target``, or the nearest to it that the limits on speeding up and on braking allow; braking ends at 0."""
    change = target - value
    limit = slower if value * change < 0.0 else faster
    changed = value + min(max(change, -limit), limit)
    return 0.0 if value * changed < 0.0 else changed


@kernel_part
def set_cos_and_sin(angles: Float64, cosines: Float64, sines: Float64) -> None:
    """Cosines and sines of angles in about [-pi, pi], within 1e-15.

    Written so that it becomes one sequence of vector instructions: an eighth of what the general functions take.
    """
    for each in range(len(angles)):
        quarters = np.floor(angles[each] * (2.0 / np.pi) + 0.5)
        rest = (angles[each] - quarters * _QUARTER) - quarters * _QUARTER_REST
        # Their series, up to the terms that no longer count at an eighth of a turn.
        s = rest * rest
        cos = (1 / 3628800) - s * ((1 / 479001600) - s * ((1 / 87178291200) - s * (1 / 20922789888000)))
        cos = 1.0 - s * (0.5 - s * ((1 / 24) - s * ((1 / 720) - s * ((1 / 40320) - s * cos))))
        sin = (1 / 362880) - s * ((1 / 39916800) - s * ((1 / 6227020800) - s * (1 / 1307674368000)))
        sin = rest * (1.0 - s * ((1 / 6) - s * ((1 / 120) - s * ((1 / 5040) - s * sin))))
        # Whole turns do not count: 0, 1, 2 or 3 quarters.
        quarters -= 4.0 * np.floor(0.25 * quarters)
        is_odd = abs(quarters - 2.0) == 1.0
        one, two = sin if is_odd else cos, cos if is_odd else sin
        cosines[each] = -one if abs(quarters - 1.5) < 1.0 else one
        sines[each] = -two if quarters > 1.5 else two
