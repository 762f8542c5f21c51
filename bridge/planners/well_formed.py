"""Whether token passing is sure to finish every task on a floor (Ma et al. 2017, definition 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel
from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout

__all__ = ["well_formed_faults"]

_LISTED = 5


def well_formed_faults(layout: Layout, num_robots: int, *, charges: bool = False) -> list[str]:
    """Why a warehouse is not well-formed; empty if it is.

    Endpoints are pick-ups, deliveries, parking places, chargers that robots use (``charges``), and the places where
    pickers meet carriers. It is well-formed
    if there is a parking place for every robot, and from any endpoint to any other one a path that crosses no third.
    """
    faults = []
    if len(layout.parking) < num_robots:
        faults.append(f"expected a parking place for each of {num_robots} robots, got {len(layout.parking)}")
    places = [layout.pickups, layout.deliveries, layout.parking]
    places += [layout.chargers] if charges else []
    places += [layout.meeting] if layout.meeting is not None else []
    endpoints = np.unique(np.concatenate(places))
    moves = make_moves(layout)
    if layout.exits is None:
        enclosed = _enclosed_both_ways(moves, layout.blocked.ravel(), endpoints)
    else:
        enclosed = _enclosed_one_way(moves, endpoints)
    if len(enclosed):
        named = [divmod(int(cell), layout.width) for cell in enclosed]
        words = ", ".join(f"row {row}, column {column}" for row, column in named[:_LISTED])
        more = f" and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
        faults.append(f"expected a way between every two endpoints that crosses no third, got none for {words}{more}")
    return faults


def _enclosed_both_ways(
    moves: NDArray[np.int32], blocked: NDArray[np.bool_], endpoints: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Endpoints without a way to some other one, where every way can be driven back."""
    around = _components_around(moves, blocked, endpoints)
    largest = max(set().union(*around), key=lambda part: sum(part in parts for parts in around), default=-1)
    # An endpoint that touches the part of the floor that most others touch reaches all of those.
    suspects = [index for index, parts in enumerate(around) if largest not in parts]
    enclosed = [
        index
        for index in suspects
        if any(
            not (around[index] & around[other]) and endpoints[other] not in moves[endpoints[index]]
            for other in range(len(endpoints))
            if other != index
        )
    ]
    found: NDArray[np.int32] = endpoints[np.array(enclosed, np.int64)]
    return found


def _enclosed_one_way(moves: NDArray[np.int32], endpoints: NDArray[np.int32]) -> NDArray[np.int32]:
    """Endpoints from, or to, which most ways are missing, where some ways lead one way only."""
    reached = _reached_from(moves, endpoints)
    missing = (~reached).sum(axis=1) + (~reached).sum(axis=0)
    # Of a pair without a way either may be at fault: the one that misses more.
    found: NDArray[np.int32] = endpoints[(missing > 0) & (missing >= missing.max() / 2)]
    return found


@kernel
def _reached_from(moves: NDArray[np.int32], endpoints: NDArray[np.int32]) -> NDArray[np.bool_]:
    """(n, n) bool, from each endpoint which others can be reached without crossing a third."""
    count = len(endpoints)
    place = np.full(len(moves), -1, np.int32)
    for index in range(count):
        place[endpoints[index]] = index
    reached = np.zeros((count, count), np.bool_)
    seen = np.full(len(moves), -1, np.int32)
    queue = np.empty(len(moves), np.int32)
    for index in range(count):
        reached[index, index] = True
        seen[endpoints[index]] = index
        queue[0] = endpoints[index]
        head, tail = 0, 1
        while head < tail:
            cell = queue[head]
            head += 1
            for move in range(1, 5):
                other = moves[cell, move]
                if seen[other] != index:
                    seen[other] = index
                    if place[other] >= 0:
                        reached[index, place[other]] = True
                    else:
                        queue[tail] = other
                        tail += 1
    return reached


def _components_around(
    moves: NDArray[np.int32], blocked: NDArray[np.bool_], endpoints: NDArray[np.int32]
) -> list[set[int]]:
    """For every endpoint the connected parts of the floor without endpoints that it touches."""
    part = np.where(blocked, -2, -1)
    part[endpoints] = -2
    number = 0
    for start in np.flatnonzero(part == -1).tolist():
        if part[start] != -1:
            continue
        part[start] = number
        stack = [start]
        while stack:
            for other in moves[stack.pop(), 1:].tolist():
                if part[other] == -1:
                    part[other] = number
                    stack.append(other)
        number += 1
    return [{int(part[cell]) for cell in moves[endpoint, 1:] if part[cell] >= 0} for endpoint in endpoints]
