"""How many steps robots need at least from station to station, whatever drives them and with nobody in the way.

Whatever happens at a station happens at the end of a step, once per robot and step: a leg takes a whole number of
steps, and one at least.

- **Grid**: the path that takes least, with the mean steps that robots stay in each of its cells (``stays``): 1, unless
  it is slow or robots are delayed. The cell in which a leg ends takes one step.
- **Grid with heading**: the same with quarter turns; a robot may face any side when it starts.
- **Differential drive**: the shortest way of a point between the discs in which stations serve (``straight_ways``),
  at the largest speed. Where stations take time a robot has to be slow to be served, so that every leg begins
  with speeding up. Braking is not counted: a refused motion stops a robot at once. Nor are turns: a
  robot may drive a curve.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel
from bridge.planners.stays import Stays
from bridge.planners.straight_ways import straight_ways
from bridge.warehouse.config import DifferentialDriveConfig, ServiceConfig, WarehouseConfig
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout, distances_from, distances_to

__all__ = ["Legs", "fewest_moves", "shortest_legs"]

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

_TOLERANCE_M = 1e-6


class Legs(NamedTuple):
    """Lower bounds in steps; P pick-ups, D deliveries.

    Attributes:
        empty: (P,) float64, to each pick-up from the delivery nearest to it.
        between: (P, P) float64, from pick-up to pick-up; of shape (0, 0) unless tasks have several.
        loaded: (P, D) float64, from each pick-up to each delivery.
    """

    empty: Float64
    between: Float64
    loaded: Float64


def shortest_legs(config: WarehouseConfig, layout: Layout, stays: Stays) -> Legs:
    """The legs of a warehouse, in steps.

    Empty legs are counted from the nearest delivery, because any dispatch may choose who takes a task. They are
    a step where robots despawn, because those may come back anywhere.
    """
    has_errands = config.tasks.has_errands
    if isinstance(config.drive, DifferentialDriveConfig):
        legs = _driven(config, config.drive, layout)
    elif config.drive.kind == "grid_heading":
        legs = _timed(layout, stays, stays.turn, has_errands)
    elif stays.are_single:
        legs = _stepped(layout, has_errands)
    else:
        legs = _timed(layout, stays, 0.0, has_errands)
    legs = _with_robots_that_vanish(config, layout, legs, _stuck_steps(config))
    return Legs(*(np.maximum(values, 1.0) for values in legs))


def fewest_moves(config: WarehouseConfig, layout: Layout) -> Legs:
    """The same counted in those steps alone in which a robot drives: no turn, no hold, nobody who stands."""
    if isinstance(config.drive, DifferentialDriveConfig):
        legs = _driven(config, config.drive, layout)
    else:
        legs = _stepped(layout, config.tasks.has_errands)
    return _with_robots_that_vanish(config, layout, legs, 0.0)


def _stepped(layout: Layout, has_errands: bool) -> Legs:
    loaded = _steps_between(layout, layout.pickups, layout.deliveries)
    back = _steps_between(layout, layout.deliveries, layout.pickups).T
    between = _steps_between(layout, layout.pickups, layout.pickups) if has_errands else np.zeros((0, 0))
    return _assemble(loaded, back, between, has_errands)


def _steps_between(layout: Layout, starts: Int32, ends: Int32) -> Float64:
    """Steps from each start to each end: (S, E) float64, by a search over the floor for each of the fewer."""
    if len(ends) < len(starts):
        return np.stack([distances_to(layout, int(cell))[starts] for cell in ends], axis=1).astype(np.float64)
    return np.stack([distances_from(layout, int(cell))[ends] for cell in starts]).astype(np.float64)


def _assemble(loaded: Float64, back: Float64, between: Float64, has_errands: bool) -> Legs:
    return Legs(back.min(axis=1), between if has_errands else np.zeros((0, 0)), loaded)


def _timed(layout: Layout, stays: Stays, turn: float, has_errands: bool) -> Legs:
    moves, num_deliveries = make_moves(layout), len(layout.deliveries)
    ends = np.concatenate([layout.deliveries, layout.pickups]) if has_errands else layout.deliveries
    away = _least_steps(moves, stays.through, turn, layout.pickups, ends) + stays.pickups[:, None]
    back = _least_steps(moves, stays.through, turn, layout.deliveries, layout.pickups) + stays.deliveries[:, None]
    return _assemble(away[:, :num_deliveries], back.T, away[:, num_deliveries:], has_errands)


@kernel
def _least_steps(moves: Int32, through: Float64, turn: float, sources: Int32, ends: Int32) -> Float64:
    """Fewest steps from when a robot can leave each source until it comes into each end (Dijkstra 1959).

    Args:
        moves: (cells, 5) int32, where each move leads.
        through: (cells,) float64, steps that each cell takes, at least 1.
        turn: Steps of a quarter turn, with any side faced at the start; 0 for robots that drive to any side.
        sources: (S,) int32, cells.
        ends: (T,) int32, cells.

    Returns:
        (S, T) float64; infinite where there is no way.
    """
    sides = 4 if turn > 0.0 else 1
    arrivals = np.empty((len(sources), len(ends)))
    arrival = np.empty(len(moves))
    least = np.empty(len(moves) * sides)
    for row in range(len(sources)):
        least[:] = np.inf
        arrival[:] = np.inf
        heap = [(0.0, np.int64(sources[row] * sides + side)) for side in range(sides)]
        for side in range(sides):
            least[sources[row] * sides + side] = 0.0
        while len(heap) > 0:
            passed, state = heapq.heappop(heap)
            if passed > least[state]:
                continue
            cell, side = int(state // sides), int(state % sides)
            for move in range(1, 5):
                # To the sides that it does not face, a robot turns.
                quarters = (move - 1 - side) % 4 if turn > 0.0 else 0
                other = int(moves[cell, move]) if quarters == 0 else cell
                if quarters == 2 or (quarters == 0 and other == cell):
                    continue
                following = other * sides + (move - 1 if turn > 0.0 else 0)
                later = passed + (through[other] if quarters == 0 else turn)
                if quarters == 0:
                    arrival[other] = min(arrival[other], passed + 1.0)
                if later < least[following]:
                    least[following] = later
                    heapq.heappush(heap, (later, np.int64(following)))
        arrival[sources[row]] = 0.0
        arrivals[row] = arrival[ends]
    return arrivals


def _driven(config: WarehouseConfig, drive: DifferentialDriveConfig, layout: Layout) -> Legs:
    places = [layout.deliveries] + ([layout.pickups] if config.tasks.has_errands else [])
    ways_m = straight_ways(layout, layout.pickups, np.concatenate(places))
    ways_m = np.maximum(ways_m - 2.0 * drive.station_radius_m, 0.0)
    fastest = max(drive.max_speed_mps, drive.max_reverse_mps)
    if layout.speed_limit_mps is not None:
        limits = np.nan_to_num(layout.speed_limit_mps[~layout.blocked.ravel()], nan=np.inf)
        fastest = min(fastest, float(limits.max()))
    service = config.tasks.service
    after_pick = fastest if service is None else _speed_after(drive, service, service.pick_s)
    after_drop = fastest if service is None else _speed_after(drive, service, service.drop_s)
    num_deliveries = len(layout.deliveries)
    onwards = _steps_for(ways_m, after_pick, fastest, drive)
    back = _steps_for(ways_m[:, :num_deliveries], after_drop, fastest, drive)
    return _assemble(onwards[:, :num_deliveries], back, onwards[:, num_deliveries:], config.tasks.has_errands)


def _speed_after(drive: DifferentialDriveConfig, service: ServiceConfig, mean_s: float) -> float:
    """Largest speed in m/s at which a robot leaves a station: it brakes for as long as it is served."""
    if drive.lag_s > 0.0:
        return float(service.docking_speed_mps)
    least_s = seconds_per_step(drive) * np.ceil(mean_s * (1.0 - service.spread) / seconds_per_step(drive) - 1e-9)
    return float(max(service.docking_speed_mps - least_s * drive.max_deceleration_mps2, 0.0))


def _steps_for(ways_m: Float64, first: float, fastest: float, drive: DifferentialDriveConfig) -> Float64:
    """Fewest decisions in which a robot that drives at ``first`` m/s can cover each way.

    Speeds change at the beginning of a physics step: after k of them a robot is not faster than ``first + k * a * dt``.
    """
    longest = float(np.where(np.isfinite(ways_m), ways_m, 0.0).max())
    change = drive.max_acceleration_mps2 * drive.step_s
    num_ticks = int(longest / (fastest * drive.step_s) + (fastest - min(first, fastest)) / change) + 2
    speeds = np.minimum(first + change * np.arange(1, num_ticks + 1), fastest)
    covered = np.concatenate([[0.0], np.cumsum(speeds) * drive.step_s])
    ticks = np.searchsorted(covered, ways_m - _TOLERANCE_M)
    return np.ceil(ticks / drive.decision_steps)


def _stuck_steps(config: WarehouseConfig) -> float:
    """How long a robot stands still before an operator comes; one that was being served has stood for a while."""
    if config.deadlock is None or config.tasks.service:
        return 0.0
    stuck_s = min(config.deadlock.cycle_s, config.deadlock.no_progress_s)
    return float(np.floor(stuck_s / seconds_per_step(config.drive)))


def _with_robots_that_vanish(config: WarehouseConfig, layout: Layout, legs: Legs, stuck: float) -> Legs:
    """The same where an operator carries robots that stand still for ``stuck`` steps, and where some despawn."""
    if config.deadlock is not None and config.deadlock.resolve == "relocate" and len(layout.parking):
        legs = _relocated(config, layout, legs, stuck)
    if config.contact.rule == "despawn":
        legs = legs._replace(empty=np.zeros_like(legs.empty))
    return legs


def _relocated(config: WarehouseConfig, layout: Layout, legs: Legs, stuck: float) -> Legs:
    """Robots that are stuck are carried to a parking place."""
    if isinstance(config.drive, DifferentialDriveConfig):
        return Legs(*(np.minimum(values, stuck) for values in legs))
    places = np.stack([distances_from(layout, int(cell)) for cell in layout.parking]).min(axis=0)
    to_pickups, to_deliveries = stuck + places[layout.pickups], stuck + places[layout.deliveries]
    between = np.minimum(legs.between, to_pickups) if legs.between.size else legs.between
    return Legs(np.minimum(legs.empty, to_pickups), between, np.minimum(legs.loaded, to_deliveries))
