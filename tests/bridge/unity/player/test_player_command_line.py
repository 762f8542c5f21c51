"""The command line, the written build and the side channels, without a trainer."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from bridge.errors import AgvBridgeError, ScenarioError, UnityProtocolError
from bridge.unity import messages
from bridge.unity.player import main, parse_options, write_build
from bridge.unity.player.faults import Fault
from bridge.unity.player.log import PlayerLog
from bridge.unity.player.side_channels import SideChannels

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
        ([*SCENARIO, "--decision-period", "0"], r"--decision-period: expected an integer >= 1, got '0'"),
        ([*SCENARIO, "--num-areas", "two"], r"--num-areas: expected an integer >= 1, got 'two'"),
        ([*SCENARIO, "--first-env", "-1"], r"--first-env: expected an integer >= 0, got '-1'"),
        ([*SCENARIO, "--fault", "melt@3"], r"--fault: expected KIND@STEP .* crash, exit, hang, quit, got 'melt@3'"),
    ],
)
def test_player_options_refuse_values_they_cannot_use(arguments: list[str], message: str) -> None:
    with pytest.raises(AgvBridgeError, match=message):
        parse_options(arguments)


def test_player_options_read_faults() -> None:
    assert parse_options([*SCENARIO, "--fault", "crash@12"]).fault == Fault("crash", 12, 3)
    assert parse_options([*SCENARIO, "--fault", "exit@0:9"]).fault == Fault("exit", 0, 9)


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


def test_build_runs_the_interpreter_it_was_given(tmp_path: Path) -> None:
    build = write_build(tmp_path / "agv.x86_64", "warehouse_small", python="/opt/my python/bin/python")
    assert build.name == "agv.x86_64"
    assert "exec '/opt/my python/bin/python' -P -m bridge.unity.player" in build.read_text()
    assert sys.executable not in build.read_text()


def test_build_refuses_an_unknown_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"expected a file or one of the shipped scenarios .*'warehouse_smal'"):
        write_build(tmp_path / "agv", "warehouse_smal")


@pytest.fixture
def channels(tmp_path: Path) -> Any:
    with PlayerLog(str(tmp_path / "Player.log")) as log:
        yield SideChannels(log)


def text(value: str) -> bytes:
    return struct.pack("<i", len(value)) + value.encode()


def test_side_channels_keep_parameters_and_skip_what_they_cannot_read(
    channels: SideChannels, frame: Any, tmp_path: Path
) -> None:
    unknown = UUID("11111111-2222-3333-4444-555555555555")
    parameters = messages.ENVIRONMENT_PARAMETERS_CHANNEL
    channels.process(
        frame(unknown, b"abc")
        + frame(parameters, text("fleet") + struct.pack("<if", 0, 2.5))
        + frame(parameters, struct.pack("<i", 99))
        + frame(parameters, text("noise") + struct.pack("<iiiff", 1, 3, 0, 0.0, 1.0))
        + frame(messages.FLOAT_PROPERTIES_CHANNEL, text("gravity") + struct.pack("<f", -1.5))
        + frame(messages.ENGINE_CONFIGURATION_CHANNEL, struct.pack("<if", 2, 20.0))
        + frame(messages.TRAINING_ANALYTICS_CHANNEL, b"\x0a\x00")
    )
    assert channels.parameters == {"fleet": 2.5, "gravity": -1.5}
    log = (tmp_path / "Player.log").read_text()
    assert f"Unknown side channel {unknown} (3 bytes), message dropped." in log
    assert f"Side channel {parameters}: message skipped: expected a string of at most 0 bytes, got 99." in log
    assert "Environment parameter 'noise': samplers are not used by this player." in log


@pytest.mark.parametrize(
    ("high", "low", "expected"), [(0.0, 5.0, 5), (1.0, 0.0, 1 << 24), (16777215.0, 16777215.0, (1 << 48) - 1)]
)
def test_side_channels_join_the_halves_of_a_seed_once(
    channels: SideChannels, frame: Any, high: float, low: float, expected: int
) -> None:
    def half(key: str, value: float) -> bytes:
        return frame(messages.ENVIRONMENT_PARAMETERS_CHANNEL, text(key) + struct.pack("<if", 0, value))

    channels.process(half("agv_seed_high", high))
    assert channels.take_seed() is None
    channels.process(half("agv_seed_low", low))
    assert channels.take_seed() == expected
    assert channels.take_seed() is None


@pytest.mark.parametrize("value", [-1.0, 0.5, 16777216.0, float("nan"), float("inf")])
def test_side_channels_refuse_a_seed_that_is_no_24_bit_integer(
    channels: SideChannels, frame: Any, tmp_path: Path, value: float
) -> None:
    channels.process(
        frame(messages.ENVIRONMENT_PARAMETERS_CHANNEL, text("agv_seed_low") + struct.pack("<if", 0, value))
    )
    assert channels.parameters == {}
    assert "agv_seed_low: expected an integer in [0, 2^24), got" in (tmp_path / "Player.log").read_text()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0" * 19, r"expected a header at byte 0, got its end"),
        (b"\0" * 16 + struct.pack("<i", 5) + b"abcd", r"expected a payload of at most 4 bytes, got 5"),
        (b"\0" * 16 + struct.pack("<i", -1), r"expected a payload of at most 0 bytes, got -1"),
    ],
)
def test_side_channels_refuse_broken_framing(channels: SideChannels, data: bytes, message: str) -> None:
    with pytest.raises(UnityProtocolError, match=message):
        channels.process(data)


def test_side_channels_empty_the_queue_of_statistics(channels: SideChannels) -> None:
    channels.send_statistic("a", 1.5)
    payload = text("a") + struct.pack("<fi", 1.5, 1)
    assert channels.take_outgoing() == messages.STATS_CHANNEL.bytes_le + struct.pack("<i", len(payload)) + payload
    assert channels.take_outgoing() == b""
