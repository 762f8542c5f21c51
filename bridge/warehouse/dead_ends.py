"""Dead ends of one lane in which robots block each other, told before anything runs.

A robot that stands deep in a dead end and one that wants to go in cannot pass each other: one of them has to back out,
which the papers' PIBT does not make it do (Okumura et al. 2022 ask for a biconnected graph). What is left of a floor
after cutting off ends, again and again, lies on loops or between them; the rest are dead ends, however they branch.
Steps count in both directions, so that a one-way loop is no dead end.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.config import DifferentialDriveConfig, WarehouseConfig
from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout

__all__ = ["DeadEnd", "dead_end_warnings", "dead_ends", "ways_out"]

Int32 = NDArray[np.int32]

_LISTED: Final = 3
_OFF: Final = -1


class DeadEnd(NamedTuple):
    """A dead end with a place in it that robots are sent to.

    Attributes:
        mouth: The cell outside, on a loop; -1 if the floor has no loop.
        place: The cell deepest in it that robots are sent to.
        depth: How many steps that is from the mouth, or from the middle of a floor without a loop.
    """

    mouth: int
    place: int
    depth: int


def dead_ends(layout: Layout) -> list[DeadEnd]:
    """Every dead end with a station, charger or parking place two or more cells inside, the deepest first.

    At one cell inside, whoever waits outside can give way on its loop.
    """
    towards, order = _cut_ends(layout)
    mouth = np.full(len(towards), _OFF, np.int32)
    branch = np.full(len(towards), _OFF, np.int32)
    depth = np.zeros(len(towards), np.int32)
    cut = set(order)
    # Backwards, so that what lies further out comes first.
    for cell in reversed(order):
        outer = int(towards[cell])
        if outer == _OFF:
            branch[cell] = cell
        elif outer in cut:
            depth[cell], branch[cell], mouth[cell] = depth[outer] + 1, branch[outer], mouth[outer]
        else:
            depth[cell], branch[cell], mouth[cell] = 1, cell, outer
    deepest: dict[int, DeadEnd] = {}
    places = np.concatenate([layout.pickups, layout.deliveries, layout.parking, layout.chargers])
    for cell in np.unique(places).tolist():
        found = DeadEnd(int(mouth[cell]), cell, int(depth[cell]))
        key = int(branch[cell])
        if key != _OFF and found.depth > (deepest[key].depth if key in deepest else 0):
            deepest[key] = found
    inside = [end for end in deepest.values() if end.depth > 1 or end.mouth == _OFF]
    return sorted(inside, key=lambda end: (-end.depth, end.place))


def ways_out(layout: Layout) -> Int32:
    """(cells,) int32, the next cell on the way out of each cell of a dead end of one lane; -1 for all others."""
    towards, _ = _cut_ends(layout)
    return towards


def dead_end_warnings(config: WarehouseConfig, layout: Layout) -> tuple[str, ...]:
    """A sentence on the dead ends in which the fleet can block itself; none for one robot, or where robots can pass."""
    if config.num_robots < 2 or _robots_can_pass(config, layout):
        return ()
    if config.has_pickers and config.num_robots > 3 and _is_a_ring(layout):
        return (
            "layout: robots cannot change places, because the floor is a single loop of one lane: no picker but those "
            "next to a carrier in the row can serve it. Lay a second lane, or a way across.",
        )
    found = dead_ends(layout)
    if not found:
        return ()
    if found[0].mouth == _OFF:
        return (
            "layout: robots cannot pass each other anywhere, because the floor has no loop: two that meet can wait for "
            "each other for ever. Join two ends, or lay a second lane.",
        )
    shown = "; ".join(
        f"{_place(layout, end.place)} lies {end.depth} cells inside, from {_place(layout, end.mouth)}"
        for end in found[:_LISTED]
    )
    more = f"; and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return (
        "layout: robots cannot pass each other in dead ends of one lane with stations, chargers or parking places "
        f"({len(found)}): {shown}{more}. A robot that leaves and one that enters can wait for each other for ever. "
        "Make loops of them, or lay a second lane.",
    )


def _is_a_ring(layout: Layout) -> bool:
    """Every free cell has two ways on."""
    return bool((_joined(layout).sum(axis=1)[~layout.blocked.ravel()] == 2).all())


def _robots_can_pass(config: WarehouseConfig, layout: Layout) -> bool:
    """Whether the two smallest robots fit into a cell side by side and need not keep to its centre."""
    smallest = min(role.outer_radius_m for role in config.fleet)
    return isinstance(config.drive, DifferentialDriveConfig) and 4 * smallest <= layout.cell_size_m


def _cut_ends(layout: Layout) -> tuple[Int32, list[int]]:
    """Cut off cells with at most one way on until none is left.

    Returns:
        towards: (cells,) int32, the cell where the way on from a cut cell led; -1 where there was none.
        order: The cut cells in the order in which they went.
    """
    cells = layout.blocked.size
    joined = _joined(layout)
    steps = np.array([-layout.width, 1, layout.width, -1])
    degree = joined.sum(axis=1)
    towards = np.full(cells, _OFF, np.int32)
    order: list[int] = []
    is_cut = layout.blocked.ravel().copy()
    waiting = deque(np.flatnonzero((degree < 2) & ~is_cut).tolist())
    while waiting:
        cell = waiting.popleft()
        is_cut[cell] = True
        order.append(cell)
        for other in (cell + steps[joined[cell]]).tolist():
            if is_cut[other]:
                continue
            towards[cell] = other
            degree[other] -= 1
            if degree[other] == 1:
                waiting.append(other)
    return towards, order


def _joined(layout: Layout) -> NDArray[np.bool_]:
    """(cells, 4) bool, whether a cell is joined to the one above, to the right, below, to the left, either way."""
    moves = make_moves(layout)[:, 1:]
    joined: NDArray[np.bool_] = moves != np.arange(len(moves))[:, None]
    for side in range(4):
        # Up and down, right and left are opposite.
        here = np.flatnonzero(joined[:, side])
        joined[moves[here, side], (side + 2) % 4] = True
    return joined


def _place(layout: Layout, cell: int) -> str:
    row, column = divmod(cell, layout.width)
    return f"row {row}, column {column}"
