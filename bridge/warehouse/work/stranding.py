"""Robots whose battery is empty: they get no work, and what they have not begun goes to others.

A robot on the floor whose charge is 0 is *stranded*: it cannot move, and takes
no task. A task that it has fetched nothing of yet goes back to the pool, with its
old number and time of arrival, as from one that leaves the floor; unless the
robot is being served at its pick-up. A load that it has fetched stays on it, and
with it the task: nobody comes to take it over. It keeps its parking place if it
stands there, and otherwise has none. It is available again once it has charge
(``charging``).

A scenario in which no robot charges and no battery can run empty does without
(:func:`looks_at_batteries`); the others report how low batteries got, and how many
became empty.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.feature import HELD_SERVED, OFF_CHARGING, OFF_STRANDED, Feature, Parts
from bridge.warehouse.fleet import Fleet, TaskPool, make_traits
from bridge.warehouse.floor import Floor
from bridge.warehouse.work.tasks import give_back_task

__all__ = ["BATTERY_METRICS", "Stranding", "can_run_empty", "looks_at_batteries", "strand_robots"]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]

BATTERY_METRICS: Final = (
    MetricSpec("min_charge", "smallest charge of any robot on the floor", True),
    MetricSpec("stranded", "times that a robot's battery became empty, or was at the start", False),
)

_MIN_CHARGE: Final = 0
_STRANDED: Final = 1

# A charge is a float32 of at most 1, so that a step takes at most this more than the drain.
_ROUNDING: Final = 2.0**-25


def can_run_empty(config: WarehouseConfig) -> bool:
    """Some robot that never charges, and drives under full load from its smallest charge on, is empty at the end."""
    traits = make_traits(config, seconds_per_step(config.drive))
    drain = traits.idle_drain + traits.moving_drain * traits.loaded_factor
    drained = np.where(drain > 0.0, config.episode_steps * (drain + _ROUNDING), 0.0)
    return bool((drained >= traits.initial_min).any())


def looks_at_batteries(config: WarehouseConfig) -> bool:
    """Batteries matter in the scenario: robots charge, or can run empty."""
    return config.charges or can_run_empty(config)


class Stranding(Feature):
    """Takes work away from robots that cannot do it, and counts them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._empty = np.zeros(parts.fleet.cell.shape, np.bool_)
        self._sums = np.zeros((len(parts.steps), len(BATTERY_METRICS)))
        self._strand = bind(strand_robots, parts.floor, parts.fleet, parts.pool, self._empty, self._sums)

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        fleet = self._parts.fleet
        empty = fleet.alive[envs] & (fleet.charge[envs] <= 0.0)
        fleet.off_duty[envs] = fleet.off_duty[envs] & ~OFF_STRANDED | np.where(empty, OFF_STRANDED, 0)
        self._empty[envs] = False
        self.clear_figures(envs)

    def after_service(self) -> None:
        """See :class:`Feature`."""
        self._strand()

    def clear_figures(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._sums[envs, _MIN_CHARGE] = 1.0
        self._sums[envs, _STRANDED] = 0.0

    def figures(self, envs: Bool) -> Float64:
        """See :class:`Feature`; in the order of ``BATTERY_METRICS``."""
        values: Float64 = self._sums[envs]
        return values


@lean_kernel
def strand_robots(floor: Floor, fleet: Fleet, pool: TaskPool, empty: Bool, sums: Float64) -> None:
    """Note who is stranded after a step, and free what they can do nothing with.

    Args:
        floor: The floor plan.
        fleet: ``off_duty`` is written; tasks and goals are dropped.
        pool: Takes the tasks; ``claimed`` is cleared for the parking places that nobody will reach.
        empty: (E, N) bool, batteries that are empty; advanced.
        sums: (E, 2) float64, smallest charge and number of batteries that became empty; advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            charge = fleet.charge[env, robot] if fleet.alive[env, robot] else np.float32(1.0)
            sums[env, _MIN_CHARGE] = min(sums[env, _MIN_CHARGE], charge)
            was_empty, empty[env, robot] = empty[env, robot], charge <= 0.0
            if charge > 0.0:
                fleet.off_duty[env, robot] &= ~OFF_STRANDED
                continue
            sums[env, _STRANDED] += not was_empty
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
