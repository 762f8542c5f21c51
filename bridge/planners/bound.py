"""How many deliveries a warehouse could make at most, whatever drives it.

A bound that no policy and no planner can beat makes efficiencies comparable between
layouts, and a result above it shows a bug (a load counted twice, robots passing through
each other). ``docs/planners.md`` has the formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bridge.planners.cut import crossings_per_step
from bridge.planners.lane_cut import crossings_per_s
from bridge.planners.legs import shortest_legs
from bridge.planners.transport_costs import ServiceSteps, TransportCosts, transport_costs
from bridge.warehouse.config import BatteryConfig, DifferentialDriveConfig, WarehouseConfig
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.layout import Layout

__all__ = ["ThroughputBound", "throughput_bound"]


@dataclass(frozen=True)
class ThroughputBound:
    """Upper bounds on the mean deliveries per simulated hour over an episode, each from one cause.

    Attributes:
        fleet_per_h: The robots cannot drive further: shortest ways, nobody in the way, services, batteries.
        stations_per_h: Pick-ups, or deliveries, cannot serve more robots.
        cut_per_h: No more robots fit through the narrowest place between pick-ups and deliveries.
        arrivals_per_h: Transports do not arrive faster; infinite with a backlog.
        availability: Share of the time in which the batteries let the fleet drive, in (0, 1].
        mean_transport_s: Time of a transport, empty, loaded and served, in the mean over the transports.
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


@dataclass(frozen=True)
class _Window:
    """The steps that figures are taken over: those after ``warm_up`` of an episode of ``end`` steps of ``step_s``."""

    warm_up: int
    end: int
    step_s: float

    @classmethod
    def of(cls, config: WarehouseConfig) -> _Window:
        step_s = seconds_per_step(config.drive)
        warm_up = min(math.ceil(config.metrics.warm_up_s / step_s - 1e-9), config.episode_steps - 1)
        return cls(warm_up, config.episode_steps, step_s)

    @property
    def steps(self) -> int:
        return self.end - self.warm_up

    @property
    def hours(self) -> float:
        return self.steps * self.step_s / 3600.0


def throughput_bound(config: WarehouseConfig, layout: Layout) -> ThroughputBound:
    """Bound the deliveries of a warehouse, whose transports are uniform over the stations, or listed.

    A transport from ``p`` to ``d`` takes ``empty(p) + leg(p, d)`` at least, and the services at both. The empty leg
    starts where a robot has become free, so ``empty(p)`` is the leg to ``p`` from the delivery *nearest* to it.
    :mod:`bridge.planners.legs` has the legs.

    What favours the fleet is granted to it: the first empty leg costs nothing; with a warm-up nor does a whole
    transport per robot, which may have begun before, and the transports that wait then cost as little as any.
    Of the transports that have arrived the dearest may be left: as many as wait (``tasks.open``), and one per robot.
    Charging takes no way. Pickers carry nothing, and are where they are needed.

    It bounds the expectation over the random transports; a single episode may lie above it by chance.
    """
    config = config.model_copy(update={"fleet": tuple(role for role in config.fleet if role.job == "carry")})
    window = _Window.of(config)
    service = ServiceSteps.of(config.tasks.service, window.step_s)
    costs = transport_costs(shortest_legs(config, layout), config.tasks, layout, service, window.step_s)
    awake = sum(
        _mean_present(config, role.count) * _driving_share(role.battery, window.steps * window.step_s, window.warm_up)
        for role in config.fleet
    ) / sum(_mean_present(config, role.count) for role in config.fleet)
    return ThroughputBound(
        fleet_per_h=_driven_transports(config, costs, service, window, awake) / window.hours,
        stations_per_h=_served_transports(config, layout, service, window) / window.hours,
        cut_per_h=_crossing_transports(config, layout, window) / window.hours,
        arrivals_per_h=_arriving_transports(config, costs, window) / window.hours,
        availability=awake,
        mean_transport_s=(costs.mean_driving + costs.services) * window.step_s,
    )


def _mean_present(config: WarehouseConfig, count: int) -> float:
    """Mean number of a role's robots that take part in an episode."""
    share = 1.0 if config.randomisation is None else config.randomisation.min_fleet_share
    return (max(math.ceil(share * count - 1e-9), 1) + count) / 2.0


