"""The command line and the written build, without a trainer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from bridge.errors import AgvBridgeError, ScenarioError
from bridge.unity.player import main, parse_options, write_build
from bridge.unity.player.camera_options import CameraOptions
from bridge.unity.player.faults import Fault
from bridge.unity.player.options import OPTION_NAMES, USAGE

SCENARIO = ["--scenario", "warehouse_small"]


def test_player_options_follow_the_last_port() -> None:
    options = parse_options([*SCENARIO, "--mlagents-port", "5005", "--mlagents-port", "6006"])
    assert options.port == 6006


@pytest.mark.parametrize("port", ["", "abc", "-5", "0", "65536", "5005.5"])
def test_player_options_have_no_port_when_it_is_unusable(port: str) -> None:
    assert parse_options([*SCENARIO, "--mlagents-port", port]).port is None


def test_player_options_take_unity_arguments_in_any_case_and_remember_unknown_ones() -> None:
    arguments = ["-nographics", "-batchmode", "-LOGFILE", "a.log", "-force-vulkan", "--seed", "3", "--num-areas=4"]
    options = parse_options([*SCENARIO, *arguments])
    assert options.log_file == "a.log"
    assert options.num_areas == 4
    assert options.ignored == ("-force-vulkan", "--seed", "3")


def test_player_options_keep_an_option_that_lacks_its_value() -> None:
    assert parse_options([*SCENARIO, "--mlagents-port"]).ignored == ("--mlagents-port",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], r"player: expected --scenario FILE, got none"),
        ([*SCENARIO, "--decision-period", "0"], r"--decision-period: expected an integer >= 1 or a list of .*'0'"),
        ([*SCENARIO, "--decision-period", "a=2,b=x"], r"--decision-period: expected .* ROLE=INTEGER, got 'a=2,b=x'"),
        ([*SCENARIO, "--decision-period", "=2"], r"--decision-period: expected .* ROLE=INTEGER, got '=2'"),
        ([*SCENARIO, "--decision-period", "2", "--on-demand"], r"--on-demand: expected no --decision-period beside it"),
        ([*SCENARIO, "--late", "carrier"], r"--late: expected a list of ROLE@STEP, got 'carrier'"),
        ([*SCENARIO, "--group-reward", "1.5"], r"--group-reward: expected a number from 0 to 1, got '1.5'"),
        ([*SCENARIO, "--group-reward", "nan"], r"--group-reward: expected a number from 0 to 1, got 'nan'"),
        ([*SCENARIO, "--group-reward", "half"], r"--group-reward: expected a number from 0 to 1, got 'half'"),
        ([*SCENARIO, "--despawn-as", "die"], r"--despawn-as: expected 'disable' or 'end-episode', got 'die'"),
        ([*SCENARIO, "--visual", "20"], r"--visual: expected WIDTHxHEIGHT with 1 to 512 pixels an edge .* got '20'"),
        ([*SCENARIO, "--visual", "0x20"], r"--visual: expected WIDTHxHEIGHT .* got '0x20'"),
        ([*SCENARIO, "--visual", "20x20:jpg"], r"--visual: expected .* any of :png, :raw, :grey .* got '20x20:jpg'"),
        ([*SCENARIO, "--visual", "20x20:x1"], r"--visual: expected .* :x2 to :x16, .* got '20x20:x1'"),
        ([*SCENARIO, "--visual", "20x20:x17"], r"--visual: expected .* :x2 to :x16, .* got '20x20:x17'"),
        ([*SCENARIO, "--visual", "20x20:png:raw"], r"--visual: expected .* got '20x20:png:raw'"),
        ([*SCENARIO, "--visual", "20x20,,8x8"], r"--visual: expected .* several of them with commas, got '20x20,,8x8'"),
        ([*SCENARIO, "--echo", "12"], r"--echo: expected the UUID of a side channel, got '12'"),
        ([*SCENARIO, "--num-areas", "two"], r"--num-areas: expected an integer >= 1, got 'two'"),
        ([*SCENARIO, "--first-env", "-1"], r"--first-env: expected an integer >= 0, got '-1'"),
        ([*SCENARIO, "--fault", "melt@3"], r"--fault: expected KIND@STEP, .* crash, exit, .* got 'melt@3'"),
        ([*SCENARIO, "--fault", "hang@3:5"], r"--fault: expected KIND@STEP, .* got 'hang@3:5'"),
        ([*SCENARIO, "--fault", "exit@3:256"], r"--fault: expected KIND@STEP, .* got 'exit@3:256'"),
        ([*SCENARIO, "--announce", "roster,score"], r"--announce: expected 'roster', .* got 'roster,score'"),
    ],
)
def test_player_options_refuse_values_they_cannot_use(arguments: list[str], message: str) -> None:
    with pytest.raises(AgvBridgeError, match=message):
        parse_options(arguments)


def test_player_options_read_what_agents_are_like() -> None:
    options = parse_options(
        [
            *SCENARIO,
            *("--decision-period", "4,tugger=5", "--late", "carrier@5,tugger@0", "--group-reward=0.25"),
            *("--despawn-as", "end-episode", "--visual", "40x30:raw", "--buffer-neighbours", "3"),
            *("--goal-signal", "target", "--echo", "11111111-2222-3333-4444-555555555555"),
            *("--announce", "state,roster"),
        ]
    )
    assert (options.decision_period, options.role_periods) == (4, {"tugger": 5})
    assert options.late == {"carrier": 5, "tugger": 0}
    assert (options.group_reward, options.despawn_as) == (0.25, "end-episode")
    assert options.cameras == (CameraOptions(40, 30, png=False),)
    assert (options.buffer_neighbours, options.goal_signal) == (3, "target")
    assert options.announce == {"roster", "state"}
    assert options.echo == UUID("11111111-2222-3333-4444-555555555555")


@pytest.mark.parametrize(
    ("text", "cameras"),
    [
        ("8x9", [CameraOptions(8, 9)]),
        ("8x9:png", [CameraOptions(8, 9)]),
        ("8x9:grey:raw", [CameraOptions(8, 9, png=False, grey=True)]),
        ("8x9:x4:grey,512x1:raw", [CameraOptions(8, 9, grey=True, stack=4), CameraOptions(512, 1, False, number=1)]),
    ],
)
def test_player_options_read_cameras(text: str, cameras: list[CameraOptions]) -> None:
    assert parse_options([*SCENARIO, "--visual", text]).cameras == tuple(cameras)


def test_cameras_are_named_as_unity_names_their_sensors() -> None:
    cameras = parse_options([*SCENARIO, "--visual", "8x9,8x9:x2,8x9"]).cameras
    names = [camera.name for camera in cameras]
    assert names == ["camera_top", "StackingSensor_size2_camera_top_2", "camera_top_3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--late", "forklift@3"], r"--late: expected one of the roles carrier, got 'forklift'"),
        (["--decision-period", "forklift=3"], r"--decision-period: expected one of the roles carrier, got 'forklift'"),
        (
            ["--goal-signal", "aim"],
            r"--goal-signal: expected .* the block 'aim', got the blocks self, target, .*\. Name",
        ),
        (["--buffer-neighbours", "5"], r"--buffer-neighbours: expected at most the 4 robots of .* got 5"),
    ],
)
def test_player_exits_2_when_options_do_not_fit_the_scenario(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    log = tmp_path / "Player.log"
    assert main([*SCENARIO, "--mlagents-port", "5005", "-logFile", str(log), *arguments]) == 2
    assert re.search(rf"^player: {message}", log.read_text(), re.MULTILINE)
    assert "Traceback" not in log.read_text()


def test_player_exits_2_when_a_buffer_of_neighbours_has_nothing_to_show(tmp_path: Path) -> None:
    scenario = tmp_path / "blind.yaml"
    scenario.write_text(
        "{schema: 1, world: warehouse, warehouse: {layout: {grid: 'S.PE'}, fleet: [{role: carrier, count: 1}], "
        "observation: [{block: target}]}}"
    )
    log = tmp_path / "Player.log"
    arguments = ["--scenario", str(scenario), "--mlagents-port", "5005", "-logFile", str(log)]
    assert main([*arguments, "--buffer-neighbours", "2"]) == 2
    assert "--buffer-neighbours: expected an observation with the block 'neighbours', got the blocks target." in (
        log.read_text()
    )


@pytest.mark.parametrize("option", [["--on-demand"], ["--visual", "8x8"]])
def test_player_exits_2_when_a_world_has_no_floor_to_look_at(tmp_path: Path, option: list[str]) -> None:
    pytest.importorskip("mpe2")
    log = tmp_path / "Player.log"
    assert main(["--scenario", "mpe_spread", "--mlagents-port", "5005", "-logFile", str(log), *option]) == 2
    assert f"player: {option[0]}: expected a scenario with world 'warehouse', got 'mpe'." in log.read_text()


def test_player_options_read_faults() -> None:
    assert parse_options([*SCENARIO, "--fault", "crash@12"]).fault == Fault("crash", 12, 3)
    assert parse_options([*SCENARIO, "--fault", "exit@0:9"]).fault == Fault("exit", 0, 9)
    assert parse_options([*SCENARIO, "--fault", "slow@2:250"]).fault == Fault("slow", 2, delay_s=0.25)


def test_player_exits_2_without_a_port(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "Player.log"
    assert main([*SCENARIO, "-logFile", str(log), "--strange"]) == 2
    text = log.read_text()
    assert "ML-Agents package 3.0.0, communication 1.5.0" in text
    assert "Ignored argument '--strange'" in text
    assert "No usable --mlagents-port. A Unity build would run inference instead" in text


def test_player_exits_2_without_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--mlagents-port", "5005"]) == 2
    assert "player: expected --scenario FILE, got none" in capsys.readouterr().err


def test_player_exits_2_when_the_scenario_needs_a_player_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "warehouse_small_unity", "--mlagents-port", "5005"]) == 2
    assert "expected a world that the player can simulate, got 'unity'" in capsys.readouterr().out


def test_build_is_an_executable_that_passes_its_arguments_on(tmp_path: Path) -> None:
    build = write_build(tmp_path / "odd name's" / "agv", "warehouse_small", arguments=["--decision-period", "2"])
    assert build == tmp_path / "odd name's" / "agv.x86_64"
    ended = subprocess.run(
        [build, "-nographics", "--odd", "a  b", "-logFile", "-"], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert "Ignored argument '--odd'\nIgnored argument 'a  b'\nNo usable --mlagents-port." in ended.stdout
    assert "--decision-period" not in ended.stdout


def test_player_writes_a_build_with_its_other_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "agv"
    assert main([f"--write-build={target}", *SCENARIO, "--group-reward", "0.5", "--on-demand"]) == 0
    assert capsys.readouterr().out == f"{target}.x86_64\n"
    text = (tmp_path / "agv.x86_64").read_text()
    assert "--group-reward 0.5 --on-demand" in text
    assert "--write-build" not in text
    assert text.count("--scenario") == 1


def test_player_writes_no_build_of_an_unknown_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--write-build", str(tmp_path / "agv"), "--scenario", "nowhere"]) == 2
    assert "expected a file or one of the shipped scenarios" in capsys.readouterr().err


def test_build_runs_the_interpreter_it_was_given(tmp_path: Path) -> None:
    build = write_build(tmp_path / "agv.x86_64", "warehouse_small", python="/opt/my python/bin/python")
    assert build.name == "agv.x86_64"
    assert "exec '/opt/my python/bin/python' -P -m bridge.unity.player" in build.read_text()
    assert sys.executable not in build.read_text()


def test_build_refuses_an_unknown_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"expected a file or one of the shipped scenarios .*'warehouse_smal'"):
        write_build(tmp_path / "agv", "warehouse_smal")


def test_help_and_the_page_for_users_name_every_option() -> None:
    page = (Path(__file__).parents[4] / "docs" / "headless_player.md").read_text(encoding="utf-8")
    for text in (USAGE, page):
        named = {name.lower() for name in re.findall(r"(?<![\w-])--?[a-zA-Z][a-zA-Z-]*", text)}
        assert {*OPTION_NAMES} - named == set()
