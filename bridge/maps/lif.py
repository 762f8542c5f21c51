"""VDMA Layout Interchange Format, 1.0 and the draft of 2.0.

A LIF file describes nodes and directed edges per vehicle type; what a station is for is only
visible from the actions at its nodes: ``startCharging`` makes a charger, ``pick`` and ``drop``
a place where loads change hands. There are no aisle widths, walls or racks (2.0 has corridors),
so that lanes are as wide as a vehicle and its margin.

Source: Intralogistics-2X-LIF/Layout-Interchange-Format, LIF.md 1.0.0 and the change notes to 2.0.0.
"""

from __future__ import annotations

import numpy as np

from bridge.maps.documents import Item
from bridge.maps.import_options import Imported, ImportOptions, fleet_size
from bridge.maps.lif_document import (
    LifGroup,
    LifNames,
    choose_level,
    choose_vehicle_type,
    lif_groups,
    lif_version,
    properties_for,
    text_of,
)
from bridge.maps.lif_edges import LaneReader, join_opposite_lanes
from bridge.maps.road_graph import MAX_NODES, RoadGraph
from bridge.maps.road_stations import road_layout

__all__ = ["import_lif", "looks_like_lif"]

_PURPOSES = frozenset({"pick", "drop", "startcharging"})


def looks_like_lif(document: object) -> bool:
    """Whether a JSON document means to be a LIF file."""
    return isinstance(document, dict) and bool({"metaInformation", "layouts", "origins"} & document.keys())


def import_lif(document: Item, options: ImportOptions, robots: int | None) -> Imported:
    """The layout of a LIF file.

    Args:
        document: The whole file.
        options: Level, vehicle type, widths and the like.
        robots: Size of the fleet; LIF does not state one.

    Raises:
        LayoutError: Names the file and the key of what cannot be used.
    """
    num_robots = fleet_size(robots, None, document.file)
    names, version = lif_version(document)
    group = choose_level(lif_groups(document), options.level, document)
    vehicle_type = choose_vehicle_type(group, names, options.vehicle_type, document)
    graph = _graph(document, group, names, vehicle_type, options)
    layout, notes = road_layout(graph, options, document.warnings, document.file)
    shown_type = f", vehicle type {vehicle_type!r}" if vehicle_type else ""
    source = f"VDMA LIF {version}, {group.name}{shown_type}"
    return Imported(layout, source, num_robots, notes, document.warnings.lines())


def _graph(
    document: Item, group: LifGroup, names: LifNames, vehicle_type: str | None, options: ImportOptions
) -> RoadGraph:
    nodes = _Nodes(group, names, vehicle_type)
    reader = LaneReader(nodes.index, nodes.positions, lambda: _all_nodes(document), names, vehicle_type, options)
    for edge in group.entries("edges"):
        reader.read(edge)
    actions = nodes.actions
    return RoadGraph(
        list(nodes.index),
        nodes.positions,
        join_opposite_lanes(reader.lanes),
        pickups=[node for node, has in enumerate(actions) if "pick" in has and "drop" not in has],
        deliveries=[node for node, has in enumerate(actions) if "drop" in has and "pick" not in has],
        transfers=[node for node, has in enumerate(actions) if {"pick", "drop"} <= has],
        chargers=[node for node, has in enumerate(actions) if "startcharging" in has],
        places=_places(group, nodes),
    )


class _Nodes:
    """The nodes of a level that a vehicle type may use.

    Attributes:
        index: Number of each node by its id.
        positions: (N, 2) float64 in m.
        actions: What vehicles may do at each node, in lower case.
        forbidden: Ids of the other nodes of the level.
    """

    def __init__(self, group: LifGroup, names: LifNames, vehicle_type: str | None) -> None:
        self.index: dict[str, int] = {}
        self.actions: list[set[str]] = []
        self.forbidden: set[str] = set()
        places: list[tuple[float, float]] = []
        for node in group.entries("nodes"):
            name = node.require("nodeId").text()
            if name in self.index or name in self.forbidden:
                raise node.require("nodeId").fault("a nodeId that no other node has")
            properties = properties_for(node, names.node_properties, vehicle_type)
            if properties is None:
                self.forbidden.add(name)
                continue
            if len(places) == MAX_NODES:
                raise node.fault(f"at most {MAX_NODES} nodes")
            place = node.require("nodePosition")
            self.index[name] = len(places)
            places.append((place.require("x").number(), place.require("y").number()))
            self.actions.append(_actions(properties))
        self.positions = np.array(places, np.float64).reshape(-1, 2)


def _actions(properties: list[Item]) -> set[str]:
    kinds = ("actions", "requiredActions", "feasibleActions")
    return {
        action.require("actionType").text().strip().lower()
        for entry in properties
        for kind in kinds
        for action in entry.entries(kind)
    }


def _all_nodes(document: Item) -> set[str]:
    return {text_of(node, "nodeId") for group in lif_groups(document) for node in group.entries("nodes")}


def _places(group: LifGroup, nodes: _Nodes) -> list[int]:
    """Nodes of stations without an action that tells what they are for."""
    places = []
    warnings = group.layouts[0].warnings
    if all(layout.get("stations") is None for layout in group.layouts):
        warnings.add("The layout has no 'stations'; the actions at nodes tell what they are for.")
    for station in group.entries("stations"):
        name = repr(text_of(station, "stationId")[:40])
        interaction = [entry.text() for entry in station.entries("interactionNodeIds")]
        if not interaction or any(node not in nodes.index and node not in nodes.forbidden for node in interaction):
            warnings.add(f"Station {name} has no node, or one that does not exist on its level.")
        known = [nodes.index[node] for node in interaction if node in nodes.index]
        if known and not any(nodes.actions[node] & _PURPOSES for node in known):
            warnings.add(f"Station {name} has no pick, drop or startCharging action: it was taken for a plain node.")
            places += known
    return places