def _driven_transports(
    config: WarehouseConfig, costs: TransportCosts, service: ServiceSteps, window: _Window, awake: float
) -> float:
    """Transports that robots have the time for, and the charge to drive for."""
    robots = sum(_mean_present(config, role.count) for role in config.fleet)
    waiting = len(config.tasks.transports) or config.tasks.open
    granted = config.num_robots * costs.first_empty
    if window.warm_up:
        # Those that were left waiting until then may be the cheap ones.
        kept = 0 if costs.released is not None else waiting
        granted = config.num_robots * (costs.dearest + costs.services) + kept * costs.dearest
    # Services that are drawn and still last at the end may be the long ones.
    unfinished = config.num_robots * service.longest if service.is_drawn else 0.0
    left_over = waiting + config.num_robots
    timely = costs.most(robots * window.steps + granted + unfinished, costs.services, left_over)
    return min(timely, costs.most(robots * awake * window.steps + granted, 0.0, left_over))


def _driving_share(battery: BatteryConfig, window_s: float, warm_up: int) -> float:
    """For which share of the window a robot can drive, at most: what it starts with and charges, over what drains.

    Charging for t and driving for T - t leaves ``charge + gain * t - drain * (T - t) >= 0``. For long windows the
    share of driving is ``1 / (1 + drain / gain)``.
    """
    drain = battery.time_factor * (battery.drain_idle_per_h + battery.drain_moving_per_h) / 3600.0
    gain = 0.0 if battery.charging is None else battery.time_factor * battery.charging.rate_per_h / 3600.0
    if drain == 0.0:
        return 1.0
    charge = 1.0 if warm_up else battery.initial_max
    return min(1.0, (charge / window_s + gain) / (gain + drain))


def _served_transports(config: WarehouseConfig, layout: Layout, service: ServiceSteps, window: _Window) -> float:
    """Transports for which all pick-ups together, and all deliveries, have the time."""
    num_picks = min((len(task.pickups) for task in config.tasks.transports), default=config.tasks.errands)
    longest = service.longest if service.is_drawn else 0.0
    # Of the last services the ends, of the first ones the beginnings may lie outside of the window.
    edge = 1.0 if window.warm_up and config.tasks.service is not None else 0.0
    picks = len(layout.pickups) * (_serves(config, service.pick, window.steps + longest) + edge) / num_picks
    drops = len(layout.deliveries) * (_serves(config, service.drop, window.steps + longest) + edge)
    return min(picks + (config.num_robots if window.warm_up else 0), drops)


def _serves(config: WarehouseConfig, service: float, steps: float) -> float:
    """Robots that a station can serve in so many steps, each for ``service`` steps in the mean."""
    if not isinstance(config.drive, DifferentialDriveConfig):
        # A cell holds one robot, which is served in the step in which it comes at the earliest.
        return steps / (service + 1.0)
    if service > 0.0:
        return steps / service
    # Discs of robots whose centres lie in the disc of a station, by area.
    smallest = min(role.inner_radius_m for role in config.fleet)
    return math.floor(((config.drive.station_radius_m + smallest) / smallest) ** 2) * steps


def _crossing_transports(config: WarehouseConfig, layout: Layout, window: _Window) -> float:
    """Transports whose robots fit through the minimum cut, there and back."""
    relocates = config.deadlock is not None and config.deadlock.resolve == "relocate"
    despawns = config.contact.rule == "despawn"
    # Of a robot's first transport in the window the way back is missing; after a warm-up the way there, too.
    granted = config.num_robots * (2 if window.warm_up else 1)
    if relocates or (despawns and isinstance(config.drive, DifferentialDriveConfig)):
        return math.inf
    if isinstance(config.drive, DifferentialDriveConfig):
        smallest = min(role.inner_radius_m for role in config.fleet)
        rate = crossings_per_s(layout, config.drive, smallest)
        # A window of the longest lane may be under way at the end.
        across_s = max(layout.height, layout.width) * layout.cell_size_m / config.drive.max_speed_mps
        return (rate * (window.steps * window.step_s + across_s) + granted) / 2.0
    if despawns:
        return crossings_per_step(layout, 1) * window.steps + (config.num_robots if window.warm_up else 0)
    return (crossings_per_step(layout, 2) * window.steps + granted) / 2.0


def _arriving_transports(config: WarehouseConfig, costs: TransportCosts, window: _Window) -> float:
    """Transports that arrive early enough to be delivered in the window."""
    if costs.released is not None:
        return float((costs.released + costs.soonest <= window.end + 1e-6).sum())
    if config.tasks.arrival != "poisson":
        return math.inf
    per_step = config.tasks.rate_per_h * window.step_s / 3600.0
    # Transports arrive before each step; at the beginning of the window others wait or are on their way.
    timely = per_step * float(np.maximum(window.end + 1.0 - costs.soonest, 0.0).mean())
    late = per_step * float(np.maximum(window.end - window.warm_up - costs.soonest, 0.0).mean())
    return min(timely, late + config.num_robots + config.tasks.open) if window.warm_up else timely
