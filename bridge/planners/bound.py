"""How many deliveries a grid warehouse could make at most, whatever drives it.

A bound that no policy and no planner can beat makes efficiencies comparable between
layouts, and a result above it shows a bug (a load counted twice, robots passing through
each other).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout, distances_from

__all__ = ["ThroughputBound", "throughput_bound"]


@dataclass(frozen=True)
class ThroughputBound:
    """Upper bounds on the mean deliveries per simulated hour over an episode, each from one cause.

    Attributes:
        fleet_per_h: The robots cannot drive further: one cell per step, nobody in the way.
        stations_per_h: One robot per step on each pick-up and on each delivery.
        arrivals_per_h: Transports do not arrive faster; infinite with a backlog.
    """

    fleet_per_h: float
    stations_per_h: float
    arrivals_per_h: float

    @property
    def deliveries_per_h(self) -> float:
        """The smallest of the bounds."""
        return min(self.fleet_per_h, self.stations_per_h, self.arrivals_per_h)


def throughput_bound(config: WarehouseConfig, layout: Layout) -> ThroughputBound:
    """Bound the deliveries of a warehouse whose transports are uniform over pick-ups and deliveries.

    The cost of a transport from ``p`` to ``d`` is at least ``empty(p) + path(p, d)`` steps. The
    empty leg starts where a robot has become free, so ``empty(p)`` is the path to ``p`` from the
    delivery or parking place *nearest* to it (a lower bound for any dispatch), and is 0 where robots
    despawn, because they may come back anywhere. Two things favour the fleet and are granted to
    it: the first empty leg costs nothing, and of the transports that have arrived it may leave the
    dearest ones waiting, as many as ``tasks.open``.

    It bounds the expectation over the random transports; a single episode may lie above it by chance.

    Raises:
        SpecMismatchError: The robots do not move from cell to cell.
    """
    if config.drive.kind != "grid":
        raise SpecMismatchError(f"throughput_bound: expected drive 'grid', got {config.drive.kind!r}.")
    legs = np.stack([distances_from(layout, int(cell)) for cell in layout.pickups])  # (P, cells)
    empty = legs[:, np.union1d(layout.deliveries, layout.parking)].min(axis=1)  # (P,)
    if config.contact.rule == "despawn":
        empty = np.zeros_like(empty)
    costs = np.sort((empty[:, None] + legs[:, layout.deliveries]).ravel()).astype(np.float64)
    steps = config.episode_steps
    robot_steps = config.num_robots * (steps + float(empty.max()))
    hours = steps * config.drive.step_s / 3600.0
    num_stations = min(len(layout.pickups), len(layout.deliveries))
    poisson = config.tasks.arrival == "poisson"
    return ThroughputBound(
        fleet_per_h=_most_transports(costs, robot_steps, config.tasks.open) / hours,
        stations_per_h=num_stations * steps / hours,
        arrivals_per_h=config.tasks.rate_per_h if poisson else np.inf,
    )


def _most_transports(costs: NDArray[np.float64], robot_steps: float, left_over: int) -> float:
    """Largest D such that the cheapest D of D + ``left_over`` transports fit into the robot-steps.

    Args:
        costs: (P*D,) float64, ascending: steps of the equally likely kinds of transport.
        robot_steps: What the fleet has to spend.
        left_over: Transports that need not be done.
    """
    # Total cost of the cheapest share of the kinds, as a function of the share.
    shares = np.arange(len(costs) + 1) / len(costs)
    totals = np.concatenate([[0.0], np.cumsum(costs)]) / len(costs)

    def spent(transports: float) -> float:
        arrived = transports + left_over
        return float(arrived * np.interp(transports / arrived, shares, totals))

    low, high = 0.0, robot_steps / float(costs[0])
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= robot_steps else (low, middle)
    return high
