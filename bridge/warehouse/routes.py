"""Which way robots go: tables of the ways that cost a robot least which drives alone.

Every cell that a robot can be sent to is a *goal* with a row in the table. An entry packs what a robot in a cell
needs to know about its way to a goal into one number: ``distance << 4 | directions``, where bit ``d - 1`` of
``directions`` is set if move ``d`` (up, right, down, left) leads on along a cheapest way. The distance is counted in
*units* (``RouteCosts``). Where nothing costs more than a cell, that is the number of cells.

Robots that have to turn have a second table with an entry for each side that they may face. The first one then
holds the cheapest of the four.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel, kernel_part

__all__ = [
    "CELLS",
    "RouteCosts",
    "Routes",
    "entry_bytes",
    "first_move",
    "longest_way",
    "move_cost",
    "route_tables",
    "sources_of",
]

Int32 = NDArray[np.int32]
Routes = NDArray[np.uint16] | NDArray[np.uint32]

_LONGEST_SHORT: Final = 0xFFF

# The first move among the directions of a route entry: stay, up, right, down or left.
_FIRST_MOVE: Final = np.array([0, 1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3, 1, 2, 1], np.int32)


class RouteCosts(NamedTuple):
    """What ways cost a drive, in whole units.

    Attributes:
        units: Units of a cell without a speed limit.
        cells: (cells,) int32, units of each cell; empty if all cost the same.
        turn: Units of a quarter turn; 0 if robots need not turn.
        halves: A move costs half of the cell that it leaves and half of the one that it enters, as it does a robot
            that drives from centre to centre. Else it costs the cell that it enters, where the robot has to stay
            until it can go on; into the goal it costs ``units``, because there it has arrived.
    """

    units: int
    cells: Int32
    turn: int = 0
    halves: bool = False


CELLS: Final = RouteCosts(1, np.zeros(0, np.int32))
"""Every cell costs one unit, and turns nothing."""


@kernel_part
def first_move(entry: int) -> int:
    """The first move of a route entry: up, right, down or left; 0 at the goal."""
    return int(_FIRST_MOVE[np.uint64(entry & 15)])


@kernel_part
def move_cost(cells: Int32, halves: bool, units: int, cell: int, other: int, goal: int) -> int:
    """Units of a move from a cell into another one on the way to a goal (a cell)."""
    if halves:
        return int(cells[cell] + cells[other] + 1) // 2
    return units if other == goal else int(cells[other])


def route_tables(moves: Int32, goals: Int32, costs: RouteCosts = CELLS) -> tuple[Routes, Routes]:
    """The table of every cell, and that of every cell and side.

    Args:
        moves: (cells, 5) int32, where each move leads.
        goals: (G,) int32, cells.
        costs: What ways cost.

    Returns:
        (G, cells) and (G, cells, 4), uint16 or uint32; all bits set where there is no way. The second one is of
        shape (0, 0, 0) if robots need not turn.
    """
    sources = sources_of(moves)
    if not len(costs.cells) and not costs.turn:
        is_short = entry_bytes(longest_way(moves, sources, goals, costs)) == 2
        table = _no_ways(is_short, len(goals), len(moves))
        _fill_by_cells(moves, sources, goals, table)
        return table, _no_ways(is_short, 0, 0, 0)
    costs = costs._replace(cells=costs.cells if len(costs.cells) else np.full(len(moves), costs.units, np.int32))
    is_short = entry_bytes(longest_way(moves, sources, goals, costs)) == 2
    facing = _no_ways(is_short, len(goals), len(moves), 4 if costs.turn else 1)
    _fill_by_costs(moves, sources, goals, costs, facing)
    if costs.turn:
        return _of_the_best_side(facing), facing
    return facing.reshape(len(goals), len(moves)), _no_ways(is_short, 0, 0, 0)


def entry_bytes(longest: int) -> int:
    """Bytes of an entry where no way costs more units than ``longest``."""
    return 2 if longest < _LONGEST_SHORT else 4


def _no_ways(is_short: bool, *shape: int) -> Routes:
    if is_short:
        return np.full(shape, np.iinfo(np.uint16).max, np.uint16)
    return np.full(shape, np.iinfo(np.uint32).max, np.uint32)


def sources_of(moves: Int32) -> Int32:
    """From which cell each move leads into each cell: (cells, 5) int32; the cell itself where none does."""
    cells = np.arange(len(moves), dtype=np.int32)
    sources = np.repeat(cells[:, None], 5, axis=1)
    for move in range(1, 5):
        leads = moves[:, move] != cells
        sources[moves[leads, move], move] = cells[leads]
    return sources


def longest_way(moves: Int32, sources: Int32, goals: Int32, costs: RouteCosts) -> int:
    """Units that no cheapest way to a goal costs more than.

    A way through the first goal is at most as long as the longest one to it and the longest one from it, what its own
    cell costs and what it costs to turn round there and at the start. No cheapest way is longer if all goals can be
    reached from each other; else none is longer than through every cell.

    Args:
        moves: (cells, 5) int32, where each move leads.
        sources: (cells, 5) int32, from where each move leads into a cell.
        goals: (G,) int32, cells, one at least.
        costs: What ways cost; with ``cells`` where there are turns.
    """
    to_first = _distances(moves, sources, goals[:1], costs)
    from_first = _distances(sources, moves, goals[:1], costs)
    dearest = int(costs.cells.max()) if len(costs.cells) else costs.units
    if (to_first[goals] < 0).any() or (from_first[goals] < 0).any():
        return len(moves) * (dearest + 2 * costs.turn)
    return int(to_first.max()) + int(from_first.max()) + 2 * (dearest + 2 * costs.turn)


def _distances(moves: Int32, sources: Int32, goal: Int32, costs: RouteCosts) -> Int32:
    """Units from each cell, and the worst side there, to one goal: (cells,) int32, -1 for no way."""
    table = _no_ways(False, 1, len(moves), 4 if costs.turn else 1)
    if len(costs.cells):
        _fill_by_costs(moves, sources, goal, costs, table)
    else:
        _fill_by_cells(moves, sources, goal, table[:, :, 0])
    # All bits set is -1 as a signed number, and stays it.
    longest: Int32 = (table[0].view(np.int32) >> 4).max(axis=1)
    return longest


def _of_the_best_side(facing: Routes) -> Routes:
    """The entry of the side from which the way is cheapest; the directions of all of them."""
    lengths = facing >> 4
    shortest = lengths.min(axis=2)
    directions = np.bitwise_or.reduce(np.where(lengths == shortest[:, :, None], facing & 15, 0), axis=2)
    table = _no_ways(facing.dtype == np.uint16, *shortest.shape)
    table[:] = shortest << 4 | directions
    return table


@kernel
def _fill_by_cells(moves: Int32, sources: Int32, goals: Int32, routes: Routes) -> None:
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


@kernel
def _fill_by_costs(moves: Int32, sources: Int32, goals: Int32, costs: RouteCosts, routes: Routes) -> None:
    """The same by costs: ``routes`` is (G, cells, S) with an entry for each of S = 1 or 4 sides; ``cells`` is given."""
    cells, sides = routes.shape[1], routes.shape[2]
    least = np.empty((cells, sides), np.int64)
    # Numbers in a bucket form a list; every state is entered at most once per way into it.
    buckets = np.full(max(int(costs.cells.max()), costs.units, costs.turn) + 1, -1, np.int32)
    states = np.empty(4 * cells * sides + sides, np.int32)
    following = np.empty(len(states), np.int32)
    for goal in range(len(goals)):
        _search(sources, goals[goal], costs, least, buckets, states, following)
        for cell in range(cells):
            for side in range(sides):
                if least[cell, side] >= 0:
                    directions = _directions(moves, goals[goal], costs, least, cell, side)
                    routes[goal, cell, side] = least[cell, side] << 4 | directions


@kernel
def _search(
    sources: Int32,
    goal: int,
    costs: RouteCosts,
    least: NDArray[np.int64],
    buckets: Int32,
    states: Int32,
    following: Int32,
) -> None:
    """Units from every cell and side to a goal, -1 for no way: backwards, the nearest first (Dial 1969)."""
    sides = least.shape[1]
    least[:] = -1
    entered = 0
    for side in range(sides):
        least[goal, side] = 0
        states[entered], following[entered] = goal * sides + side, buckets[0]
        buckets[0] = entered
        entered += 1
    waiting, distance = entered, 0
    while waiting > 0:
        entry = buckets[distance % len(buckets)]
        if entry < 0:
            distance += 1
            continue
        buckets[distance % len(buckets)] = following[entry]
        waiting -= 1
        cell, side = states[entry] // sides, states[entry] % sides
        if least[cell, side] != distance:
            continue  # it was reached at less since
        for way in range(6):
            before, faced, cost = _predecessor(sources, goal, costs, sides, cell, side, way)
            total = distance + cost
            if cost > 0 and (least[before, faced] < 0 or total < least[before, faced]):
                least[before, faced] = total
                states[entered], following[entered] = before * sides + faced, buckets[total % len(buckets)]
                buckets[total % len(buckets)] = entered
                entered += 1
                waiting += 1


@kernel_part
def _predecessor(
    sources: Int32, goal: int, costs: RouteCosts, sides: int, cell: int, side: int, way: int
) -> tuple[int, int, int]:
    """From which cell and side one of six ways leads to a state, and what it costs; 0 if there is none.

    Four of them are the moves into the cell, of which a robot that has to turn comes by the one that it faces; two
    are turns.
    """
    if way < 4:
        before = int(sources[cell, way + 1])
        if before == cell or (sides > 1 and way != side):
            return cell, side, 0
        return before, side, move_cost(costs.cells, costs.halves, costs.units, before, cell, goal)
    if sides == 1:
        return cell, side, 0
    return cell, (side + (1 if way == 4 else 3)) % 4, costs.turn


@kernel
def _directions(moves: Int32, goal: int, costs: RouteCosts, least: NDArray[np.int64], cell: int, side: int) -> int:
    """The moves that lead on along a cheapest way, turns before them included."""
    directions = 0
    if cell == goal:
        return 0
    for move in range(1, 5):
        other = moves[cell, move]
        quarters = (move - 1 - side) % 4 if least.shape[1] > 1 else 0
        beyond = least[other, move - 1 if least.shape[1] > 1 else 0]
        if other != cell and beyond >= 0:
            cost = costs.turn * min(quarters, 4 - quarters)
            cost += move_cost(costs.cells, costs.halves, costs.units, cell, other, goal)
            if cost + beyond == least[cell, side]:
                directions |= 1 << (move - 1)
    return directions
