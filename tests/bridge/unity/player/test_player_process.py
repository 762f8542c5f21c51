"""The player as a process: handshake, quitting, vanishing, faults, and the built-in simulator behind it."""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.registry import open_world
from bridge.roster import Roster
from bridge.scenario import load_scenario
from bridge.unity import messages

WAIT_S = 150.0
BEHAVIOR = "carrier?team=0"


def actions_for(roster: Roster, rng: np.random.Generator) -> dict[str, Any]:
    """Random allowed choices, written into the roster and returned as a reply's actions."""
    arrays = roster.arrays.roles["carrier"]
    keys = np.where(arrays.action_mask, rng.random(arrays.action_mask.shape), -1.0)
    arrays.discrete_actions[..., 0] = keys.argmax(axis=-1)
    asked = arrays.decision_mask & arrays.agent_mask
    chosen = [messages.AgentAction(discrete_actions=[choice]) for choice in arrays.discrete_actions[asked].ravel()]
    return {BEHAVIOR: messages.ListAgentAction(value=chosen)}


def decisions(request: Any) -> list[Any]:
    return [info for info in request.unity_output.rl_output.agentInfos[BEHAVIOR].value if not info.done]


def require_equal(request: Any, roster: Roster, rewards: np.ndarray) -> None:
    """What the player says its agents see is what the simulator in this process says."""
    arrays = roster.arrays.roles["carrier"]
    asked = arrays.decision_mask & arrays.agent_mask
    infos = decisions(request)
    np.testing.assert_array_equal([i.observations[0].float_data.data for i in infos], arrays.observations[asked])
    np.testing.assert_array_equal([i.reward for i in infos], rewards[asked])
    masks = [i.action_mask for i in infos]
    np.testing.assert_array_equal(masks, ~arrays.action_mask[asked])


def test_player_process_shakes_hands_like_a_unity_build(
    trainer: Any, start_player: Any, small_scenario: Path, tmp_path: Path
) -> None:
    player = start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port), "-nographics")
    first, second = trainer.shake_hands(num_areas=2)
    introduction = first.unity_output.rl_initialization_output
    assert first.header.status == messages.STATUS_OK
    assert introduction.name == "AcademySingleton"
    assert introduction.package_version == "3.0.0"
    assert introduction.communication_version == "1.5.0"
    assert introduction.capabilities == messages.all_capabilities()
    assert not introduction.brain_parameters
    assert second.header.status == messages.STATUS_OK
    assert not second.HasField("unity_output")
    third = trainer.receive()
    brains = third.unity_output.rl_initialization_output.brain_parameters
    assert [b.brain_name for b in brains] == [BEHAVIOR]
    assert {i.group_id for i in decisions(third)} == {1, 2}
    trainer.quit()
    assert player.wait(WAIT_S) == 0
    log = (tmp_path / "Player.log").read_text()
    assert "Connected to a trainer on port" in log
    assert log.rstrip().endswith("The trainer asked to quit.")


def test_player_process_plays_the_simulator_of_the_same_seed(
    trainer: Any, start_player: Any, small_scenario: Path
) -> None:
    start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port), "--first-env", "3")
    trainer.shake_hands(seed=11, num_areas=2)
    roster = open_world(load_scenario(small_scenario)).roster(2, first_env=3)
    roster.reset(11)
    rng = np.random.default_rng(0)
    arrays = roster.arrays.roles["carrier"]
    ids = np.arange(arrays.agent_mask.size).reshape(arrays.agent_mask.shape)
    num_ended = 0
    request = trainer.receive()
    require_equal(request, roster, np.zeros_like(arrays.rewards))
    for _ in range(70):
        trainer.reply(agent_actions=actions_for(roster, rng))
        roster.step()
        request = trainer.receive()
        over = bool(roster.arrays.episode_over.any())
        require_equal(request, roster, np.zeros_like(arrays.rewards) if over else arrays.rewards)
        ended = [i for i in request.unity_output.rl_output.agentInfos[BEHAVIOR].value if i.done]
        assert bool(ended) == over
        if over:
            num_ended += 1
            np.testing.assert_array_equal([i.id for i in ended], ids.ravel())
            np.testing.assert_array_equal([i.reward for i in ended], arrays.rewards.ravel())
            assert all(i.max_step_reached for i in ended)
            final = arrays.final_observations.reshape(len(ended), -1)
            np.testing.assert_array_equal([i.observations[0].float_data.data for i in ended], final)
            require_statistics(request.unity_output.rl_output.side_channel, roster)
        assert [i.id for i in decisions(request)] == ids.ravel().tolist()
    assert num_ended == 2
    trainer.quit()
    roster.close()


def require_statistics(data: bytes, roster: Roster) -> None:
    """Every metric of every area, most recent value."""
    found = {}
    while data:
        length, key_length = struct.unpack_from("<ii", data, 16)
        key = data[24 : 24 + key_length].decode()
        value, aggregation = struct.unpack_from("<fi", data, 24 + key_length)
        assert aggregation == 1
        found[key] = value
        data = data[20 + length :]
    expected = {
        f"episode/{area}/{name}": np.float32(value)
        for area, row in enumerate(roster.arrays.metrics)
        for name, value in zip(roster.spec.metric_names, row, strict=True)
    }
    assert found == expected


