"""A scenario folder from a map file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.errors import LayoutError, ScenarioError
from bridge.maps import StationRules, import_map, load_layout_file
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.warehouse.config import WarehouseConfig

MAP = "\n".join(
    [
        "type octile",
        "height 8",
        "width 12",
        "map",
        "............",
        "............",
        "..@@@@.@@@..",
        "..@@@@.@@@..",
        "............",
        "..@@@@.@@@..",
        "............",
        "............",
        "",
    ]
)


@pytest.fixture
def map_path(tmp_path: Path) -> Path:
    path = tmp_path / "Hall 7 (West).map"
    path.write_text(MAP)
    return path


def test_import_map_writes_a_scenario_that_opens(map_path: Path, tmp_path: Path) -> None:
    path = import_map(map_path, robots=4, out_folder=tmp_path / "out", cell_size_m=1.25)
    assert path == tmp_path / "out" / "scenario.yaml"
    scenario = load_scenario(tmp_path / "out")
    assert scenario.name == "hall-7-west"
    assert isinstance(scenario.config, WarehouseConfig)
    assert scenario.config.num_robots == 4
    assert scenario.config.layout.cell_size_m == 1.25
    assert open_world(scenario).spec.roles[0].num_slots == 4


def test_import_map_says_in_the_header_which_rules_derived_what(map_path: Path, tmp_path: Path) -> None:
    path = import_map(
        map_path, robots=4, out_folder=tmp_path / "out", rules=StationRules(num_pickups=3, num_deliveries=2)
    )
    lines = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert lines[0] == "# 4 robots on a floor imported from Hall 7 (West).map"
    assert max(map(len, lines)) <= 100
    header = " ".join(line.removeprefix("#").strip() for line in lines)
    assert "- pick-ups: 3 of 10 cells beside racks in the storage area" in header
    assert "- deliveries: 2 cells, evenly spaced along the border (left-right)" in header
    layout = load_layout_file(tmp_path / "out" / "layout.map", 1.0)
    assert (len(layout.pickups), len(layout.deliveries), len(layout.parking)) == (3, 2, 4)


def test_import_map_keeps_the_name_that_it_is_given(map_path: Path, tmp_path: Path) -> None:
    path = import_map(map_path, robots=2, out_folder=tmp_path / "out", name="hall_west")
    assert load_scenario(path).name == "hall_west"


def test_import_map_refuses_a_name_that_a_scenario_cannot_have(map_path: Path, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"import: name: expected .* got 'Hall West'\. Use lower case"):
        import_map(map_path, robots=2, out_folder=tmp_path / "out", name="Hall West")
    assert not (tmp_path / "out").exists()


def test_import_map_replaces_an_earlier_import_only_when_it_is_told_to(map_path: Path, tmp_path: Path) -> None:
    path = import_map(map_path, robots=2, out_folder=tmp_path / "out")
    with pytest.raises(ScenarioError, match=r"scenario\.yaml: expected no such file yet, got one\. Choose another"):
        import_map(map_path, robots=3, out_folder=tmp_path / "out")
    assert "2 robots" in path.read_text()
    import_map(map_path, robots=3, out_folder=tmp_path / "out", overwrite=True)
    assert "3 robots" in path.read_text()


def test_import_map_writes_nothing_when_the_map_has_no_room(map_path: Path, tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match=r"Hall 7 \(West\)\.map: expected room for 500 robots"):
        import_map(map_path, robots=500, out_folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["warehouse-10-20-10-2-1.map", "random-32-32-10.map"])
def test_import_map_makes_a_scenario_of_64_robots_from_real_maps(public_maps: Path, tmp_path: Path, name: str) -> None:
    import_map(public_maps / "movingai" / name, robots=64, out_folder=tmp_path)
    scenario = load_scenario(tmp_path)
    assert scenario.name == name.removesuffix(".map")
    assert open_world(scenario).spec.roles[0].num_slots == 64
