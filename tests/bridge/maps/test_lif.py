"""VDMA LIF files as layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.errors import LayoutError
from bridge.maps import ImportOptions, read_layout
from bridge.warehouse.layout import EXIT_LEFT, EXIT_RIGHT
from tests.bridge.maps.lif_files import Read, edge, lif_1, lif_2, loop, node, reader


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a document as a LIF file for one robot."""
    return reader(tmp_path)


def _cell(layout: Any, row: int, column: int) -> int:
    return row * layout.width + column


def test_import_lif_makes_stations_from_the_actions_at_nodes(read: Read) -> None:
    imported = read(loop())
    layout = imported.layout
    assert (layout.blocked.shape, layout.cell_size_m) == ((9, 11), 1.0)
    assert layout.pickups.tolist() == [_cell(layout, 7, 1)]
    assert layout.deliveries.tolist() == [_cell(layout, 3, 9)]
    assert layout.chargers.tolist() == [_cell(layout, 1, 1)]
    assert (imported.num_robots, imported.warnings) == (1, ())
    assert imported.source == "VDMA LIF 1.0.0, layout 'hall', vehicle type 'AGV'"


def test_import_lif_keeps_the_direction_of_edges(read: Read) -> None:
    layout = read(loop()).layout
    assert layout.exits is not None
    assert layout.exits[_cell(layout, 7, 4)] == EXIT_RIGHT
    assert layout.exits[_cell(layout, 3, 7)] == EXIT_LEFT


def test_import_lif_drives_both_ways_when_it_is_told_to(read: Read) -> None:
    layout = read(loop(), two_way=True).layout
    assert layout.exits is None


def test_import_lif_drives_both_ways_where_there_would_be_no_way_back(read: Read) -> None:
    document = loop()
    del document["layouts"][0]["edges"][3:]
    imported = read(document)
    assert (len(imported.layout.pickups), len(imported.layout.deliveries), imported.layout.exits) == (1, 1, None)
    assert imported.warnings[0].startswith("No two places have a way there and back; the lanes from which no way")
    with pytest.raises(LayoutError, match=r"expected at least two places with a way there and back, .*--two-way"):
        read(document, two_way=False)


def test_import_lif_keeps_speed_limits_where_they_are(read: Read) -> None:
    layout = read(loop(maxSpeed=0.4)).layout
    assert layout.speed_limit_mps is not None
    limited = np.flatnonzero(np.isfinite(layout.speed_limit_mps))
    assert limited.tolist() == [_cell(layout, 7, column) for column in range(1, 10)]
    assert (layout.speed_limit_mps[limited] == np.float32(0.4)).all()
    assert read(loop(maxSpeed=0)).layout.speed_limit_mps is None


def test_import_lif_reads_version_2_as_the_same_layout(read: Read) -> None:
    old, new = read(loop(maxSpeed=0.4)), read(lif_2(loop(maxSpeed=0.4)))
    assert new.layout.to_drawing() == old.layout.to_drawing()
    assert new.layout.exits is not None
    assert np.array_equal(new.layout.exits, old.layout.exits)
    assert np.array_equal(new.layout.speed_limit_mps, old.layout.speed_limit_mps, equal_nan=True)
    assert new.source == "VDMA LIF 2.0.0, layout 'hall', vehicle type 'maker/AGV'"


@pytest.mark.parametrize("actions", ["requiredActions", "feasibleActions"])
def test_import_lif_finds_actions_under_both_names_of_version_2(read: Read, actions: str) -> None:
    text = json.dumps(lif_2(loop())).replace("feasibleActions", actions)
    assert len(read(json.loads(text)).layout.pickups) == 1


def test_import_lif_opens_corridors_of_version_2(read: Read) -> None:
    corridor = {"maximumLeftWidth": 1.0, "maximumRightWidth": 0.0, "corridorReferencePoint": "KINEMATIC_CENTER"}
    narrow, wide = read(lif_2(loop())).layout, read(lif_2(loop(corridor=corridor))).layout
    assert wide.num_free == narrow.num_free + 7
    # Now the whole vehicle, 0.7 m wide, has to stay inside.
    corridor["corridorReferencePoint"] = "CONTOUR"
    assert read(lif_2(loop(corridor=corridor))).layout.num_free == narrow.num_free
    corridor["maximumLeftWidth"] = 1.35
    assert read(lif_2(loop(corridor=corridor))).layout.num_free == narrow.num_free + 7


