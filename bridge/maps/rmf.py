"""Open-RMF maps: ``*.building.yaml`` of the traffic editor, and the navigation graphs made from them.

Both have levels with vertices and lanes. A building has pixels of a drawing (y **down**) with a
scale from measurements, or metres, or degrees of longitude and latitude; values of parameters
carry a type, ``[type, value]``. A navigation graph is in metres with y up and plain values.
Any key may be absent. Lifts and doors do not move here: a level is imported alone, its doors open.

Source: open-rmf/rmf_traffic_editor, ``rmf_building_map_tools`` and ``coordinate_system.cpp``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError
from bridge.maps.documents import Item
from bridge.maps.import_options import Imported, ImportOptions, fleet_size
from bridge.maps.rmf_coordinates import building_frame
from bridge.maps.road_graph import MAX_LANES, MAX_NODES, Lane, RoadGraph
from bridge.maps.road_stations import road_layout

__all__ = ["import_building", "import_nav_graph", "is_nav_graph", "looks_like_rmf"]

_MAX_WALLS: Final = 100_000
# The second one is what adapters to VDA 5050 write.
_SPEED_LIMITS: Final = ("speed_limit", "maxSpeed")
_LEVEL_KEYS: Final = {"vertices", "lanes"}
# Files of the site editor have levels, too, but neither vertices nor lanes in them.
_SITE_KEYS: Final = {"format_version", "anchors", "levels"}

Float = NDArray[np.float64]


def looks_like_rmf(document: object) -> bool:
    """Whether a document means to be an Open-RMF map of either kind, with levels or with one that stands for all."""
    if not isinstance(document, dict) or document.keys() >= _SITE_KEYS:
        return False
    return "levels" in document or document.keys() >= _LEVEL_KEYS


def is_nav_graph(document: Item) -> bool:
    """Whether an Open-RMF map is a navigation graph: it says so, or its third vertex value is a mapping."""
    if "levels" not in document.value or document.get("building_name") is not None:
        return True
    for _, level in document.require("levels").named():
        if isinstance(level.value, dict):
            for vertex in level.entries("vertices")[:1]:
                return isinstance(vertex.value, list) and len(vertex.value) > 2 and isinstance(vertex.value[2], dict)
    return False


def import_building(document: Item, options: ImportOptions, robots: int | None) -> Imported:
    """The layout of one level of a building.

    Raises:
        LayoutError: Names the file and the key of what cannot be used.
    """
    name, level = _choose_level(document, options.level)
    vertices = _vertices(level, 3)
    positions = building_frame(document, level, name)(np.array([place for place, _ in vertices]).reshape(-1, 2))
    lanes = _lanes(_choose_graph(level, options), positions, options)
    walls = _walls(level, positions)
    return _imported(
        document, options, robots, f"Open-RMF building, level {name!r}", (vertices, positions, lanes, walls)
    )


def import_nav_graph(document: Item, options: ImportOptions, robots: int | None) -> Imported:
    """The layout of one level of a navigation graph.

    Raises:
        LayoutError: Names the file and the key of what cannot be used.
    """
    name, level = _choose_level(document, options.level)
    vertices = _vertices(level, 2)
    positions = np.array([place for place, _ in vertices], np.float64).reshape(-1, 2)
    lanes = _lanes(level.entries("lanes"), positions, options)
    source = f"Open-RMF navigation graph, level {name!r}"
    return _imported(document, options, robots, source, (vertices, positions, lanes, np.empty((0, 4))))


@dataclass(frozen=True)
class _Vertex:
    """A vertex' name and parameters, with their types taken off."""

    name: str
    params: dict[str, Item]

    def is_true(self, key: str) -> bool:
        """Whether a parameter is there and true."""
        return key in self.params and self.params[key].boolean()

    def has_text(self, key: str) -> bool:
        """Whether a parameter names something; false and empty names do not."""
        param = self.params.get(key)
        return param is not None and param.value is not False and bool(param.text().strip())


