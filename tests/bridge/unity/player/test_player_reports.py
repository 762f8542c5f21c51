"""What goes out through side channels: parameters, who is who, global states; and another scenario in mid-run."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from bridge.errors import AgvBridgeError, ScenarioError
from bridge.registry import open_world
from bridge.roster import RosterArrays
from bridge.scenario import load_scenario
from bridge.unity import messages
from bridge.unity.mlagents_types import IncomingMessage
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.swap import world_of
from bridge.unity.side_channels import (
    GlobalStateChannel,
    Identity,
    RosterChannel,
    ScenarioChannel,
    StatsChannel,
    pack_frames,
    unpack_frames,
)

CARRIER, PICKER = "carrier?team=0", "picker?team=0"


def step(trainer: Any, request: Any, **reply: Any) -> Any:
    """Answer everyone who asks, and wait for the next request."""
    actions = {}
    for name, entry in request.unity_output.rl_output.agentInfos.items():
        continuous = [0.5] if name == PICKER else []
        action = messages.AgentAction(continuous_actions=continuous, discrete_actions=[0])
        actions[name] = messages.ListAgentAction(value=[action] * sum(not i.done for i in entry.value))
    trainer.reply(agent_actions=actions, **reply)
    return trainer.receive()


def received(request: Any, *channels: Any) -> int:
    """Hand a request's side channel data to Python's channels; returns the number of messages."""
    by_id = {channel.channel_id: channel for channel in channels}
    frames = unpack_frames(request.unity_output.rl_output.side_channel)
    for channel_id, payload in frames:
        by_id[channel_id].on_message_received(IncomingMessage(payload))
    return len(frames)


def sent(channel: Any) -> bytes:
    """What a Python channel has queued, framed."""
    payloads = [bytes(payload) for payload in channel.message_queue]
    channel.message_queue.clear()
    return pack_frames((channel.channel_id, payload) for payload in payloads)


def parameter(frame: Callable[..., bytes], key: str, setting: bytes) -> bytes:
    payload = struct.pack("<i", len(key)) + key.encode() + setting
    return frame(messages.ENVIRONMENT_PARAMETERS_CHANNEL, payload)


def test_player_reports_the_parameters_that_an_episode_is_played_with(
    trainer: Any, play: Any, scripted_roster: Any, frame: Any
) -> None:
    stats = StatsChannel()
    play(scripted_roster())
    fixed = parameter(frame, "fleet", struct.pack("<if", 0, 2.5))
    drawn = parameter(frame, "noise", struct.pack("<iiiff", 1, 9, 0, 10.0, 20.0))
    trainer.shake_hands(side_channel=fixed + drawn + parameter(frame, "agv_seed_low", struct.pack("<if", 0, 3.0)))
    request = trainer.receive()
    assert received(request, stats) == 2
    first = {key: value for key, value, _ in stats.take()}
    assert set(first) == {"parameter/fleet", "parameter/noise"}
    assert received(step(trainer, request), stats) == 0
    trainer.reply(command=messages.COMMAND_RESET)
    received(trainer.receive(), stats)
    second = {key: value for key, value, _ in stats.take()}
    values = [taken["parameter/noise"] for taken in (first, second)]
    assert all(10 <= value <= 20 for value in values)
    assert values[0] != values[1]
    assert second["parameter/fleet"] == 2.5
    trainer.quit()


def test_player_announces_each_agent_before_its_first_decision(trainer: Any, play: Any, scripted_roster: Any) -> None:
    def swap(arrays: RosterArrays) -> None:
        values = arrays.roles["carrier"]
        values.terminated[1, 0] = True

    roster = RosterChannel()
    play(scripted_roster(num_envs=2, events={2: swap}), announce=frozenset({"roster"}), late={"picker": 1})
    trainer.shake_hands(num_areas=2)
    request = trainer.receive()
    assert received(request, roster) == 1
    expected = {0: (0, "carrier", 0), 1: (0, "carrier", 1), 2: (1, "carrier", 0), 3: (1, "carrier", 1)}
    assert {agent: roster.identity(agent) for agent in range(4)} == {a: Identity(*i) for a, i in expected.items()}
    assert len(roster) == 4
    request = step(trainer, request)
    received(request, roster)
    assert len(roster) == 8
    assert roster.identity(7) == Identity(1, "picker", 1)
    request = step(trainer, request)
    received(request, roster)
    assert roster.identity(8) == Identity(1, "carrier", 0)
    asked = [i.id for i in request.unity_output.rl_output.agentInfos[CARRIER].value if not i.done]
    assert asked == [0, 1, 8, 3]
    assert received(step(trainer, request), roster) == 0
    trainer.quit()


def test_player_process_sends_global_states_of_all_areas(trainer: Any, start_player: Any, small_scenario: Path) -> None:
    start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port), "--announce", "state")
    trainer.shake_hands(seed=11, num_areas=2)
    roster = open_world(load_scenario(small_scenario)).roster(2)
    roster.reset(11)
    states = GlobalStateChannel(2, roster.spec.state_size)
    request = trainer.receive()
    for index in range(31):
        states.begin_exchange()
        received(request, states, StatsChannel())
        np.testing.assert_array_equal(states.states, roster.arrays.state)
        assert states.has_final.all() == (index == 30)
        request = step(trainer, request)
        roster.arrays.roles["carrier"].discrete_actions[:] = 0
        roster.step()
        if index == 29:
            final = roster.arrays.final_state.copy()
    np.testing.assert_array_equal(states.final_states, final)
    trainer.quit()
    roster.close()


def as_json(scenario: Path, **changes: Any) -> dict[str, Any]:
    data = yaml.safe_load(scenario.read_text())
    data["warehouse"].update(changes)
    return dict(data)


def test_player_process_takes_another_scenario_at_a_reset(
    trainer: Any, start_player: Any, small_scenario: Path, tmp_path: Path
) -> None:
    python = ScenarioChannel()
    start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port), "--announce", "roster")
    trainer.shake_hands(seed=11)
    request = trainer.receive()
    other = as_json(small_scenario, layout={"grid": "S..E\n....\nPPPP\n"}, fleet=[{"role": "carrier", "count": 4}])
    number = python.send(other)
    request = step(trainer, request, side_channel=sent(python))  # before the reset nothing changes
    assert len(request.unity_output.rl_output.agentInfos[CARRIER].value) == 3
    trainer.reply(command=messages.COMMAND_RESET)
    request = trainer.receive()
    roster = RosterChannel()
    received(request, python, roster)
    answer = python.answer(number)
    assert answer is not None
    assert answer.taken
    assert not request.unity_output.HasField("rl_initialization_output")
    infos = request.unity_output.rl_output.agentInfos[CARRIER].value
    assert [i.id for i in infos] == [3, 4, 5, 6]  # a new scene: all agents are new
    assert roster.identity(6) == Identity(0, "carrier", 3)
    (tmp_path / "other.yaml").write_text(json.dumps(other))
    expected = open_world(load_scenario(tmp_path / "other.yaml")).roster(1)
    expected.reset(11)
    observations = [i.observations[0].float_data.data for i in infos]
    np.testing.assert_array_equal(observations, expected.arrays.roles["carrier"].observations[0])
    trainer.quit()
    expected.close()


def test_player_process_refuses_a_scenario_that_does_not_fit_and_plays_on(
    trainer: Any, start_player: Any, small_scenario: Path
) -> None:
    python = ScenarioChannel()
    number = python.send(as_json(small_scenario, fleet=[{"role": "tugger", "count": 3}]))
    start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port))
    trainer.shake_hands(seed=11, side_channel=sent(python))
    request = trainer.receive()
    received(request, python)
    answer = python.answer(number)
    assert answer is not None
    assert not answer.taken
    assert answer.reason == "scenario: expected the roles carrier, got tugger."
    assert [i.id for i in request.unity_output.rl_output.agentInfos[CARRIER].value] == [0, 1, 2]
    trainer.quit()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"observation": [{"block": "self"}]}, r"observation block 1: expected 'target'"),
        ({"fleet": [{"role": "carrier", "count": 0}]}, r"fleet\[0\].count"),
        ({"layout": {"file": "elsewhere.map"}}, r"expected a file in"),
        ({"observation": [{"block": "self"}, {"block": "target"}]}, r"observation block 2: expected 'path'"),
    ],
)
def test_player_makes_no_world_of_a_scenario_that_does_not_fit(
    small_scenario: Path, changes: dict[str, Any], reason: str
) -> None:
    running = open_world(load_scenario(small_scenario)).spec
    with pytest.raises(AgvBridgeError, match=reason):
        world_of(json.dumps(as_json(small_scenario, **changes)), running, PlayerOptions(small_scenario))


def test_player_makes_no_world_of_text_that_is_no_scenario(small_scenario: Path) -> None:
    running = open_world(load_scenario(small_scenario)).spec
    with pytest.raises(ScenarioError, match=r"expected a mapping with the keys 'schema' and 'world'"):
        world_of("[]", running, PlayerOptions(small_scenario))


def test_player_refuses_scenarios_when_it_cannot_load_any(trainer: Any, play: Any, scripted_roster: Any) -> None:
    python = ScenarioChannel()
    number = python.send({"schema": 1})
    play(scripted_roster())
    trainer.shake_hands(side_channel=sent(python))
    received(trainer.receive(), python)
    answer = python.answer(number)
    assert answer is not None
    assert answer.reason.startswith("scenario: expected none, got one.")
    trainer.quit()
