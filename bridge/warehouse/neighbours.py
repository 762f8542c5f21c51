"""Robots by place, and the observation block about the nearest of them.

The floor is divided into square buckets whose edge is the longest range of any
block that looks for robots, so everything in range lies in nine buckets. Robots
are sorted by bucket, bucket row after bucket row; the three buckets of a row
are then one contiguous run, which the compiler turns into vector code.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet, Pose

__all__ = [
    "NEIGHBOUR_FIELDS",
    "Buckets",
    "Candidates",
    "NeighbourBlock",
    "make_buckets",
    "make_candidates",
    "observe_neighbours",
    "sort_robots",
]

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

NEIGHBOUR_FIELDS: Final = ("valid", "dx", "dy", "vx", "vy", "way_x", "way_y", "loaded", "has_priority")
_SIZE: Final = len(NEIGHBOUR_FIELDS)
_NOBODY: Final = np.iinfo(np.int64).max


class Buckets(NamedTuple):
    """Living robots sorted by bucket; B buckets.

    Attributes:
        edge_m: Edge of a bucket.
        columns: Buckets per row.
        rows: Rows of buckets.
        start: (E, B + 1) int32, where each bucket begins in the sorted arrays.
        x: (E, N) float32, m.
        y: (E, N) float32, m.
        robot: (E, N) int32, which robot it is.
        bucket: (N,) int32, scratch of the sorting.
    """

    edge_m: float
    columns: int
    rows: int
    start: Int32
    x: Float32
    y: Float32
    robot: Int32
    bucket: Int32


class Candidates(NamedTuple):
    """Scratch of the search: squared distances, (N,) float32; their bits, (N,) int32; keys, (N,) int64."""

    squares: Float32
    bits: Int32
    keys: NDArray[np.int64]


class NeighbourBlock(NamedTuple):
    """Where the block lies in an observation, its number of robots, and what it is scaled by."""

    at: int
    num_robots: int
    range_m: float
    speed_scale: float


def make_buckets(num_envs: int, num_robots: int, range_m: float, width_m: float, height_m: float) -> Buckets:
    """Empty buckets for a floor."""
    edge = min(range_m, max(width_m, height_m))
    columns, rows = int(width_m / edge) + 1, int(height_m / edge) + 1
    robots = (num_envs, num_robots)
    return Buckets(
        edge_m=float(edge),
        columns=columns,
        rows=rows,
        start=np.zeros((num_envs, columns * rows + 1), np.int32),
        x=np.zeros(robots, np.float32),
        y=np.zeros(robots, np.float32),
        robot=np.zeros(robots, np.int32),
        bucket=np.zeros(num_robots, np.int32),
    )


def make_candidates(num_robots: int) -> Candidates:
    """Scratch for a fleet."""
    squares = np.zeros(num_robots, np.float32)
    return Candidates(squares, squares.view(np.int32), np.zeros(num_robots, np.int64))


@lean_kernel
def sort_robots(pose: Pose, alive: Bool, envs: Bool, buckets: Buckets) -> None:
    """Sort the living robots of the environments in ``envs`` by bucket, and by slot within one."""
    num_robots = alive.shape[1]
    bucket = buckets.bucket
    for env in range(len(envs)):
        if not envs[env]:
            continue
        start = buckets.start[env]
        start[:] = 0
        for robot in range(num_robots):
            if alive[env, robot]:
                row, column = int(pose.y[env, robot] / buckets.edge_m), int(pose.x[env, robot] / buckets.edge_m)
                bucket[robot] = row * buckets.columns + column
                start[bucket[robot] + 1] += 1
        for index in range(1, len(start)):
            start[index] += start[index - 1]
        for robot in range(num_robots - 1, -1, -1):
            if alive[env, robot]:
                # Filled from the back: the end of a bucket is counted down to its start.
                start[bucket[robot] + 1] -= 1
                place = start[bucket[robot] + 1]
                buckets.x[env, place] = pose.x[env, robot]
                buckets.y[env, place] = pose.y[env, robot]
                buckets.robot[env, place] = robot
        # Now start[b + 1] is where bucket b begins: move everything back by one place.
        total = 0
        for robot in range(num_robots):
            total += alive[env, robot]
        for index in range(len(start) - 1):
            start[index] = start[index + 1]
        start[len(start) - 1] = total


@lean_kernel
def observe_neighbours(
    fleet: Fleet,
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
        fleet: What robots do.
        pose: Where robots are.
        buckets: Sorted by :func:`sort_robots`.
        candidates: Of :func:`make_candidates`.
        block: Where and what.
        turning: Robots have a heading: velocities are relative.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written.
    """
    size = block.num_robots * _SIZE
    for env in range(len(envs)):
        for slot in range(observations.shape[1]):
            if envs[env] and fleet.alive[env, first + slot]:
                row = observations[env, slot, block.at : block.at + size]
                _look_around(fleet, pose, buckets, candidates, block, turning, env, first + slot, row)


