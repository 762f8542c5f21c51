"""What a laser scanner sees of robots with round footprints.

All pairs of a robot that looks and one in its range are listed first; then a step of the work is done for
all of them, in the lanes of the processor's vector registers: how many robots somebody sees, and how many
beams meet one of them, cannot be foreseen, and a loop for each would be mispredicted nearly every time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.fleet import Pose
from bridge.warehouse.sensors.beams import Beams, LidarPlace
from bridge.warehouse.sensors.buckets import Buckets, place_in_runs, runs_near
from bridge.warehouse.sensors.nearest import NOBODY, Nearest

__all__ = ["Sightings", "cut_by_robots", "make_sightings"]

Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

_FAR: Final = np.float32(np.inf)
_TINY: Final = np.float32(1e-9)
_QUARTER: Final = np.float32(0.5 * np.pi)
_HALF: Final = np.float32(np.pi)
# Fitted to the arc tangent on [0, 1] with the least largest error, 8e-5.
_ARC_1, _ARC_3 = np.float32(0.99921381), np.float32(-0.32117489)
_ARC_5, _ARC_7 = np.float32(0.14626427), np.float32(-0.03898638)
# x + 0.5708 x^3 is at least the arc sine of x, and equal at 0 and 1.
_ARC_SINE: Final = np.float32(0.5708)
_ANGLE_ERROR: Final = np.float32(1e-3)

_ROOM: Final = 480
# Fields of the pairs, one after the other in the two arrays.
_STRIDE: Final = _ROOM + 16
_AHEAD: Final = np.uint64(0)
_ASIDE: Final = np.uint64(_STRIDE)
_RADIUS: Final = np.uint64(2 * _STRIDE)
# Of the two beams that are measured at a time.
_COS: Final = np.uint64(3 * _STRIDE), np.uint64(4 * _STRIDE)
_SIN: Final = np.uint64(5 * _STRIDE), np.uint64(6 * _STRIDE)
_DISTANCE: Final = np.uint64(7 * _STRIDE), np.uint64(8 * _STRIDE)
_NUM_LENGTHS: Final = 9
_ROW: Final = np.uint64(0)
_BEAM: Final = np.uint64(_STRIDE)
_LAST_BEAM: Final = np.uint64(2 * _STRIDE)
_PLACE: Final = np.uint64(3 * _STRIDE), np.uint64(4 * _STRIDE)
_NUM_NUMBERS: Final = 5


class _Eye(NamedTuple):
    """Where a robot is that looks, in m, and which way it faces."""

    x: np.float32
    y: np.float32
    cos: np.float32
    sin: np.float32


class Sightings(NamedTuple):
    """Pairs of a robot that looks and another one in its range; scratch.

    Attributes:
        lengths: (4464,) float32, nine fields: where the other one is, ahead and to the left in the body frame of the
            one that looks, its radius, cosine of two of the beams, sine of them, and what they measure; in m, but
            what is measured as a share of the range.
        numbers: (2480,) int32, five fields: where the row of the one that looks begins in the observations, the
            first and the last beam that may meet the other one, and where what is measured belongs.
    """

    lengths: Float32
    numbers: Int32


def make_sightings() -> Sightings:
    """An empty list."""
    return Sightings(np.zeros(_NUM_LENGTHS * _STRIDE, np.float32), np.zeros(_NUM_NUMBERS * _STRIDE, np.int32))


@kernel_part
def cut_by_robots(
    pose: Pose,
    radius: Float64,
    alive: Bool,
    buckets: Buckets,
    nearest: Nearest,
    sightings: Sightings,
    beams: Beams,
    lidar: LidarPlace,
    first: int,
    env: int,
    observations: Float32,
) -> None:
    """Shorten those beams of one role's robots in one environment that meet other robots.

    Args:
        pose: Where robots are.
        radius: (N,) float64, footprints in m.
        alive: (N,) bool, on the floor.
        buckets: Robots by place; the edge is at least the range plus the largest radius.
        nearest: Found by ``find_nearest`` within the range plus the largest radius.
        sightings: Scratch.
        beams: Of ``make_beams``.
        lidar: Where and what.
        first: Slot of the role's first robot on the robot axis.
        env: The environment.
        observations: (A, F) float32, advanced.
    """
    values, room, number = observations.reshape(-1), nearest.keys.shape[2], 0
    for slot in range(observations.shape[0]):
        robot = index(first + slot)
        if not alive[robot]:
            continue
        eye = _Eye(
            np.float32(pose.x[env, robot]), np.float32(pose.y[env, robot]), pose.cos[env, robot], pose.sin[env, robot]
        )
        row, keys = slot * observations.shape[1] + lidar.at, nearest.keys[env, robot]
        if number + room > _ROOM:
            _cut(sightings, number, beams, lidar, values)
            number = 0
        if keys[index(room - 1)] == NOBODY:
            # All that are in range are listed.
            for place in range(room - 1):
                key = keys[index(place)]
                # Written in any case, and kept by counting on.
                other = index(robot if key == NOBODY else key & nearest.slot_bits)
                _note(sightings, number, pose, radius, env, other, eye, row)
                number += key != NOBODY
            continue
        runs = runs_near(buckets, env, pose.x[env, robot], pose.y[env, robot])
        for candidate in range(runs.number):
            other = index(buckets.robot[env, place_in_runs(runs, candidate)])
            dx, dy = pose.x[env, other] - pose.x[env, robot], pose.y[env, other] - pose.y[env, robot]
            _note(sightings, number, pose, radius, env, other, eye, row)
            number += (other != robot) & (dx * dx + dy * dy < nearest.reach)
            if number == _ROOM:
                _cut(sightings, number, beams, lidar, values)
                number = 0
    _cut(sightings, number, beams, lidar, values)


@kernel_part
def _note(
    sightings: Sightings, number: int, pose: Pose, radius: Float64, env: int, other: int, eye: _Eye, row: int
) -> None:
    """Write a pair."""
    dx, dy = np.float32(pose.x[env, other]) - eye.x, np.float32(pose.y[env, other]) - eye.y
    pair = np.uint64(number)
    sightings.lengths[_AHEAD + pair] = eye.cos * dx + eye.sin * dy
    sightings.lengths[_ASIDE + pair] = eye.cos * dy - eye.sin * dx
    sightings.lengths[_RADIUS + pair] = radius[other]
    sightings.numbers[_ROW + pair] = row


@lean_kernel
def _cut(sightings: Sightings, number: int, beams: Beams, lidar: LidarPlace, values: Float32) -> None:
    """Shorten the beams of all pairs, two of each pair at a time, until no pair has any left."""
    lengths, numbers = sightings.lengths, sightings.numbers
    _find_beams(lengths, numbers, number, lidar.beams)
    while number > 0:
        for each in range(number):
            pair = np.uint64(each)
            _aim(lengths, numbers, pair, 0, beams, lidar.beams)
            _aim(lengths, numbers, pair, 1, beams, lidar.beams)
        _measure(lengths, number, 0, lidar.range_m)
        _measure(lengths, number, 1, lidar.range_m)
        left = 0
        for each in range(number):
            pair = np.uint64(each)
            for beam in range(2):
                at = index(numbers[_PLACE[beam] + pair])
                values[at] = min(values[at], lengths[_DISTANCE[beam] + pair])
            left += _keep(lengths, numbers, pair, np.uint64(left))
        number = left


@kernel_part
def _aim(lengths: Float32, numbers: Int32, pair: np.uint64, which: int, beams: Beams, num_beams: int) -> None:
    """Look up one of the two beams of a pair that are next, and where in the observations it belongs."""
    beam = int(numbers[_BEAM + pair]) + which
    beam = index(beam + num_beams if beam < 0 else beam - num_beams if beam >= num_beams else beam)
    lengths[_COS[which] + pair] = beams.cos[beam]
    lengths[_SIN[which] + pair] = beams.sin[beam]
    numbers[_PLACE[which] + pair] = np.uint64(numbers[_ROW + pair]) + beam


@kernel_part
def _measure(lengths: Float32, number: int, which: int, range_m: float) -> None:
    """What one beam of each pair measures, as a share of the range; no centre is inside."""
    per_range = np.float32(1.0 / range_m)
    for each in range(number):
        pair = np.uint64(each)
        ahead, aside, radius = lengths[_AHEAD + pair], lengths[_ASIDE + pair], lengths[_RADIUS + pair]
        cos, sin = lengths[_COS[which] + pair], lengths[_SIN[which] + pair]
        along = ahead * cos + aside * sin
        # Squared distance of the centre from the beam, free of the cancellation of |d|^2 - along^2.
        across = ahead * sin - aside * cos
        inside = radius * radius - across * across
        distance = (along - np.sqrt(max(inside, np.float32(0.0)))) * per_range
        lengths[_DISTANCE[which] + pair] = distance if min(inside, along) >= np.float32(0.0) else _FAR


@kernel_part
def _keep(lengths: Float32, numbers: Int32, pair: np.uint64, kept: np.uint64) -> bool:
    """Move a pair forward in the list, behind the first two of its beams; False if it has no more."""
    lengths[_AHEAD + kept] = lengths[_AHEAD + pair]
    lengths[_ASIDE + kept] = lengths[_ASIDE + pair]
    lengths[_RADIUS + kept] = lengths[_RADIUS + pair]
    numbers[_ROW + kept] = numbers[_ROW + pair]
    beam, last = numbers[_BEAM + pair] + 2, numbers[_LAST_BEAM + pair]
    numbers[_BEAM + kept] = beam
    numbers[_LAST_BEAM + kept] = last
    return bool(beam <= last)


@kernel_part
def _find_beams(lengths: Float32, numbers: Int32, number: int, num_beams: int) -> None:
    """First and last beam of each pair that can meet the circle, counted from straight ahead to both sides.

    Never too few, and at most one too many at either side: the angles are estimated by polynomials,
    the arc tangent within 1e-4, the arc sine from above.
    """
    per_rad = np.float32(num_beams / (2.0 * np.pi))
    for each in range(number):
        pair = np.uint64(each)
        ahead, aside, radius = lengths[_AHEAD + pair], lengths[_ASIDE + pair], lengths[_RADIUS + pair]
        far, near = max(abs(ahead), abs(aside)), min(abs(ahead), abs(aside))
        a = near / max(far, _TINY)
        s = a * a
        angle = a * (_ARC_1 + s * (_ARC_3 + s * (_ARC_5 + s * _ARC_7)))
        angle = _QUARTER - angle if abs(aside) > abs(ahead) else angle
        angle = _HALF - angle if ahead < np.float32(0.0) else angle
        angle = -angle if aside < np.float32(0.0) else angle
        ratio = radius / max(np.sqrt(ahead * ahead + aside * aside), radius)
        half = ratio + _ARC_SINE * ratio * ratio * ratio + _ANGLE_ERROR
        numbers[_BEAM + pair] = np.int32(np.ceil((angle - half) * per_rad))
        numbers[_LAST_BEAM + pair] = np.int32(np.floor((angle + half) * per_rad))
