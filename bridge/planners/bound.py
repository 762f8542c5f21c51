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
from bridge.planners.lane_cut import crossings_per_s
from bridge.planners.legs import fewest_moves, shortest_legs
from bridge.planners.stays import Stays, make_stays
from bridge.planners.transport_costs import ServiceSteps, TransportCosts, soonest_deliveries, transport_costs
from bridge.warehouse.config import BatteryConfig, DifferentialDriveConfig, WarehouseConfig
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.layout import Layout
from bridge.warehouse.work.transports import listed_release_steps

__all__ = ["ThroughputBound", "throughput_bound"]

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class ThroughputBound:
    """Upper bounds on the mean deliveries per simulated hour over an episode, each from one cause.

    Attributes:
        fleet_per_h: The robots cannot drive further: fastest ways, nobody in the way, services, delays, batteries.
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
    :mod:`bridge.planners.legs` has the legs, and :mod:`bridge.planners.stays` what slow cells and execution delays
    add to them, and why their mean bounds the mean over windows of any length.

    What favours the fleet is granted to it: the first empty leg costs nothing; with a warm-up nor does a whole
    transport per robot, which may have begun before, and the transports that wait then cost as little as any.
    Of the transports that have arrived the dearest may be left: as many as wait (``tasks.open``), and one per robot.
    Charging takes no way. Pickers carry nothing, and are where they are needed.

    It bounds the expectation over the random transports; a single episode may lie above it by chance.
    """
    config = config.model_copy(update={"fleet": tuple(role for role in config.fleet if role.job == "carry")})
    config = config.model_copy(update={"drive": config.fastest_drive})
    window = _Window.of(config)
    service = ServiceSteps.of(config.tasks.service, window.step_s)
    stays = make_stays(config, layout)
    legs = shortest_legs(config, layout, stays)
    costs = transport_costs(legs, config.tasks, layout, service, are_drawn=stays.overdue > 0.0)
    awake = sum(
        _mean_present(config, role.count) * _driving_share(role.battery, window.steps * window.step_s, window.warm_up)
        for role in config.fleet
    ) / sum(_mean_present(config, role.count) for role in config.fleet)
    return ThroughputBound(
        fleet_per_h=min(
            _driven_transports(config, costs, service, stays, window),
            _charged_transports(config, layout, service, window, awake),
        )
        / window.hours,
        stations_per_h=_served_transports(config, layout, service, stays, window) / window.hours,
        cut_per_h=_crossing_transports(config, layout, stays, window) / window.hours,
        arrivals_per_h=_arriving_transports(config, layout, service, window) / window.hours,
        availability=awake,
        mean_transport_s=(costs.mean_driving + costs.services) * window.step_s,
    )


def _mean_present(config: WarehouseConfig, count: int) -> float:
    """Mean number of a role's robots that take part in an episode."""
    share = 1.0 if config.randomisation is None else config.randomisation.min_fleet_share
    return (max(math.ceil(share * count - 1e-9), 1) + count) / 2.0


def _driven_transports(
    config: WarehouseConfig, costs: TransportCosts, service: ServiceSteps, stays: Stays, window: _Window
) -> float:
    """Transports that robots have the time for."""
    # Services that are drawn and still last at the end may be the long ones.
    unfinished = stays.overdue + (service.longest if service.is_drawn else 0.0)
    robots = sum(_mean_present(config, role.count) for role in config.fleet)
    budget = robots * window.steps + config.num_robots * unfinished + _granted(config, costs, window)
    return costs.most(budget, costs.services, _left_over(config))


def _charged_transports(
    config: WarehouseConfig, layout: Layout, service: ServiceSteps, window: _Window, awake: float
) -> float:
    """Transports that robots have the charge to drive for."""
    if awake == 1.0:
        return math.inf
    costs = transport_costs(fewest_moves(config, layout), config.tasks, layout, service)
    robots = sum(_mean_present(config, role.count) for role in config.fleet)
    budget = robots * awake * window.steps + _granted(config, costs, window)
    return costs.most(budget, 0.0, _left_over(config))