@pytest.mark.parametrize(
    ("version", "has_origins", "warning"),
    [
        ("0.11.0", False, "lifVersion '0.11.0' is a draft; the names of 1.0 and of 2.0 were both understood."),
        ("7.0.0", False, "lifVersion '7.0.0' is unknown; the file was read as the version that it looks like."),
        ("2.0.0", False, "lifVersion '2.0.0' does not fit the file, which has no origins"),
        ("1.0.0", True, "lifVersion '1.0.0' does not fit the file, which has origins"),
        (None, False, "The file states no lifVersion."),
    ],
)
def test_import_lif_warns_about_versions_and_reads_what_the_file_looks_like(
    read: Read, version: str | None, has_origins: bool, warning: str
) -> None:
    document = lif_2(loop()) if has_origins else loop()
    document["metaInformation"]["lifVersion"] = version
    imported = read(document)
    assert len(imported.layout.pickups) == 1
    assert imported.warnings[0].startswith(warning)


def test_import_lif_warns_when_stations_are_missing_or_name_what_is_not_there(read: Read) -> None:
    document = loop()
    del document["layouts"][0]["stations"]
    assert "The layout has no 'stations'; the actions at nodes tell what they are for." in read(document).warnings
    document["layouts"][0]["stations"] = [{"stationId": "S1", "interactionNodeIds": ["A", "gone"]}]
    assert "Station 'S1' has no node, or one that does not exist on its level." in read(document).warnings
    document["layouts"][0]["stations"] = [{"stationId": "S2", "interactionNodeIds": ["B"], "stationHeight": "0.5"}]
    assert any(line.startswith("Station 'S2' has neither an action nor a name") for line in read(document).warnings)


def test_import_lif_keeps_only_what_a_vehicle_type_may_use(read: Read) -> None:
    document = loop()
    both = ("AGV", "Fork")
    document["layouts"][0]["nodes"] = [
        node("A", 0, 0, "pick", types=both),
        node("B", 8, 0, types=both),
        node("C", 8, 4, "drop", types=both),
        node("D", 0, 4),
    ]
    document["layouts"][0]["edges"] = [
        edge("A", "B", types=both),
        edge("B", "A", types=both),
        edge("B", "C", types=both),
        edge("C", "B", types=both),
        edge("C", "D"),
        edge("D", "A"),
    ]
    fork = read(document, vehicle_type="Fork")
    assert fork.layout.num_free == 13
    agv = read(document)
    assert agv.layout.num_free == 24
    assert any(line.startswith("The file has the vehicle types AGV, Fork; AGV, the one with") for line in agv.warnings)
    with pytest.raises(LayoutError, match=r"hall\.json: vehicle_type: expected one of AGV, Fork, got 'Tug'"):
        read(document, vehicle_type="Tug")


def test_import_lif_deals_out_places_where_loads_are_fetched_and_brought(read: Read) -> None:
    document = loop()
    nodes = document["layouts"][0]["nodes"]
    nodes[:4] = [
        node(name, x, y, "pick", "drop") for name, x, y in (("A", 0, 0), ("B", 8, 0), ("C", 8, 4), ("D", 0, 4))
    ]
    imported = read(document)
    assert (len(imported.layout.pickups), len(imported.layout.deliveries)) == (2, 2)
    assert any("0 where loads are fetched, 0 where they are brought, 4 with both" in note for note in imported.notes)


def test_import_lif_takes_the_level_with_most_edges_or_the_one_asked_for(read: Read) -> None:
    document = loop()
    document["layouts"][0] |= {"layoutLevelId": "0", "layoutName": "Ground"}
    upper = [node("U1", 0, 0, "pick"), node("U2", 5, 0, "drop")]
    document["layouts"].append(
        {"layoutId": "upper", "layoutLevelId": "1", "nodes": upper, "edges": [edge("U1", "U2"), edge("U2", "U1")]}
    )
    ground = read(document)
    assert ground.layout.num_free == 26
    assert any(
        line.startswith("The file has 2 levels; layout 'hall', the one with the most") for line in ground.warnings
    )
    for name in ("upper", "1"):
        assert read(document, level=name).layout.num_free == 6
    with pytest.raises(LayoutError, match=r"hall\.json: level: expected one of 0, 1, Ground, hall, upper, got 'roof'"):
        read(document, level="roof")


