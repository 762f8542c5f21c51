"""Open-RMF buildings and navigation graphs as layouts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from bridge.errors import LayoutError
from bridge.maps import Imported, ImportOptions, read_layout
from bridge.warehouse.layout import EXIT_DOWN, EXIT_RIGHT

Read = Callable[..., Imported]


def _lane(start: int, end: int, both: bool = True, **params: Any) -> list[Any]:
    return [start, end, {"bidirectional": [4, both], "graph_idx": [2, 0], "speed_limit": [3, 0], **params}]


def _building(**root: Any) -> dict[str, Any]:
    """A building of 100 pixels per metre: a corridor with a branch downwards (y grows downwards in pixels)."""
    level = {
        "vertices": [
            [100, 100, 0, "pantry", {"pickup_dispenser": [1, "coke"]}],
            [500, 100, 0, ""],
            [900, 100, 0, "lounge", {"dropoff_ingestor": [1, "table"], "is_parking_spot": [4, False]}],
            [
                500,
                500,
                0,
                "home",
                {"is_charger": [4, True], "is_parking_spot": [4, True], "spawn_robot_name": [1, "r1"]},
            ],
            [900, 500, 0, "waiting", {"is_parking_spot": [4, True]}],
            [0, 0, 0, ""],
            [1000, 0, 0, ""],
        ],
        "lanes": [_lane(0, 1), _lane(1, 2), _lane(1, 3), _lane(3, 4), _lane(4, 2)],
        "walls": [[5, 6, {"alpha": [3, 1]}]],
        "measurements": [[5, 6, {"distance": [3, 10]}]],
    }
    return {"name": "office", "levels": {"L1": level}, "lifts": {}, "graphs": {}, **root}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a document as an Open-RMF file."""

    def read_document(document: Any, robots: int | None = None, **options: Any) -> Imported:
        path = tmp_path / "office.building.yaml"
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        return read_layout(path, ImportOptions(**options), robots)

    return read_document


def test_import_building_turns_pixels_downwards_into_cells(read: Read) -> None:
    imported = read(_building())
    layout = imported.layout
    assert (layout.blocked.shape, layout.cell_size_m) == ((7, 11), 1.0)
    assert layout.to_drawing()[1] == "#S.......E#"
    assert layout.to_drawing()[5] == "#####C...P#"
    assert len(layout.parking) == 1
    assert (imported.num_robots, imported.warnings) == (1, ())
    assert imported.source == "Open-RMF building, level 'L1'"


def test_import_building_reads_metres_with_y_up(read: Read) -> None:
    document = _building(coordinate_system="cartesian_meters")
    level = document["levels"]["L1"]
    level["vertices"] = [[x / 100, -y / 100, *rest] for x, y, *rest in level["vertices"]]
    del level["measurements"]
    imported = read(document)
    assert imported.layout.to_drawing() == read(_building()).layout.to_drawing()
    assert imported.warnings == ()


def test_import_building_flattens_longitudes_and_latitudes(read: Read) -> None:
    document = _building(coordinate_system="wgs84")
    level = document["levels"]["L1"]
    metre = 1 / (np.deg2rad(1.0) * 6_378_137.0)
    level["vertices"] = [
        [float(103.78 + x / 100 * metre / np.cos(np.deg2rad(45))), float(45.0 - y / 100 * metre), *rest]
        for x, y, *rest in level["vertices"]
    ]
    imported = read(document)
    assert imported.layout.to_drawing() == read(_building()).layout.to_drawing()
    assert imported.warnings == ("Longitudes and latitudes were flattened around the middle of the level.",)


def test_import_building_takes_the_stretch_out_of_web_mercator(read: Read) -> None:
    document = _building(coordinate_system="web_mercator")
    level = document["levels"]["L1"]
    radius = 6_378_137.0
    north = float(radius * np.arcsinh(np.tan(np.deg2rad(60))))
    level["vertices"] = [[x / 100 * 2, north - y / 100 * 2, *rest] for x, y, *rest in level["vertices"]]
    assert read(document).layout.to_drawing() == read(_building()).layout.to_drawing()


