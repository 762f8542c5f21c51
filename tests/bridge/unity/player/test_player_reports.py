"""What goes out through side channels: parameters, who is who, global states; and another scenario in mid-run."""

from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from bridge.errors import AgvBridgeError, ScenarioError, SpecMismatchError
from bridge.registry import open_world
from bridge.roster import RosterArrays
from bridge.scenario import load_scenario
from bridge.specs import ActionSpec, WorldSpec
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
    other = as_json(small_scenario, layout={"grid": "S..E\n....\nPPPP\n"}, fleet=[{"role": "carrier", "count": 2}])
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
    assert [i.id for i in infos] == [3, 4]  # a new scene: all agents are new
    assert roster.identity(4) == Identity(0, "carrier", 1)
    (tmp_path / "other.yaml").write_text(json.dumps(other))
    expected = open_world(load_scenario(tmp_path / "other.yaml")).roster(1)
    expected.reset(11)
    observations = [i.observations[0].float_data.data for i in infos]
    np.testing.assert_array_equal(observations, expected.arrays.roles["carrier"].observations[0])
    trainer.quit()
    expected.close()


def test_player_process_refuses_scenarios_that_do_not_fit_and_plays_on(
    trainer: Any, start_player: Any, small_scenario: Path
) -> None:
    """One after the other, the first with the first reset; what is announced stays as large as it was."""
    fleets = [
        ([{"role": "tugger", "count": 3}], r"scenario: expected the roles carrier, got tugger\."),
        ([{"role": "carrier", "count": 4}], r"role 'carrier': expected at most 3 robots, .* got 4\. Start the player"),
    ]
    python, states = ScenarioChannel(), GlobalStateChannel(1, open_world(load_scenario(small_scenario)).spec.state_size)
    where = ["--scenario", str(small_scenario), "--mlagents-port", str(trainer.port)]
    start_player(*where, "--announce", "roster,state")
    for index, (fleet, reason) in enumerate(fleets):
        number = python.send(as_json(small_scenario, fleet=fleet))
        if index == 0:
            trainer.shake_hands(seed=11, side_channel=sent(python))
        else:
            trainer.reply(command=messages.COMMAND_RESET, side_channel=sent(python))
        request = trainer.receive()
        received(request, python, RosterChannel(), states)
        answer = python.answer(number)
        assert answer is not None
        assert not answer.taken
        assert re.search(reason, answer.reason)
        assert [i.id for i in request.unity_output.rl_output.agentInfos[CARRIER].value] == [0, 1, 2]
    trainer.quit()


def running(scenario: Path) -> tuple[str, WorldSpec]:
    return "warehouse", open_world(load_scenario(scenario)).spec


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"observation": [{"block": "self"}]}, r"observation block 1: expected 'target'"),
        ({"fleet": [{"role": "carrier", "count": 0}]}, r"fleet\[0\].count"),
        ({"layout": {"file": "elsewhere.map"}}, r"expected a file in"),
        ({"observation": [{"block": "self"}, {"block": "target"}]}, r"observation block 2: expected 'path'"),
        (
            {"drive": {"kind": "differential"}},
            r"^scenario: warehouse: expected mask_blocked_moves false with drive 'differential'",
        ),
        ({"drive": {"kind": "differential"}, "mask_blocked_moves": False}, r"observation block 0: expected 'self'"),
    ],
)
def test_player_makes_no_world_of_a_scenario_that_does_not_fit(
    small_scenario: Path, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AgvBridgeError, match=reason):
        world_of(
            json.dumps(as_json(small_scenario, **changes)), *running(small_scenario), PlayerOptions(small_scenario)
        )


def test_player_makes_no_world_of_a_scenario_with_other_actions(small_scenario: Path) -> None:
    kind, spec = running(small_scenario)
    drives = replace(spec.roles[0], action=ActionSpec(num_continuous=2))
    with pytest.raises(SpecMismatchError, match=r"expected 2 continuous values and branches \(\), got 0 and \(5,\)"):
        world_of(small_scenario.read_text(), kind, replace(spec, roles=(drives,)), PlayerOptions(small_scenario))


def test_player_imports_no_module_that_a_scenario_of_another_kind_names(small_scenario: Path) -> None:
    other = {"schema": 1, "world": "pettingzoo", "pettingzoo": {"factory": "antigravity:fly"}}
    with pytest.raises(SpecMismatchError, match=r"world: expected 'warehouse' as at the start, got 'pettingzoo'"):
        world_of(json.dumps(other), *running(small_scenario), PlayerOptions(small_scenario))
    assert "antigravity" not in sys.modules


def test_player_takes_a_smaller_state_than_the_trainer_has_room_for_and_no_larger_one(small_scenario: Path) -> None:
    options = PlayerOptions(small_scenario, announce=frozenset({"state"}))
    texts = [json.dumps(as_json(small_scenario, fleet=[{"role": "carrier", "count": count}])) for count in (2, 4)]
    assert world_of(texts[0], *running(small_scenario), options).spec.state_size == 25
    with pytest.raises(SpecMismatchError, match=r"expected a global state of at most 37 values, .* got 49\. Start the"):
        world_of(texts[1], *running(small_scenario), options)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_player_takes_a_fleet_of_any_size_when_it_announces_neither_robots_nor_states(
    small_scenario: Path, count: int
) -> None:
    text = json.dumps(as_json(small_scenario, fleet=[{"role": "carrier", "count": count}]))
    world = world_of(text, *running(small_scenario), PlayerOptions(small_scenario))
    assert world.spec.roles[0].num_slots == count


def test_player_makes_no_world_of_text_that_is_no_scenario(small_scenario: Path) -> None:
    with pytest.raises(ScenarioError, match=r"expected a mapping with the keys 'schema' and 'world'"):
        world_of("[]", *running(small_scenario), PlayerOptions(small_scenario))


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
