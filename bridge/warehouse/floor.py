"""A layout prepared for the kernels: moves, goals, shortest paths and places to start from.

Computed once per simulator. Every pick-up, delivery, parking place and
charger is a *goal* with a row in the route table (``routes``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part
from bridge.warehouse.fleet import Pose
from bridge.warehouse.layout import Layout, distances_from, distances_to
from bridge.warehouse.routes import CELLS, RouteCosts, Routes, entry_bytes, first_move, move_cost, route_tables

__all__ = [
    "MAX_ROUTE_BYTES",
    "Floor",
    "cell_after_next",
    "cells_between",
    "goal_cells",
    "least_units",
    "make_floor",
    "make_moves",
    "max_goals",
    "nearest_unclaimed",
    "next_cell",
    "route_entry",
    "route_table_bytes",
    "units_left",
]

Int32 = NDArray[np.int32]

MAX_ROUTE_BYTES: Final = 1 << 30


class Floor(NamedTuple):
    """Arrays that every kernel may read and none may write; G goals, cells = H * W.

    Attributes:
        width: Number of columns.
        height: Number of rows.
        cell_size_m: Edge length of a cell.
        cells_per_m: Its inverse.
        moves: (cells, 5) int32, where each move leads; the cell itself where a rack, a wall or the exits of the
            layout forbid it.
        x: (cells,) float64, m, centre of each cell.
        y: (cells,) float64, m, likewise.
        blocked: (cells,) bool, racks and walls.
        goal_cell: (G,) int32, cell of each goal.
        goal_row: (G,) int32, row of that cell.
        goal_column: (G,) int32, its column.
        routes: (G, cells) uint16 or uint32, packed route table; all bits set where there is no path.
        facing: (G, cells, 4) likewise, by the side that a robot faces; (0, 0, 0) if robots need not turn.
        units: Units of their distances that a cell without a speed limit costs; none costs less.
        cells_per_unit: Its inverse.
        drive_costs: (cells,) int32, units of each cell for robots that drive from centre to centre; empty if all
            cost the same, and for robots that move from cell to cell.
        pickups: (n,) int32, goals where loads are fetched.
        deliveries: (n,) int32, goals where loads are brought.
        parking: (n,) int32, goals where robots wait.
        chargers: (n,) int32, goals where robots charge.
        start_cells: (n,) int32, cells where robots may start: parking places, then free cells without a station.
        num_parking: Number of parking places at the front of ``start_cells``.
        one_way: Some moves between free cells are forbidden.
        speed_limit: (cells,) float64, m/s, inf for no limit; empty if the layout has none.
        bound_cells: No robot's remaining way (to a pick-up and on to a delivery, to a
            parking place, a charger or a meeting place) costs more than this many cells.
    """

    width: int
    height: int
    cell_size_m: float
    cells_per_m: float
    moves: Int32
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    blocked: NDArray[np.bool_]
    goal_cell: Int32
    goal_row: Int32
    goal_column: Int32
    routes: Routes
    facing: Routes
    units: int
    cells_per_unit: float
    drive_costs: Int32
    pickups: Int32
    deliveries: Int32
    parking: Int32
    chargers: Int32
    start_cells: Int32
    num_parking: int
    one_way: bool
    speed_limit: NDArray[np.float64]
    bound_cells: float


@kernel_part
def next_cell(floor: Floor, cell: int, entry: int) -> int:
    """The next cell on the way of a packed route entry; the cell itself at the goal."""
    return int(floor.moves[index(cell), index(first_move(entry))])


@kernel_part
def cells_between(floor: Floor, low_x: float, high_x: float, low_y: float, high_y: float) -> tuple[int, int, int, int]:
    """The cells of a rectangle (m): first row, row behind the last, first column, column behind the last."""
    per_m, height, width = floor.cells_per_m, floor.height, floor.width
    top, bottom = height - 1 - int(max(high_y, 0.0) * per_m), height - int(max(low_y, 0.0) * per_m)
    left, right = int(max(low_x, 0.0) * per_m), int(max(high_x, 0.0) * per_m) + 1
    return max(top, 0), min(bottom, height), left, min(right, width)


@kernel_part
def route_entry(floor: Floor, pose: Pose, goal: int, cell: int, env: int, robot: int) -> int:
    """The packed route entry of a robot in a cell, by the side that it faces where it has to turn."""
    if len(floor.facing) > 0:
        # Up, right, down, left.
        cos, sin = pose.cos[env, robot], pose.sin[env, robot]
        side = 0 if sin > 0.5 else 1 if cos > 0.5 else 2 if sin < -0.5 else 3
        return int(floor.facing[index(goal), index(cell), index(side)])
    return int(floor.routes[index(goal), index(cell)])


@kernel_part
def cell_after_next(floor: Floor, goal: int, cell: int, entry: int) -> int:
    """The cell after the next one on the way of an entry that is not the goal's, for a robot that drives."""
    move, following = first_move(entry), next_cell(floor, cell, entry)
    if len(floor.facing) > 0:
        return next_cell(floor, following, int(floor.facing[index(goal), index(following), index(move - 1)]))
    return next_cell(floor, following, int(floor.routes[index(goal), index(following)]))


