"""Damaged map files are refused with a message, or read with warnings; nothing else ever happens."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bridge.errors import LayoutError
from bridge.maps import ImportOptions, read_layout
from bridge.warehouse.layout import Layout

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

MAP = "type octile\nheight 3\nwidth 5\nmap\nS...E\n..@..\nP....\nexits\n62aac\n54055\n3baa9\n"
SCEN = "version 1\n0\ta.map\t5\t3\t0\t0\t4\t0\t4.0\n0\ta.map\t5\t3\t0\t2\t4\t2\t4.0\n"
LIF = {
    "metaInformation": {"lifVersion": "1.0.0"},
    "layouts": [
        {
            "layoutId": "hall",
            "nodes": [
                {
                    "nodeId": name,
                    "nodePosition": {"x": x, "y": y},
                    "vehicleTypeNodeProperties": [
                        {"vehicleTypeId": "AGV", "actions": [{"actionType": action, "blockingType": "HARD"}]}
                    ],
                }
                for name, x, y, action in (("A", 0, 0, "pick"), ("B", 6, 0, "drop"), ("C", 6, 4, "startCharging"))
            ],
            "edges": [
                {
                    "edgeId": start + end,
                    "startNodeId": start,
                    "endNodeId": end,
                    "vehicleTypeEdgeProperties": [
                        {
                            "vehicleTypeId": "AGV",
                            "maxSpeed": 0.5,
                            "loadRestriction": {"loaded": True, "unloaded": True},
                            "trajectory": {
                                "degree": 1,
                                "knotVector": [0, 0, 0.5, 1, 1],
                                "controlPoints": [{"x": 3, "y": 1, "weight": 1}, {"x": 3, "y": 2}, {"x": 4, "y": 2}],
                            },
                            "corridor": {"maximumLeftWidth": 1.5, "maximumRightWidth": 0.5},
                        }
                    ],
                }
                for start, end in ("AB", "BC", "CA")
            ],
            "stations": [{"stationId": "S", "interactionNodeIds": ["A"]}],
        }
    ],
}
BUILDING = {
    "name": "x",
    "coordinate_system": "reference_image",
    "levels": {
        "L1": {
            "vertices": [
                [10, 10, 0, "a", {"pickup_dispenser": [1, "p"]}],
                [90, 10, 0, "b", {"dropoff_ingestor": [1, "q"], "is_charger": [4, False]}],
                [90, 80, 0, "", {"is_parking_spot": [4, True], "spawn_robot_name": [1, "r"]}],
            ],
            "lanes": [
                [0, 1, {"bidirectional": [4, True], "speed_limit": [3, 0.5], "graph_idx": [2, 0]}],
                [1, 2, {}],
                [2, 0],
            ],
            "walls": [[0, 2, {}]],
            "measurements": [[0, 1, {"distance": [3, 8.0]}]],
            "fiducials": [[1, 2, "f"], [5, 6, "g"]],
        },
        "L2": {"vertices": [], "lanes": [], "fiducials": [[1, 2, "f"], [9, 6, "g"]]},
    },
}
GRAPH = {
    "building_name": "x",
    "levels": {
        "L1": {
            "vertices": [
                [0.0, 0.0, {"name": "a", "pickup_dispenser": "p", "is_holding_point": True}],
                [8.5, 0.5, {"name": "b", "dropoff_ingestor": "q", "spawn_robot_name": "r"}],
            ],
            "lanes": [[0, 1, {"speed_limit": 0.5}], [1, 0, {}]],
        }
    },
}
LORR = {"mapFile": "a.map", "agentFile": "a.agents", "taskFile": "a.tasks", "teamSize": 1, "agentCounter": 1}

# Values that occur where another kind was meant, and values at the edges of what numbers can be.
ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            False,
            0,
            -1,
            1,
            2**70,
            -0.0,
            1e-320,
            1e308,
            1e9,
            -1e9,
            0.1,
            "",
            "A",
            "B",
            "7",
            "1e99",
            "nan",
            [],
            {},
            [[]],
        ]
    ),
    st.sampled_from([[1], [3, "x"], [0, 1], [4, True], {"x": 0, "y": 0}, "\u2603", "a\nb: c", "#", "x" * 300]),
    st.integers(-3, 6),
    st.floats(-100, 100),
)


def _mutate(value: Any, choose: random.Random, odd: Any) -> Any:
    """A copy in which one random part is replaced, removed or doubled."""
    if isinstance(value, dict) and value and choose.random() < 0.93:
        key = choose.choice(sorted(value, key=str))
        fate = choose.random()
        rest = {name: part for name, part in value.items() if name != key}
        if fate < 0.08:
            return rest
        return {**value, key: _mutate(value[key], choose, odd)}
    if isinstance(value, list) and value and choose.random() < 0.93:
        place = choose.randrange(len(value))
        fate = choose.random()
        if fate < 0.08:
            return value[:place] + value[place + 1 :]
        if fate < 0.16:
            return [*value, value[place]]
        return [*value[:place], _mutate(value[place], choose, odd), *value[place + 1 :]]
    return odd


def _outcome(path: Path, options: ImportOptions | None = None) -> Layout | str:
    """The layout of a file for one robot, or the refusal."""
    try:
        return read_layout(path, options, 1).layout
    except LayoutError as error:
        return str(error)


def _check(outcome: Layout | str, path: Path) -> None:
    if isinstance(outcome, str):
        assert str(path.parent) in outcome
        assert len(outcome) < 1500
    else:
        assert len(outcome.pickups) > 0
        assert len(outcome.deliveries) > 0
        assert not outcome.blocked.flat[np.concatenate([outcome.pickups, outcome.deliveries, outcome.parking])].any()


@pytest.mark.parametrize(
    ("name", "document"),
    [("a.json", LIF), ("a.building.yaml", BUILDING), ("a.yaml", GRAPH)],
    ids=["lif", "building", "nav_graph"],
)
@FUZZ
@given(seed=st.integers(0, 2**32), odds=st.lists(ODD, min_size=1, max_size=4), derive=st.booleans())
def test_read_layout_never_fails_otherwise_on_damaged_road_files(
    tmp_path: Path, name: str, document: Any, seed: int, odds: list[Any], derive: bool
) -> None:
    choose = random.Random(seed)
    for odd in odds:
        document = _mutate(document, choose, odd)
    text = json.dumps(document) if name.endswith("json") else yaml.safe_dump(document, allow_unicode=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    for lane_width_m in (None, 2.0):
        options = ImportOptions(derive_stations=derive, two_way=not derive, lane_width_m=lane_width_m)
        _check(_outcome(tmp_path / name, options), tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.map", MAP),
        ("a.scen", SCEN),
        ("a.json", json.dumps(LIF)),
        ("b.json", json.dumps(LORR)),
        ("a.agents", "1\n0\n"),
        ("a.tasks", "2\n0,4\n10,14,4\n"),
        ("a.building.yaml", yaml.safe_dump(BUILDING)),
        ("a.yaml", yaml.safe_dump(GRAPH)),
    ],
)
@FUZZ
@given(
    cuts=st.lists(
        st.tuples(
            st.floats(0, 1),
            st.integers(0, 12),
            st.binary(max_size=4) | st.sampled_from([b"\n", b"\t", b"9" * 30, b"&a ", b"*a"]),
        ),
        min_size=1,
        max_size=4,
    )
)
@example(cuts=[(0.0, 10_000, b"")])
@example(cuts=[(0.5, 10_000, b"")])
def test_read_layout_never_fails_otherwise_on_files_with_damaged_bytes(
    tmp_path: Path, name: str, text: str, cuts: list[tuple[float, int, bytes]]
) -> None:
    whole = {"a.map": MAP, "b.json": json.dumps(LORR), "a.agents": "1\n0\n", "a.tasks": "2\n0,4\n10,14,4\n"}
    for other, content in whole.items():
        (tmp_path / other).write_text(content)
    data = text.encode()
    for place, length, insert in cuts:
        start = int(place * len(data))
        data = data[:start] + insert + data[start + length :]
    (tmp_path / name).write_bytes(data)
    path = tmp_path / ("b.json" if name in ("a.agents", "a.tasks") else name)
    _check(_outcome(path), path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), name=st.sampled_from(["a", "a.json", "a.yaml", "a.map", "a.scen"]))
def test_read_layout_refuses_noise(tmp_path: Path, data: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(LayoutError, match=rf"{name}: "):
        read_layout(tmp_path / name, None, 1)
