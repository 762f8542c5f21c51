"""The narrowest place between pick-ups and deliveries for robots that drive freely: a minimum cut of borders.

A *border* is the side between two free cells. A set of borders without which no way is left from any pick-up to
any delivery closes a line, and every centre that goes from one to the other crosses it. How many robots cross a
border per second at most follows from their footprints, which never overlap, and their largest speed.

- **Lane**: racks or walls on both sides of a straight row of cells around the border, in which two robots cannot
  pass each other. Robots that drive through one after the other keep a gap ``g`` between their
  centres, so that ``ceil(v * T / g)`` come through in a time T that none needs to leave the lane.
- **Open floor**: whoever crosses the border within a decision was not further than ``h = v * T`` away from it
  before. Points with distances of at least ``d`` in a convex figure of area A and perimeter P are at most
  ``2 / sqrt(3) * A / d^2 + P / (2 * d) + 1`` (Oler 1961).

The cut is the minimum over all such lines, found as a maximum flow (Ford and Fulkerson 1956).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bridge.planners.max_flow import make_network, maximum_flow
from bridge.warehouse.config import DifferentialDriveConfig
from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout

__all__ = ["border_rates", "crossings_per_s", "lane_rate", "open_rate"]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]


def crossings_per_s(layout: Layout, drive: DifferentialDriveConfig, inner_radius_m: float) -> float:
    """How often robots can cross the narrowest line between pick-ups and deliveries per second.

    A robot counts once per way from one to the other, or back.

    Args:
        layout: The floor plan.
        drive: Limits of the drive.
        inner_radius_m: Of the largest disc that fits into every footprint: centres keep twice that distance.

    Returns:
        Infinite where a robot can be at a pick-up and a delivery at once.
    """
    sources = _around(layout, layout.pickups, drive.station_radius_m)
    sinks = _around(layout, layout.deliveries, drive.station_radius_m)
    if (sources & sinks).any():
        return math.inf
    rates = border_rates(layout, drive, inner_radius_m, sources | sinks)
    moves = _undirected(layout)
    # Every border once, by the cell above it or to the left of it.
    cells, sides = np.nonzero(rates[:, 2:4] > 0.0)
    there = rates[cells, 2 + sides]
    network = make_network(len(moves), cells, moves[cells, 2 + sides], there, there)
    return float(maximum_flow(network, np.flatnonzero(sources).astype(np.int32), sinks))


def lane_rate(half_m: float, lateral_m: float, inner_radius_m: float, drive: DifferentialDriveConfig) -> float:
    """Robots per second through a lane.

    Within a window no robot that crosses leaves the lane, and they cannot pass each other; so all of them come
    from one side, and stood there one behind the other at its beginning.

    Args:
        half_m: How far the lane reaches to both sides of the border.
        lateral_m: How far centres can be off its middle.
        inner_radius_m: See :func:`crossings_per_s`.
        drive: Limits of the drive.

    Returns:
        Infinite if two robots can pass each other.
    """
    fastest, step_s = max(drive.max_speed_mps, drive.max_reverse_mps), drive.step_s * drive.decision_steps
    squared = (2.0 * inner_radius_m) ** 2 - (2.0 * lateral_m) ** 2
    if squared <= (fastest * drive.step_s) ** 2:
        return math.inf
    gap = math.sqrt(squared)
    windows = range(1, int(half_m / (fastest * step_s) + 1e-9) + 1)
    return min((math.ceil(fastest * n * step_s / gap - 1e-9) / (n * step_s) for n in windows), default=math.inf)


def open_rate(length_m: float, inner_radius_m: float, drive: DifferentialDriveConfig) -> float:
    """Robots per second over a border of this length."""
    fastest, step_s = max(drive.max_speed_mps, drive.max_reverse_mps), drive.step_s * drive.decision_steps
    near, apart = fastest * step_s, 2.0 * inner_radius_m
    area = 2.0 * length_m * near + math.pi * near**2
    perimeter = 2.0 * length_m + 2.0 * math.pi * near
    most = 2.0 / math.sqrt(3.0) * area / apart**2 + perimeter / (2.0 * apart) + 1.0
    return math.floor(most + 1e-9) / step_s


def border_rates(layout: Layout, drive: DifferentialDriveConfig, inner_radius_m: float, busy: Bool) -> Float64:
    """(cells, 5) float64, robots per second that can leave each cell by each side; 0 where there is no way.

    Args:
        layout: The floor plan.
        drive: Limits of the drive.
        inner_radius_m: See :func:`crossings_per_s`.
        busy: (cells,) bool, cells in which robots may be served: they may turn round there.
    """
    moves = _undirected(layout)
    cells = np.arange(len(moves))
    anywhere = open_rate(layout.cell_size_m, inner_radius_m, drive)
    lateral_m = max(layout.cell_size_m / 2.0 - inner_radius_m, 0.0)
    rates = np.where(moves == cells[:, None], 0.0, anywhere)
    rates[:, 0] = 0.0
    for ahead, behind, sides in ((1, 3, (2, 4)), (2, 4, (1, 3))):
        narrow = (moves[:, sides] == cells[:, None]).all(axis=1) & ~layout.blocked.ravel() & ~busy
        reach = {side: _narrow_cells(moves[:, side], narrow) for side in (ahead, behind)}
        for cell in np.flatnonzero(narrow & (moves[:, ahead] != cells)):
            other = moves[cell, ahead]
            half = min(reach[behind][cell], reach[ahead][other])
            rate = min(anywhere, lane_rate(half * layout.cell_size_m, lateral_m, inner_radius_m, drive))
            rates[cell, ahead] = rates[other, behind] = rate
    return rates


def _narrow_cells(beside: Int32, narrow: Bool) -> Int32:
    """(cells,) int32, how many narrow cells follow each other from each cell on, itself included."""
    count = narrow.astype(np.int32)
    while True:
        longer = np.where(narrow & (beside != np.arange(len(beside))), 1 + count[beside], narrow).astype(np.int32)
        if np.array_equal(longer, count):
            return count
        count = longer


def _undirected(layout: Layout) -> Int32:
    """Moves without regard to one-way cells: (cells, 5) int32."""
    return make_moves(replace(layout, exits=None))


def _around(layout: Layout, stations: Int32, radius_m: float) -> Bool:
    """(cells,) bool, free cells in which the centre of a robot at one of the stations may be."""
    reach = int(radius_m / layout.cell_size_m + 0.5)
    found = np.zeros_like(layout.blocked)
    for row, column in (divmod(int(cell), layout.width) for cell in stations):
        for down in range(-reach, reach + 1):
            for right in range(-reach, reach + 1):
                gap = math.hypot(max(abs(down) - 0.5, 0.0), max(abs(right) - 0.5, 0.0)) * layout.cell_size_m
                if gap <= radius_m and 0 <= row + down < layout.height and 0 <= column + right < layout.width:
                    found[row + down, column + right] = True
    return (found & ~layout.blocked).ravel()
