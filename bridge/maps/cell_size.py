"""How large the cells of a road graph have to be.

The rule: a cell is as wide as a lane (a vehicle and its margin), or smaller, down to the
width of a vehicle, where lanes or nodes lie closer together than that. So two lanes, two
nodes, or a lane and a node beside it keep cells of their own whenever two vehicles could use
them at the same time; what is nearer than a vehicle's width cannot be used by two vehicles
at once and shares a cell.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.maps.road_graph import RoadGraph, lane_segments

__all__ = ["choose_cell_size", "grid_offset", "narrowest_separation"]

_NODES_AT_ONCE: Final = 128
_MAX_PAIRS: Final = 50_000_000
# Round-off must not push two parallel lanes at exactly one cell's distance into one row.
_SLACK: Final = 1.0 - 1e-6

Float = NDArray[np.float64]


def choose_cell_size(graph: RoadGraph, vehicle_width_m: float, lane_width_m: float) -> tuple[float, str]:
    """The edge length of a cell in m, and a sentence on where it comes from."""
    separation = narrowest_separation(graph, vehicle_width_m, lane_width_m)
    if separation is None:
        return vehicle_width_m, (
            f"cells of {vehicle_width_m:g} m: the width of a vehicle, because too many lanes and nodes crowd together "
            "to measure the distances between them."
        )
    if separation >= lane_width_m:
        return lane_width_m, f"cells of {lane_width_m:g} m: the width of a lane."
    # Rounded down to a centimetre, but never below a vehicle.
    size = max(vehicle_width_m, np.floor(separation * _SLACK * 100) / 100)
    return float(size), (
        f"cells of {size:g} m: the narrowest distance between lanes or nodes that two vehicles can use at once is "
        f"{separation:.2f} m, less than the width of a lane ({lane_width_m:g} m)."
    )


def narrowest_separation(graph: RoadGraph, at_least_m: float, below_m: float) -> float | None:
    """The smallest distance of a node from another node, or from a lane that does not end in it.

    Distances are measured along the axes (the larger of the two differences): what is at
    least one cell apart in this sense never shares a cell. Two lanes that do not cross are
    nearest at an end of one of them, so that nodes stand for lanes as well.

    Args:
        graph: The roads.
        at_least_m: Smaller distances do not count.
        below_m: Larger distances do not matter.

    Returns:
        The distance in m; infinity if there is none in this range; None if there are too many
        pairs to look at.
    """
    segments, owners = lane_segments(graph.lanes)
    low, high = np.minimum(segments[:, :2], segments[:, 2:]) - below_m, np.maximum(segments[:, :2], segments[:, 2:])
    ends = np.array([(lane.start, lane.end) for lane in graph.lanes], np.int64).reshape(-1, 2)[owners]
    order = np.argsort(graph.positions[:, 0], kind="stable")
    smallest = np.inf
    pairs = 0
    for first in range(0, len(order), _NODES_AT_ONCE):
        nodes = order[first : first + _NODES_AT_ONCE]
        points = graph.positions[nodes]
        corner, other_corner = points.min(axis=0), points.max(axis=0)
        near = ((low <= other_corner) & (high + below_m >= corner)).all(axis=1)
        # Nodes are sorted by x: those after the first of a chunk, up to the reach of its last.
        beyond = np.searchsorted(graph.positions[order, 0], other_corner[0] + below_m, side="right")
        others = order[first:beyond]
        pairs += len(nodes) * (int(near.sum()) + len(others))
        if pairs > _MAX_PAIRS:
            return None
        between = np.abs(points[:, None, :] - graph.positions[others][None]).max(axis=2)
        beside = _distance(points, segments[near])
        beside[(ends[near][None] == nodes[:, None, None]).any(axis=2)] = np.inf
        for distance in (between, beside):
            counted = distance[(distance >= at_least_m * _SLACK) & (distance < below_m)]
            smallest = min(smallest, counted.min(initial=np.inf))
    return float(smallest)


def grid_offset(coordinates: Float, cell_m: float) -> float:
    """Where to put the lines between cells: as far as possible from every node.

    Maps are drawn by hand; columns of nodes that are meant to be one then stay one.

    Returns:
        Coordinate of one line in m; the others are whole cells apart.
    """
    places = np.unique(np.mod(coordinates, cell_m))
    gaps = np.diff(np.concatenate([places, [places[0] + cell_m]]))
    widest = int(gaps.argmax())
    return float(places[widest] + gaps[widest] / 2)


def _distance(points: Float, segments: Float) -> Float:
    """Largest-axis distance of points (P, 2) from segments (S, 4): (P, S) float64.

    Along a segment it is the larger of two absolute values of linear functions, which is
    smallest at an end, where one function is zero, or where both are equal.
    """
    from_x, from_y = segments[:, 0] - points[:, :1], segments[:, 1] - points[:, 1:]
    along_x = np.broadcast_to(segments[:, 2] - segments[:, 0], from_x.shape)
    along_y = np.broadcast_to(segments[:, 3] - segments[:, 1], from_y.shape)
    best = np.full(from_x.shape, np.inf)
    candidates = (
        (np.zeros_like(from_x), np.ones_like(from_x)),
        (np.ones_like(from_x), np.ones_like(from_x)),
        (-from_x, along_x),
        (-from_y, along_y),
        (from_y - from_x, along_x - along_y),
        (-from_y - from_x, along_x + along_y),
    )
    for upper, lower in candidates:
        place = np.divide(upper, lower, out=np.zeros_like(upper), where=lower != 0).clip(0.0, 1.0)
        away = np.maximum(np.abs(from_x + place * along_x), np.abs(from_y + place * along_y))
        np.minimum(best, away, out=best)
    return best
