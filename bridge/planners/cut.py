"""The narrowest place between pick-ups and deliveries: a minimum cut of the floor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.planners.max_flow import make_network, maximum_flow
from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout

__all__ = ["crossings_per_step"]

Float64 = NDArray[np.float64]


def crossings_per_step(layout: Layout, station_crossings: int, through: Float64 | None = None) -> float:
    """How many crossings robots can make per step of the narrowest set of cells between pick-ups and deliveries.

    Every way from a pick-up to a delivery, and every way back, has a cell of the set, where the robot
    stands alone for the steps that the cell takes. A stay at a station that ends one way and begins the next
    serves both. The set is the minimum cut with the capacity ``1 / through`` per cell and ``station_crossings``
    times that per station.

    Args:
        layout: The floor plan.
        station_crossings: 2 if robots have to go back, 1 if a way is one of a load alone.
        through: (cells,) float64, steps that a robot stays in each cell at least, in the mean; None for 1.
            In a cell that is both a pick-up and a delivery, robots may end and begin a way in every step.
    """
    cells = np.arange(layout.blocked.size)
    capacity = np.ones(len(cells)) if through is None else 1.0 / through
    both = np.intersect1d(layout.pickups, layout.deliveries)
    capacity[both] = 1.0
    capacity[np.union1d(layout.pickups, layout.deliveries)] *= station_crossings
    # Node ``cell`` is the way into a cell, node ``cells + cell`` the way out of it; between them lies the capacity.
    moves = make_moves(layout)[:, 1:]
    leaves, sides = np.nonzero(moves != cells[:, None])
    tails = np.concatenate([cells, len(cells) + leaves])
    heads = np.concatenate([len(cells) + cells, moves[leaves, sides]])
    there = np.concatenate([capacity, np.full(len(leaves), np.inf)])
    network = make_network(2 * len(cells), tails, heads, there, np.zeros(len(tails)))
    is_sink = np.zeros(2 * len(cells), np.bool_)
    is_sink[len(cells) + layout.deliveries] = True
    return float(maximum_flow(network, layout.pickups, is_sink))
