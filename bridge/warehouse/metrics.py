"""The figures of an episode."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.fleet import Fleet, Outcome

__all__ = ["METRICS", "add_to_tally", "make_tally", "metric_values"]

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

METRICS: Final = (
    MetricSpec("deliveries", "loads delivered by all robots", True),
    MetricSpec("deliveries_per_h", "deliveries * 3600 / (steps * seconds per step)", True),
    MetricSpec("pickups", "loads fetched by all robots", True),
    MetricSpec(
        "collisions",
        "contacts, measured from the robots' places: pairs of robots that share a cell, changed places or overlap, "
        "and robots that overlap a rack or wall; one per step and contact. 0 under the rule 'block' unless the "
        "simulator is at fault",
        False,
    ),
    MetricSpec("blocked_moves", "steps of robots whose motion was refused because of a rack, a wall or a robot", False),
    MetricSpec("despawns", "robots that left the floor because they would have touched something", False),
    MetricSpec("distance_m", "way driven by all robots in m", None),
    MetricSpec(
        "task_time_s",
        "mean time from the assignment of a task to its delivery in s; tasks that still run at the end count with "
        "their age; 0 if none was assigned",
        False,
    ),
    MetricSpec("waiting_share", "share of the time with a task in which a robot stood still", False),
    MetricSpec("busy_share", "share of the robots' time on the floor in which they had a task", None),
)

_DELIVERIES: Final = 0
_PICKUPS: Final = 1
_CONTACTS: Final = 2
_REFUSED: Final = 3
_DESPAWNS: Final = 4
_DISTANCE: Final = 5
_TASK_STEPS: Final = 6
_WAITING: Final = 7
_BUSY: Final = 8
_ALIVE: Final = 9
_SIZE: Final = 10


def make_tally(num_envs: int) -> Float64:
    """Zeroed sums of every environment."""
    return np.zeros((num_envs, _SIZE))


@lean_kernel
def add_to_tally(fleet: Fleet, outcome: Outcome, tally: Float64) -> None:
    """Add the last step to the sums: (E, ...) float64."""
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        sums = tally[env]
        for robot in range(num_robots):
            if not outcome.lived[env, robot]:
                continue
            served = outcome.served[env, robot]
            busy = served != 0 or (fleet.pickup[env, robot] >= 0 and fleet.age[env, robot] > 0)
            sums[_DELIVERIES] += served == 2
            sums[_PICKUPS] += served == 1
            # A contact of two robots is noted by both.
            sums[_CONTACTS] += 0.5 * outcome.robot_contacts[env, robot] + outcome.rack_contacts[env, robot]
            sums[_REFUSED] += outcome.refused[env, robot]
            sums[_DESPAWNS] += outcome.leaving[env, robot]
            sums[_DISTANCE] += outcome.moved_m[env, robot]
            sums[_TASK_STEPS] += outcome.task_steps[env, robot] if served == 2 else 0
            sums[_WAITING] += busy and outcome.moved_m[env, robot] == 0.0
            sums[_BUSY] += busy
            sums[_ALIVE] += 1.0


def metric_values(tally: Float64, pickup: Int32, age: Int32, steps: Int32, step_s: float) -> Float64:
    """The metrics of some environments at the end of their episodes.

    Args:
        tally: (E, ...) float64, sums of :func:`add_to_tally`.
        pickup: (E, N) int32 as in ``Fleet``, at the end.
        age: (E, N) int32 as in ``Fleet``, at the end.
        steps: (E,) int32, steps of the episode.
        step_s: Simulated time of a step.

    Returns:
        (E, len(METRICS)) float64.
    """
    # (E, sums) -> one (E,) array per sum
    deliveries, pickups, contacts, refused, despawns, distance, task_steps, waiting, busy, alive = tally.T
    running = pickup >= 0
    num_tasks = deliveries + running.sum(axis=1)
    task_steps = task_steps + np.where(running, age, 0).sum(axis=1)
    return np.stack(
        [
            deliveries,
            deliveries * 3600.0 / (steps * step_s),
            pickups,
            contacts,
            refused,
            despawns,
            distance,
            task_steps * step_s / np.maximum(num_tasks, 1.0),
            waiting / np.maximum(busy, 1.0),
            busy / np.maximum(alive, 1.0),
        ],
        axis=1,
    )
