"""How far it is at least between places on a floor, whatever curves a robot can drive.

The robot is taken for a point, which is allowed to touch racks and walls: no robot's way is
shorter. The shortest way of a point bends at corners of racks only, so it is found exactly on the
graph of corners that see each other (Lozano-Perez and Wesley 1979).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel, kernel_part
from bridge.warehouse.layout import Layout

__all__ = ["MAX_POINTS", "straight_ways"]

MAX_POINTS = 3000
"""With more corners and places than this the straight line, racks or not, stands for the way."""

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


def straight_ways(layout: Layout, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> Float64:
    """Lower bounds on the way in m from the centre of each source cell to that of each target cell.

    Returns:
        (S, T) float64 in m; infinite where there is no way.
    """
    places = np.concatenate([sources, targets])
    centres = np.stack([places % layout.width + 0.5, places // layout.width + 0.5], axis=1)
    corners = _convex_corners(layout.blocked)
    if len(corners) + len(places) > MAX_POINTS:
        gaps = centres[: len(sources), None] - centres[None, len(sources) :]
        return np.hypot(gaps[..., 0], gaps[..., 1]) * layout.cell_size_m
    points = np.concatenate([centres, corners]).astype(np.float64)
    ways = _shortest_ways(points, layout.blocked, len(sources))
    return ways[:, len(sources) : len(places)] * layout.cell_size_m


def _convex_corners(blocked: Bool) -> Float64:
    """Points of the grid where exactly one of the four cells around is blocked: (K, 2) float64, x and y in cells."""
    padded = np.pad(blocked, 1)
    around = padded[:-1, :-1].astype(np.int8) + padded[:-1, 1:] + padded[1:, :-1] + padded[1:, 1:]  # (H + 1, W + 1)
    # Two blocked cells that touch at this point only leave a gap that a point slips through.
    diagonal = (around == 2) & (padded[:-1, :-1] == padded[1:, 1:])
    rows, columns = np.nonzero((around == 1) | diagonal)
    return np.stack([columns, rows], axis=1).astype(np.float64)


@kernel
def _shortest_ways(points: Float64, blocked: Bool, num_sources: int) -> Float64:
    """Dijkstra on the visibility graph from each of the first points: (num_sources, points) float64 in cells."""
    count = len(points)
    length = np.full((count, count), np.inf)
    for one in range(count):
        for other in range(one):
            if _sees(points[one, 0], points[one, 1], points[other, 0], points[other, 1], blocked):
                gap = np.hypot(points[one, 0] - points[other, 0], points[one, 1] - points[other, 1])
                length[one, other] = gap
                length[other, one] = gap
    ways = np.full((num_sources, count), np.inf)
    for source in range(num_sources):
        way = ways[source]
        way[source] = 0.0
        done = np.zeros(count, np.bool_)
        for _ in range(count):
            nearest = -1
            for point in range(count):
                if not done[point] and way[point] < np.inf and (nearest < 0 or way[point] < way[nearest]):
                    nearest = point
            if nearest < 0:
                break
            done[nearest] = True
            for point in range(count):
                way[point] = min(way[point], way[nearest] + length[nearest, point])
    return ways


@kernel_part
def _sees(x0: float, y0: float, x1: float, y1: float, blocked: Bool) -> bool:
    """Whether the straight line between two points enters no blocked cell; along the side of one is fine."""
    steep = abs(y1 - y0) > abs(x1 - x0)
    if steep:
        x0, y0, x1, y1 = y0, x0, y1, x1
    if x1 < x0:
        x0, y0, x1, y1 = x1, y1, x0, y0
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
    column = int(np.floor(x0))
    while column < x1:
        one = y0 + slope * (max(x0, float(column)) - x0)
        other = y0 + slope * (min(x1, column + 1.0) - x0)
        first = int(np.floor(min(one, other) + 1e-9))
        last = int(np.ceil(max(one, other) - 1e-9)) - 1
        if last < first:
            # Along a line of the grid: closed only where both sides are.
            if _is_blocked(column, first, steep, blocked) and _is_blocked(column, first - 1, steep, blocked):
                return False
        else:
            for row in range(first, last + 1):
                if _is_blocked(column, row, steep, blocked):
                    return False
        column += 1
    return True


@kernel_part
def _is_blocked(column: int, row: int, swapped: bool, blocked: Bool) -> bool:
    if swapped:
        column, row = row, column
    outside = row < 0 or column < 0 or row >= blocked.shape[0] or column >= blocked.shape[1]
    return bool(outside or blocked[row, column])
