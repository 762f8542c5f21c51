"""VDMA LIF documents that tests put together, and read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridge.maps import Imported, ImportOptions, read_layout

Read = Callable[..., Imported]


def reader(folder: Path) -> Read:
    """Reads a document as a LIF file for one robot, which it writes into a folder."""

    def read(document: dict[str, Any], robots: int | None = 1, **options: Any) -> Imported:
        path = folder / "hall.json"
        path.write_text(json.dumps(document))
        return read_layout(path, ImportOptions(**options), robots)

    return read


def node(name: str, x: float, y: float, *actions: str, types: tuple[str, ...] = ("AGV",)) -> dict[str, Any]:
    """A node of version 1 where vehicles of these types may do these actions."""
    listed = [{"actionType": action, "blockingType": "HARD"} for action in actions]
    properties = [{"vehicleTypeId": name_, **({"actions": listed} if listed else {})} for name_ in types]
    return {
        "nodeId": name,
        "mapId": "M",
        "nodePosition": {"x": x, "y": y},
        "vehicleTypeNodeProperties": properties,
    }


def edge(start: str, end: str, *, types: tuple[str, ...] = ("AGV",), **properties: Any) -> dict[str, Any]:
    """An edge of version 1 for vehicles of these types."""
    return {
        "edgeId": f"{start}-{end}",
        "startNodeId": start,
        "endNodeId": end,
        "vehicleTypeEdgeProperties": [
            {"vehicleTypeId": name, "rotationAllowed": False, **properties} for name in types
        ],
    }


def lif_1(nodes: list[dict[str, Any]], edges: list[dict[str, Any]], **layout: Any) -> dict[str, Any]:
    """A file of version 1 with one layout."""
    return {
        "metaInformation": {
            "projectIdentification": "test",
            "creator": "test",
            "exportTimestamp": "2025-01-01T00:00:00Z",
            "lifVersion": "1.0.0",
        },
        "layouts": [
            {"layoutId": "hall", "layoutVersion": "1", "nodes": nodes, "edges": edges, "stations": [], **layout}
        ],
    }


def lif_2(document: dict[str, Any]) -> dict[str, Any]:
    """The same file in the draft of version 2, whose types are named ``maker/<type>``."""
    layouts = [
        {
            **layout,
            "nodes": [_renamed(entry, "Node", "feasibleActions") for entry in layout["nodes"]],
            "edges": [_renamed(entry, "Edge", "feasibleActions") for entry in layout["edges"]],
        }
        for layout in document["layouts"]
    ]
    return {
        "metaInformation": {"lifId": "test", "creator": "test", "lifVersion": "2.0.0"},
        "origins": [{"originId": "origin", "layouts": layouts}],
    }


def _renamed(entry: dict[str, Any], kind: str, actions: str) -> dict[str, Any]:
    old = f"vehicleType{kind}Properties"
    keys = {"actions": actions, "maxSpeed": "maximumSpeed"}
    properties = [
        {
            "mobileRobotTypes": [{"manufacturer": "maker", "seriesName": one["vehicleTypeId"]}],
            **{keys.get(key, key): value for key, value in one.items() if key != "vehicleTypeId"},
        }
        for one in entry[old]
    ]
    return {
        **{key: value for key, value in entry.items() if key != old},
        f"mobileRobotType{kind}Properties": properties,
    }


def loop(**properties: Any) -> dict[str, Any]:
    """A one-way loop with a pick-up, a delivery and a charger beside it."""
    nodes = [
        node("A", 0, 0, "pick"),
        node("B", 8, 0),
        node("C", 8, 4, "drop"),
        node("D", 0, 4),
        node("L", 0, 6, "startCharging", "stopCharging"),
    ]
    edges = [
        edge("A", "B", **properties),
        edge("B", "C"),
        edge("C", "D"),
        edge("D", "A"),
        edge("D", "L"),
        edge("L", "D"),
    ]
    return lif_1(nodes, edges)