def test_import_lif_joins_layouts_of_one_level_and_leaves_out_lifts(read: Read) -> None:
    document = loop()
    east = [node("E", 14, 0, "drop")]
    document["layouts"].append({"layoutId": "east", "nodes": east, "edges": [edge("B", "E"), edge("E", "B")]})
    document["layouts"].append({"layoutId": "up", "layoutLevelId": "1", "nodes": [node("U", 0, 0)], "edges": []})
    document["layouts"][0]["edges"].append(edge("B", "U"))
    imported = read(document)
    assert len(imported.layout.deliveries) == 2
    assert "An edge leads to a node of another level or vehicle type; it was left out." in imported.warnings


@pytest.mark.parametrize(
    ("restriction", "free", "warning"),
    [
        ({"unloaded": True, "loaded": True}, 26, None),
        ({"unloaded": True, "loaded": False}, 26, "An edge is for empty, or for loaded, vehicles only; it was opened"),
        ({"loaded": False, "unloaded": False}, None, None),
        ({}, 26, None),
    ],
)
def test_import_lif_reads_load_restrictions(
    read: Read, restriction: dict[str, bool], free: int | None, warning: str | None
) -> None:
    document = loop(loadRestriction=restriction)
    if free is None:
        with pytest.raises(LayoutError, match="expected at least one pick-up and one delivery"):
            read(document, derive_stations=False, two_way=False)
        return
    imported = read(document)
    assert imported.layout.num_free == free
    assert [line[:40] for line in imported.warnings] == ([warning[:40]] if warning else [])


def test_import_lif_follows_trajectories(read: Read) -> None:
    points = [{"x": 0, "y": 0}, {"x": 0.0, "y": -4.0}, {"x": 8.0, "y": -4.0}, {"x": 8, "y": 0}]
    bent = read(loop(trajectory={"knotVector": [0, 0, 0.3, 0.6, 1, 1], "controlPoints": points}))
    assert bent.layout.num_free == 26 + 8
    curved = read(loop(trajectory={"degree": 3, "knotVector": [0, 0, 0, 0, 1, 1, 1, 1], "controlPoints": points}))
    assert 26 < curved.layout.num_free < 26 + 8
    assert (bent.warnings, curved.warnings) == ((), ())


@pytest.mark.parametrize(
    ("trajectory", "warning"),
    [
        ({"knotVector": [0, 1], "controlPoints": [{"x": 0, "y": 0}, {"x": 8, "y": 0}]}, "2 knots instead of 4"),
        ({"degree": 3, "knotVector": [], "controlPoints": [{"x": 0, "y": 0}] * 2}, "degree 3 with 2 control points"),
        ({"knotVector": [0, 1, 0, 1], "controlPoints": [{"x": 0, "y": 0}, {"x": 8, "y": 0}]}, "knots that do not"),
        ({"knotVector": [0, 0, 1, 1], "controlPoints": [{"x": 0, "y": 0}]}, "1 control points of degree 1"),
        ({"knotVector": [0, 0, 1, 1], "controlPoints": [{"x": 0, "y": 0, "weight": 0}, {"x": 8, "y": 0}]}, "weights"),
        ({"knotVector": [0, 0, 1, 1], "controlPoints": [{"x": 0, "y": 9}, {"x": 8, "y": 9}]}, "does not lead from"),
    ],
)
def test_import_lif_takes_a_straight_line_for_a_broken_trajectory(
    read: Read, trajectory: dict[str, Any], warning: str
) -> None:
    imported = read(loop(trajectory=trajectory))
    assert imported.layout.num_free == 26
    assert len(imported.warnings) == 1
    assert warning in imported.warnings[0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("nodes", 0, "nodePosition", "x"), "west", r"layouts\[0\]\.nodes\[0\]\.nodePosition\.x: expected a number"),
        (
            ("nodes", 1, "nodeId"),
            "A",
            r"layouts\[0\]\.nodes\[1\]\.nodeId: expected a nodeId that no node at another place has, got 'A'",
        ),
        (
            ("nodes", 0, "nodePosition"),
            None,
            r"layouts\[0\]\.nodes\[0\]: expected the key 'nodePosition', got the keys",
        ),
        (("edges",), {}, r"layouts\[0\]\.edges: expected a list, got a mapping of 0 keys"),
        (("nodes",), [], r"layouts\[0\]\.edges\[0\]\.startNodeId: expected the id of a node"),
        (("edges",), [], r"expected at least two places with a way there and back, got 5 nodes and 0 lanes"),
    ],
)
def test_import_lif_names_the_key_that_is_wrong(read: Read, path: tuple[Any, ...], value: Any, message: str) -> None:
    document = loop()
    target: Any = document["layouts"][0]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(LayoutError, match=r"hall\.json: " + message):
        read(document)


