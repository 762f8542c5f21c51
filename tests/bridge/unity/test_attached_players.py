"""Players that somebody else starts, of a scene that nobody described: asked and played with over one connection."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.errors import SpecMismatchError
from bridge.registry import open_world
from bridge.scenario import Scenario, load_scenario
from bridge.vector import AsyncVectorEnv

HALL = """\
schema: 1
world: warehouse
warehouse:
  layout:
    grid: |
      P.S.P
      .....
      P.E.P
  fleet: [{role: carrier, count: 3}]
  reward: {delivery: 1.0, progress: 0.1}
  episode_steps: 9
"""
BEHAVIORS = {"AGV": {"continuous": 1}}


def attached(folder: Path, port: int, **section: Any) -> Scenario:
    path = folder / "attached.yaml"
    unity = {"player": "attach", "port": port, "restarts": 0, **section}
    path.write_text(json.dumps({"schema": 1, "world": "unity", "unity": unity}))
    return load_scenario(path)


def exchange(value: float, **more: Any) -> dict[str, Any]:
    return {"agents": {"AGV": [{"id": 5, "obs": [[value]], **more}]}}


def first(value: float, **more: Any) -> dict[str, Any]:
    return {**exchange(value, **more), "behaviors": BEHAVIORS}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class HandStartedPlayer(threading.Thread):
    """The headless player, started once, as soon as somebody listens."""

    def __init__(self, port: int, *arguments: str) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._arguments = arguments
        self.exit_code: int | None = None

    def run(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    break
            time.sleep(0.01)
        command = [sys.executable, "-P", "-m", "bridge.unity.player", "--mlagents-port", str(self._port)]
        self.exit_code = subprocess.run([*command, *self._arguments], timeout=120, check=False).returncode


def test_headless_player_is_asked_and_played_with_over_one_connection(tmp_path: Path) -> None:
    hall = tmp_path / "hall.yaml"
    hall.write_text(HALL)
    player = HandStartedPlayer(port := free_port(), "--scenario", str(hall), "--announce", "roster")
    player.start()
    linked = open_world(attached(tmp_path, port)).roster(2)
    direct = open_world(load_scenario(hall)).roster(2)
    try:
        (role,) = linked.spec.roles
        assert role.agent_ids == ("carrier_0", "carrier_1", "carrier_2"), "slots are those of one area"
        ends = 0
        for call in ("seed", *["step"] * 12, "seed", *["step"] * 4):
            for roster in (linked, direct):
                roster.arrays.roles["carrier"].discrete_actions[:] = ends % 2 + 1
                roster.step() if call == "step" else roster.reset(3)
            mine, its = linked.arrays.roles["carrier"], direct.arrays.roles["carrier"]
            np.testing.assert_allclose(mine.observations, its.observations, atol=1e-6)
            np.testing.assert_allclose(mine.rewards, its.rewards, atol=1e-6)
            np.testing.assert_array_equal(linked.arrays.episode_over, direct.arrays.episode_over)
            ends += int(linked.arrays.episode_over.sum())
        assert ends == 2
    finally:
        linked.close()
        direct.close()
    player.join(60)
    assert player.exit_code == 0, "the trainer told it to quit"


def test_first_roster_of_another_world_gets_the_player_that_was_asked(
    tmp_path: Path, live_player: Callable[..., int]
) -> None:
    # What the agent had earned before the reset is left over from a life that nobody saw.
    port = live_player([first(1.0), exchange(2.0, reward=7.0), exchange(3.0, reward=0.5)])
    scenario = attached(tmp_path, port)
    asked, other = open_world(scenario), open_world(scenario)
    assert [role.name for role in asked.spec.roles] == ["AGV"]
    roster = other.roster(1)
    try:
        roster.reset(seed=1)
        roster.step()
        values = roster.arrays.roles["AGV"]
        assert values.observations[0, 0].tolist() == [3.0]
        assert values.rewards[0].tolist() == [0.5]
    finally:
        roster.close()


def test_player_is_asked_where_it_connects_when_it_has_not_the_first_environment(
    tmp_path: Path, live_player: Callable[..., int]
) -> None:
    port = live_player([first(1.0), exchange(2.0)])
    roster = open_world(attached(tmp_path, port - 2)).roster(1, first_env=2)
    try:
        roster.reset(seed=1)
        assert roster.arrays.roles["AGV"].observations[0, 0].tolist() == [2.0]
    finally:
        roster.close()


def test_player_that_was_asked_quits_when_more_areas_are_wanted(
    tmp_path: Path, live_player: Callable[..., int]
) -> None:
    port = live_player([first(1.0)])
    opened = open_world(attached(tmp_path, port, timeout_s=1))
    assert opened.spec.roles[0].num_slots == 1
    with pytest.raises(TimeoutError, match=rf"expected a player to connect to port {port} within 1 s"):
        opened.roster(2)


def test_player_that_was_asked_is_let_go_with_its_world(tmp_path: Path, live_player: Callable[..., int]) -> None:
    port = live_player([first(1.0)])
    opened = open_world(attached(tmp_path, port))
    assert opened.spec.roles
    del opened
    gc.collect()
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or the ended connection would be in the way
        server.bind(("127.0.0.1", port))


def test_workers_cannot_play_with_a_player_that_one_process_has_asked(tmp_path: Path) -> None:
    scenario = attached(tmp_path, free_port())  # nobody has to press Play to be told
    with pytest.raises(SpecMismatchError, match=r"unity\.scenario: expected a scenario with player 'attach' where"):
        AsyncVectorEnv(scenario, 1, 1)
