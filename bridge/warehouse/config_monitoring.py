"""Sections on what is watched and measured while a warehouse runs; ``docs/kpis.md`` has the formulas."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bridge.warehouse.section import Section

__all__ = ["DeadlockConfig", "MetricsConfig"]


class DeadlockConfig(Section):
    """When robots count as stuck, and what is done about it."""

    cycle_s: float = Field(
        10.0,
        gt=0,
        description="Robots that wait for each other in a circle are a deadlock after standing still (differential: "
        "after coming no nearer to their targets) for this time in s.",
    )
    no_progress_s: float = Field(
        60.0,
        gt=0,
        description="A robot with a task that has come no nearer to its target for this time in s is in a livelock.",
    )
    resolve: Literal["none", "relocate"] = Field(
        "none",
        description="none: robots have to free themselves; relocate: an operator takes one robot of each new deadlock "
        "(the one that yields to all others), and each robot in a new livelock, to a free parking place, or else to "
        "another free cell. It keeps its "
        "task and load.",
    )


class MetricsConfig(Section):
    """What the figures of an episode are taken over."""

    warm_up_s: float = Field(
        0.0, ge=0, description="The first so many seconds of an episode, in which the hall fills up, do not count."
    )