def _imported(
    document: Item,
    options: ImportOptions,
    robots: int | None,
    source: str,
    parts: tuple[list[tuple[tuple[float, float], _Vertex]], Float, list[Lane], Float],
) -> Imported:
    vertices, positions, lanes, walls = parts
    if not lanes:
        raise LayoutError(f"{document.file}: expected a level with lanes, got {source} without any.")
    params = [vertex for _, vertex in vertices]

    def where(test: Callable[[_Vertex], bool]) -> list[int]:
        return [index for index, vertex in enumerate(params) if test(vertex)]

    spawns = _spawns(where(lambda vertex: vertex.has_text("spawn_robot_name")), lanes, document)
    fetch = set(where(lambda vertex: vertex.has_text("pickup_dispenser")))
    bring = set(where(lambda vertex: vertex.has_text("dropoff_ingestor")))
    if where(lambda vertex: vertex.has_text("lift_cabin")):
        document.warnings.add("Lifts are not imported: robots stay on the level.")
    graph = RoadGraph(
        [vertex.name.strip() or f"#{index}" for index, vertex in enumerate(params)],
        positions,
        lanes,
        walls,
        pickups=sorted(fetch - bring),
        deliveries=sorted(bring - fetch),
        transfers=sorted(fetch & bring),
        chargers=where(lambda vertex: vertex.is_true("is_charger")),
        parking=sorted({*where(lambda vertex: vertex.is_true("is_parking_spot")), *spawns}),
        places=where(lambda vertex: bool(vertex.name.strip()) and not vertex.is_true("is_charger")),
        num_robots=len(spawns) or None,
    )
    num_robots = fleet_size(robots, graph.num_robots, document.file)
    layout, notes = road_layout(graph, options, document.warnings, document.file)
    return Imported(layout, source, num_robots, notes, document.warnings.lines(), options.vehicle_m)


def _spawns(vertices: list[int], lanes: list[Lane], document: Item) -> list[int]:
    """The vertices where robots of these lanes start; other fleets have lanes of their own."""
    on_lanes = {vertex for lane in lanes for vertex in (lane.start, lane.end)}
    mine = [vertex for vertex in vertices if vertex in on_lanes]
    if len(mine) < len(vertices):
        document.warnings.add(f"{len(vertices) - len(mine)} of {len(vertices)} robots do not start on these lanes.")
    return mine


def _choose_level(document: Item, wanted: str | None) -> tuple[str, Item]:
    if "levels" not in document.value:
        document.warnings.add("The file has no levels; its vertices and lanes were taken for the only one.")
        if wanted is not None:
            raise LayoutError(f"{document.file}: level: expected none, because the file has no levels, got {wanted!r}.")
        return "", document
    levels = {name: level for name, level in document.require("levels").named() if isinstance(level.value, dict)}
    if not levels:
        raise document.require("levels").fault("at least one level")
    if wanted is not None:
        if wanted not in levels:
            raise LayoutError(f"{document.file}: level: expected one of {', '.join(levels)}, got {wanted!r}.")
        return wanted, levels[wanted]
    counts = {name: len(level.entries("lanes")) for name, level in levels.items()}
    chosen = max(counts, key=lambda name: counts[name])
    if len(levels) > 1:
        document.warnings.add(
            f"The file has {len(levels)} levels; {chosen!r}, the one with the most lanes, was taken. "
            f"Choose one of {', '.join(levels)} with --level."
        )
    return chosen, levels[chosen]


def _vertices(level: Item, num_coordinates: int) -> list[tuple[tuple[float, float], _Vertex]]:
    """Coordinates as written, and what stands behind them: a name and parameters, or both in one mapping."""
    entries = level.entries("vertices")
    if len(entries) > MAX_NODES:
        raise level.require("vertices").fault(f"at most {MAX_NODES} vertices")
    vertices = []
    for entry in entries:
        place = entry.at(0).number(), entry.at(1).number()
        name = ""
        params: dict[str, Item] = {}
        for index in range(num_coordinates, len(entry.value)):
            part = entry.at(index)
            if isinstance(part.value, dict):
                params = {key: _untyped(value) for key, value in part.named() if value.value is not None}
            elif isinstance(part.value, list):
                part.warnings.add("A vertex has a list where its parameters belong; it was taken for no parameters.")
            elif part.value is not None:
                name = part.text()
        if "name" in params:
            name = params["name"].text()
        vertices.append((place, _Vertex(name, params)))
    return vertices


