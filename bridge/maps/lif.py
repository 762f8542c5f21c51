"""VDMA Layout Interchange Format, 1.0 and the draft of 2.0.

A LIF file describes nodes and directed edges per vehicle type; what a station is for is only
visible from the actions at its nodes: ``startCharging`` makes a charger, ``pick`` and ``drop``
a place where loads change hands. Stations without such actions are told by their names. There
are no aisle widths, walls or racks (2.0 has corridors), so that lanes are as wide as a vehicle
and its margin.

Source: Intralogistics-2X-LIF/Layout-Interchange-Format, LIF.md 1.0.0 and the change notes to 2.0.0.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from bridge.maps.documents import Item
from bridge.maps.import_options import Imported, ImportOptions, fleet_size
from bridge.maps.lif_document import (
    NODE_PROPERTIES,
    LifGroup,
    choose_level,
    choose_vehicle_type,
    lif_groups,
    lif_version,
    properties_for,
    text_of,
)
from bridge.maps.lif_edges import LaneReader, join_opposite_lanes
from bridge.maps.lif_purposes import Purpose, action_types, purposes_of_action, purposes_of_name
from bridge.maps.lif_units import metres_per_unit
from bridge.maps.road_graph import MAX_NODES, RoadGraph
from bridge.maps.road_stations import road_layout

__all__ = ["import_lif", "looks_like_lif"]

_LISTED: Final = 12


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
    version = lif_version(document)
    group = choose_level(lif_groups(document), options.level, document)
    vehicle_type = choose_vehicle_type(group, options.vehicle_type, document)
    graph = _graph(document, group, vehicle_type, options)
    layout, notes = road_layout(graph, options, document.warnings, document.file)
    shown_type = f", vehicle type {vehicle_type!r}" if vehicle_type else ""
    source = f"VDMA LIF {version}, {group.name}{shown_type}"
    return Imported(layout, source, num_robots, notes, document.warnings.lines(), options.vehicle_m)


def _graph(document: Item, group: LifGroup, vehicle_type: str | None, options: ImportOptions) -> RoadGraph:
    nodes = _Nodes(group, vehicle_type)
    unit_m = metres_per_unit(group, nodes.index, nodes.positions, options.unit, document)
    positions = nodes.positions * unit_m
    reader = LaneReader(nodes.index, positions, lambda: _all_nodes(document), vehicle_type, options, unit_m)
    lanes = reader.lanes_of(group.entries("edges"))
    for node, purposes in reader.purposes.items():
        nodes.purposes[node] |= purposes
    places = _read_stations(group, nodes)

    def where(purpose: Purpose) -> set[int]:
        return {node for node, has in enumerate(nodes.purposes) if purpose in has}

    fetch, bring = where("fetch"), where("bring")
    return RoadGraph(
        list(nodes.index),
        positions,
        join_opposite_lanes(lanes),
        pickups=sorted(fetch - bring),
        deliveries=sorted(bring - fetch),
        transfers=sorted(fetch & bring),
        chargers=sorted(where("charge")),
        parking=sorted(where("park")),
        places=places,
        hint=f"The actions at its nodes are: {_counted(nodes.action_types)}.",
    )


class _Nodes:
    """The nodes of a level that a vehicle type may use.

    Attributes:
        index: Number of each node by its id.
        positions: (N, 2) float64 in the unit of the file.
        purposes: What each node is for.
        action_types: How often each type of action is listed, as it is written.
        forbidden: Ids of the other nodes of the level.
    """

    def __init__(self, group: LifGroup, vehicle_type: str | None) -> None:
        self.index: dict[str, int] = {}
        self.purposes: list[set[Purpose]] = []
        self.action_types: Counter[str] = Counter()
        self.forbidden: set[str] = set()
        places: list[tuple[float, float]] = []
        for node in group.entries("nodes"):
            name = node.require("nodeId").text()
            properties = properties_for(node, NODE_PROPERTIES, vehicle_type)
            if properties is None:
                self.forbidden.add(name)
                continue
            if len(places) == MAX_NODES:
                raise node.fault(f"at most {MAX_NODES} nodes")
            position = node.require("nodePosition")
            place = position.require("x").number(), position.require("y").number()
            number = self.index.setdefault(name, len(places))
            if number == len(places):
                places.append(place)
                self.purposes.append(set())
            elif places[number] == place:
                node.warnings.add(f"Node {name[:40]!r} is listed more than once, at the same place; it was taken once.")
            else:
                raise node.require("nodeId").fault("a nodeId that no node at another place has")
            types = action_types(properties)
            self.action_types.update(types)
            self.purposes[number] |= {purpose for action_type in types for purpose in purposes_of_action(action_type)}
        self.forbidden -= self.index.keys()
        self.positions = np.array(places, np.float64).reshape(-1, 2)


def _all_nodes(document: Item) -> set[str]:
    return {text_of(node, "nodeId") for group in lif_groups(document) for node in group.entries("nodes")}


def _read_stations(group: LifGroup, nodes: _Nodes) -> list[int]:
    """Give the nodes of stations without actions the purpose that the station's name tells.

    Returns:
        Nodes of the stations whose names tell nothing.
    """
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
        if not known or any(nodes.purposes[node] for node in known):
            continue
        purposes = _named_purposes(station)
        if purposes:
            shown = " and ".join(_SHOWN[purpose] for purpose in sorted(purposes))
            warnings.add(f"Station {name} has no action that tells what it is for; by its name it is {shown}.")
        else:
            warnings.add(f"Station {name} has neither an action nor a name that tells what it is for.")
            places += known
        for node in known:
            nodes.purposes[node] |= purposes
    return places


_SHOWN: Final[dict[Purpose, str]] = {
    "fetch": "a pick-up",
    "bring": "a delivery",
    "charge": "a charger",
    "park": "a parking place",
}


def _named_purposes(station: Item) -> frozenset[Purpose]:
    for key in ("stationName", "stationId", "stationDescription", "stationDescriptor"):
        name = station.get(key)
        if name is not None and isinstance(name.value, str) and (purposes := purposes_of_name(name.value)):
            return purposes
    return frozenset()


def _counted(types: Counter[str]) -> str:
    """Action types with how often they appear, the most frequent first."""
    words = [f"{name[:40]!r} ({count})" for name, count in types.most_common(_LISTED)]
    more = f" and {len(types) - _LISTED} other types" if len(types) > _LISTED else ""
    return ", ".join(words) + more if words else "none at all"
