"""Scenario files: what is read, and what is said about a file that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import AgvBridgeError, ScenarioError
from bridge.maps import load_layout_file
from bridge.registry import open_world
from bridge.scenario import (
    MAX_SCENARIO_BYTES,
    find_scenario,
    load_scenario,
    resolve_inside,
    shipped_scenarios,
)
from bridge.warehouse.config import WarehouseConfig

SCENARIO = """\
schema: 1
world: warehouse
warehouse:
  layout:
    grid: |
      P....E
      P.##..
      ..##S.
      ......
  fleet:
    - {role: carrier, count: 2}
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a scenario file and return its path."""

    def write_text(text: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_text


def _changed(old: str, new: str) -> str:
    assert SCENARIO.count(old) == 1
    return SCENARIO.replace(old, new)


# What is read.


def test_load_scenario_reads_a_file_and_fills_in_the_defaults(write: Write) -> None:
    scenario = load_scenario(write(SCENARIO))
    assert (scenario.name, scenario.world, scenario.train) == ("mine", "warehouse", {})
    assert isinstance(scenario.config, WarehouseConfig)
    assert scenario.config.num_robots == 2
    assert scenario.config.contact.rule == "block"


def test_load_scenario_reads_the_file_of_a_folder(write: Write, tmp_path: Path) -> None:
    write(SCENARIO).rename(tmp_path / "scenario.yaml")
    assert load_scenario(tmp_path).path == (tmp_path / "scenario.yaml").resolve()


def test_load_scenario_reads_a_file_that_begins_with_a_byte_order_mark(write: Write) -> None:
    assert load_scenario(write("\ufeff" + SCENARIO)).world == "warehouse"


@pytest.mark.parametrize(("text", "value"), [("1e-3", 1e-3), ("5E2", 500.0), ("-1.e+2", -100.0), ("1.5e-3", 1.5e-3)])
def test_load_scenario_reads_exponents_as_numbers_without_dot_or_sign(write: Write, text: str, value: float) -> None:
    assert load_scenario(write(SCENARIO + f"train: {{x: {text}}}\n")).train == {"x": value}


@pytest.mark.parametrize("text", ["1e", "e3", "1e3x", "v1e3"])
def test_load_scenario_leaves_text_that_is_no_exponent_alone(write: Write, text: str) -> None:
    assert load_scenario(write(SCENARIO + f"train: {{x: {text}}}\n")).train == {"x": text}


# Files that cannot be read.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"mine\.yaml: expected a mapping with the keys 'schema' and 'world', got an empty file\. See docs"),
        ("- 1\n", r"mine\.yaml: expected a mapping with the keys 'schema' and 'world', got a list\."),
        ("just text", r"mine\.yaml: expected a mapping with the keys 'schema' and 'world', got a str\."),
        ("schema: 1\nworld: [a\n", r"mine\.yaml: line 3, column 1: expected YAML, got: expected ',' or ']'"),
        ("a: 1\n\tb: 2\n", r"mine\.yaml: line 2, column 1: expected YAML, got: found character '\\t'"),
        ("a: 1\nb: 2\na: 3\n", r"mine\.yaml: line 3, column 1: expected YAML, got: the key 'a' for the second time\."),
        ("a: {b: 1, b: 2}\n", r"mine\.yaml: line 1, column 11: expected YAML, got: the key 'b' for the second time\."),
        (
            "a: &x 1\nb: *x\n",
            r"mine\.yaml: line 2, column 4: expected YAML, got: an alias, which scenarios may not have",
        ),
        ("? [1, 2]\n: 3\n", r"mine\.yaml: line 1, column 3: expected YAML, got: a key that is a list or a mapping\."),
        ("a: !!python/object:os.system x\n", r"mine\.yaml: line 1, column 4: expected YAML, got: could not determine"),
        ("[" * 100_000, r"mine\.yaml: expected YAML that is nested a few levels deep, got too many levels\."),
    ],
)
def test_load_scenario_names_the_place_when_the_file_is_no_yaml_of_ours(write: Write, text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        load_scenario(write(text))


def test_load_scenario_refuses_bytes_that_are_no_utf_8(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"schema: 1\nname: \xff\n")
    with pytest.raises(ScenarioError, match=r"mine\.yaml: expected text in UTF-8, got byte 16 of another encoding\."):
        load_scenario(tmp_path / "mine.yaml")


def test_load_scenario_refuses_an_oversized_file_without_parsing_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_SCENARIO_BYTES + 1)
    with pytest.raises(ScenarioError, match=rf"mine\.yaml: expected at most {MAX_SCENARIO_BYTES} bytes, got more\."):
        load_scenario(path)


def test_find_scenario_suggests_a_shipped_one_when_the_name_is_near(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"got 'warehouse_smal'\. Did you mean 'warehouse_small'\?"):
        find_scenario("warehouse_smal")
    with pytest.raises(ScenarioError, match=r"expected a file or one of the shipped scenarios .*warehouse_small"):
        find_scenario(tmp_path)


# Files whose content is wrong.


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema: 1", "schema: 2", r"mine\.yaml: schema: expected 1, got 2\."),
        ("schema: 1\n", "", r"mine\.yaml: schema: expected a value, got none\. Add the key\."),
        (
            "world: warehouse",
            "world: warehose",
            r"world: expected one of warehouse, unity, .*, got 'warehose'\. Did you",
        ),
        ("world: warehouse", "world: [a]", r"mine\.yaml: world: expected a string, got \['a'\]\."),
        ("world: warehouse\n", "", r"mine\.yaml: world: expected a value, got none\. Add the key\."),
        ("schema: 1", "schema: 1\nname: My Hall", r"mine\.yaml: name: expected text that matches .*, got 'My Hall'\."),
        (
            "schema: 1",
            "schema: 1\ntrian: {}",
            r"trian: expected one of the keys .*, got 'trian'\. Did you mean 'train'\?",
        ),
        ("schema: 1", "schema: 1\nmpe: {}", r"mine\.yaml: mpe: expected no section of another world than 'warehouse'"),
        ("schema: 1", "schema: 1\n3: {}", r"mine\.yaml: 3: expected one of the keys schema, .*, got 3\."),
        ("count: 2", "count: -3", r"mine\.yaml: warehouse\.fleet\[0\]\.count: expected a value >= 1, got -3\."),
        ("count: 2", "count: '2'", r"fleet\[0\]\.count: expected an integer, got '2'\. Remove the quotes\."),
        ("count: 2", "count: 2.5", r"fleet\[0\]\.count: expected an integer, got 2\.5\."),
        (
            "count: 2",
            "count: ",
            r"fleet\[0\]\.count: expected an integer, got null\. Give it a value, or remove the key",
        ),
        (
            "count: 2",
            "cuont: 2",
            r"fleet\[0\]\.cuont: expected one of the keys .*, got 'cuont'\. Did you mean 'count'\?",
        ),
        (
            "count: 2",
            "count: 2, role: b",
            r"line 11, column 33: expected YAML, got: the key 'role' for the second time",
        ),
        ("role: carrier", "role: true", r"fleet\[0\]\.role: expected a string, got true\. Put it in quotes\."),
    ],
)
def test_load_scenario_names_key_and_remedy_when_a_value_is_wrong(
    write: Write, old: str, new: str, message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        load_scenario(write(_changed(old, new)))


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        (
            "drive: {kind: gird}",
            r"warehouse\.drive: expected 'kind' to be one of .*, got 'gird'\. Did you mean 'grid'\?",
        ),
        (
            "drive: {step_s: 1}",
            r"warehouse\.drive: expected the key 'kind' with one of differential, grid, grid_heading, got none\.",
        ),
        (
            "drive: {kind: grid, step: 1}",
            r"warehouse\.drive\.step: expected one of .*, got 'step'\. Did you mean 'step_s'",
        ),
        ("drive: {kind: grid, step_s: 0}", r"warehouse\.drive\.step_s: expected a value >= 0\.001, got 0\."),
        ("observation: []", r"warehouse\.observation: expected a list of length >= 1, got one of length 0\."),
        (
            "observation: {block: self}",
            r"warehouse\.observation: expected a list, got .*\. Begin each element with '- '",
        ),
        (
            "observation: [{block: lidar, beams: 2}]",
            r"warehouse\.observation\[0\]\.beams: expected a value >= 4, got 2\.",
        ),
        (
            "tasks: {arrival: backlogs}",
            r"tasks\.arrival: expected one of backlog, poisson, list, got 'backlogs'\. Did you mean",
        ),
        (
            "mask_blocked_moves: 1",
            r"warehouse\.mask_blocked_moves: expected true or false, got 1\. Write true or false",
        ),
        ("reward: {delivery: .nan}", r"warehouse\.reward\.delivery: expected a finite number, got nan\."),
        ("contact: {respawn_after_s: 3}", r"warehouse\.contact: expected no respawn_after_s with rule 'block', got 3"),
        ("tasks:", r"warehouse\.tasks: expected a mapping, got null\. Give it a value, or remove the key\."),
    ],
)
def test_load_scenario_uses_the_keys_of_the_file_when_a_section_is_wrong(
    write: Write, addition: str, message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        load_scenario(write(SCENARIO + f"  {addition}\n"))


def test_load_scenario_reports_all_faults_of_a_file_together(write: Write) -> None:
    text = _changed("count: 2", "count: two").replace("schema: 1", "schema: 7\nextra: 1")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(text + "  drive: {kind: grid, speed: 1}\n  episode_steps: 0\n"))
    lines = str(caught.value).splitlines()
    keys = [line.split("mine.yaml: ")[1].split(": ")[0] for line in lines]
    assert sorted(keys) == [
        "extra",
        "schema",
        "warehouse.drive.speed",
        "warehouse.episode_steps",
        "warehouse.fleet[0].count",
    ]


def test_load_scenario_does_not_count_wrong_elements_as_absent(write: Write) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(_changed("count: 2", "count: two")))
    assert len(str(caught.value).splitlines()) == 1


# Files that a scenario names.


@pytest.mark.parametrize("relative", ["../secret.map", "a/../../secret.map", "link.map", "linked/secret.map"])
def test_resolve_inside_refuses_a_path_that_leaves_the_folder(tmp_path: Path, relative: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.map").write_text("secret")
    (folder / "link.map").symlink_to(tmp_path / "secret.map")
    (folder / "linked").symlink_to(tmp_path)
    with pytest.raises(ScenarioError, match=r"f: expected a path inside the scenario's folder, got '.*secret|link"):
        resolve_inside(folder, relative, "f")


def test_resolve_inside_refuses_an_absolute_path_even_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.map").write_text("")
    with pytest.raises(ScenarioError, match=r"expected a path inside the scenario's folder, got '/.*a\.map'\. Put the"):
        resolve_inside(tmp_path, str(tmp_path / "a.map"), "f")


def test_resolve_inside_finds_files_of_the_folder_and_its_folders(tmp_path: Path) -> None:
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "a.map").write_text("")
    assert resolve_inside(tmp_path, "maps/a.map", "f") == (tmp_path / "maps" / "a.map").resolve()


def test_resolve_inside_suggests_a_file_beside_the_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "small.map").write_text("")
    with pytest.raises(
        ScenarioError, match=r"f: expected a file in .*, got 'smal\.map', .*Did you mean 'small\.map'\?"
    ):
        resolve_inside(tmp_path, "smal.map", "f")


@pytest.mark.parametrize("relative", ["a\0b", "x" * 5000, "", "."])
def test_resolve_inside_refuses_what_is_no_path_of_a_file(tmp_path: Path, relative: str) -> None:
    with pytest.raises(ScenarioError, match=r"f: expected "):
        resolve_inside(tmp_path, relative, "f")


# Worlds that a well-formed file does not make.


def _open(path: Path) -> Any:
    return open_world(load_scenario(path))


@pytest.mark.parametrize("relative", ["none.map", "../none.map", "/etc/hostname"])
def test_open_world_names_the_key_when_the_layout_file_is_missing_or_elsewhere(write: Write, relative: str) -> None:
    grid = SCENARIO[SCENARIO.index("    grid:") : SCENARIO.index("  fleet:")]
    with pytest.raises(ScenarioError, match=rf"layout\.file: expected a (file|path inside).*, got '{relative}'"):
        _open(write(_changed(grid, f"    file: {relative}\n")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("P.##..\n", "P.####\n", r"layout: expected every \S+ to be reachable .*, got one cut off at row"),
        (
            "count: 2",
            "count: 21",
            r"fleet: expected at most 18 robots .*, got 21\. Lower a count or enlarge the floor\.",
        ),
        ("..##S.", "..##..", r"layout: expected at least one pick-up, got none\. Mark a free cell with 'S'\."),
        ("P....E", "P.....", r"layout: expected at least one delivery, got none\. Mark a free cell with 'E'\."),
        ("P....E", "P...xE", r"layout\.grid: row 0, column 4: expected one of .*, got 'x'\."),
        ("P....E", "P....E.", r"layout\.grid: row 1: expected 7 characters as in row 0, got 6\."),
    ],
)
def test_open_world_says_what_is_wrong_with_a_floor(write: Write, old: str, new: str, message: str) -> None:
    text = _changed(old, new)
    if "####" in new:
        text = text.replace("..##S.", "####S.").replace("      ......\n", "      ####..\n")
    with pytest.raises(AgvBridgeError, match=message):
        _open(write(text))


# What is shipped.


@pytest.mark.parametrize("name", sorted(shipped_scenarios()))
def test_every_shipped_scenario_loads_and_states_its_purpose_in_its_first_line(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.description
    assert scenario.path.read_text().startswith("# ")


@pytest.mark.parametrize("path", sorted((find_scenario("warehouse_small").parent / "maps").glob("*.map")), ids=str)
def test_every_shipped_map_is_read_and_has_stations(path: Path) -> None:
    layout = load_layout_file(path, 1.0)
    assert min(len(layout.pickups), len(layout.deliveries), len(layout.parking)) > 0


@pytest.mark.parametrize("name", [name for name in sorted(shipped_scenarios()) if name.startswith("warehouse")])
def test_every_shipped_warehouse_opens(name: str) -> None:
    assert open_world(load_scenario(name)).spec.roles


def test_the_documented_example_opens(write: Write) -> None:
    page = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    path = write(example)
    assert _open(path).spec.roles[0].num_slots == 4


def test_the_documented_messages_are_those_of_the_reader(write: Write) -> None:
    page = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    text = _changed("count: 2", "cuont: 2") + "  drive: {kind: gird}\n  episode_steps: '500'\n"
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(text))
    for line in str(caught.value).splitlines():
        message = line.split("mine.yaml: ")[1]
        if "count: expected a value" not in message:
            assert f"my.yaml: {message}\n" in page


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("mine.yaml", "mine"),
        ("My Hall (2).yaml", "my-hall-2"),
        ("Halle Süd/scenario.yaml", "halle-s-d"),
        ("倉庫.yaml", "scenario"),
        ("-/scenario.yaml", "scenario"),
        ("a" * 80 + ".yaml", "a" * 64),
    ],
)
def test_load_scenario_makes_a_name_of_the_file_or_folder_that_a_file_may_state(
    tmp_path: Path, file: str, name: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(SCENARIO)
    scenario = load_scenario(path.parent if path.name == "scenario.yaml" else path)
    assert scenario.name == name
    path.write_text(f"name: {name}\n{SCENARIO}")
    assert load_scenario(path).name == name
