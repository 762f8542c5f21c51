"""Problems of the League of Robot Runners as layouts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import LayoutError
from bridge.maps import Imported, ImportOptions, StationRules, import_layout, read_layout
from bridge.scenario import load_scenario
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.config_randomisation import ExecutionDelayConfig

MAP = "type octile\nheight 4\nwidth 6\nmap\nS....E\n..@@..\n......\n@@@@.@\n"
AGENTS = "# version for LoRR 2026\n3\n0\n6\n# the last one\n12\n"
TASKS = "# version for LoRR 2026\n4\n1,5\n1,7,11\n13, 17 \n5,16\n"
PROBLEM = {
    "mapFile": "maps/floor.map",
    "agentFile": "agents/a.agents",
    "taskFile": "tasks/a.tasks",
    "teamSize": 2,
    "numTasksReveal": 1.5,
}

Read = Callable[..., Imported]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a problem with these parts."""

    def read_problem(
        robots: int | None = None, agents: str = AGENTS, tasks: str = TASKS, options: Any = None, **keys: Any
    ) -> Imported:
        folder = tmp_path / "problem"
        for name, text in (("maps/floor.map", MAP), ("agents/a.agents", agents), ("tasks/a.tasks", tasks)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        document = {key: value for key, value in (PROBLEM | keys).items() if value is not None}
        (folder / "p.json").write_text(json.dumps(document))
        return read_layout(folder / "p.json", options, robots)

    return read_problem


def test_import_lorr_takes_first_errands_for_pickups_and_last_ones_for_deliveries(read: Read) -> None:
    imported = read()
    layout = imported.layout
    # Cell 5 is an end of one task and the beginning of another: as often as not, so a pick-up.
    assert layout.pickups.tolist() == [1, 5, 13]
    assert layout.deliveries.tolist() == [11, 16]
    assert layout.parking.tolist() == [0, 6]
    assert imported.num_robots == 2
    assert "1 of 4 tasks have more than two errands; only their first and last ones were taken." in imported.warnings
    assert any("letters S and E of the map were not used" in note for note in imported.notes)


def test_import_lorr_parks_as_many_robots_as_it_is_told(read: Read) -> None:
    assert read(robots=3).layout.parking.tolist() == [0, 6, 12]
    assert "The problem has 3 agents for 5 robots; the others start on free cells." in read(teamSize=5).warnings


def test_import_lorr_takes_the_busiest_cells_when_fewer_are_wanted(read: Read) -> None:
    layout = read(options=ImportOptions(stations=StationRules(num_pickups=1, num_deliveries=1))).layout
    assert layout.pickups.tolist() == [1]
    assert len(layout.deliveries) == 1


def test_import_lorr_reads_windows_files_and_blank_lines(read: Read) -> None:
    windows = read(
        agents=AGENTS.replace("\n", "\r\n") + "\r\n\r\n", tasks=TASKS.replace("\n", "\r\n"), mapFile="maps\\floor.map"
    )
    assert windows.layout.to_drawing() == read().layout.to_drawing()


def test_import_lorr_pairs_tasks_of_one_errand(read: Read) -> None:
    imported = read(tasks="4\n1\n5\n7\n11\n")
    assert (imported.layout.pickups.tolist(), imported.layout.deliveries.tolist()) == ([1, 7], [5, 11])
    assert "Tasks have one errand each; every second one was taken for a delivery." in imported.warnings


DELAYS = {"seed": 0, "minDelay": 1, "maxDelay": 4, "eventModel": "poisson", "pDelay": 0.01, "durationModel": "gaussian"}


def test_import_lorr_says_what_a_layout_cannot_hold(read: Read) -> None:
    imported = read(delayConfig=DELAYS, agentCounter=3)
    assert imported.delays is None
    assert (
        "delayConfig (execution delays) counts ticks, of which an action takes several, and was not imported."
        in imported.warnings
    )
    assert "agentCounter (ticks per action) is not part of a layout and was not imported." in imported.warnings


def test_import_lorr_knows_ticks_by_their_earlier_name(read: Read) -> None:
    imported = read(delayConfig=DELAYS, maxCounter=3)
    assert imported.delays is None
    assert "maxCounter (ticks per action) is not part of a layout and was not imported." in imported.warnings


def test_import_lorr_asks_for_no_team_size_when_it_is_told_the_robots(read: Read) -> None:
    assert read(robots=1, teamSize=1_000_000).num_robots == 1


@pytest.mark.parametrize("ticks", [None, 1])
def test_import_lorr_keeps_execution_delays_with_the_ratios_that_they_state(read: Read, ticks: int | None) -> None:
    ratios = {"gaussMeanRatio": 0.25, "gaussStdRatio": 0.35}
    wanted = {"probability": 0.01, "events": "poisson", "min_steps": 1, "max_steps": 4, "duration": "gaussian"}
    assert read(agentCounter=ticks, delayConfig=DELAYS | ratios).delays == ExecutionDelayConfig.model_validate(
        wanted | {"mean_ratio": 0.25, "std_ratio": 0.35}
    )
    # Without a ratio all delays are of mean length there.
    assert read(delayConfig=DELAYS).delays == ExecutionDelayConfig.model_validate(wanted | {"std_ratio": 0.0})


def test_import_lorr_leaves_ratios_of_uniform_delays_and_delays_that_never_come(read: Read) -> None:
    uniform = DELAYS | {"durationModel": "uniform", "gaussStdRatio": 0.35}
    delays = read(delayConfig=uniform).delays
    assert delays is not None
    assert (delays.duration, delays.std_ratio) == ("uniform", 0.22)
    assert read(delayConfig=DELAYS | {"pDelay": 0.0}).delays is None


def test_import_lorr_writes_delays_into_the_scenario(read: Read, tmp_path: Path) -> None:
    wanted = read(delayConfig=DELAYS | {"gaussStdRatio": 0.35}).delays
    path = import_layout(tmp_path / "problem" / "p.json", out_folder=tmp_path / "out").path
    config = load_scenario(path).config
    assert isinstance(config, WarehouseConfig)
    assert config.randomisation is not None
    assert config.randomisation.execution_delays == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eventModel": "binomial"}, r"delayConfig\.eventModel: expected 'bernoulli' or 'poisson', got 'binomial'"),
        ({"minDelay": 5}, r"delayConfig: expected possible delays.*expected min_steps <= max_steps"),
        ({"pDelay": 1.5}, r"delayConfig: expected possible delays.*probability"),
        ({"maxDelay": 0}, r"delayConfig\.maxDelay: expected a whole number from 1"),
    ],
)
def test_import_lorr_refuses_delays_that_cannot_be(read: Read, change: dict[str, Any], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        read(delayConfig=DELAYS | change)


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.map", "maps/../../secret.map", "..\\secret.map"])
def test_import_lorr_reads_nothing_outside_its_folder(read: Read, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.map").write_text(MAP)
    with pytest.raises(LayoutError, match=r"p\.json: mapFile: expected a path inside the problem's folder, got "):
        read(mapFile=name)


def test_import_lorr_follows_no_link_out_of_its_folder(read: Read, tmp_path: Path) -> None:
    (tmp_path / "secret.map").write_text(MAP)
    read()
    (tmp_path / "problem" / "link.map").symlink_to(tmp_path / "secret.map")
    with pytest.raises(LayoutError, match=r"mapFile: expected a path inside the problem's folder"):
        read(mapFile="link.map")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mapFile": None}, r"p\.json: expected the key 'mapFile', got the keys agentFile, taskFile"),
        ({"mapFile": "maps/gone.map"}, r"p\.json: mapFile: expected a file in .*, got 'maps/gone\.map'"),
        ({"mapFile": "a\0b"}, r"p\.json: mapFile: expected the path of a file"),
        ({"mapFile": 7.5}, r"p\.json: mapFile: expected a file in "),
        ({"teamSize": 0}, r"p\.json: teamSize: expected a whole number from 1 to 50000, got 0"),
        ({"teamSize": None}, r"p\.json: expected the number of robots, got none"),
        ({"agents": "5\n0\n6\n"}, r"a\.agents: line 1: expected 5 rows as it says, got 2"),
        (
            {"agents": "2\n0\n8\n"},
            r"a\.agents: line 3: expected a free cell, got 8 \(row 1, column 2\), which is blocked",
        ),
        ({"agents": "2\n0\n24\n"}, r"a\.agents: line 3: expected a whole number from 0 to 23, got '24'"),
        ({"agents": "# nothing\n"}, r"a\.agents: expected the number of rows in the first line, got an empty file"),
        ({"tasks": "2\n1,5\n1;5\n"}, r"a\.tasks: line 3: expected a whole number from 0 to 23, got '1;5'"),
        ({"tasks": "2\n1,5\n1,-5\n"}, r"a\.tasks: line 3: expected a whole number from 0 to 23, got '-5'"),
        (
            {"tasks": "0\n"},
            r"p\.json: expected at least one pick-up and one delivery that robots can reach, got 0 and 0",
        ),
    ],
)
def test_import_lorr_names_the_key_or_line_that_is_wrong(read: Read, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        read(**changes)


def test_import_lorr_reads_a_real_problem(public_maps: Path) -> None:
    imported = read_layout(public_maps / "lorr" / "random.domain" / "random-example_400.json")
    layout = imported.layout
    assert imported.num_robots == 400
    assert (len(layout.pickups), len(layout.deliveries)) == (256, 64)
    # The first agent starts at cell 1426, which is no station.
    assert 1426 in layout.parking
