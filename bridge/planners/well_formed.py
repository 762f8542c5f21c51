"""Whether token passing is sure to finish every task on a floor (Ma et al. 2017, definition 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout

__all__ = ["well_formed_faults"]

_LISTED = 5


def well_formed_faults(layout: Layout, num_robots: int) -> list[str]:
    """Why a warehouse is not well-formed; empty if it is.

    Endpoints are pick-ups, deliveries and parking places. It is well-formed if there is a parking place
    for every robot, and between any two endpoints a path that crosses no other endpoint.
    """
    faults = []
    if len(layout.parking) < num_robots:
        faults.append(f"expected a parking place for each of {num_robots} robots, got {len(layout.parking)}")
    stations = np.concatenate([layout.pickups, layout.deliveries, layout.parking])
    endpoints = np.unique(stations)
    moves = make_moves(layout)
    around = _components_around(moves, layout.blocked.ravel(), endpoints)
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
    if enclosed:
        places = [divmod(int(endpoints[index]), layout.width) for index in enclosed]
        words = ", ".join(f"row {row}, column {column}" for row, column in places[:_LISTED])
        more = f" and {len(places) - _LISTED} more" if len(places) > _LISTED else ""
        faults.append(f"expected a way between every two endpoints that crosses no third, got none for {words}{more}")
    return faults


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
