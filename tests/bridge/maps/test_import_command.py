"""``agv-bridge scenarios import`` on every kind of file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.errors import LayoutError
from tests.bridge.maps.lif_files import edge, lif_1, node
from trainers.cli_scenarios import app

LOOP = """\
building_name: loop
levels:
  L1:
    lanes: [[0, 1, {}], [1, 0, {}]]
    vertices: [["0", 0, {pickup_dispenser: a}], [6, 0, {dropoff_ingestor: c, spawn_robot_name: r1}]]
"""


def test_import_command_prints_warnings_and_writes_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    result = CliRunner().invoke(
        app, ["import", str(tmp_path / "loop.yaml"), "--out", str(tmp_path / "out")], catch_exceptions=False
    )
    assert result.exit_code == 0
    assert result.stderr == "warning: A number is written as a string; it was read as a number.\n"
    assert result.stdout.startswith(f"wrote {tmp_path / 'out' / 'scenario.yaml'}; try:")


def test_import_command_hands_every_option_on(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    arguments = ["import", str(tmp_path / "loop.yaml"), "--out", str(tmp_path / "out"), "--robots", "2", "--name", "x"]
    arguments += ["--cell-size-m", "0.5", "--level", "L1", "--vehicle-width-m", "0.4", "--lane-width-m", "0.6"]
    arguments += ["--two-way", "--derive-stations", "--pickups", "1", "--deliveries", "1", "--overwrite"]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    assert "cell_size_m: 0.5" in (tmp_path / "out" / "scenario.yaml").read_text()


def test_import_command_hands_the_unit_on(tmp_path: Path) -> None:
    lif = lif_1([node("A", 0, 0, "pick"), node("B", 900, 0, "drop")], [edge("A", "B"), edge("B", "A")])
    (tmp_path / "hall.json").write_text(json.dumps(lif))
    arguments = ["import", str(tmp_path / "hall.json"), "--out", str(tmp_path / "out"), "--robots", "1", "--unit", "cm"]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    assert "height 3\nwidth 12\n" in (tmp_path / "out" / "layout.map").read_text()


@pytest.mark.parametrize(
    ("option", "name"),
    [
        (["--vehicle-type", "x"], "vehicle_type"),
        (["--graph-index", "0"], "graph_index"),
        (["--map", "x.map"], "map_file"),
        (["--rescale"], "rescale"),
        (["--side", "top"], "deliveries_side"),
        (["--no-keep-marks"], "keep_marks"),
    ],
)
def test_import_command_refuses_options_that_do_not_fit_the_format(
    tmp_path: Path, option: list[str], name: str
) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    with pytest.raises(LayoutError, match=rf"{name}: expected no such option with Open-RMF navigation graph"):
        CliRunner().invoke(
            app, ["import", str(tmp_path / "loop.yaml"), "--out", str(tmp_path / "o"), *option], catch_exceptions=False
        )
    assert not (tmp_path / "o").exists()