def test_import_lif_needs_a_fleet_size_and_a_layout(read: Read) -> None:
    with pytest.raises(LayoutError, match=r"hall\.json: expected the number of robots, got none; .*--robots"):
        read(loop(), robots=None)
    with pytest.raises(LayoutError, match=r"hall\.json: expected a LIF file with at least one layout"):
        read({**loop(), "layouts": []})


def test_import_lif_derives_the_stations_that_a_file_lacks_and_says_so(read: Read) -> None:
    document = loop()
    document["layouts"][0]["nodes"][2] = node("C", 8, 4, "inspect")
    imported = read(document)
    assert (len(imported.layout.pickups), len(imported.layout.deliveries)) == (1, 1)
    assert any(note.startswith("deliveries: 1 derived") for note in imported.notes)
    assert imported.warnings == (
        "Derived, because the file gives the roads none: 1 delivery (D). The actions at its nodes are: 'pick' (1), "
        "'inspect' (1), 'startCharging' (1), 'stopCharging' (1). Move them in the layout file; --no-derive-stations "
        "refuses such files.",
    )
    message = (
        r"expected at least one pick-up and one delivery on the roads, got 1 and 0 \(1 chargers\)\. The actions at its "
        r"nodes are: 'pick' \(1\), 'inspect' \(1\), .*--derive-stations"
    )
    with pytest.raises(LayoutError, match=message):
        read(document, derive_stations=False)


def test_import_lif_tells_stations_without_actions_by_their_names(read: Read) -> None:
    document = loop()
    document["layouts"][0]["nodes"][0] = node("A", 0, 0)
    document["layouts"][0]["stations"] = [
        {"stationId": "S1", "interactionNodeIds": ["A"], "stationName": "SOURCE_01"},
        {"stationId": "park_2", "interactionNodeIds": ["B"]},
    ]
    imported = read(document)
    assert imported.layout.pickups.tolist() == [_cell(imported.layout, 7, 1)]
    assert imported.layout.parking.tolist() == [_cell(imported.layout, 7, 9)]
    assert imported.warnings == (
        "Station 'S1' has no action that tells what it is for; by its name it is a pick-up.",
        "Station 'park_2' has no action that tells what it is for; by its name it is a parking place.",
    )


def test_import_lif_takes_a_station_whose_name_says_nothing_for_the_first_place_to_derive(read: Read) -> None:
    document = loop()
    document["layouts"][0]["nodes"][2] = node("C", 8, 4)
    document["layouts"][0]["stations"] = [
        {"stationId": "S1", "interactionNodeIds": ["D"], "stationDescription": {"en": "odd"}}
    ]
    imported = read(document)
    assert imported.layout.deliveries.tolist() == [_cell(imported.layout, 3, 1)]
    assert imported.warnings[0] == "Station 'S1' has neither an action nor a name that tells what it is for."


def test_import_lif_takes_actions_of_edges_for_the_node_where_they_end(read: Read) -> None:
    document = loop()
    document["layouts"][0]["nodes"][0] = node("A", 0, 0)
    document["layouts"][0]["edges"][3] = edge("D", "A", actions=[{"actionType": "pick", "blockingType": "HARD"}])
    imported = read(document)
    assert imported.layout.pickups.tolist() == [_cell(imported.layout, 7, 1)]
    assert imported.warnings == ("Edges have the action 'pick'; it was taken for the node where the edge ends.",)


