"""What the transports of a warehouse cost a fleet at least, and how many of them a budget pays for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bridge.planners.legs import Legs
from bridge.warehouse.config import ServiceConfig, TaskConfig
from bridge.warehouse.floor import goal_cells
from bridge.warehouse.layout import Layout
from bridge.warehouse.work.transports import listed_deliveries, listed_pickups

__all__ = ["ServiceSteps", "TransportCosts", "soonest_deliveries", "transport_costs"]

Float64 = NDArray[np.float64]

_SEARCH_STEPS = 60


@dataclass(frozen=True)
class ServiceSteps:
    """Steps that being served takes.

    Attributes:
        pick: Mean of a pick.
        drop: Mean of a drop.
        longest: The longest of both.
        is_drawn: Services differ in length.
    """

    pick: float = 0.0
    drop: float = 0.0
    longest: float = 0.0
    is_drawn: bool = False

    @classmethod
    def of(cls, service: ServiceConfig | None, step_s: float) -> ServiceSteps:
        """The times of a scenario, each rounded up to whole steps as the simulator does."""
        if service is None:
            return cls()
        pick, drop = service.pick_s / step_s, service.drop_s / step_s
        longest = float(np.ceil(max(pick, drop) * (1.0 + service.spread) - 1e-9))
        means = _mean_rounded_up(pick, service.spread), _mean_rounded_up(drop, service.spread)
        return cls(*means, longest, service.spread > 0.0)


def _mean_rounded_up(mean: float, spread: float) -> float:
    """Mean of the number, uniform within ``spread`` of ``mean``, rounded up."""
    low, high = mean * (1.0 - spread) - 1e-9, mean * (1.0 + spread) - 1e-9
    if high - low < 1e-6:
        return float(max(np.ceil(high), 0.0))

    def sum_below(value: float) -> float:
        whole = np.floor(value)
        return float(whole * (whole + 1.0) / 2.0 + (value - whole) * (whole + 1.0))

    return (sum_below(high) - sum_below(low)) / (high - low)


@dataclass(frozen=True)
class TransportCosts:
    """Steps that a robot spends on a transport at least.

    Attributes:
        driving: (K,) float64, ascending: of equally likely kinds, or of each listed transport. Without services.
        is_list: They are those of listed transports.
        are_drawn: They are means of what robots spend.
        dearest: No transport costs more, without services.
        mean_driving: Mean without services; of drawn transports, over the draws.
        services: Mean steps of the services of a transport.
        first_empty: The dearest empty leg.
    """

    driving: Float64
    is_list: bool
    are_drawn: bool
    dearest: float
    mean_driving: float
    services: float
    first_empty: float

    def most(self, budget: float, services: float, left_over: int) -> float:
        """Largest expected D such that D transports fit into a budget of steps.

        Of the D + ``left_over`` transports that arrived, a fleet does the cheapest ones at best. For drawn
        transports this is a bound on the mean: with the cost C of one, and any number x, the costs of D done out
        of M arrived ones sum up to ``x * D - sum(max(x - C, 0))`` at least, of which the mean is known, because
        whether another one arrives does not depend on what it will be (Wald 1944). The best x gives M times the
        integral of the quantiles of C up to D / M.

        Args:
            budget: Steps.
            services: Steps of each of them besides those of ``driving``.
            left_over: Transports that need not be done.
        """
        if self.mean_driving + services == 0.0:
            return math.inf
        if self.is_list:
            totals = np.cumsum(self.driving + services)
            if self.are_drawn:
                # The cheapest D cost a convex function of D: at its mean they cost no more than in the mean.
                return float(np.interp(budget, [0.0, *totals], np.arange(len(totals) + 1.0)))
            return float(np.searchsorted(totals, budget + 1e-6, side="right"))
        if len(self.driving) == 0:
            # Several pick-ups: the distribution is not known, only its mean and its end.
            return (budget + left_over * (self.dearest - self.mean_driving)) / (self.mean_driving + services)
        low, high = 0.0, 1.0
        while self._spent(high, services, left_over) <= budget:
            high *= 2.0
        for _ in range(_SEARCH_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._spent(middle, services, left_over) <= budget else (low, middle)
        return high

    def _spent(self, transports: float, services: float, left_over: int) -> float:
        arrived = transports + left_over
        shares = np.arange(len(self.driving) + 1) / len(self.driving)
        totals = np.concatenate([[0.0], np.cumsum(self.driving)]) / len(self.driving)
        return float(arrived * np.interp(transports / arrived, shares, totals)) + transports * services


def transport_costs(
    legs: Legs, tasks: TaskConfig, layout: Layout, service: ServiceSteps, *, are_drawn: bool = False
) -> TransportCosts:
    """Put the legs of a transport together: to its first pick-up, from pick-up to pick-up, to its delivery.

    Args:
        legs: What they cost.
        tasks: The transports.
        layout: The floor plan.
        service: Services.
        are_drawn: ``legs`` are means.
    """
    if tasks.arrival == "list":
        return _listed(legs, tasks, layout, service, are_drawn)
    num_picks = tasks.errands
    between = (num_picks - 1) * float(legs.between.mean()) if num_picks > 1 else 0.0
    farthest = (num_picks - 1) * float(legs.between.max()) if num_picks > 1 else 0.0
    kinds = (legs.empty[:, None] + legs.loaded).ravel()
    return TransportCosts(
        driving=np.sort(kinds) if num_picks == 1 else np.zeros(0),
        is_list=False,
        are_drawn=are_drawn,
        dearest=float(kinds.max()) + farthest,
        mean_driving=float(kinds.mean()) + between,
        services=num_picks * service.pick + service.drop,
        first_empty=float(legs.empty.max()),
    )


def _listed(legs: Legs, tasks: TaskConfig, layout: Layout, service: ServiceSteps, are_drawn: bool) -> TransportCosts:
    transports = _stops_and_deliveries(tasks, layout)
    costs = [legs.empty[stops[0]] + _way(legs, stops, delivery) for stops, delivery in transports]
    return TransportCosts(
        driving=np.sort(np.array(costs, np.float64)),
        is_list=True,
        are_drawn=are_drawn,
        dearest=float(max(costs)),
        mean_driving=float(np.mean(costs)),
        services=min(len(stops) for stops, _ in transports) * service.pick + service.drop,
        first_empty=float(legs.empty.max()),
    )


def soonest_deliveries(legs: Legs, tasks: TaskConfig, layout: Layout, service: ServiceSteps) -> Float64:
    """(K,) float64, steps from the arrival of a transport to its delivery at least, with services.

    A robot may stand at the pick-up when the transport arrives, and is served there in the next step.

    Args:
        legs: What they take the luckiest robot.
        tasks: The transports.
        layout: The floor plan.
        service: Services.

    Returns:
        Of equally likely kinds, or of each listed transport in its order.
    """
    if tasks.arrival == "list":
        return np.array(
            [
                1.0 + _way(legs, stops, delivery) + len(stops) * service.pick + service.drop
                for stops, delivery in _stops_and_deliveries(tasks, layout)
            ]
        )
    between = (tasks.errands - 1) * float(legs.between.mean()) if tasks.errands > 1 else 0.0
    quickest: Float64 = 1.0 + between + legs.loaded.ravel() + tasks.errands * service.pick + service.drop
    return quickest


def _way(legs: Legs, stops: list[int], delivery: int) -> float:
    """Steps from the first pick-up of a transport through all others to its delivery."""
    between = sum(float(legs.between[one, other]) for one, other in pairwise(stops))
    return between + float(legs.loaded[stops[-1], delivery])


def _stops_and_deliveries(tasks: TaskConfig, layout: Layout) -> list[tuple[list[int], int]]:
    """Of each listed transport its pick-ups and its delivery, as places in the arrays of the legs."""
    goals = goal_cells(layout)
    place_of = {int(cell): place for place, cell in enumerate(layout.pickups)}
    delivery_of = {int(cell): place for place, cell in enumerate(layout.deliveries)}
    pickups, deliveries = listed_pickups(tasks, layout), goals[listed_deliveries(tasks, layout)]
    return [
        ([place_of[int(goals[goal])] for goal in row if goal >= 0], delivery_of[int(delivery)])
        for row, delivery in zip(pickups, deliveries, strict=True)
    ]
