"""Robots whose battery is empty: they get no work, and what they have not begun goes to others.

A robot on the floor whose charge is 0 is *stranded*: it cannot move, and takes
no task. A task that it has fetched nothing of yet goes back to the pool, with its
old number and time of arrival, as from one that leaves the floor; unless the
robot is being served at its pick-up. A load that it has fetched stays on it, and
with it the task: nobody comes to take it over. It keeps its parking place if it
stands there, and otherwise has none. It is available again once it has charge
(``charging``).

A scenario in which no battery can run empty (:func:`can_run_empty`) does without.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, lean_kernel
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.feature import HELD_SERVED, OFF_CHARGING, OFF_STRANDED, Feature, Parts
from bridge.warehouse.fleet import Fleet, TaskPool, make_traits
from bridge.warehouse.floor import Floor
from bridge.warehouse.work.tasks import give_back_task

__all__ = ["Stranding", "can_run_empty", "strand_robots"]

Bool = NDArray[np.bool_]

# A charge is a float32 of at most 1, so that a step takes at most this more than the drain.
_ROUNDING: Final = 2.0**-25


def can_run_empty(config: WarehouseConfig) -> bool:
    """Some robot that never charges, and drives under full load from its smallest charge on, is empty at the end."""
    traits = make_traits(config, seconds_per_step(config.drive))
    drain = traits.idle_drain + traits.moving_drain * traits.loaded_factor
    drained = np.where(drain > 0.0, config.episode_steps * (drain + _ROUNDING), 0.0)
    return bool((drained >= traits.initial_min).any())


class Stranding(Feature):
    """Takes work away from robots that cannot do it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._strand = bind(strand_robots, parts.floor, parts.fleet, parts.pool)

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        fleet = self._parts.fleet
        empty = fleet.alive[envs] & (fleet.charge[envs] <= 0.0)
        fleet.off_duty[envs] = fleet.off_duty[envs] & ~OFF_STRANDED | np.where(empty, OFF_STRANDED, 0)

    def after_service(self) -> None:
        """See :class:`Feature`."""
        self._strand()


@lean_kernel
def strand_robots(floor: Floor, fleet: Fleet, pool: TaskPool) -> None:
    """Note who is stranded after a step, and free what they can do nothing with.

    Args:
        floor: The floor plan.
        fleet: ``off_duty`` is written; tasks and goals are dropped.
        pool: Takes the tasks; ``claimed`` is cleared for the parking places that nobody will reach.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            if fleet.charge[env, robot] > 0.0 or not fleet.alive[env, robot]:
                fleet.off_duty[env, robot] &= ~OFF_STRANDED
                continue
            fleet.off_duty[env, robot] |= OFF_STRANDED
            if fleet.pickup[env, robot] >= 0:
                served = fleet.held[env, robot] & HELD_SERVED != 0
                if not (fleet.loaded[env, robot] or fleet.errand[env, robot] > 0 or served):
                    give_back_task(fleet, pool, env, robot)
                continue
            goal = fleet.goal[env, robot]
            parks = goal >= 0 and fleet.off_duty[env, robot] & OFF_CHARGING == 0
            if parks and floor.goal_cell[goal] != fleet.cell[env, robot]:
                pool.claimed[env, goal] = False
                fleet.goal[env, robot] = -1