def test_import_building_takes_the_mean_of_measurements_and_leaves_out_empty_ones(read: Read) -> None:
    document = _building()
    document["levels"]["L1"]["measurements"] += [
        [5, 6, {"distance": [3, 12]}],
        [5, 5, {"distance": [3, 1]}],
        [5, 6, {}],
    ]
    imported = read(document)
    assert imported.layout.width == 2 + 1 + round(8 * 1.1)
    assert imported.warnings == ("A measurement has no distance or no length; it was left out. (2 times.)",)


def test_import_building_takes_five_centimetres_for_a_pixel_when_nothing_is_measured(read: Read) -> None:
    document = _building()
    del document["levels"]["L1"]["measurements"]
    imported = read(document)
    assert imported.layout.width == 2 + 1 + 40
    assert imported.warnings == (
        "Level 'L1' has no measurements; a pixel was taken for 0.05 m. Measure a line in the drawing.",
    )


def test_import_building_borrows_the_scale_of_a_level_with_the_same_fiducials(read: Read) -> None:
    document = _building()
    upper = {**document["levels"]["L1"], "fiducials": [[0, 0, "a"], [200, 0, "b"]]}
    document["levels"]["L1"]["fiducials"] = [[5, 5, "a"], [105, 5, "b"], [0, 0, "c"]]
    del upper["measurements"]
    document["levels"]["L2"] = upper
    imported = read(document, level="L2")
    # 200 pixels there are 100 here, which are 1 m.
    assert imported.layout.width == 2 + 1 + 4
    assert imported.warnings == ("Level 'L2' has no measurements; its scale comes from 'L1' by fiducials.",)


def test_import_building_keeps_one_way_lanes_and_speed_limits(read: Read) -> None:
    document = _building()
    document["levels"]["L1"]["lanes"][2:4] = [_lane(1, 3, both=False, speed_limit=[3, 0.5]), _lane(3, 4, both=False)]
    layout = read(document).layout
    assert layout.exits is not None
    assert layout.exits[2 * layout.width + 5] == EXIT_DOWN
    assert layout.speed_limit_mps is not None
    assert layout.speed_limit_mps[2 * layout.width + 5] == np.float32(0.5)
    assert np.isnan(layout.speed_limit_mps[layout.width + 2])


def test_import_building_joins_two_lanes_of_opposite_directions(read: Read) -> None:
    document = _building()
    lanes = [
        _lane(*ends, both=False)
        for start, end, _ in document["levels"]["L1"]["lanes"]
        for ends in ((start, end), (end, start))
    ]
    twice = read({**document, "levels": {"L1": {**document["levels"]["L1"], "lanes": lanes}}})
    once = read(document)
    assert twice.layout.to_drawing() == once.layout.to_drawing()
    assert np.array_equal(twice.layout.exits, once.layout.exits)


def test_import_building_takes_the_graph_with_most_lanes_or_the_one_asked_for(read: Read) -> None:
    document = _building()
    document["levels"]["L1"]["lanes"].append(_lane(0, 2, graph_idx=[2, 3]))
    imported = read(document)
    assert imported.layout.num_free > 10
    assert imported.warnings == (
        "The level has the graphs 0, 3; 0, the one with the most lanes, was taken. Choose with --graph-index.",
    )
    assert read(document, robots=1, graph_index=3).layout.num_free == 9
    with pytest.raises(LayoutError, match=r"office\.building\.yaml: graph_index: expected one of 0, 3, got 7"):
        read(document, graph_index=7)


