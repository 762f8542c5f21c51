"""Faults that leave the process alive: what arrives at the other side. Those that end it: test_player_process.py."""

from __future__ import annotations

import time
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError

from bridge.unity import messages
from bridge.unity.player.faults import MALFORMED_EXIT_CODE, Fault

CARRIER = "carrier?team=0"


def keep_going(trainer: Any, request: Any) -> None:
    """Answer everyone who asks."""
    actions = {}
    for name, entry in request.unity_output.rl_output.agentInfos.items():
        continuous = [] if name == CARRIER else [0.5]
        action = messages.AgentAction(continuous_actions=continuous, discrete_actions=[1])
        actions[name] = messages.ListAgentAction(value=[action] * len(entry.value))
    trainer.reply(agent_actions=actions)


def test_player_is_late_once_when_a_slow_exchange_is_asked_for(trainer: Any, play: Any, scripted_roster: Any) -> None:
    play(scripted_roster(), fault=Fault("slow", 1, delay_s=0.4))
    trainer.shake_hands()
    waits = []
    for _ in range(3):
        start = time.monotonic()
        keep_going(trainer, trainer.receive())
        waits.append(time.monotonic() - start)
    assert waits[1] >= 0.35
    trainer.receive()
    trainer.quit()


def test_player_sends_observations_that_contradict_their_shape_on_request(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    play(scripted_roster(), fault=Fault("shape", 1))
    trainer.shake_hands()
    lengths = []
    for _ in range(3):
        request = trainer.receive()
        observation = request.unity_output.rl_output.agentInfos[CARRIER].value[0].observations[0]
        lengths.append((list(observation.shape), len(observation.float_data.data)))
        keep_going(trainer, request)
    assert lengths == [([3], 3), ([3], 2), ([3], 3)]
    trainer.receive()
    trainer.quit()


@pytest.mark.parametrize("kind", ["garbage", "cut"])
def test_player_sends_bytes_that_are_no_message_on_request(
    trainer: Any, play: Any, scripted_roster: Any, kind: Any
) -> None:
    raw: list[bytes] = []

    def parse(data: bytes) -> Any:
        try:
            return messages.UnityMessage.FromString(data)
        except DecodeError:
            raw.append(data)
            raise

    trainer.parse = parse
    academy = play(scripted_roster(), fault=Fault(kind, 1))
    trainer.shake_hands()
    keep_going(trainer, trainer.receive())
    assert academy.join() == MALFORMED_EXIT_CODE
    assert len(raw) == 1
    assert "The trainer refused the call" in academy.log_file.read_text()


def test_player_process_closes_its_connection_without_goodbye_on_request(
    trainer: Any, start_player: Any, small_scenario: Any, wait_for_log: Any
) -> None:
    player = start_player(
        "--scenario", str(small_scenario), "--mlagents-port", str(trainer.port), "--fault", "vanish@0"
    )
    trainer.shake_hands()
    wait_for_log("Fault on request at exchange 0: vanish")
    assert player.poll() is None
    assert trainer.is_idle()


def test_malformed_bytes_are_answered_by_grpc_itself(trainer: Any) -> None:
    """What the faults above rely on: a call whose bytes are no message ends with a status of its own."""
    with grpc.insecure_channel(f"127.0.0.1:{trainer.port}") as channel:
        call = channel.unary_unary(messages.EXCHANGE_METHOD)
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff" * 8, timeout=10)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
