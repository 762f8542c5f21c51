"""Watches for deadlocks and livelocks where a scenario asks for it; does nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind
from bridge.specs import MetricSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.feature import Parts
from bridge.warehouse.features import holds_robots
from bridge.warehouse.fleet import half_sides
from bridge.warehouse.jams import (
    DEADLOCKED,
    LIVELOCKED,
    Jams,
    clear_jams,
    find_jams,
    forget_lives,
    make_jam_limits,
    make_jam_scratch,
    make_jams,
)
from bridge.warehouse.metrics import make_clock
from bridge.warehouse.random_streams import Purpose
from bridge.warehouse.spawn import relocate
from bridge.warehouse.work.tasks import look_up_routes

__all__ = ["JAM_METRICS", "RESOLVED_METRICS", "JamWatch", "jam_metrics"]

Bool = NDArray[np.bool_]

JAM_METRICS: Final = (
    MetricSpec("deadlocks", "circles of robots that stood and waited for each other for deadlock.cycle_s", False),
    MetricSpec("livelocks", "robots that made no progress with a task for deadlock.no_progress_s", False),
    MetricSpec("deadlock_time_s", "robot-seconds lost in deadlocks and livelocks, from their beginnings", False),
)
RESOLVED_METRICS: Final = (
    MetricSpec("deadlocks_resolved", "deadlocks from which the operator took a robot away", None),
    MetricSpec("livelocks_resolved", "robots in a livelock that the operator took away", None),
)


def jam_metrics(config: WarehouseConfig) -> tuple[MetricSpec, ...]:
    """The figures that a scenario has of robots that are stuck."""
    if config.deadlock is None:
        return ()
    return JAM_METRICS if config.deadlock.resolve == "none" else (*JAM_METRICS, *RESOLVED_METRICS)


class JamWatch:
    """Finds robots that are stuck after every step, and helps them where the scenario says so.

    Args:
        parts: The simulator's arrays.
    """

    def __init__(self, parts: Parts) -> None:
        self._jams: Jams | None = None
        config = parts.config
        if config.deadlock is None:
            return
        self._parts = parts
        num_envs, num_robots = parts.fleet.cell.shape
        self._turning = config.drive.kind == "differential"
        self._jams = jams = make_jams(num_envs, num_robots)
        sides = half_sides(config.fleet)[1]
        # Discs have no sides.
        half_width = np.where(sides > 0.0, sides, parts.traits.radius_m) if len(sides) else parts.traits.radius_m
        widest_m = float(half_width.max())
        holds = holds_robots(config, parts.layout)
        limits = make_jam_limits(config.deadlock, parts.step_s, self._turning, widest_m, holds)
        self._relocates = limits.relocate
        scratch = make_jam_scratch(parts.layout.blocked.size, num_robots)
        self._resolved = np.zeros((num_envs, len(RESOLVED_METRICS)))
        warm_up_steps = make_clock(config.metrics.warm_up_s, config.episode_steps, parts.step_s).warm_up_steps
        self._warm_up_steps = warm_up_steps
        state = (parts.floor, parts.fleet, parts.pose, parts.outcome, half_width)
        # Only where robots can leave.
        leave = config.contact.rule == "despawn"
        self._forget = [bind(forget_lives, parts.outcome.leaving, jams)] if leave else []
        self._find = bind(find_jams, *state, limits, scratch, parts.steps, warm_up_steps, jams)

    @property
    def jams(self) -> Jams | None:
        """Who is stuck; None where nobody looks."""
        return self._jams

    @property
    def calls(self) -> list[Callable[[], None]]:
        """Find them after motion, service and dispatch; the steps of the episode already count this one."""
        if self._jams is None:
            return []
        return [*self._forget, self._find, *([self._relocate] if self._relocates else [])]

    def _relocate(self) -> None:
        jams = self._jams
        if jams is not None and jams.relocated.any():
            floor, fleet, pose, traits = self._parts.floor, self._parts.fleet, self._parts.pose, self._parts.traits
            keys = self._parts.keys[Purpose.RELOCATION]
            relocate(floor, fleet, pose, traits, keys, self._parts.steps, self._turning, jams.relocated)
            look_up_routes(floor, fleet, pose, jams.relocated)
            taken = jams.relocated & (self._parts.steps > self._warm_up_steps)[:, None]
            for column, state in enumerate((DEADLOCKED, LIVELOCKED)):
                self._resolved[:, column] += (taken & (jams.state == state)).sum(axis=1)
            jams.still[jams.relocated] = 0
            jams.stalled[jams.relocated] = 0

    def clear(self, envs: Bool) -> None:
        """Start an episode in the environments of ``envs``: (E,) bool."""
        if self._jams is not None:
            clear_jams(self._jams, envs)
            self._resolved[envs] = 0.0

    def metric_values(self, envs: Bool) -> Iterator[NDArray[np.float64]]:
        """(E', ...) float64, :func:`jam_metrics` of the episodes that end in ``envs``; nothing where nobody looks."""
        if self._jams is not None:
            jams = self._jams
            columns = (jams.num_deadlocks, jams.num_livelocks, jams.lost * self._parts.step_s)
            yield np.stack([column[envs].sum(axis=1, dtype=np.float64) for column in columns], axis=1)
            if self._relocates:
                yield self._resolved[envs]
