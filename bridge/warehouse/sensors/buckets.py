"""Robots sorted by place, for everything that looks for robots nearby.

The floor is divided into square buckets whose edge is the longest range of any
block that looks for robots, so everything in range lies in nine buckets. Robots
are sorted by bucket, bucket row after bucket row; the three buckets of a row
are then one contiguous run.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.fleet import Pose

__all__ = ["Buckets", "Runs", "make_buckets", "place_in_runs", "runs_near", "sort_robots"]

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

_BUCKETS_PER_ROBOT: Final = 16
_FEW_BUCKETS: Final = 1024


class Buckets(NamedTuple):
    """Living robots sorted by bucket; B buckets.

    Attributes:
        per_m: Buckets per metre.
        columns: Buckets per row.
        rows: Rows of buckets.
        start: (E, B + 1) int32, where each bucket begins in the sorted arrays.
        x: (E, N) float32, m.
        y: (E, N) float32, m.
        robot: (E, N) int32, which robot it is.
        bucket: (N,) int32, scratch of the sorting.
    """

    per_m: float
    columns: int
    rows: int
    start: Int32
    x: Float32
    y: Float32
    robot: Int32
    bucket: Int32


def make_buckets(num_envs: int, num_robots: int, range_m: float, width_m: float, height_m: float) -> Buckets:
    """Empty buckets for a floor; nobody within ``range_m`` of a robot is further than one bucket away."""
    # A little larger than the range, so that no rounding can put a robot in range into the next bucket but one; for a
    # range that is short against the floor not one bucket for every square of it, of which next to all are empty.
    shortest_m = math.sqrt(width_m * height_m / (_BUCKETS_PER_ROBOT * num_robots + _FEW_BUCKETS))
    per_m = 1.0 / min(max(range_m * (1.0 + 1e-6), shortest_m), max(width_m, height_m))
    columns, rows = int(width_m * per_m) + 1, int(height_m * per_m) + 1
    robots = (num_envs, num_robots)
    return Buckets(
        per_m=float(per_m),
        columns=columns,
        rows=rows,
        start=np.zeros((num_envs, columns * rows + 1), np.int32),
        x=np.zeros(robots, np.float32),
        y=np.zeros(robots, np.float32),
        robot=np.zeros(robots, np.int32),
        bucket=np.zeros(num_robots, np.int32),
    )


@lean_kernel
def sort_robots(pose: Pose, alive: Bool, envs: Bool, buckets: Buckets) -> None:
    """Sort the living robots of the environments in ``envs`` by bucket, and by slot within one."""
    num_robots = alive.shape[1]
    bucket, per_m, columns = buckets.bucket, buckets.per_m, np.int32(buckets.columns)
    for env in range(len(envs)):
        if not envs[env]:
            continue
        start = buckets.start[env]
        start[:] = 0
        for robot in range(num_robots):
            row, column = np.int32(pose.y[env, robot] * per_m), np.int32(pose.x[env, robot] * per_m)
            bucket[robot] = row * columns + column if alive[env, robot] else -1
            if alive[env, robot]:
                start[index(bucket[robot])] += 1
        # Where each bucket ends; filled from the back, that is counted down to where it begins.
        total = 0
        for each in range(len(start)):
            total += start[each]
            start[each] = total
        for robot in range(num_robots - 1, -1, -1):
            if bucket[robot] >= 0:
                own = index(bucket[robot])
                start[own] -= 1
                place = index(start[own])
                buckets.x[env, place] = pose.x[env, robot]
                buckets.y[env, place] = pose.y[env, robot]
                buckets.robot[env, place] = robot


class Runs(NamedTuple):
    """Robots near a point: three runs of places in the sorted arrays, walked as if they were one.

    Attributes:
        number: Robots in all three.
        first: Place of the first robot.
        turn: Robots in the first run.
        skip: Places between the first run and the second.
        next_turn: Robots in the first two runs.
        next_skip: Places between the second run and the third.
    """

    number: int
    first: int
    turn: int
    skip: int
    next_turn: int
    next_skip: int


@kernel_part
def runs_near(buckets: Buckets, env: int, x: float, y: float) -> Runs:
    """The nine buckets around a point (m); every robot in range is in them, and others."""
    row, column = int(y * buckets.per_m), int(x * buckets.per_m)
    left, right = max(column - 1, 0), min(column + 1, buckets.columns - 1)
    start = buckets.start[env]
    middle, middle_end = start[row * buckets.columns + left], start[row * buckets.columns + right + 1]
    # Where there is no row below or above, an empty run.
    first = first_end = middle
    last = last_end = middle_end
    if row > 0:
        first, first_end = start[(row - 1) * buckets.columns + left], start[(row - 1) * buckets.columns + right + 1]
    if row < buckets.rows - 1:
        last, last_end = start[(row + 1) * buckets.columns + left], start[(row + 1) * buckets.columns + right + 1]
    turn, next_turn = first_end - first, first_end - first + middle_end - middle
    return Runs(next_turn + last_end - last, first, turn, middle - first_end, next_turn, last - middle_end)


@kernel_part
def place_in_runs(runs: Runs, index: int) -> np.uint64:
    """Place in the sorted arrays of the ``index``-th robot, below ``Runs.number``.

    One loop over all of them instead of one for each run: how long a loop is cannot be foreseen.
    """
    place = runs.first + index
    place += runs.skip if index >= runs.turn else 0
    place += runs.next_skip if index >= runs.next_turn else 0
    return np.uint64(place)
