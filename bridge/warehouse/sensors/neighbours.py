"""The observation block about the nearest robots in range.

What a robot shows of itself is the same for everybody who sees it, so it is put
together once, on a *card* of one cache line; a neighbour is then read from one place.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.sensors.buckets import Buckets

__all__ = [
    "NEIGHBOUR_FIELDS",
    "Candidates",
    "NeighbourBlock",
    "make_candidates",
    "observe_neighbours",
    "write_cards",
]

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

NEIGHBOUR_FIELDS: Final = ("valid", "dx", "dy", "vx", "vy", "way_x", "way_y", "loaded", "has_priority")
_SIZE: Final = len(NEIGHBOUR_FIELDS)
_CARD: Final = 8
_NOBODY: Final = np.iinfo(np.int64).max


class Candidates(NamedTuple):
    """Scratch of the search; N robots.

    Attributes:
        keys: (N + 1,) int64, squared distances in range, each with its robot.
        cards: (E, N + 1, 8) float32, what each robot shows in the floor frame, as in an observation: 1, place in
            ranges, velocity, direction of its next way, loaded. The last one is nobody's: zeros.
        own: (4,) float32, place of the robot that looks, and with a heading its velocity; else zeros.
        priority: (E, N + 1) int64, the larger one has the right of way.
    """

    keys: Int64
    cards: Float32
    own: Float32
    priority: Int64


class NeighbourBlock(NamedTuple):
    """Where the block lies in an observation, its number of robots, and what it is scaled by."""

    at: int
    num_robots: int
    range_m: float
    speed_scale: float


def make_candidates(num_envs: int, num_robots: int) -> Candidates:
    """Scratch for a fleet."""
    return Candidates(
        keys=np.zeros(num_robots + 1, np.int64),
        cards=np.zeros((num_envs, num_robots + 1, _CARD), np.float32),
        own=np.zeros(4, np.float32),
        priority=np.zeros((num_envs, num_robots + 1), np.int64),
    )


@lean_kernel
def write_cards(
    fleet: Fleet, pose: Pose, block: NeighbourBlock, turning: bool, envs: Bool, candidates: Candidates
) -> None:
    """Write what each robot shows of itself, before :func:`observe_neighbours`.

    Args:
        fleet: What robots do.
        pose: Where robots are.
        block: What it is scaled by.
        turning: Robots have a heading, and ways in any direction.
        envs: (E,) bool, environments to treat.
        candidates: Of :func:`make_candidates`; cards and priorities are written.
    """
    num_robots = fleet.cell.shape[1]
    per_m, per_speed = 1.0 / block.range_m, 1.0 / block.speed_scale
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for robot in range(num_robots):
            card = candidates.cards[env, robot]
            card[0] = 1.0
            card[1] = pose.x[env, robot] * per_m
            card[2] = pose.y[env, robot] * per_m
            card[3] = pose.vx[env, robot] * per_speed
            card[4] = pose.vy[env, robot] * per_speed
            if turning:
                way_x = fleet.way_x[env, robot] - pose.x[env, robot]
                way_y = fleet.way_y[env, robot] - pose.y[env, robot]
                length = max(np.sqrt(way_x * way_x + way_y * way_y), 1e-9)
                card[5] = way_x / length
                card[6] = way_y / length
            else:
                route = fleet.route[env, robot]
                card[5] = (route >> 1 & 1) - (route >> 3 & 1)
                card[6] = (route & 1) - (route >> 2 & 1)
            card[7] = fleet.loaded[env, robot]
            # Who has waited longer, and the lower slot among equals.
            candidates.priority[env, robot] = np.int64(fleet.waiting[env, robot]) * num_robots - robot


@lean_kernel
def observe_neighbours(
    alive: Bool,
    pose: Pose,
    buckets: Buckets,
    candidates: Candidates,
    block: NeighbourBlock,
    turning: bool,
    first: int,
    envs: Bool,
    observations: Float32,
) -> None:
    """Write the block of the nearest robots, nearest first, the lower slot among equals.

    ``has_priority`` is 1 if the neighbour has the right of way and -1 if it has not, so the two
    robots of any pair see opposite signs. The right of way is with the robot that has waited
    longer since it last reached a station, and with the lower slot among equals.

    Args:
        alive: (E, N) bool, robots on the floor.
        pose: Where robots are.
        buckets: Sorted by ``sort_robots``.
        candidates: Of :func:`make_candidates`, with what :func:`write_cards` writes.
        block: Where and what.
        turning: Robots have a heading: places, velocities and ways are in the body frame, velocities relative.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written.
    """
    size = block.num_robots * _SIZE
    num_robots = alive.shape[1]
    keys, own = candidates.keys, candidates.own
    for env in range(len(envs)):
        if not envs[env]:
            continue
        cards, priority = candidates.cards[env], candidates.priority[env]
        for slot in range(observations.shape[1]):
            robot = first + slot
            if not alive[env, robot]:
                continue
            row = observations[env, slot, block.at : block.at + size]
            at = np.uint64(0)
            found = _gather(buckets, keys, pose, block.range_m, env, robot)
            own[0], own[1] = cards[robot, 1], cards[robot, 2]
            if turning:
                own[2], own[3] = cards[robot, 3], cards[robot, 4]
            last = np.int64(-1)
            # No branch depends on how many robots there are: it would be mispredicted every other time.
            for _ in range(block.num_robots):
                last = _next_key(keys, found, last)
                valid = last != _NOBODY
                other = last & 0xFFFFFFFF if valid else num_robots
                shown = np.float32(valid)
                _write_relative(cards, np.uint64(other), own, shown, row, at)
                if turning:
                    _turn(pose.cos[env, robot], pose.sin[env, robot], row, at)
                row[at + np.uint64(8)] = shown if priority[other] > priority[robot] else np.float32(0.0) - shown
                at += np.uint64(_SIZE)


@kernel_part
def _gather(buckets: Buckets, keys: Int64, pose: Pose, range_m: float, env: int, robot: int) -> int:
    """Keys of the robots in range of a robot: squared distance, then slot; returns their number.

    Bits of floats that are not negative sort like the floats, so one integer holds both.
    """
    x, y = np.float32(pose.x[env, robot]), np.float32(pose.y[env, robot])
    reach = np.float32(range_m * range_m)
    row, column = int(pose.y[env, robot] * buckets.per_m), int(pose.x[env, robot] * buckets.per_m)
    left, right = max(column - 1, 0), min(column + 1, buckets.columns - 1)
    xs, ys, others = buckets.x[env], buckets.y[env], buckets.robot[env]
    found = np.uint32(0)
    for line in range(max(row - 1, 0), min(row + 2, buckets.rows)):
        begin = buckets.start[env, line * buckets.columns + left]
        end = buckets.start[env, line * buckets.columns + right + 1]
        # Indices that cannot be negative need no check for counting from the end.
        for index in range(np.uint32(begin), np.uint32(end)):
            dx, dy = xs[index] - x, ys[index] - y
            square = np.float32(dx * dx + dy * dy)
            # Written in any case, and kept by counting on: whether a robot is in range is a coin toss.
            keys[found] = (np.int64(square.view(np.int32)) << 32) | np.int64(others[index])
            found += np.uint32((square <= reach) & (others[index] != robot))
    return int(found)


@kernel_part
def _next_key(keys: Int64, found: int, last: np.int64) -> np.int64:
    """The smallest key above ``last``; the largest integer if there is none."""
    best = np.int64(_NOBODY)
    for index in range(found):
        key = keys[index]
        candidate = key if key > last else np.int64(_NOBODY)
        best = candidate if candidate < best else best
    return best


@kernel_part
def _write_relative(
    cards: Float32, other: np.uint64, own: Float32, shown: np.float32, row: Float32, at: np.uint64
) -> None:
    """A card with place and velocity relative to the robot that looks at it; zeros where nobody is shown."""
    row[at] = cards[other, 0]
    row[at + np.uint64(1)] = _cut(cards[other, 1] - own[0] * shown)
    row[at + np.uint64(2)] = _cut(cards[other, 2] - own[1] * shown)
    row[at + np.uint64(3)] = cards[other, 3] - own[2] * shown
    row[at + np.uint64(4)] = cards[other, 4] - own[3] * shown
    row[at + np.uint64(5)] = cards[other, 5]
    row[at + np.uint64(6)] = cards[other, 6]
    row[at + np.uint64(7)] = cards[other, 7]


@kernel_part
def _turn(cos: np.float32, sin: np.float32, row: Float32, at: np.uint64) -> None:
    """Turn place, velocity and way into the body frame."""
    for offset in range(1, 7, 2):
        index = at + np.uint64(offset)
        x, y = row[index], row[index + np.uint64(1)]
        row[index] = _cut(cos * x + sin * y)
        row[index + np.uint64(1)] = _cut(cos * y - sin * x)


@kernel_part
def _cut(value: np.float32) -> np.float32:
    """At most 1 in size: rounding may lift what is just in range above it."""
    return min(max(value, np.float32(-1.0)), np.float32(1.0))
