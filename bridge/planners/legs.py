"""How many steps robots need at least from station to station, whatever drives them and with nobody in the way.

Whatever happens at a station happens at the end of a step, once per robot and step: a leg takes a whole number of
steps, and one at least.

- **Grid**: the shortest path, a cell per step.
- **Grid with heading**: the fewest moves and quarter turns; a robot may face any side when it starts.
- **Differential drive**: the shortest way of a point between the discs in which stations serve (``straight_ways``),
  at the largest speed. Where stations take time a robot has to be slow to be served, so that every leg begins
  with speeding up. Braking is not counted: a refused motion stops a robot at once. Nor are turns: a
  robot may drive a curve.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel
from bridge.planners.straight_ways import straight_ways
from bridge.warehouse.config import DifferentialDriveConfig, ServiceConfig, WarehouseConfig
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout, distances_from, distances_to

__all__ = ["Legs", "shortest_legs"]

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


def shortest_legs(config: WarehouseConfig, layout: Layout) -> Legs:
    """The legs of a warehouse.

    Empty legs are counted from the nearest delivery, because any dispatch may choose who takes a task. They are
    a step where robots despawn, because those may come back anywhere.
    """
    step_s = seconds_per_step(config.drive)
    if isinstance(config.drive, DifferentialDriveConfig):
        legs = _driven(config, config.drive, layout)
    elif config.drive.kind == "grid_heading":
        legs = _turned(layout, config.tasks.has_errands)
    else:
        legs = _stepped(layout, config.tasks.has_errands)
    if config.deadlock is not None and config.deadlock.resolve == "relocate" and len(layout.parking):
        legs = _relocated(config, layout, legs, step_s)
    if config.contact.rule == "despawn":
        legs = legs._replace(empty=np.zeros_like(legs.empty))
    return Legs(*(np.maximum(values, 1.0) for values in legs))


def _stepped(layout: Layout, has_errands: bool) -> Legs:
    away = np.stack([distances_from(layout, int(cell)) for cell in layout.pickups]).astype(np.float64)
    back = np.stack([distances_to(layout, int(cell)) for cell in layout.pickups]).astype(np.float64)
    return _assemble(away[:, layout.deliveries], back[:, layout.deliveries], away[:, layout.pickups], has_errands)


def _assemble(loaded: Float64, back: Float64, between: Float64, has_errands: bool) -> Legs:
    return Legs(back.min(axis=1), between if has_errands else np.zeros((0, 0)), loaded)


def _turned(layout: Layout, has_errands: bool) -> Legs:
    moves = make_moves(layout)
    away = _moves_and_turns(moves, layout.pickups).astype(np.float64)
    back = _moves_and_turns(moves, layout.deliveries).astype(np.float64)[:, layout.pickups].T
    return _assemble(away[:, layout.deliveries], back, away[:, layout.pickups], has_errands)


@kernel
def _moves_and_turns(moves: Int32, sources: Int32) -> Int32:
    """Fewest actions from each source, facing any side, to every cell: (S, cells) int32; -1 for no way."""
    cells = len(moves)
    fewest = np.full((len(sources), cells), -1, np.int32)
    count = np.empty((cells, 4), np.int32)
    queue = np.empty(4 * cells, np.int32)
    for row in range(len(sources)):
        count[:] = -1
        for side in range(4):
            count[sources[row], side] = 0
            queue[side] = 4 * sources[row] + side
        head, tail = 0, 4
        while head < tail:
            cell, side = queue[head] // 4, queue[head] % 4
            head += 1
            if fewest[row, cell] < 0:
                fewest[row, cell] = count[cell, side]
            for action in range(3):
                other = moves[cell, side + 1] if action == 0 else cell
                faced = (side + (0, 1, 3)[action]) % 4
                if count[other, faced] < 0:
                    count[other, faced] = count[cell, side] + 1
                    queue[tail] = 4 * other + faced
                    tail += 1
    return fewest


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


def _relocated(config: WarehouseConfig, layout: Layout, legs: Legs, step_s: float) -> Legs:
    """The same where a robot that stands still for long enough is carried to a parking place."""
    assert config.deadlock is not None, "asked for by the caller"
    # A robot that was being served has stood still for a while already.
    stuck_s = 0.0 if config.tasks.service else min(config.deadlock.cycle_s, config.deadlock.no_progress_s)
    stuck = np.floor(stuck_s / step_s)
    if isinstance(config.drive, DifferentialDriveConfig):
        return Legs(*(np.minimum(values, stuck) for values in legs))
    places = np.stack([distances_from(layout, int(cell)) for cell in layout.parking]).min(axis=0)
    to_pickups, to_deliveries = stuck + places[layout.pickups], stuck + places[layout.deliveries]
    between = np.minimum(legs.between, to_pickups) if legs.between.size else legs.between
    return Legs(np.minimum(legs.empty, to_pickups), between, np.minimum(legs.loaded, to_deliveries))
