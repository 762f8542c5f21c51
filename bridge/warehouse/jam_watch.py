"""Watches for deadlocks and livelocks where a scenario asks for it; does nothing otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.specs import MetricSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.fleet import Fleet, Outcome, Pose, make_traits
from bridge.warehouse.floor import Floor
from bridge.warehouse.jams import Jams, clear_jams, find_jams, make_jam_limits, make_jam_scratch, make_jams
from bridge.warehouse.layout import Layout
from bridge.warehouse.metrics import make_clock
from bridge.warehouse.spawn import relocate
from bridge.warehouse.tasks import look_up_routes

__all__ = ["JAM_METRICS", "JamWatch"]

Bool = NDArray[np.bool_]

JAM_METRICS: Final = (
    MetricSpec("deadlocks", "circles of robots that stood and waited for each other for deadlock.cycle_s", False),
    MetricSpec("livelocks", "robots that made no progress with a task for deadlock.no_progress_s", False),
    MetricSpec("deadlock_time_s", "robot-seconds lost in deadlocks and livelocks, from their beginnings", False),
)


class JamWatch:
    """Finds robots that are stuck after every step, and helps them where the scenario says so.

    Args:
        config: The warehouse.
        layout: Its floor plan.
        num_envs: Number of environments E.
        step_s: Simulated time of a step.
    """

    def __init__(self, config: WarehouseConfig, layout: Layout, num_envs: int, step_s: float) -> None:
        self._jams: Jams | None = None
        if config.deadlock is None:
            return
        cells = config.drive.kind != "differential"
        self._jams = make_jams(num_envs, config.num_robots)
        self._limits = make_jam_limits(config.deadlock, step_s, cells)
        self._scratch = make_jam_scratch(layout.blocked.size, config.num_robots)
        self._warm_up_steps = make_clock(config.metrics.warm_up_s, config.episode_steps, step_s).warm_up_steps
        self._traits = make_traits(config, step_s)
        self._turning = not cells
        self._step_s = step_s

    @property
    def jams(self) -> Jams | None:
        """Who is stuck; None where nobody looks."""
        return self._jams

    def look(
        self,
        floor: Floor,
        fleet: Fleet,
        pose: Pose,
        outcome: Outcome,
        keys: NDArray[np.uint64],
        steps: NDArray[np.int32],
    ) -> None:
        """Find them after motion, service and dispatch.

        Args:
            floor: The floor plan.
            fleet: After the motion.
            pose: After the motion.
            outcome: What happened in the step.
            keys: (E,) uint64, stream of the places that robots are taken to.
            steps: (E,) int32, steps since the start of the episode, with this one.
        """
        if self._jams is None:
            return
        find_jams(floor, fleet, outcome, self._limits, self._scratch, steps, self._warm_up_steps, self._jams)
        if self._limits.relocate and self._jams.relocated.any():
            jams = self._jams
            relocate(floor, fleet, pose, self._traits, keys, steps, self._turning, jams.relocated)
            look_up_routes(floor, fleet, pose, jams.relocated)
            jams.still[jams.relocated] = 0
            jams.stalled[jams.relocated] = 0

    def clear(self, envs: Bool) -> None:
        """Start an episode in the environments of ``envs``: (E,) bool."""
        if self._jams is not None:
            clear_jams(self._jams, envs)

    def metric_values(self, envs: Bool) -> Iterator[NDArray[np.float64]]:
        """(E', 3) float64, :data:`JAM_METRICS` of the episodes that end in ``envs``; nothing where nobody looks."""
        if self._jams is not None:
            jams = self._jams
            columns = (jams.num_deadlocks, jams.num_livelocks, jams.lost * self._step_s)
            yield np.stack([column[envs].sum(axis=1, dtype=np.float64) for column in columns], axis=1)
