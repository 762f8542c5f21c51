"""Deliveries beside the most that a warehouse could deliver; ``docs/planners.md`` says what the bound is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from bridge.planners.bound import ThroughputBound
from bridge.registry import World
from trainers.evaluation import Estimate, EvaluationRow, plain_number

__all__ = ["BOUND_PARTS", "EFFICIENCY", "THROUGHPUT", "bound_of", "bound_text", "efficiency_of", "with_efficiency"]

THROUGHPUT = "deliveries_per_h"
"""The figure that the bound bounds."""

EFFICIENCY = "efficiency"
"""The figure that :func:`with_efficiency` adds."""

BOUND_PARTS = ("fleet_per_h", "stations_per_h", "cut_per_h", "arrivals_per_h", "availability", "mean_transport_s")
"""Fields of the bound that tables list."""

_LIMITS = {"fleet": "fleet_per_h", "stations": "stations_per_h", "cut": "cut_per_h", "arrivals": "arrivals_per_h"}


@runtime_checkable
class _BoundedWorld(Protocol):
    """A world that knows how much could be delivered at most."""

    def throughput_bound(self) -> ThroughputBound: ...


def bound_of(world: World) -> ThroughputBound | None:
    """How much could be delivered at most; None in a world that does not know."""
    return world.throughput_bound() if isinstance(world, _BoundedWorld) else None


def efficiency_of(figures: Mapping[str, Estimate], bound: ThroughputBound | None) -> Estimate | None:
    """Throughput over its bound: 1 is the most that anything could reach.

    None where there is no throughput or no bound, and where nothing can be delivered at all.
    """
    throughput = figures.get(THROUGHPUT)
    if throughput is None or bound is None or bound.deliveries_per_h == 0.0:
        return None
    return Estimate(throughput.mean / bound.deliveries_per_h, throughput.half_width / bound.deliveries_per_h)


def with_efficiency(row: EvaluationRow, bound: ThroughputBound | None) -> EvaluationRow:
    """The row with ``efficiency`` as its first figure; the row itself where there is none."""
    reached = efficiency_of(row.figures, bound)
    return row if reached is None else replace(row, figures={EFFICIENCY: reached, **row.figures})


def bound_text(bound: ThroughputBound) -> str:
    """The bound, and all of its limits that are finite, the smallest first, in words for one line."""
    limits = sorted((getattr(bound, field), name) for name, field in _LIMITS.items())
    finite = ", ".join(f"{name} {plain_number(value)}" for value, name in limits if math.isfinite(value))
    return f"bound {plain_number(bound.deliveries_per_h)} deliveries/h: {finite}"
