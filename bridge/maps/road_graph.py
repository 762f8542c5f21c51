"""Roads of lanes between places: what VDMA LIF and Open-RMF files describe.

Their importers end in a :class:`RoadGraph`; :mod:`bridge.maps.rasterise` turns one into cells.
All lengths are in m, x to the right and y **up**, as in both formats' world frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError

__all__ = ["MAX_LANES", "MAX_NODES", "Lane", "RoadGraph", "lane_segments", "open_ways_back", "restrict_to_round_trips"]

MAX_NODES: Final = 50_000
MAX_LANES: Final = 200_000

_LISTED: Final = 5
_SHOWN: Final = {
    "pickups": ("pick-up", "pick-ups"),
    "deliveries": ("delivery", "deliveries"),
    "transfers": ("place for both", "places for both"),
    "chargers": ("charger", "chargers"),
    "parking": ("parking place", "parking places"),
}
# Nodes that are nearer than this are at the same place.
_PLACE_M: Final = 1e-3

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Lane:
    """A way from one node to another.

    Attributes:
        start: Index of the node where it begins.
        end: Index of the node where it ends.
        points: (k, 2) float64, k >= 2, the line that a vehicle's centre follows, from node to node.
        two_way: It may be driven from its end to its start as well.
        speed_limit_mps: Largest speed; None if there is no limit.
        left_m: How far a vehicle's centre may leave the line to the left.
        right_m: The same to the right.
    """

    start: int
    end: int
    points: Float
    two_way: bool = False
    speed_limit_mps: float | None = None
    left_m: float = 0.0
    right_m: float = 0.0

    def both_ways(self) -> Lane:
        """The same lane for both directions, with the wider of its sides on each."""
        aside = max(self.left_m, self.right_m)
        return replace(self, two_way=True, left_m=aside, right_m=aside)


@dataclass(frozen=True, eq=False)
class RoadGraph:
    """Nodes, the lanes between them, and what the nodes are for.

    Attributes:
        names: Name of each node, for messages.
        positions: (N, 2) float64, where the nodes are.
        lanes: The lanes.
        walls: (M, 4) float64, segments x0, y0, x1, y1 through which nothing drives.
        pickups: Nodes where loads are only fetched.
        deliveries: Nodes where loads are only brought.
        transfers: Nodes where loads are fetched and brought.
        chargers: Nodes where robots charge.
        parking: Nodes where robots wait for work.
        places: Nodes that matter to whoever drew the map, such as named ones without a purpose.
        num_robots: Robots that the file puts on the floor; None if it says nothing.
        hint: A sentence on where the purposes come from, for whoever misses one.
    """

    names: Sequence[str]
    positions: Float
    lanes: Sequence[Lane]
    walls: Float = field(default_factory=lambda: np.empty((0, 4)))
    pickups: Sequence[int] = ()
    deliveries: Sequence[int] = ()
    transfers: Sequence[int] = ()
    chargers: Sequence[int] = ()
    parking: Sequence[int] = ()
    places: Sequence[int] = ()
    num_robots: int | None = None
    hint: str = ""

    @property
    def purposes(self) -> dict[str, Sequence[int]]:
        """Nodes by what they are for."""
        kinds = ("pickups", "deliveries", "transfers", "chargers", "parking", "places")
        return {kind: getattr(self, kind) for kind in kinds}

    def listed(self, nodes: Iterable[int]) -> str:
        """The first few names of nodes in words."""
        names = [self.names[node][:40] or f"#{node}" for node in nodes]
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return ", ".join(names[:_LISTED]) + more


def lane_segments(lanes: Sequence[Lane]) -> tuple[Float, NDArray[np.int64]]:
    """The straight parts of lanes: (S, 4) float64 x0, y0, x1, y1, and (S,) int64, the lane of each."""
    parts = [np.hstack([lane.points[:-1], lane.points[1:]]) for lane in lanes]
    owners = np.repeat(np.arange(len(lanes)), [len(part) for part in parts])
    return (np.vstack(parts) if parts else np.empty((0, 4))), owners


def open_ways_back(graph: RoadGraph) -> tuple[RoadGraph, str]:
    """The roads with a way back from places that most of them would be lost without, and a sentence on it.

    Where fewer than half of the places that hang together can be reached from each other, lanes that lead out of such a
    part are opened in both directions; lanes within one keep theirs. Nothing else is changed.

    Returns:
        The roads, and what was opened; empty if nothing was.
    """
    places = _places(graph)
    label = _strong_components(places, graph.lanes)
    joined = _strong_components(places, [replace(lane, two_way=True) for lane in graph.lanes])
    kept, hanging = (int(_sizes(places, labels).max()) for labels in (label, joined))
    if hanging < 2 or (kept > 1 and 2 * kept >= hanging):
        return graph, ""
    no_way_back = [bool(label[lane.start] != label[lane.end]) for lane in graph.lanes]
    lanes = [lane.both_ways() if opened else lane for lane, opened in zip(graph.lanes, no_way_back, strict=True)]
    few = "No two places have" if kept < 2 else f"Only {kept} of {hanging} places have"
    sentence = (
        f"{few} a way there and back; the lanes from which no way leads back ({sum(no_way_back)} of {len(lanes)}) were "
        "opened in both directions. --no-two-way keeps all lanes as they are."
    )
    return replace(graph, lanes=lanes), sentence


def restrict_to_round_trips(graph: RoadGraph, where: str) -> tuple[RoadGraph, tuple[str, ...]]:
    """The largest part of the roads in which every node can be reached from every other one.

    A robot that left it could never come back, so nothing outside it is of use. Nodes at the same place, such as those
    of the levels of a rack, are one: who stands at one of them stands at all. Of equally large parts, the one where
    loads can be fetched as well as brought is taken.

    Returns:
        The part, with its nodes renumbered, and sentences on what was left out.

    Raises:
        LayoutError: No two places can be reached from each other.
    """
    places = _places(graph)
    label = _strong_components(places, graph.lanes)
    kept = label == _largest_part(graph, places, label)
    if not graph.lanes or len(np.unique(places[kept])) < 2:
        one_way = sum(not lane.two_way for lane in graph.lanes)
        raise LayoutError(
            f"{where}: expected at least two places with a way there and back, got {len(graph.names)} nodes and "
            f"{len(graph.lanes)} lanes, {one_way} of them one-way. Import it with --two-way to drive all lanes "
            "in both directions."
        )
    new_index = np.cumsum(kept) - 1
    on_lanes = {node for lane in graph.lanes for node in (lane.start, lane.end)}
    notes = []
    lost = {kind: [node for node in nodes if not kept[node]] for kind, nodes in graph.purposes.items()}
    one_sided = [node for node in np.flatnonzero(~kept).tolist() if node in on_lanes]
    if one_sided:
        notes.append(
            f"{len(one_sided)} of {len(on_lanes)} nodes on lanes were left out, because robots cannot get from the "
            f"rest to them and back: {graph.listed(one_sided)}."
        )
    for kind, nodes in lost.items():
        off = [node for node in nodes if node not in on_lanes]
        if off and kind != "places":
            verb = "lies on no lane and was" if len(off) == 1 else "lie on no lane and were"
            notes.append(f"{len(off)} {_SHOWN[kind][len(off) > 1]} {verb} left out: {graph.listed(off)}.")
    lanes = [
        replace(lane, start=int(new_index[lane.start]), end=int(new_index[lane.end]))
        for lane in graph.lanes
        if kept[lane.start] and kept[lane.end]
    ]
    purposes = {
        kind: tuple(int(new_index[node]) for node in nodes if kept[node]) for kind, nodes in graph.purposes.items()
    }
    names = [name for name, is_kept in zip(graph.names, kept.tolist(), strict=True) if is_kept]
    part = RoadGraph(
        names, graph.positions[kept], lanes, graph.walls, num_robots=graph.num_robots, hint=graph.hint, **purposes
    )
    return part, tuple(notes)


def _places(graph: RoadGraph) -> NDArray[np.int64]:
    """Number of the place of every node: (N,) int64, in the order of the nodes; those at one place have the same."""
    numbers: dict[tuple[float, float], int] = {}
    rounded = np.round(graph.positions / _PLACE_M).tolist()
    return np.array([numbers.setdefault((x, y), len(numbers)) for x, y in rounded], np.int64)


def _sizes(places: NDArray[np.int64], label: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many places have each label: (labels,) int64, at least one."""
    _, first = np.unique(places, return_index=True)
    return np.bincount(label[first], minlength=1)