@pytest.mark.parametrize("version", ["0.11.0", "2.0.0"])
def test_import_lif_reads_the_names_of_version_2_in_a_file_without_origins(read: Read, version: str) -> None:
    old, new = loop(maxSpeed=0.4), lif_2(loop(maxSpeed=0.4))
    document = {
        "metaInformation": {**new["metaInformation"], "lifVersion": version},
        "layouts": new["origins"][0]["layouts"],
    }
    imported = read(document, vehicle_type="maker/AGV")
    assert imported.layout.to_drawing() == read(old).layout.to_drawing()
    assert np.array_equal(imported.layout.speed_limit_mps, read(old).layout.speed_limit_mps, equal_nan=True)


def test_import_lif_reads_an_early_draft_of_version_2(read: Read) -> None:
    text = json.dumps(loop()).replace("vehicleType", "mobileRobotType")
    document = json.loads(text)
    document["metaInformation"]["lifVersion"] = "0.11.0"
    imported = read(document, vehicle_type="AGV")
    assert imported.layout.to_drawing() == read(loop()).layout.to_drawing()
    assert imported.source.endswith("vehicle type 'AGV'")
    with pytest.raises(LayoutError, match=r"hall\.json: vehicle_type: expected one of AGV, got 'Fork'"):
        read(document, vehicle_type="Fork")


def test_import_lif_reads_a_road_of_a_thousand_nodes(read: Read) -> None:
    count = 30
    nodes = [node(f"{x}/{y}", 2.0 * x, 1.5 * y) for x in range(count) for y in range(count)]
    nodes[0], nodes[-1] = node("0/0", 0, 0, "pick"), node(f"{count - 1}/{count - 1}", 58.0, 43.5, "drop")
    edges = [edge(f"{x}/{y}", f"{(x + 1) % count}/{y}") for x in range(count - 1) for y in range(count)]
    edges += [edge(f"{x + 1}/{y}", f"{x}/{y}") for x in range(count - 1) for y in range(count)]
    edges += [edge(f"{x}/{y}", f"{x}/{y + 1}") for x in range(count) for y in range(count - 1)]
    edges += [edge(f"{x}/{y + 1}", f"{x}/{y}") for x in range(count) for y in range(count - 1)]
    layout = read(lif_1(nodes, edges)).layout
    assert layout.cell_size_m == 1.0
    assert layout.num_free > 2 * count * count


@pytest.mark.parametrize(
    ("name", "robots", "shape"),
    [
        ("lif1_10_2_bidirectional-edge.json", 2, (3, 14)),
        ("lif1_10_7_station-with-two-nodes.json", 3, (6, 12)),
        ("lif1_10_13_battery-charging-station.json", 1, (3, 8)),
    ],
)
def test_import_lif_reads_the_examples_of_the_standard(
    public_maps: Path, name: str, robots: int, shape: tuple[int, int]
) -> None:
    with pytest.raises(LayoutError, match=rf"{name}: expected at least one pick-up and one delivery on the roads"):
        read_layout(public_maps / "lif" / name, ImportOptions(derive_stations=False), robots)
    imported = read_layout(public_maps / "lif" / name, None, robots)
    assert imported.layout.blocked.shape == shape
    assert len(imported.layout.pickups) == len(imported.layout.deliveries) == 1
    assert imported.warnings[0] == "lifVersion '0.11.0' is a draft; the names of 1.0 and of 2.0 were both understood."
    assert any(line.startswith("Derived, because the file gives the roads none: 1 ") for line in imported.warnings)


def test_import_lif_parts_the_two_nodes_of_an_example_when_the_cells_are_small(public_maps: Path) -> None:
    path = public_maps / "lif" / "lif1_10_7_station-with-two-nodes.json"
    layout = read_layout(path, ImportOptions(cell_size_m=0.2, vehicle_width_m=0.2), 1).layout
    assert (len(layout.pickups), len(layout.deliveries)) == (1, 1)