def test_player_process_despawns_and_respawns_with_new_ids(
    trainer: Any, start_player: Any, crowded_scenario: Path
) -> None:
    start_player("--scenario", str(crowded_scenario), "--mlagents-port", str(trainer.port))
    trainer.shake_hands(seed=1)
    roster = open_world(load_scenario(crowded_scenario)).roster(1)
    roster.reset(1)
    rng = np.random.default_rng(0)
    arrays = roster.arrays.roles["carrier"]
    ids = np.arange(arrays.agent_mask.size).reshape(arrays.agent_mask.shape)
    next_id = ids.size
    request = trainer.receive()
    num_despawned = 0
    for _ in range(100):
        trainer.reply(agent_actions=actions_for(roster, rng))
        roster.step()
        request = trainer.receive()
        ended = [i for i in request.unity_output.rl_output.agentInfos[BEHAVIOR].value if i.done]
        gone = arrays.terminated | arrays.truncated
        assert [i.id for i in ended] == ids[gone].tolist()
        assert [i.max_step_reached for i in ended] == arrays.truncated[gone].tolist()
        num_despawned += int(arrays.terminated.sum())
        ids[arrays.terminated] = -1
        born = arrays.agent_mask & (ids < 0)
        ids[born] = np.arange(next_id, next_id + born.sum())
        next_id += int(born.sum())
        assert [i.id for i in decisions(request)] == ids[arrays.agent_mask].tolist()
    assert num_despawned > 3
    assert next_id > ids.size
    trainer.quit()
    roster.close()


def test_player_process_quits_silently_when_the_trainer_vanishes(
    trainer: Any, start_player: Any, small_scenario: Path, tmp_path: Path
) -> None:
    player = start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port))
    trainer.shake_hands()
    trainer.receive()
    trainer.vanish()
    assert player.wait(WAIT_S) == 0
    assert (tmp_path / "Player.log").read_text().rstrip().endswith("The trainer is gone.")


def test_player_process_quits_when_told_so_in_the_handshake(
    trainer: Any, start_player: Any, small_scenario: Path
) -> None:
    player = start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port))
    trainer.receive()
    trainer.quit()
    assert player.wait(WAIT_S) == 0


def test_player_process_names_both_versions_when_the_trainer_turns_it_away(
    trainer: Any, start_player: Any, small_scenario: Path, tmp_path: Path
) -> None:
    arguments = ["--scenario", str(small_scenario), "--mlagents-port", str(trainer.port)]
    player = start_player(*arguments, "--communication-version", "2.0.0", "--package-version", "9.1.0")
    first = trainer.receive().unity_output.rl_initialization_output
    assert (first.communication_version, first.package_version) == ("2.0.0", "9.1.0")
    settings = messages.InitializationInput(
        communication_version="1.5.0", capabilities=messages.all_capabilities(), num_areas=1
    )
    unity_input = messages.UnityInput(rl_initialization_input=settings)
    trainer.send(messages.UnityMessage(header=messages.Header(status=200), unity_input=unity_input))
    trainer.receive()
    trainer.quit()
    assert player.wait(WAIT_S) == 1
    assert "expected a trainer of protocol 2.0.0, got 1.5.0." in (tmp_path / "Player.log").read_text()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Lets processes that this one starts be interrupted: a shell that runs it in the background does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_player_process_says_goodbye_when_interrupted(trainer: Any, start_player: Any, small_scenario: Path) -> None:
    player = start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port))
    trainer.shake_hands()
    trainer.receive()
    player.send_signal(signal.SIGINT)
    assert trainer.receive().header.status == messages.STATUS_QUIT
    trainer.quit()  # to the call that was cut off
    trainer.quit()
    assert player.wait(WAIT_S) == 130


def test_player_process_exits_2_when_nobody_listens(start_player: Any, small_scenario: Path, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but not listening: connecting is refused
        port = unused.getsockname()[1]
        player = start_player("--scenario", str(small_scenario), "--mlagents-port", str(port))
        assert player.wait(WAIT_S) == 2
    log = (tmp_path / "Player.log").read_text()
    assert f"Couldn't connect to a trainer on port {port}: UNAVAILABLE." in log
    assert "A Unity build would run inference instead" in log


def test_player_process_exits_2_when_the_trainer_has_no_capabilities(
    trainer: Any, start_player: Any, small_scenario: Path, tmp_path: Path
) -> None:
    player = start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port))
    trainer.receive()
    trainer.send(messages.UnityMessage(header=messages.Header(status=200)))
    assert player.wait(WAIT_S) == 2
    assert "announced no capabilities" in (tmp_path / "Player.log").read_text()


def test_player_process_logs_a_traceback_and_exits_1_at_a_masked_action(
    trainer: Any, start_player: Any, small_scenario: Path, tmp_path: Path
) -> None:
    player = start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port))
    trainer.shake_hands()
    asked = decisions(trainer.receive())
    blocked = [max(range(5), key=lambda choice, i=info: i.action_mask[choice]) for info in asked]
    assert any(info.action_mask[choice] for info, choice in zip(asked, blocked, strict=True))
    chosen = [messages.AgentAction(discrete_actions=[choice]) for choice in blocked]
    trainer.reply(agent_actions={BEHAVIOR: messages.ListAgentAction(value=chosen)})
    assert player.wait(WAIT_S) == 1
    log = (tmp_path / "Player.log").read_text()
    assert "Traceback (most recent call last):" in log
    assert "ActionError" in log
    assert "carrier_" in log


def test_player_process_says_goodbye_when_it_quits_on_request(
    trainer: Any, start_player: Any, small_scenario: Path
) -> None:
    arguments = ["--scenario", str(small_scenario), "--mlagents-port", str(trainer.port), "--num-areas", "2"]
    player = start_player(*arguments, "--fault", "quit@1")
    trainer.shake_hands(num_areas=5)  # the command line counts
    assert {info.group_id for info in decisions(trainer.receive())} == {1, 2}
    trainer.reply()
    goodbye = trainer.receive()
    assert goodbye.header.status == messages.STATUS_QUIT
    trainer.quit()
    assert player.wait(WAIT_S) == 0