def _largest_part(graph: RoadGraph, places: NDArray[np.int64], label: NDArray[np.int64]) -> int:
    """The label of most places; of equally many, the first with the most of fetching and bringing."""
    sizes = _sizes(places, label)
    kinds = np.zeros(len(sizes), np.int64)
    for nodes in (graph.pickups, graph.deliveries):
        kinds[np.unique(label[np.array([*nodes, *graph.transfers], np.int64)])] += 1
    return int(np.lexsort((-kinds, -sizes))[0])


def _strong_components(places: NDArray[np.int64], lanes: Sequence[Lane]) -> NDArray[np.int64]:
    """Number of the strongly connected component of every node: Kosaraju's two passes, without recursion."""
    numbers = places.tolist()
    num_places = max(numbers, default=-1) + 1
    ahead: list[list[int]] = [[] for _ in range(num_places)]
    back: list[list[int]] = [[] for _ in range(num_places)]
    for lane in lanes:
        for start, end in ((lane.start, lane.end), (lane.end, lane.start))[: 1 + lane.two_way]:
            ahead[numbers[start]].append(numbers[end])
            back[numbers[end]].append(numbers[start])
    label = np.full(num_places, -1, np.int64)
    number = 0
    for root in reversed(_finish_order(ahead)):
        if label[root] >= 0:
            continue
        stack = [root]
        label[root] = number
        while stack:
            for other in back[stack.pop()]:
                if label[other] < 0:
                    label[other] = number
                    stack.append(other)
        number += 1
    return label[places]


def _finish_order(ahead: list[list[int]]) -> list[int]:
    """Nodes in the order in which a depth-first search leaves them."""
    order: list[int] = []
    seen = [False] * len(ahead)
    for root in range(len(ahead)):
        if seen[root]:
            continue
        seen[root] = True
        stack = [(root, iter(ahead[root]))]
        while stack:
            node, others = stack[-1]
            other = next((other for other in others if not seen[other]), None)
            if other is None:
                order.append(node)
                stack.pop()
            else:
                seen[other] = True
                stack.append((other, iter(ahead[other])))
    return order
