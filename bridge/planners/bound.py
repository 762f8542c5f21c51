"""How many deliveries a warehouse could make at most, whatever drives it.

A bound that no policy and no planner can beat makes efficiencies comparable between
layouts, and a result above it shows a bug (a load counted twice, robots passing through
each other). ``docs/planners.md`` has the formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge.planners.cut import crossings_per_step
from bridge.planners.straight_ways import straight_ways
from bridge.warehouse.config import BatteryConfig, DifferentialDriveConfig, WarehouseConfig
from bridge.warehouse.layout import Layout, distances_from, distances_to
from bridge.warehouse.spec import seconds_per_step

__all__ = ["ThroughputBound", "throughput_bound"]

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class ThroughputBound:
    """Upper bounds on the mean deliveries per simulated hour over an episode, each from one cause.

    Attributes:
        fleet_per_h: The robots cannot drive further: shortest ways, nobody in the way, batteries.
        stations_per_h: No more robots fit onto the pick-ups, or the deliveries, at once.
        cut_per_h: No more robots fit through the narrowest place between pick-ups and deliveries;
            infinite where robots do not move from cell to cell.
        arrivals_per_h: Transports do not arrive faster; infinite with a backlog.
        availability: Share of the time in which the batteries let the fleet drive, in (0, 1].
        mean_transport_s: Time of a transport, empty and loaded, in the mean over pick-ups and deliveries.
    """

    fleet_per_h: float
    stations_per_h: float
    cut_per_h: float
    arrivals_per_h: float
    availability: float
    mean_transport_s: float

    @property
    def deliveries_per_h(self) -> float:
        """The smallest of the bounds."""
        return min(self.fleet_per_h, self.stations_per_h, self.cut_per_h, self.arrivals_per_h)


def throughput_bound(config: WarehouseConfig, layout: Layout) -> ThroughputBound:
    """Bound the deliveries of a warehouse whose transports are uniform over pick-ups and deliveries.

    A transport from ``p`` to ``d`` takes ``empty(p) + leg(p, d)`` at least. The empty leg starts where a
    robot has become free, so ``empty(p)`` is the leg to ``p`` from the delivery or parking place *nearest*
    to it (a lower bound for any dispatch); it is 0 where robots despawn, because they may come back anywhere. A
    leg on the grid is the shortest path at a cell per step. A leg of differential drive is the shortest way of a
    point between the discs in which stations serve, at full speed: robots need not stop to be served, and
    may drive corners as curves, so that neither acceleration nor turns in place can be counted.

    What favours the fleet is granted to it: the first empty leg costs nothing (with a warm-up nor does a whole
    transport per robot, which may have begun before), of the transports that have arrived it may leave the
    dearest ones waiting, as many as ``tasks.open``, charging takes no way, and one-way cells and speed
    limits are ignored.

    It bounds the expectation over the random transports; a single episode may lie above it by chance.
    """
    step_s = seconds_per_step(config.drive)
    warm_up_steps = min(math.ceil(config.metrics.warm_up_s / step_s - 1e-9), config.episode_steps - 1)
    window_s = (config.episode_steps - warm_up_steps) * step_s
    hours = window_s / 3600.0
    legs_s, empty_s = _legs_s(config, layout, step_s)
    costs_s = np.sort((empty_s[:, None] + legs_s).ravel())
    given_s = float(costs_s[-1]) if warm_up_steps else float(empty_s.max())
    awake_s = sum(role.count * _driving_s(role.battery, window_s, warm_up_steps > 0) for role in config.fleet)
    most = _most_transports(costs_s, awake_s + config.num_robots * given_s, config.tasks.open)
    num_waiting = config.num_robots + config.tasks.open if warm_up_steps else 0
    poisson = config.tasks.arrival == "poisson"
    return ThroughputBound(
        fleet_per_h=most / hours,
        stations_per_h=_served_per_step(config, layout, step_s) * window_s / step_s / hours,
        cut_per_h=_crossing_transports(config, layout, window_s / step_s, warm_up_steps > 0) / hours,
        arrivals_per_h=config.tasks.rate_per_h + num_waiting / hours if poisson else math.inf,
        availability=awake_s / (config.num_robots * window_s),
        mean_transport_s=float(costs_s.mean()),
    )


def _legs_s(config: WarehouseConfig, layout: Layout, step_s: float) -> tuple[Float64, Float64]:
    """Shortest times: (P, D) from each pick-up to each delivery, (P,) to each pick-up from the nearest place."""
    free_places = np.union1d(layout.deliveries, layout.parking).astype(np.int32)
    if isinstance(config.drive, DifferentialDriveConfig):
        served_m = 2.0 * config.drive.station_radius_m
        fastest = max(config.drive.max_speed_mps, config.drive.max_reverse_mps)
        ways_m = straight_ways(layout, layout.pickups, np.concatenate([layout.deliveries, free_places]))
        times = np.maximum(ways_m - served_m, 0.0) / fastest
        legs, to_places = times[:, : len(layout.deliveries)], times[:, len(layout.deliveries) :]
    else:
        steps = np.stack([distances_from(layout, int(cell)) for cell in layout.pickups]).astype(np.float64)
        back = np.stack([distances_to(layout, int(cell)) for cell in layout.pickups]).astype(np.float64)
        legs, to_places = steps[:, layout.deliveries] * step_s, back[:, free_places] * step_s
    empty = to_places.min(axis=1)
    if config.deadlock is not None and config.deadlock.resolve == "relocate" and len(layout.parking):
        legs, empty = _relocated(config, layout, legs, empty, step_s)
    if config.contact.rule == "despawn":
        empty = np.zeros_like(empty)
    return legs, empty


def _relocated(
    config: WarehouseConfig, layout: Layout, legs: Float64, empty: Float64, step_s: float
) -> tuple[Float64, Float64]:
    """The same where a robot that stands still for long enough is carried to a parking place."""
    assert config.deadlock is not None, "asked for by the caller"
    stuck_s = min(config.deadlock.cycle_s, config.deadlock.no_progress_s)
    if isinstance(config.drive, DifferentialDriveConfig):
        return np.minimum(legs, stuck_s), np.minimum(empty, stuck_s)
    places = np.stack([distances_from(layout, int(cell)) for cell in layout.parking]).astype(np.float64) * step_s
    legs = np.minimum(legs, stuck_s + places[:, layout.deliveries].min(axis=0))
    return legs, np.minimum(empty, stuck_s + places[:, layout.pickups].min(axis=0))


def _driving_s(battery: BatteryConfig, window_s: float, warmed_up: bool) -> float:
    """How long a robot can drive in the window, at most: what it starts with and charges, over what driving drains.

    Charging for t and driving for T - t leaves ``charge + gain * t - drain * (T - t) >= 0``. For long windows the
    share of driving is ``1 / (1 + drain / gain)``.
    """
    drain = battery.time_factor * (battery.drain_idle_per_h + battery.drain_moving_per_h) / 3600.0
    gain = 0.0 if battery.charging is None else battery.time_factor * battery.charging.rate_per_h / 3600.0
    if drain == 0.0:
        return window_s
    charge = 1.0 if warmed_up else battery.initial_max
    return min(window_s, (charge + gain * window_s) / (gain + drain))


def _served_per_step(config: WarehouseConfig, layout: Layout, step_s: float) -> float:
    """Robots that can be served per step at all pick-ups, or all deliveries, whichever are fewer."""
    num_stations = min(len(layout.pickups), len(layout.deliveries))
    if not isinstance(config.drive, DifferentialDriveConfig):
        return float(num_stations)
    # Discs of robots whose centres lie in the disc of a station, by area; one visit each per physics step.
    smallest = min(role.radius_m for role in config.fleet)
    at_once = math.floor(((config.drive.station_radius_m + smallest) / smallest) ** 2)
    return float(num_stations * at_once) * step_s / config.drive.step_s


def _crossing_transports(config: WarehouseConfig, layout: Layout, steps: float, warmed_up: bool) -> float:
    """Transports whose robots fit through the minimum cut, there and back, in so many steps."""
    relocates = config.deadlock is not None and config.deadlock.resolve == "relocate"
    if isinstance(config.drive, DifferentialDriveConfig) or relocates:
        return math.inf
    if config.contact.rule == "despawn":
        return crossings_per_step(layout, 1) * steps + (config.num_robots if warmed_up else 0)
    # Of a robot's first transport in the window the way back is missing; after a warm-up the way there, too.
    granted = config.num_robots * (2 if warmed_up else 1)
    return (crossings_per_step(layout, 2) * steps + granted) / 2.0


def _most_transports(costs: Float64, budget: float, left_over: int) -> float:
    """Largest D such that the cheapest D of D + ``left_over`` transports fit into the budget.

    Args:
        costs: (P*D,) float64, ascending: what the equally likely kinds of transport cost.
        budget: What the fleet has to spend, in the same unit.
        left_over: Transports that need not be done.
    """
    if costs[-1] == 0.0:
        return math.inf
    # Total cost of the cheapest share of the kinds, as a function of the share.
    shares = np.arange(len(costs) + 1) / len(costs)
    totals = np.concatenate([[0.0], np.cumsum(costs)]) / len(costs)

    def spent(transports: float) -> float:
        arrived = transports + left_over
        return float(arrived * np.interp(transports / arrived, shares, totals))

    low, high = 0.0, 1.0
    while spent(high) <= budget:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= budget else (low, middle)
    return high
