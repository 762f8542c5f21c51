"""Tasks of several errands: a robot fetches at one pick-up after the other before it delivers.

After each pick-up but the last the robot's target is the next one; only after
the last it counts as loaded. Errands beyond the first are drawn uniformly from
the pick-ups, by the number of the task, so that a task that another robot
takes over is the same task; a list of transports states them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, lean_kernel
from bridge.warehouse.feature import Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome
from bridge.warehouse.floor import Floor
from bridge.warehouse.random_streams import Purpose, uniform
from bridge.warehouse.work.transports import listed_pickups

__all__ = ["Errands", "run_errands"]


class Errands(Feature):
    """Sends robots from pick-up to pick-up."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        listed, errands = listed_pickups(parts.config.tasks, parts.layout), parts.config.tasks.errands
        keys = parts.keys[Purpose.ERRAND]
        self._run = bind(run_errands, parts.floor, parts.fleet, parts.outcome, listed, errands, keys)

    def begin(self, envs: NDArray[np.bool_]) -> None:
        """See :class:`Feature`."""
        self._parts.fleet.errand[envs] = 0

    def after_service(self) -> None:
        """See :class:`Feature`."""
        self._run()


@lean_kernel
def run_errands(
    floor: Floor,
    fleet: Fleet,
    outcome: Outcome,
    listed: NDArray[np.int32],
    errands: int,
    keys: NDArray[np.uint64],
) -> None:
    """Give the robots that have fetched a load their next pick-up, if their task has one.

    Args:
        floor: The floor plan.
        fleet: ``errand`` is counted; ``pickup``, ``goal`` and ``loaded`` are set back where there is a next one.
        outcome: ``served`` of the step.
        listed: (tasks, errands) int32, goals of the pick-ups of listed tasks, -1 for no more; empty if drawn.
        errands: Pick-ups of each task that is drawn.
        keys: (E,) uint64, stream of the errands.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            if fleet.pickup[env, robot] < 0:
                fleet.errand[env, robot] = 0
            elif outcome.served[env, robot] == 1:
                done = fleet.errand[env, robot] + 1
                number = int(fleet.number[env, robot])
                following = -1
                if listed.shape[0] > 0:
                    following = listed[number, done] if done < listed.shape[1] else -1
                elif done < errands:
                    place = int(uniform(keys[env], number * errands + done) * len(floor.pickups))
                    following = floor.pickups[place]
                fleet.errand[env, robot] = done
                if following >= 0:
                    fleet.loaded[env, robot] = False
                    fleet.pickup[env, robot] = following
                    fleet.goal[env, robot] = following
