"""How long a fixed list of transports takes: makespan and sum of costs, as in multi-agent path finding.

Both run from the start of the episode, warm-up or not. What is still open at its
end counts with the whole episode; ``tasks_left`` tells whether that happened.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.feature import Feature, Parts
from bridge.warehouse.fleet import Outcome

__all__ = ["LIST_METRICS", "ListTimes", "note_deliveries"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]

LIST_METRICS: Final = (
    MetricSpec("tasks_left", "listed tasks that were not delivered", False),
    MetricSpec(
        "makespan_s", "time until the last listed task was delivered in s; the whole episode if any is left", False
    ),
    MetricSpec(
        "sum_of_costs_s",
        "sum over the robots of the time until their last delivery in s; the whole episode for one with a task left",
        False,
    ),
)

_DELIVERED: Final = 2


class ListTimes(Feature):
    """Notes when robots deliver."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._num_tasks = len(parts.config.tasks.transports)
        self._last = np.zeros(parts.fleet.cell.shape, np.int32)
        self._delivered = np.zeros(len(parts.steps), np.int32)
        self._note = bind(note_deliveries, parts.outcome, parts.steps, self._last, self._delivered)

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._last[envs] = 0
        self._delivered[envs] = 0

    def after_service(self) -> None:
        """See :class:`Feature`."""
        self._note()

    def figures(self, envs: Bool) -> NDArray[np.float64]:
        """See :class:`Feature`; in the order of ``LIST_METRICS``."""
        steps, fleet = self._parts.steps[envs], self._parts.fleet
        left = self._num_tasks - self._delivered[envs]
        # (E', N)
        last = np.where(fleet.pickup[envs] >= 0, steps[:, None], self._last[envs])
        makespan = np.where(left > 0, steps, last.max(axis=1))
        step_s = self._parts.step_s
        return np.stack([left, makespan * step_s, last.sum(axis=1, dtype=np.float64) * step_s], axis=1)


@lean_kernel
def note_deliveries(outcome: Outcome, steps: Int32, last: Int32, delivered: Int32) -> None:
    """Note the deliveries of a step.

    Args:
        outcome: ``served`` of the step.
        steps: (E,) int32, number of the step in its episode, from 0.
        last: (E, N) int32, steps from the start of the episode to the end of each robot's last delivery; written.
        delivered: (E,) int32, advanced.
    """
    num_envs, num_robots = last.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            if outcome.served[env, robot] == _DELIVERED:
                last[env, robot] = steps[env] + 1
                delivered[env] += 1
