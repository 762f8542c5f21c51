"""Which format a file is of, which options fit it, and what becomes of every real file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from bridge.errors import LayoutError
from bridge.maps import ImportOptions, StationRules, import_layout, load_layout_file, read_layout
from bridge.maps.import_options import FORMATS
from bridge.registry import open_world
from bridge.scenario import load_scenario

MAP = "type octile\nheight 4\nwidth 6\nmap\n......\n..@@..\n......\n......\n"
NAV_GRAPH = """\
{building_name: Zone 5, levels: {L1: {lanes: [[0, 1, {}], [1, 0, {}]], vertices: [
  [0, 0, {name: "in\\nschema: 7", pickup_dispenser: p}], [9, 0, {name: out, dropoff_ingestor: d}]]}}}
"""


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.json",
            b"{}",
            r"a\.json: expected one of the formats MovingAI \.map, .*got a mapping of 0 keys\. It is empty",
        ),
        ("a.json", b'{"roads": 1}', r"a\.json: expected one of the formats .* Its keys are roads"),
        (
            "a.yaml",
            b"schema: 1\nworld: warehouse\n",
            r"a\.yaml: expected one of the formats .* It is a scenario already",
        ),
        (
            "a.yaml",
            b"image: a.pgm\nresolution: 0.05\norigin: [0, 0, 0]\n",
            r"It is an occupancy map, which has no lanes",
        ),
        ("a.txt", b"hello", r"a\.txt: expected one of the formats .*got 'hello'"),
        ("a.bin", bytes(range(256)), r"a\.bin: "),
        ("a.json", b"", r"a\.json: expected one of the formats .*got nothing"),
        ("a.tasks", b"3\n1,2\n", r"a\.tasks: expected a map file, got a part of a problem\. Import the JSON file"),
    ],
)
def test_read_layout_says_what_a_file_of_no_known_format_has(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LayoutError, match=message):
        read_layout(tmp_path / name, None, 2)


def test_read_layout_refuses_documents_that_are_too_large(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(LayoutError, match=r"a\.yaml: expected at most 16777216 bytes, got more"):
        read_layout(tmp_path / "a.yaml", None, 2)
    with pytest.raises(LayoutError, match=r"none\.yaml: expected a map file that can be read, got: No such file"):
        read_layout(tmp_path / "none.yaml", None, 2)


@pytest.mark.parametrize("name", ["floor.map", "floor.txt", "floor"])
def test_read_layout_knows_a_map_by_its_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + MAP.encode())
    assert read_layout(tmp_path / name, None, 2).source == "MovingAI .map"


@pytest.mark.parametrize(
    ("letters", "keep_marks", "num_pickups", "warning"),
    [
        ("W", None, 4, "6 cells with S were taken for swamp, that is for floor, because the map has W or O"),
        ("O", None, 4, "6 cells with S were taken for swamp"),
        ("T", None, 6, "6 cells with S were taken for pick-ups, but the map has no E. In maps of games S is swamp"),
        ("WE", None, 6, None),
        ("W", True, 6, None),
        ("T", False, 4, None),
    ],
)
def test_read_layout_tells_swamp_of_games_from_pickups(
    tmp_path: Path, letters: str, keep_marks: bool | None, num_pickups: int, warning: str | None
) -> None:
    rows = ["........", ".SSS.SSS", "..@@@@..", "........", "........", "." * (8 - len(letters)) + letters]
    (tmp_path / "a.map").write_text("\n".join(["type octile", "height 6", "width 8", "map", *rows]))
    imported = read_layout(tmp_path / "a.map", ImportOptions(stations=StationRules(keep_marks=keep_marks)), 2)
    assert len(imported.layout.pickups) == num_pickups
    assert [line[: len(warning or "")] for line in imported.warnings] == ([warning] if warning else [])


def test_read_layout_hands_warnings_of_the_map_on_from_files_that_name_it(tmp_path: Path) -> None:
    (tmp_path / "a.map").write_text(MAP.replace("\n......", "\n...... ", 1))
    (tmp_path / "a.scen").write_text("version 1\n0\ta.map\t6\t4\t0\t0\t5\t0\t5\n1\ta.map\t6\t4\t1\t0\t5\t3\t5\n")
    assert "Rows have blanks behind their cells." in read_layout(tmp_path / "a.scen", None, 1).warnings
    assert read_layout(tmp_path / "a.map", None, 2).warnings == ("Rows have blanks behind their cells.",)


@pytest.mark.parametrize(
    ("option", "value", "formats"),
    [
        ("level", "L1", {"lif", "building", "nav_graph"}),
        ("vehicle_type", "AGV", {"lif"}),
        ("graph_index", 0, {"building"}),
        ("map_file", Path("x.map"), {"scen"}),
        ("rescale", True, {"scen"}),
        ("two_way", True, {"lif", "building", "nav_graph"}),
        ("derive_stations", False, {"lif", "building", "nav_graph"}),
        ("vehicle_width_m", 0.5, {"lif", "building", "nav_graph"}),
        ("lane_width_m", 2.0, {"lif", "building", "nav_graph"}),
        ("cell_size_m", 0.5, set(FORMATS)),
        ("stations", StationRules(keep_marks=False), {"map"}),
        ("stations", StationRules(deliveries_side="top"), {"map"}),
        ("stations", StationRules(num_pickups=3), set(FORMATS)),
    ],
)
def test_import_options_are_refused_where_they_mean_nothing(option: str, value: Any, formats: set[str]) -> None:
    options = ImportOptions(**{option: value})
    (name,) = options.given()
    for key, known in FORMATS.items():
        if key in formats:
            known.check(options, "a")
        else:
            with pytest.raises(
                LayoutError, match=rf"a: {name}: expected no such option with {known.name}, got .* for "
            ):
                known.check(options, "a")


def test_import_options_are_all_of_use_to_some_format() -> None:
    names = {field.name for cls in (ImportOptions, StationRules) for field in dataclasses.fields(cls)} - {"stations"}
    assert names == set().union(*(known.takes for known in FORMATS.values()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell_size_m": 0.0}, r"import: cell_size_m: expected a length from 0\.01 to 100 m, got 0\.0"),
        ({"cell_size_m": float("nan")}, r"import: cell_size_m: expected a length .*got nan"),
        ({"vehicle_width_m": 50.0}, r"import: vehicle_width_m: expected a length from 0\.05 to 20 m, got 50\.0"),
        (
            {"lane_width_m": 0.5},
            r"import: lane_width_m: expected a width from 0\.7 m, the vehicle's, to 100 m, got 0\.5",
        ),
    ],
)
def test_import_options_are_lengths_that_exist(options: dict[str, float], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        ImportOptions(**options)  # type: ignore[arg-type]


def test_import_layout_writes_a_scenario_whose_name_yaml_would_take_for_a_number(tmp_path: Path) -> None:
    (tmp_path / "0.yaml").write_text(NAV_GRAPH)
    imported = import_layout(tmp_path / "0.yaml", out_folder=tmp_path / "out", robots=2)
    scenario = load_scenario(imported.path)
    assert scenario.name == "0"
    # Names of strangers stay in the comments.
    assert open_world(scenario).spec.roles[0].num_slots == 2


def test_import_layout_refuses_cells_in_which_the_vehicles_of_a_road_overlap(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NAV_GRAPH)
    message = (
        r"a\.yaml: cell_size_m: expected at least the width of a vehicle, 0\.7 m, .*, got 0\.3\. Raise it, or lower"
    )
    with pytest.raises(LayoutError, match=message):
        read_layout(tmp_path / "a.yaml", ImportOptions(cell_size_m=0.3), 1)


def test_import_layout_gives_robots_the_width_of_the_vehicle_or_what_fits_into_a_cell(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NAV_GRAPH)
    (tmp_path / "a.map").write_text(MAP)

    def radius_m(name: str, **options: Any) -> tuple[float, tuple[str, ...]]:
        imported = import_layout(
            tmp_path / name, out_folder=tmp_path / "out", robots=2, options=ImportOptions(**options), overwrite=True
        )
        fleet = yaml.safe_load(imported.path.read_text())["warehouse"]["fleet"]
        return fleet[0].get("radius_m", 0.35), imported.warnings

    assert radius_m("a.yaml") == (0.35, ())
    assert radius_m("a.yaml", vehicle_width_m=1.2) == (0.6, ())
    assert radius_m("a.yaml", cell_size_m=0.2, vehicle_width_m=0.2) == (0.09, ())
    sentence = "Robots have a radius of 0.135 m instead of 0.35 m, to fit into cells of 0.3 m."
    assert radius_m("a.map", cell_size_m=0.3) == (0.135, (sentence,))


def test_import_layout_writes_warnings_and_notes_into_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NAV_GRAPH.replace("[9, 0,", '["9", 0,'))
    imported = import_layout(tmp_path / "a.yaml", out_folder=tmp_path / "out", robots=1)
    assert imported.warnings == ("A number is written as a string; it was read as a number.",)
    header = [line for line in imported.path.read_text().splitlines() if line.startswith("#")]
    assert "# Format: Open-RMF navigation graph, level 'L1'." in header
    assert "# - A number is written as a string; it was read as a number." in header
    assert max(map(len, header)) <= 100


def test_import_layout_keeps_exits_and_limits_in_the_layout_file(tmp_path: Path) -> None:
    loop = """\
