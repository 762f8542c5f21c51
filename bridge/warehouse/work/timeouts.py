"""Tasks that a robot does not get to: they go back to the pool.

A robot that has had a task for ``timeout_s`` and has fetched nothing yet gives
it back, with its old number and time of arrival. It takes no task in the same
step, so that any other free robot comes first. A robot that is being served at
its pick-up keeps the task.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.durations import steps_of
from bridge.warehouse.feature import HELD_SERVED, OFF_RESTING, Feature, Parts
from bridge.warehouse.fleet import Fleet, TaskPool
from bridge.warehouse.work.tasks import give_back_task

__all__ = ["TIMEOUT_METRICS", "Timeouts", "time_out_tasks"]

Bool = NDArray[np.bool_]

TIMEOUT_METRICS: Final = (
    MetricSpec("timeouts", "tasks that a robot gave back because it did not fetch them in time", False),
)


class Timeouts(Feature):
    """Takes tasks away from robots that are too slow."""

    def __init__(self, parts: Parts, timeout_s: float) -> None:
        self._parts = parts
        steps = max(steps_of(timeout_s, parts.step_s), 1)
        self._count = np.zeros(len(parts.steps), np.int64)
        self._take_away = bind(time_out_tasks, parts.fleet, parts.pool, steps, self._count)

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._parts.fleet.off_duty[envs] &= ~OFF_RESTING
        self.clear_figures(envs)

    def after_service(self) -> None:
        """See :class:`Feature`."""
        self._take_away()

    def clear_figures(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._count[envs] = 0

    def figures(self, envs: Bool) -> NDArray[np.float64]:
        """See :class:`Feature`; in the order of ``TIMEOUT_METRICS``."""
        return self._count[envs, None].astype(np.float64)


@lean_kernel
def time_out_tasks(fleet: Fleet, pool: TaskPool, timeout_steps: int, count: NDArray[np.int64]) -> None:
    """Give the tasks back that have not been begun in time.

    Args:
        fleet: Tasks are dropped; ``off_duty`` is set for this step where one was.
        pool: Takes them.
        timeout_steps: Age since the assignment at which a task is given back.
        count: (E,) int64, advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            fleet.off_duty[env, robot] &= ~OFF_RESTING
            if not fleet.alive[env, robot] or fleet.pickup[env, robot] < 0:
                continue
            # Held for any other reason (a slow cell, a delay, a stop), it is late all the same.
            served = fleet.held[env, robot] & HELD_SERVED != 0
            begun = fleet.loaded[env, robot] or fleet.errand[env, robot] > 0 or served
            if not begun and fleet.age[env, robot] >= timeout_steps:
                give_back_task(fleet, pool, env, robot)
                fleet.off_duty[env, robot] |= OFF_RESTING
                count[env] += 1
