"""The address on the command line: it reaches the player's server, or is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bridge.errors import ScenarioError, UnityPortError
from bridge.scenario import Scenario, load_scenario
from bridge.scenario_listening import all_listen_on, listen_on
from bridge.scenario_mix import ScenarioMix
from trainers.cli import app


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that is taken on 127.0.0.2, which is loopback as well, and on no other address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))
        taken.listen()
        yield taken.getsockname()[1]


def unity_scenario(folder: Path, name: str = "attached", **section: Any) -> Scenario:
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"schema": 1, "name": name, "world": "unity", "unity": section}))
    return load_scenario(path)


@pytest.mark.parametrize("command", [["scenarios", "show"], ["play", "--policy", "none", "--scenario"], ["train"]])
def test_listen_option_says_where_players_are_listened_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_port: int, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    unity_scenario(tmp_path, player="attach", port=taken_port)
    result = CliRunner().invoke(app, [*command, "attached.yaml", "--listen", "127.0.0.2"])
    assert isinstance(result.exception, UnityPortError)
    assert f"expected to listen on 127.0.0.2:{taken_port}" in str(result.exception)


def test_all_listen_on_changes_every_scenario_of_a_mix(tmp_path: Path) -> None:
    members = tuple(unity_scenario(tmp_path, name, player="attach", port=6000, time_scale=3) for name in ("a", "b"))
    played = all_listen_on(ScenarioMix(members, (1.0, 1.0)), "192.168.1.10")
    assert isinstance(played, ScenarioMix)
    configs: list[Any] = [member.config for member in played.scenarios]
    assert [(config.listen, config.time_scale) for config in configs] == [("192.168.1.10", 3)] * 2
    assert listen_on(members[0], None) is members[0]


def test_listen_on_refuses_what_listens_for_nobody(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"--listen 127\.0\.0\.1: expected a world that listens .*'warehouse'"):
        listen_on(load_scenario("warehouse_small"), "127.0.0.1")
    with pytest.raises(ScenarioError, match=r"attached\.yaml: --listen: expected an IPv4 address, got 'localhost'"):
        listen_on(unity_scenario(tmp_path, player="attach", port=6000), "localhost")
    with pytest.raises(ScenarioError, match=r"--listen: expected listen 127\.0\.0\.1 or .* with player 'scene'"):
        listen_on(unity_scenario(tmp_path, player="scene"), "192.168.1.10")
