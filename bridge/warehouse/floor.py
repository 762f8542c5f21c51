"""A layout prepared for the kernels: moves, goals, shortest paths and places to start from.

Computed once per simulator. Every pick-up, delivery, parking place and
charger is a *goal* with a row in the route table. An entry of the table packs
what a robot in a cell needs to know about its way to a goal into one number:
``distance << 4 | directions``, where bit ``d - 1`` of ``directions`` is set if
move ``d`` (up, right, down, left) brings it one cell nearer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel, kernel_part
from bridge.warehouse.layout import Layout

__all__ = ["MAX_ROUTE_BYTES", "Floor", "goal_cells", "make_floor", "make_moves", "next_cell", "route_table_bytes"]

Int32 = NDArray[np.int32]
Routes = NDArray[np.uint16] | NDArray[np.uint32]

MAX_ROUTE_BYTES: Final = 1 << 30

_LONGEST_SHORT = 0xFFF

# The first move among the directions of a route entry: stay, up, right, down or left.
_FIRST_MOVE: Final = np.array([0, 1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3, 1, 2, 1], np.int32)


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
        routes: (G, cells) uint16 or uint32, packed route table; all bits set where there is no path.
        pickups: (n,) int32, goals where loads are fetched.
        deliveries: (n,) int32, goals where loads are brought.
        parking: (n,) int32, goals where robots wait.
        chargers: (n,) int32, goals where robots charge.
        start_cells: (n,) int32, cells where robots may start: parking places, then free cells without a station.
        num_parking: Number of parking places at the front of ``start_cells``.
        one_way: Some moves between free cells are forbidden.
        speed_limit: (cells,) float64, m/s, inf for no limit; empty if the layout has none.
        bound_cells: No robot's remaining way (to a pick-up and on to a delivery, to a
            parking place, a charger or a meeting place) is longer than this.
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
    routes: Routes
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
    return int(floor.moves[cell, _FIRST_MOVE[entry & 15]])


def goal_cells(layout: Layout) -> Int32:
    """Every cell that a robot can be sent to, ascending: (G,) int32."""
    kinds = [layout.pickups, layout.deliveries, layout.parking, layout.chargers]
    return np.unique(np.concatenate(kinds if layout.meeting is None else [*kinds, layout.meeting]))


def route_table_bytes(layout: Layout) -> int:
    """Upper bound on the memory of the route table."""
    return len(goal_cells(layout)) * layout.blocked.size * 4


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


def make_floor(layout: Layout) -> Floor:
    """Prepare a layout that :func:`bridge.warehouse.validation.check_warehouse` has accepted."""
    moves = make_moves(layout)
    goals = goal_cells(layout)
    routes = _route_table(moves, goals)
    reachable = routes[0] != np.iinfo(routes.dtype).max
    stations = np.concatenate([layout.pickups, layout.deliveries, layout.chargers])
    others = reachable.copy()
    others[stations] = False
    others[layout.parking] = False
    kinds = ("pickups", "deliveries", "parking", "chargers")
    rows = {name: np.searchsorted(goals, getattr(layout, name)).astype(np.int32) for name in kinds}
    distances = (routes >> 4).astype(np.int64)
    to_pickup = distances[rows["pickups"]][:, reachable].max()
    to_delivery = distances[rows["deliveries"]][:, layout.pickups].max()
    meeting = np.searchsorted(goals, layout.meeting) if layout.meeting is not None else rows["chargers"]
    without_task = np.concatenate([rows["parking"], rows["chargers"], meeting])
    to_rest = distances[without_task][:, reachable].max() if len(without_task) else 0
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
        routes=routes,
        pickups=rows["pickups"],
        deliveries=rows["deliveries"],
        parking=rows["parking"],
        chargers=rows["chargers"],
        start_cells=np.concatenate([layout.parking, np.flatnonzero(others).astype(np.int32)]),
        num_parking=len(layout.parking),
        one_way=layout.exits is not None,
        speed_limit=_speed_limits(layout),
        # A robot between two cell centres may have one more cell to go than the cell that it is in.
        bound_cells=float(max(to_pickup + to_delivery, to_rest) + 1),
    )


def _speed_limits(layout: Layout) -> NDArray[np.float64]:
    if layout.speed_limit_mps is None:
        return np.zeros(0)
    return np.nan_to_num(layout.speed_limit_mps.astype(np.float64), nan=np.inf)


def _sources(moves: Int32) -> Int32:
    """From which cell each move leads into each cell: (cells, 5) int32; the cell itself where none does."""
    cells = np.arange(len(moves), dtype=np.int32)
    sources = np.repeat(cells[:, None], 5, axis=1)
    for move in range(1, 5):
        leads = moves[:, move] != cells
        sources[moves[leads, move], move] = cells[leads]
    return sources


def _route_table(moves: Int32, goals: Int32) -> Routes:
    sources = _sources(moves)
    # Where every way can be driven back, no path is longer than twice the longest path from one goal: short enough
    # for 12 bits, or not.
    probe = np.full((1, len(moves)), np.iinfo(np.uint32).max, np.uint32)
    _fill_routes(moves, sources, goals[:1], probe)
    distances = probe[probe != np.iinfo(np.uint32).max] >> 4
    back_and_forth = np.array_equal(np.sort(moves, axis=1), np.sort(sources, axis=1))
    longest = 2 * int(distances.max()) if back_and_forth else len(moves)
    dtype = np.uint16 if longest < _LONGEST_SHORT else np.uint32
    table = np.full((len(goals), len(moves)), np.iinfo(dtype).max, dtype)
    _fill_routes(moves, sources, goals, table)
    return table


@kernel
def _fill_routes(moves: Int32, sources: Int32, goals: Int32, routes: Routes) -> None:
    """Breadth-first search backwards from every goal, then packing; entries without a path are left as they are."""
    cells = len(moves)
    distance = np.empty(cells, np.int32)
    queue = np.empty(cells, np.int32)
    for goal in range(len(goals)):
        distance[:] = -1
        distance[goals[goal]] = 0
        queue[0] = goals[goal]
        head, tail = 0, 1
        while head < tail:
            cell = queue[head]
            head += 1
            for move in range(1, 5):
                other = sources[cell, move]
                if distance[other] < 0:
                    distance[other] = distance[cell] + 1
                    queue[tail] = other
                    tail += 1
        for cell in range(cells):
            if distance[cell] < 0:
                continue
            entry = distance[cell] << 4
            for move in range(1, 5):
                away = distance[moves[cell, move]]
                if away >= 0 and away == distance[cell] - 1:
                    entry |= 1 << (move - 1)
            routes[goal, cell] = entry