@kernel_part
def _look_around(
    fleet: Fleet,
    pose: Pose,
    buckets: Buckets,
    candidates: Candidates,
    block: NeighbourBlock,
    turning: bool,
    env: int,
    robot: int,
    row: Float32,
) -> None:
    """The block of one robot."""
    found = _gather(buckets, candidates, pose, block.range_m, env, robot)
    last = np.int64(-1)
    for place in range(block.num_robots):
        last = _next_key(candidates.keys, found, last)
        part = row[place * _SIZE : (place + 1) * _SIZE]
        if last == _NOBODY:
            part[:] = 0.0
        else:
            _write_neighbour(fleet, pose, block, turning, env, robot, int(last & 0xFFFFFFFF), part)


@kernel_part
def _gather(buckets: Buckets, candidates: Candidates, pose: Pose, range_m: float, env: int, robot: int) -> int:
    """Keys of the robots in the nine buckets around a robot: squared distance, then slot; returns their number.

    Bits of floats that are not negative sort like the floats, so one integer holds both.
    """
    squares, bits, keys = candidates.squares, candidates.bits, candidates.keys
    x, y = np.float32(pose.x[env, robot]), np.float32(pose.y[env, robot])
    reach = np.float32(range_m * range_m)
    row, column = int(pose.y[env, robot] / buckets.edge_m), int(pose.x[env, robot] / buckets.edge_m)
    left, right = max(column - 1, 0), min(column + 1, buckets.columns - 1)
    found = 0
    for line in range(max(row - 1, 0), min(row + 2, buckets.rows)):
        begin = buckets.start[env, line * buckets.columns + left]
        end = buckets.start[env, line * buckets.columns + right + 1]
        # Views instead of offsets: indices that start at 0 need no check for negative ones.
        xs, ys, others = buckets.x[env, begin:end], buckets.y[env, begin:end], buckets.robot[env, begin:end]
        run, run_bits, run_keys = squares[found:], bits[found:], keys[found:]
        for index in range(len(xs)):
            dx, dy = xs[index] - x, ys[index] - y
            run[index] = dx * dx + dy * dy
        for index in range(len(xs)):
            key = (np.int64(run_bits[index]) << 32) | np.int64(others[index])
            run_keys[index] = _NOBODY if (others[index] == robot) | (run[index] > reach) else key
        found += len(xs)
    return found


@kernel_part
def _next_key(keys: NDArray[np.int64], found: int, last: np.int64) -> np.int64:
    """The smallest key above ``last``; the largest integer if there is none."""
    best = np.int64(_NOBODY)
    for key in keys[:found]:
        candidate = key if key > last else np.int64(_NOBODY)
        best = candidate if candidate < best else best
    return best


@kernel_part
def _write_neighbour(
    fleet: Fleet,
    pose: Pose,
    block: NeighbourBlock,
    turning: bool,
    env: int,
    robot: int,
    other: int,
    row: Float32,
) -> None:
    cos, sin = pose.cos[env, robot], pose.sin[env, robot]
    dx = (pose.x[env, other] - pose.x[env, robot]) / block.range_m
    dy = (pose.y[env, other] - pose.y[env, robot]) / block.range_m
    vx, vy = pose.vx[env, other], pose.vy[env, other]
    if turning:
        vx -= pose.vx[env, robot]
        vy -= pose.vy[env, robot]
        way_x = fleet.way_x[env, other] - pose.x[env, other]
        way_y = fleet.way_y[env, other] - pose.y[env, other]
        length = max(np.sqrt(way_x * way_x + way_y * way_y), 1e-9)
        way_x, way_y = way_x / length, way_y / length
    else:
        route = fleet.route[env, other]
        way_x = float((route >> 1 & 1) - (route >> 3 & 1))
        way_y = float((route & 1) - (route >> 2 & 1))
    waited, own = fleet.waiting[env, other], fleet.waiting[env, robot]
    has_priority = waited > own or (waited == own and other < robot)
    row[0] = 1.0
    row[1] = cos * dx + sin * dy
    row[2] = cos * dy - sin * dx
    row[3] = (cos * vx + sin * vy) / block.speed_scale
    row[4] = (cos * vy - sin * vx) / block.speed_scale
    row[5] = cos * way_x + sin * way_y
    row[6] = cos * way_y - sin * way_x
    row[7] = fleet.loaded[env, other]
    row[8] = 1.0 if has_priority else -1.0
