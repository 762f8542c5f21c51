"""Distances for planners on cells that lead around robots which stay where they are.

A robot with an empty battery stands until somebody fetches it, as a rule for the rest of the episode. A planner that
measures ways through it drives the others up to it, and there they wait for ever. An environment in which some robot
has run flat therefore has distances of its own that avoid the cells of such robots.

They are computed for the goals that robots have, when they first have them, and anew when another robot runs flat or
one comes to life again: per environment at most one search over the floor for each goal and change. As long as no
robot is flat, nothing is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.drives.speed_zones import route_costs
from bridge.warehouse.floor import goal_cells
from bridge.warehouse.routes import RouteCosts, route_tables
from bridge.warehouse.view import WarehouseView

__all__ = ["WaysAround"]

Int32 = NDArray[np.int32]

_NOBODY: Final = -1

# Longer than every way.
_CUT_OFF: Final = 1 << 29


class WaysAround:
    """Tells a planner how far it is to every goal.

    Distances are those of a robot that is about to come into a cell: cells, or the steps that those of speed zones
    take. Turns are left out: robots that all keep to the ways with the fewest turns meet on them (in ``warehouse_kiva``
    with headings that cost PIBT an eighth of its throughput).

    Args:
        view: The warehouse; its robots move from cell to cell.
    """

    def __init__(self, view: WarehouseView) -> None:
        self._view = view
        self._goal_cells = goal_cells(view.layout)
        self._costs = route_costs(view.config.drive, view.layout)._replace(turn=0)
        self._distance = view.goal_distances
        if view.config.drive.kind == "grid_heading" or len(self._costs.cells):
            self._distance = _from_outside(view.moves, self._goal_cells, self._costs)
        self._flat_at = np.full(view.cells.shape, _NOBODY, np.int32)
        self._own: dict[int, Int32] = {}
        self._is_known = np.zeros((len(view.cells), len(self._goal_cells)), np.bool_)

    @property
    def distance(self) -> Int32:
        """(G, C) int32, how far it is from each cell to each goal where no robot is flat; -1 for no path."""
        return self._distance

    def around_flat_robots(self) -> Iterator[tuple[int, Int32]]:
        """The environments in which some robot is flat at this moment, each with its distances.

        These are as :attr:`distance`, but true for the goals only that some robot has at this moment. They lead
        around the flat robots; to a goal on which one stands, up to it. Cells from which no way leads around keep their
        distance, behind all others: who is cut off drives as near as it can.
        """
        view = self._view
        flat_at = np.where(view.alive & (view.charge <= 0.0), view.cells, _NOBODY)
        changed = (flat_at != self._flat_at).any(axis=1)
        if changed.any():
            self._flat_at[:] = flat_at
            self._is_known[changed] = False
        for env in np.flatnonzero((flat_at != _NOBODY).any(axis=1)).tolist():
            goals = np.unique(view.goal_index[env])
            missing = goals[(goals != _NOBODY) & ~self._is_known[env, goals]]
            # Memory that is not written is not used: a floor may have far more goals than robots.
            own = self._own.setdefault(env, np.empty_like(self._distance))
            if len(missing):
                own[missing] = self._lead_around(flat_at[env][flat_at[env] != _NOBODY], missing)
                self._is_known[env, missing] = True
            yield env, own

    def _lead_around(self, flat: Int32, goals: Int32) -> Int32:
        """Distances to some goals that avoid the cells of ``flat`` robots: (goals, C) int32."""
        cells = self._goal_cells[goals]
        around = np.empty((len(goals), len(self._view.moves)), np.int32)
        is_free = ~np.isin(cells, flat)
        if is_free.any():
            around[is_free] = _from_outside(_without(self._view.moves, flat), cells[is_free], self._costs)
        for place in np.flatnonzero(~is_free):
            moves = _without(self._view.moves, flat[flat != cells[place]])
            around[place] = _from_outside(moves, cells[place : place + 1], self._costs)
        usual = self._distance[goals]
        distance: Int32 = np.where((around < 0) & (usual >= 0), usual + np.int32(_CUT_OFF), around)
        return distance


def _without(moves: Int32, cells: Int32) -> Int32:
    """The moves that do not lead into some cells; what is left of them stays."""
    here = np.arange(len(moves), dtype=np.int32)[:, None]
    return np.where(np.isin(moves, cells), here, moves).astype(np.int32)


def _from_outside(moves: Int32, goals: Int32, costs: RouteCosts) -> Int32:
    """Distances of robots that are about to come into each cell: (goals, C) int32, -1 for no path."""
    routes, _ = route_tables(moves, goals, costs)
    distance = np.where(routes == np.iinfo(routes.dtype).max, np.int32(-1), (routes >> 4).astype(np.int32))
    if len(costs.cells):
        distance = np.where(distance > 0, distance + costs.cells - costs.units, distance).astype(np.int32)
    return distance