def test_import_building_takes_the_level_with_most_lanes_or_the_one_asked_for(read: Read) -> None:
    document = _building()
    document["levels"] = {
        "B1": {"vertices": [[0, 0, 0, ""]], "lanes": []},
        **document["levels"],
        "roof": {"elevation": 9},
    }
    document["levels"]["L1"]["vertices"][0][4]["lift_cabin"] = [1, "Lift1"]
    imported = read(document)
    assert imported.source == "Open-RMF building, level 'L1'"
    assert imported.warnings == (
        "The file has 3 levels; 'L1', the one with the most lanes, was taken. Choose one of B1, L1, roof with --level.",
        "Lifts are not imported: robots stay on the level.",
    )
    with pytest.raises(LayoutError, match=r"level: expected one of B1, L1, roof, got 'L9'"):
        read(document, level="L9")
    with pytest.raises(
        LayoutError, match=r"expected a level with lanes, got Open-RMF building, level 'roof' without any"
    ):
        read(document, level="roof")


def test_import_building_reads_values_with_and_without_types(read: Read) -> None:
    text = yaml.safe_dump(_building())
    plain = _building()
    for vertex in plain["levels"]["L1"]["vertices"]:
        if len(vertex) > 4:
            vertex[4] = {key: value for key, (_, value) in vertex[4].items()}
    for lane in plain["levels"]["L1"]["lanes"]:
        lane[2] = {"bidirectional": "true"}
    assert read(plain).layout.to_drawing() == read(text.replace("\n", "\r\n")).layout.to_drawing()


def test_import_building_reads_names_that_yaml_takes_for_something_else(read: Read) -> None:
    document = yaml.safe_dump(_building()).replace("pantry", "on").replace("lounge", "12").replace("waiting", "Küche")
    assert len(read(document).layout.pickups) == 1


def test_import_building_widens_lanes_up_to_the_walls(read: Read) -> None:
    document = _building()
    narrow = read(document, lane_width_m=1.0).layout
    wide = read(document, lane_width_m=2.8, cell_size_m=1.0).layout
    assert wide.num_free > narrow.num_free + 8
    row = int(wide.pickups[0]) // wide.width
    # The wall runs along one cell above the corridor.
    assert wide.blocked[row - 1].all()
    assert not wide.blocked[row + 1].all()


@pytest.mark.parametrize(
    ("path", "value", "warning"),
    [
        (
            ("walls", 0, 1),
            99,
            r"1 of \d walls were left out\. The first one: levels\.L1\.walls\[0\]\[1\]: expected",
        ),
        (
            ("walls", 0),
            None,
            r"1 of \d walls were left out\. The first one: levels\.L1\.walls\[0\]: expected a list of at least 1",
        ),
        (
            ("lanes", 1, 0),
            99,
            r"1 of 5 lanes were left out\. The first one: levels\.L1\.lanes\[1\]\[0\]: expected a whole number from 0",
        ),
        (("lanes", 1), 7, r"1 of 5 lanes were left out\. .*lanes\[1\]: expected a list of at least 1 values, got 7"),
        (("lanes", 1), [1], r"1 of 5 lanes were left out\. .*lanes\[1\]: expected a list of at least 2 values"),
        (("vertices", 0, 4), [], r"A vertex has a list where its parameters belong; it was taken for no parameters\."),
        (
            ("lanes", 0, 2, "speed_limit"),
            [3, -1.0],
            r"A lane has a speed_limit below zero; it was taken for no limit\.",
        ),
        (
            ("measurements", 1),
            [0, 1, {"distance": [3, 1000.0]}],
            r"The 2 measurements of a level disagree, from \S+ to \S+ m per pixel; their mean, \S+, was taken\.",
        ),
    ],
)
def test_import_building_warns_about_what_it_can_do_without(
    read: Read, path: tuple[Any, ...], value: Any, warning: str
) -> None:
    document = _building()
    level = document["levels"]["L1"]
    level["measurements"].append(level["measurements"][0])
    plain = read(document)
    assert not any(re.match(warning, line) for line in plain.warnings)
    target: Any = level
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    imported = read(document)
    assert [line for line in imported.warnings if re.match(warning, line)]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("lanes",), [[0, 99]], r"levels\.L1\.lanes\[0\]\[1\]: expected a whole number from 0 to 6, got 99"),
        (("lanes", 0, 2), "x", r"levels\.L1\.lanes\[0\]\[2\]: expected a mapping, got 'x'"),
        (
            ("lanes", 0, 2, "speed_limit"),
            [3, "fast"],
            r"lanes\[0\]\[2\]\.speed_limit\[1\]: expected a number, got 'fast'",
        ),
        (("vertices", 2, 1), None, r"levels\.L1\.vertices\[2\]\[1\]: expected a number, got nothing"),
        (("walls",), {}, r"levels\.L1\.walls: expected a list, got a mapping of 0 keys"),
        (
            ("measurements", 0, 2, "distance"),
            [3, -1],
            r"measurements\[0\]\[2\]\.distance: expected a distance that fits",
        ),
        (("vertices",), [], r"levels\.L1\.measurements\[0\]\[0\]: expected a whole number from 0 to -1"),
    ],
)
def test_import_building_names_the_key_that_is_wrong(
    read: Read, path: tuple[Any, ...], value: Any, message: str
) -> None:
    document = _building()
    target: Any = document["levels"]["L1"]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(LayoutError, match=r"office\.building\.yaml: .*" + message):
        read(document)