@kernel_part
def least_units(floor: Floor, goal: int, row: int, column: int) -> int:
    """Units that the way from a cell to a goal costs at least: as many cells as they are apart, none of them slow.

    It saves looking into the route table for goals that are far away, which is a miss of all caches on a large floor.
    """
    apart = abs(floor.goal_row[index(goal)] - row) + abs(floor.goal_column[index(goal)] - column)
    return int(apart) * floor.units


@kernel_part
def nearest_unclaimed(floor: Floor, goals: Int32, claimed: NDArray[np.bool_], cell: int, other_cell: int) -> int:
    """The goal among ``goals`` with the shortest way that nobody has claimed, the first among equals; -1 for none.

    Args:
        floor: The floor plan.
        goals: (n,) int32.
        claimed: (G,) bool.
        cell: Where the way begins.
        other_cell: A cell whose goal is not wanted; -1 for none.
    """
    best, best_length = -1, np.int64(1) << 62
    row, column = cell // floor.width, cell % floor.width
    for goal in goals:
        if least_units(floor, goal, row, column) < best_length and not claimed[goal]:
            length = np.int64(floor.routes[goal, cell]) >> 4
            if length < best_length and floor.goal_cell[goal] != other_cell:
                best, best_length = int(goal), length
    return best


@kernel_part
def units_left(floor: Floor, cell: int, entry: int, ahead: float) -> float:
    """Units on the way of a robot that has ``ahead`` cells to the centre of the next cell; with ``drive_costs``."""
    cost = move_cost(floor.drive_costs, True, 0, cell, next_cell(floor, cell, entry), -1)
    return max((entry >> 4) - cost, 0) + ahead * cost


def goal_cells(layout: Layout) -> Int32:
    """Every cell that a robot can be sent to, ascending: (G,) int32."""
    kinds = [layout.pickups, layout.deliveries, layout.parking, layout.chargers]
    return np.unique(np.concatenate(kinds if layout.meeting is None else [*kinds, layout.meeting]))


def route_table_bytes(layout: Layout, *, turns: bool = False) -> int:
    """Upper bound on the memory of the route tables; ``turns``: robots have to turn."""
    return len(goal_cells(layout)) * _route_bytes(layout, turns)


def max_goals(layout: Layout) -> int:
    """How many goals the route tables of robots that need not turn may have."""
    return MAX_ROUTE_BYTES // _route_bytes(layout, turns=False)


def _route_bytes(layout: Layout, turns: bool) -> int:
    """Upper bound on the memory that a goal takes.

    Entries are of 2 bytes where no way is long, see ``routes``; here only floors without slow cells are looked at.
    """
    goals = goal_cells(layout)
    width = 4
    if layout.speed_limit_mps is None and len(goals):
        to_first, from_first = distances_to(layout, int(goals[0])), distances_from(layout, int(goals[0]))
        if (to_first[goals] >= 0).all() and (from_first[goals] >= 0).all():
            farthest = int(to_first.max()) + int(from_first.max())
            # Before every move there may be a quarter turn, and at the start a half one.
            width = entry_bytes(2 * farthest + 10 if turns else farthest + 2)
    return layout.blocked.size * width * (5 if turns else 1)


