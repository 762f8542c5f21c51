"""The narrowest place between pick-ups and deliveries: a minimum cut of the floor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel
from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout

__all__ = ["crossings_per_step"]

Int32 = NDArray[np.int32]


def crossings_per_step(layout: Layout, station_crossings: int) -> int:
    """How many crossings robots can make per step of the narrowest set of cells between pick-ups and deliveries.

    Every way from a pick-up to a delivery, and every way back, has a cell of the set, where the robot
    stands for one step at least, alone. A step on a station that ends one way and begins the next
    serves both. The set is the minimum cut with capacity 1 per cell and ``station_crossings`` per
    station; by the theorem of Ford and Fulkerson (1956) it is as large as the maximum flow.

    Args:
        layout: The floor plan.
        station_crossings: 2 if robots have to go back, 1 if a way is one of a load alone.
    """
    moves = make_moves(layout)
    capacity = np.ones(layout.blocked.size, np.int32)
    capacity[layout.pickups] = station_crossings
    capacity[layout.deliveries] = station_crossings
    sinks = np.zeros(layout.blocked.size, np.bool_)
    sinks[layout.deliveries] = True
    return int(_max_flow(moves, capacity, layout.pickups, sinks))


@kernel
def _max_flow(moves: Int32, capacity: Int32, sources: Int32, sinks: NDArray[np.bool_]) -> int:
    """Maximum flow from ``sources`` to ``sinks`` through cells of limited capacity (Edmonds and Karp 1972).

    Node ``cell`` is the way into a cell, node ``cells + cell`` the way out of it; between them lies the
    capacity. Ways between neighbouring cells are unlimited.
    """
    cells = len(capacity)
    through = np.zeros(cells, np.int32)  # flow through a cell
    along = np.zeros((cells, 5), np.int32)  # flow along a move
    came = np.empty(2 * cells, np.int32)  # node before, -2 for a source, -1 for not reached
    by = np.empty(2 * cells, np.int32)  # move that led here, backwards if negative; 0 within a cell
    queue = np.empty(2 * cells, np.int32)
    total = 0
    while True:
        came[:] = -1
        head = tail = 0
        for source in sources:
            came[source] = -2
            queue[tail] = source
            tail += 1
        end = -1
        while head < tail and end < 0:
            node = queue[head]
            head += 1
            cell = node % cells
            if node < cells:
                if through[cell] < capacity[cell] and came[cells + cell] == -1:
                    came[cells + cell], by[cells + cell] = node, 0
                    queue[tail] = cells + cell
                    tail += 1
                # Backwards over a flow that enters the cell.
                for move in range(1, 5):
                    other = moves[cell, move]
                    back = (move + 1) % 4 + 1
                    enters = other != cell and moves[other, back] == cell and along[other, back] > 0
                    if enters and came[cells + other] == -1:
                        came[cells + other], by[cells + other] = node, -back
                        queue[tail] = cells + other
                        tail += 1
            else:
                if sinks[cell]:
                    end = node
                    break
                if through[cell] > 0 and came[cell] == -1:
                    came[cell], by[cell] = node, 0
                    queue[tail] = cell
                    tail += 1
                for move in range(1, 5):
                    other = moves[cell, move]
                    if other != cell and came[other] == -1:
                        came[other], by[other] = node, move
                        queue[tail] = other
                        tail += 1
        if end < 0:
            return total
        node = end
        while came[node] != -2:
            before = came[node]
            if by[node] == 0:
                through[node % cells] += 1 if node >= cells else -1
            elif by[node] > 0:
                along[before - cells, by[node]] += 1
            else:
                along[node - cells, -by[node]] -= 1
            node = before
        total += 1