def test_import_building_refuses_a_coordinate_system_that_it_does_not_know(read: Read) -> None:
    with pytest.raises(LayoutError, match=r"coordinate_system: expected reference_image, .*, got 'polar'"):
        read(_building(coordinate_system="polar"))
    with pytest.raises(LayoutError, match=r"office\.building\.yaml: levels: expected at least one level"):
        read({"levels": {}, "name": "x"})


def test_import_building_derives_stations_at_named_places_unless_it_is_told_not_to(read: Read) -> None:
    document = _building()
    for vertex in document["levels"]["L1"]["vertices"][:3]:
        del vertex[4:]
    with pytest.raises(LayoutError, match=r"got 0 and 0 \(1 chargers\)\. .*--derive-stations"):
        read(document, derive_stations=False)
    imported = read(document)
    layout = imported.layout
    assert imported.warnings[-1].startswith("Derived, because the file gives the roads none: 1 pick-up (")
    assert layout.to_drawing()[1] == "#S.......E#"


NAV_GRAPH = """\
building_name: depot
doors: {}
levels:
  empty:
    lanes: []
    vertices: []
  L1:
    lanes:
    - - 0
      - 1
      - {}
    - - 1
      - 0
      - {speed_limit: 0.4}
    - - 1
      - 2
      - {orientation_constraint: forward}
    - - 2
      - 0
      - {}
    vertices:
    - - 1.0
      - -1.0
      - {name: '', pickup_dispenser: cell_1, dropoff_ingestor: cell_1}
    - - 5.0
      - -1.0
      - {is_charger: true, is_parking_spot: true, name: home, spawn_robot_name: r1}
    - - 1.0
      - -5.0
      - {dropoff_ingestor: cell_2, name: cell_2}
lifts: {}
"""


def test_import_nav_graph_reads_metres_and_directed_lanes(read: Read) -> None:
    imported = read(NAV_GRAPH)
    layout = imported.layout
    assert imported.source == "Open-RMF navigation graph, level 'L1'"
    drawing = layout.to_drawing()
    assert (drawing[1], drawing[5][1]) == ("#S...C#", "E")
    assert layout.exits is not None
    assert layout.exits[layout.width + 3] & EXIT_RIGHT
    assert layout.exits[3 * layout.width + 1] & EXIT_DOWN == 0
    assert layout.speed_limit_mps is not None
    assert imported.warnings[0].startswith("The file has 2 levels; 'L1'")