building_name: loop
levels:
  L1:
    lanes: [[0, 1, {speed_limit: 0.25}], [1, 2, {}], [2, 3, {}], [3, 0, {}]]
    vertices:
      - [0, 0, {pickup_dispenser: a, name: a}]
      - [6, 0, {name: b}]
      - [6, 5, {dropoff_ingestor: c, name: c}]
      - [0, 5, {name: d}]
"""
    (tmp_path / "loop.yaml").write_text(loop)
    layout = read_layout(tmp_path / "loop.yaml", None, 1).layout
    imported = import_layout(tmp_path / "loop.yaml", out_folder=tmp_path / "out", robots=1)
    again = load_layout_file(imported.path.parent / "layout.map", 1.0)
    assert layout.exits is not None
    assert np.array_equal(again.exits, layout.exits)
    assert np.array_equal(again.speed_limit_mps, layout.speed_limit_mps, equal_nan=True)
    assert open_world(load_scenario(imported.path)).spec.roles[0].num_slots == 1


def test_import_layout_says_why_a_layout_cannot_be_simulated_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NAV_GRAPH)
    message = r"a\.yaml: warehouse\.fleet: expected at most 8 robots .*got 9\. Lower a count"
    with pytest.raises(LayoutError, match=message):
        import_layout(tmp_path / "a.yaml", out_folder=tmp_path / "out", robots=9)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "robots", "options"),
    [
        ("movingai/warehouse-10-20-10-2-1.map", 64, {}),
        ("movingai/random-32-32-10.map", 16, {}),
        ("movingai/random-32-32-10-random-1.scen", 32, {}),
        ("lorr/random.domain/random-example_400.json", None, {}),
        ("lorr/random.domain/maps/random-64-64-10.map", 100, {}),
        ("lif/lif1_10_2_bidirectional-edge.json", 2, {}),
        ("lif/lif1_10_7_station-with-two-nodes.json", 3, {}),
        ("lif/lif1_10_7_station-with-two-nodes.json", 3, {"cell_size_m": 0.2, "vehicle_width_m": 0.2}),
        ("lif/lif1_10_13_battery-charging-station.json", 1, {}),
        ("rmf/office.building.yaml", None, {}),
        ("rmf/office.building.yaml", 8, {"vehicle_width_m": 0.4, "lane_width_m": 1.5, "two_way": True}),
    ],
)
def test_import_layout_makes_a_scenario_that_opens_from_every_real_file(
    public_maps: Path, tmp_path: Path, name: str, robots: int | None, options: dict[str, Any]
) -> None:
    imported = import_layout(public_maps / name, out_folder=tmp_path, robots=robots, options=ImportOptions(**options))
    world = open_world(load_scenario(imported.path))
    assert robots is None or world.spec.roles[0].num_slots == robots