def _untyped(value: Item) -> Item:
    """A parameter without its type: the second element of ``[type, value]``."""
    if isinstance(value.value, list) and len(value.value) == 2:
        return value.at(1)
    return value


def _params(edge: Item) -> dict[str, Item]:
    if not isinstance(edge.value, list) or len(edge.value) < 3 or edge.value[2] is None:
        return {}
    return {key: _untyped(value) for key, value in edge.at(2).named() if value.value is not None}


def _ends(edges: list[Item], num_vertices: int, kind: str) -> list[tuple[Item, int, int]]:
    """The edges between vertices that exist, and their ends; a warning tells of the others.

    Args:
        edges: Lanes or walls.
        num_vertices: Vertices of the level.
        kind: What they are, in the plural.
    """
    known: list[tuple[Item, int, int]] = []
    wrong: list[LayoutError] = []
    for edge in edges:
        try:
            known.append((edge, edge.at(0).integer(0, num_vertices - 1), edge.at(1).integer(0, num_vertices - 1)))
        except LayoutError as error:
            wrong.append(error)
    if wrong and kind == "lanes" and not known:
        raise wrong[0]
    if wrong:
        first = str(wrong[0]).removeprefix(f"{edges[0].file}: ")
        edges[0].warnings.add(f"{len(wrong)} of {len(edges)} {kind} were left out. The first one: {first}")
    return known


def _choose_graph(level: Item, options: ImportOptions) -> list[Item]:
    """The lanes of one graph; a building can have several, one per fleet."""
    lanes = level.entries("lanes")
    if len(lanes) > MAX_LANES:
        raise level.require("lanes").fault(f"at most {MAX_LANES} lanes")
    graphs = [graph.integer(0, 1000) if (graph := _params(lane).get("graph_idx")) is not None else 0 for lane in lanes]
    counts = Counter(graphs)
    known = ", ".join(str(graph) for graph in sorted(counts))
    chosen = options.graph_index
    if chosen is not None and chosen not in counts:
        raise LayoutError(f"{level.file}: graph_index: expected one of {known or 'none at all'}, got {chosen}.")
    if chosen is None:
        chosen = min(counts, key=lambda graph: (-counts[graph], graph), default=0)
        if len(counts) > 1:
            level.warnings.add(
                f"The level has the graphs {known}; {chosen}, the one with the most lanes, was taken. "
                "Choose with --graph-index."
            )
    return [lane for lane, graph in zip(lanes, graphs, strict=True) if graph == chosen]


def _lanes(entries: list[Item], positions: Float, options: ImportOptions) -> list[Lane]:
    if len(entries) > MAX_LANES:
        raise entries[0].fault(f"at most {MAX_LANES} lanes")
    aside = (options.lane_m - options.vehicle_m) / 2
    directed: dict[tuple[int, int], float | None] = {}
    for entry, start, end in _ends(entries, len(positions), "lanes"):
        if start == end:
            entry.warnings.add("A lane leads from a vertex to itself; it was left out.")
            continue
        params = _params(entry)
        limit = next((params[key].number() for key in _SPEED_LIMITS if key in params), 0.0)
        if limit < 0:
            entry.warnings.add("A lane has a speed_limit below zero; it was taken for no limit.")
        ways = [(start, end)]
        if "bidirectional" in params and params["bidirectional"].boolean():
            ways.append((end, start))
        for way in ways:
            before = directed.get(way)
            # Zero stands for no limit; of two lanes on the same way, the slower one counts.
            directed[way] = limit if limit > 0 and (before is None or limit < before) else before
    lanes = []
    for (start, end), speed in directed.items():
        two_way = directed.get((end, start), -1.0) == speed
        if two_way and start > end:
            continue
        lanes.append(Lane(start, end, positions[[start, end]], two_way, speed, aside, aside))
    return lanes


def _walls(level: Item, positions: Float) -> Float:
    entries = level.entries("walls")
    if len(entries) > _MAX_WALLS:
        raise level.require("walls").fault(f"at most {_MAX_WALLS} walls")
    ends = [(start, end) for _, start, end in _ends(entries, len(positions), "walls")]
    pairs = np.array(ends, np.int64).reshape(-1, 2)
    return np.hstack([positions[pairs[:, 0]], positions[pairs[:, 1]]])