def make_moves(layout: Layout) -> Int32:
    """Where each move leads from each cell: (H*W, 5) int32, in the order stay, up, right, down, left."""
    height, width = layout.blocked.shape
    cells = np.arange(height * width, dtype=np.int32).reshape(height, width)
    moves = np.repeat(cells[:, :, None], 5, axis=2)
    moves[1:, :, 1] = cells[:-1, :]
    moves[:, :-1, 2] = cells[:, 1:]
    moves[:-1, :, 3] = cells[1:, :]
    moves[:, 1:, 4] = cells[:, :-1]
    flat = moves.reshape(-1, 5)
    barred = layout.blocked.ravel()[flat] | layout.blocked.ravel()[:, None]
    if layout.exits is not None:
        # Bit d - 1 of the exits is the side of move d.
        barred[:, 1:] |= layout.exits[:, None] >> np.arange(4, dtype=np.uint8) & 1 == 0
    return np.where(barred, cells.reshape(-1, 1), flat).astype(np.int32)


def make_floor(layout: Layout, costs: RouteCosts = CELLS) -> Floor:
    """Prepare a layout that :func:`bridge.warehouse.validation.check_warehouse` has accepted.

    Args:
        layout: The floor plan.
        costs: What ways cost the robots.
    """
    moves = make_moves(layout)
    goals = goal_cells(layout)
    routes, facing = route_tables(moves, goals, costs)
    reachable = routes[0] != np.iinfo(routes.dtype).max
    stations = np.concatenate([layout.pickups, layout.deliveries, layout.chargers])
    others = reachable.copy()
    others[stations] = False
    others[layout.parking] = False
    kinds = ("pickups", "deliveries", "parking", "chargers")
    rows = {name: np.searchsorted(goals, getattr(layout, name)).astype(np.int32) for name in kinds}
    return Floor(
        width=layout.width,
        height=layout.height,
        cell_size_m=float(layout.cell_size_m),
        cells_per_m=1.0 / layout.cell_size_m,
        moves=moves,
        x=np.tile((np.arange(layout.width) + 0.5) * layout.cell_size_m, layout.height),
        y=np.repeat((layout.height - np.arange(layout.height) - 0.5) * layout.cell_size_m, layout.width),
        blocked=layout.blocked.ravel().copy(),
        goal_cell=goals,
        goal_row=goals // layout.width,
        goal_column=goals % layout.width,
        routes=routes,
        facing=facing,
        units=costs.units,
        cells_per_unit=1.0 / costs.units,
        drive_costs=costs.cells if costs.halves else CELLS.cells,
        pickups=rows["pickups"],
        deliveries=rows["deliveries"],
        parking=rows["parking"],
        chargers=rows["chargers"],
        start_cells=np.concatenate([layout.parking, np.flatnonzero(others).astype(np.int32)]),
        num_parking=len(layout.parking),
        one_way=layout.exits is not None,
        speed_limit=_speed_limits(layout),
        bound_cells=_longest_way(layout, rows, routes, reachable, goals, costs),
    )


def _longest_way(
    layout: Layout,
    rows: dict[str, Int32],
    routes: Routes,
    reachable: NDArray[np.bool_],
    goals: Int32,
    costs: RouteCosts,
) -> float:
    """An upper bound in cells on what is left of a robot's way."""
    # Row by row, and with the directions, which change no maximum: tables are as large as the memory may hold.
    longest = np.array([int(row[reachable].max()) >> 4 for row in routes], np.int64)
    to_pickup = int(longest[rows["pickups"]].max())
    to_delivery = int((routes[np.ix_(rows["deliveries"], layout.pickups)] >> 4).max())
    meeting = np.searchsorted(goals, layout.meeting) if layout.meeting is not None else rows["chargers"]
    without_task = np.concatenate([rows["parking"], rows["chargers"], meeting])
    to_rest = int(longest[without_task].max(initial=0))
    # A robot between two cell centres may have one more cell to go than the cell that it is in, or it has to turn
    # first; who comes through a pick-up to a delivery has left it and may have turned there, too.
    dearest = int(costs.cells.max(initial=costs.units))
    further = dearest + 4 * costs.turn + (dearest if len(costs.cells) else 0)
    return float(max(to_pickup + to_delivery, to_rest) + further) / costs.units


def _speed_limits(layout: Layout) -> NDArray[np.float64]:
    if layout.speed_limit_mps is None:
        return np.zeros(0)
    return np.nan_to_num(layout.speed_limit_mps.astype(np.float64), nan=np.inf)