def _granted(config: WarehouseConfig, costs: TransportCosts, window: _Window) -> float:
    """Steps of what may have been done before the window began: the first empty leg; with a warm-up a transport."""
    if not window.warm_up:
        return config.num_robots * costs.first_empty
    # Those that were left waiting until then may be the cheap ones.
    kept = 0 if costs.is_list else config.tasks.open
    return config.num_robots * (costs.dearest + costs.services) + kept * costs.dearest


def _left_over(config: WarehouseConfig) -> int:
    """Transports that need not be done: those that wait, and one of each robot."""
    return (len(config.tasks.transports) or config.tasks.open) + config.num_robots


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


def _served_transports(
    config: WarehouseConfig, layout: Layout, service: ServiceSteps, stays: Stays, window: _Window
) -> float:
    """Transports for which all pick-ups together, and all deliveries, have the time."""
    num_picks = min((len(task.pickups) for task in config.tasks.transports), default=config.tasks.errands)
    # Of the last services the ends, of the first ones the beginnings may lie outside of the window.
    steps = window.steps + (service.longest if service.is_drawn else 0.0)
    edge = 1.0 if window.warm_up and config.tasks.service is not None else 0.0
    picks = _served_at(config, service.pick, stays.pickups, stays.overdue, steps) + edge * len(layout.pickups)
    drops = _served_at(config, service.drop, stays.deliveries, stays.overdue, steps) + edge * len(layout.deliveries)
    return min(picks / num_picks + (config.num_robots if window.warm_up else 0), drops)


def _served_at(config: WarehouseConfig, service: float, held: Float64, overdue: float, steps: float) -> float:
    """Robots that stations can serve in so many steps, each for ``service`` steps in the mean.

    Args:
        config: The warehouse.
        service: Steps of a service.
        held: (stations,) float64, steps for which robots are held there besides; none with differential drive.
        overdue: What delays have left at the end.
        steps: Of the window.
    """
    if not isinstance(config.drive, DifferentialDriveConfig):
        # A cell holds one robot, which is served in the step in which it comes at the earliest. Of the last one
        # only the service counts, and not what holds it then.
        left = held + (overdue + service if overdue > 0.0 else 0.0)
        return float(((steps + left) / (service + 1.0 + held)).sum())
    if service > 0.0:
        return len(held) * steps / service
    # Discs of robots whose centres lie in the disc of a station, by area.
    smallest = min(role.inner_radius_m for role in config.fleet)
    return len(held) * math.floor(((config.drive.station_radius_m + smallest) / smallest) ** 2) * steps


def _crossing_transports(config: WarehouseConfig, layout: Layout, stays: Stays, window: _Window) -> float:
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
    # The last robot in each cell need not come out of it.
    steps = window.steps + stays.longest
    if not despawns:
        return (crossings_per_step(layout, 2, stays.through) * steps + granted) / 2.0
    through = stays.through.copy()
    # Who has left the floor leaves its station to the next one.
    through[layout.pickups] = through[layout.deliveries] = 1.0
    return crossings_per_step(layout, 1, through) * steps + (config.num_robots if window.warm_up else 0)


def _arriving_transports(config: WarehouseConfig, layout: Layout, service: ServiceSteps, window: _Window) -> float:
    """Transports that arrive early enough to be delivered in the window."""
    if config.tasks.arrival == "backlog":
        return math.inf
    luckiest = shortest_legs(config, layout, make_stays(config, layout, at_least=True))
    soonest = soonest_deliveries(luckiest, config.tasks, layout, service)
    if config.tasks.arrival == "list":
        released = listed_release_steps(config.tasks, window.step_s)
        return float((released + soonest <= window.end + 1e-6).sum())
    per_step = config.tasks.rate_per_h * window.step_s / 3600.0
    # Transports arrive before each step; at the beginning of the window others wait or are on their way.
    timely = per_step * float(np.maximum(window.end + 1.0 - soonest, 0.0).mean())
    late = per_step * float(np.maximum(window.end - window.warm_up - soonest, 0.0).mean())
    return min(timely, late + config.num_robots + config.tasks.open) if window.warm_up else timely