def test_import_nav_graph_reads_names_as_third_value_in_json(tmp_path: Path) -> None:
    graph = {
        "building_name": "depot",
        "levels": {
            "L1": {
                "vertices": [[0, 0, "IN", {"pickup_dispenser": "a"}], [6, 0, "OUT", {"dropoff_ingestor": "b"}]],
                "lanes": [[0, 1, {"maxSpeed": 0.5}], [1, 0, {"mutex": "m"}]],
            }
        },
    }
    path = tmp_path / "nav_graph.json"
    path.write_text(json.dumps(graph))
    imported = read_layout(path, robots=1)
    assert imported.layout.to_drawing() == ["#########", "#S.....E#", "#########"]
    assert imported.layout.speed_limit_mps is not None
    assert np.nanmax(imported.layout.speed_limit_mps) == np.float32(0.5)
    assert (imported.source, imported.warnings) == ("Open-RMF navigation graph, level 'L1'", ())


def test_import_nav_graph_reads_vertices_and_lanes_without_levels(read: Read) -> None:
    text = "vertices:\n- [0, 0, {name: a}]\n- [6, 0, {name: b}]\nlanes:\n- [0, 1, {}]\n- [1, 0, {}]\n"
    imported = read(text, robots=1)
    assert imported.layout.num_free == 7
    assert imported.warnings[0] == "The file has no levels; its vertices and lanes were taken for the only one."
    with pytest.raises(LayoutError, match="level: expected none, because the file has no levels, got 'L1'"):
        read(text, robots=1, level="L1")


def test_import_building_calls_vertices_without_a_name_by_their_place_in_the_file(read: Read) -> None:
    document = _building()
    level = document["levels"]["L1"]
    level["vertices"] = [*level["vertices"][5:], *([x, y, 0, ""] for x, y in [(0, 500), (600, 500)])]
    level["lanes"], level["walls"], level["measurements"] = [_lane(2, 3)], [], [[0, 1, {"distance": [3, 10]}]]
    imported = read(document, robots=1)
    assert "1 pick-up (#2) and 1 delivery (#3)" in imported.warnings[-1]


def test_import_building_counts_the_robots_of_its_lanes_only(read: Read) -> None:
    document = _building()
    level = document["levels"]["L1"]
    level["vertices"] += [[0, 2000, 0, "", {"spawn_robot_name": [1, "other"]}], [400, 2000, 0, ""]]
    level["lanes"].append(_lane(7, 8, graph_idx=[2, 4]))
    imported = read(document)
    assert imported.num_robots == 1
    assert "1 of 2 robots do not start on these lanes." in imported.warnings


def test_read_layout_says_what_to_do_with_a_file_of_the_site_editor(read: Read) -> None:
    with pytest.raises(LayoutError, match=r"It is a file of Open-RMF's site editor; export its navigation graphs"):
        read({"format_version": "0.1", "anchors": {}, "levels": {1: {"properties": {"name": "L1"}}}, "navigation": {}})


def test_import_nav_graph_refuses_a_graph_index(read: Read) -> None:
    message = (
        r"graph_index: expected no such option with Open-RMF navigation graph, got 0\. It is for Open-RMF building"
    )
    with pytest.raises(LayoutError, match=message):
        read(NAV_GRAPH, graph_index=0)


def test_import_nav_graph_says_that_all_levels_are_empty(read: Read) -> None:
    with pytest.raises(LayoutError, match="expected a level with lanes, got Open-RMF navigation graph, level 'L1'"):
        read("building_name: x\nlevels:\n  L1: {lanes: [], vertices: []}\n")


def test_import_building_reads_the_office_of_the_demos(public_maps: Path) -> None:
    imported = read_layout(public_maps / "rmf" / "office.building.yaml")
    layout = imported.layout
    assert (imported.num_robots, layout.cell_size_m, layout.blocked.shape) == (2, 0.7, (17, 25))
    counts = [len(cells) for cells in (layout.pickups, layout.deliveries, layout.parking, layout.chargers)]
    assert counts == [1, 2, 1, 2]
    assert imported.warnings == ()
