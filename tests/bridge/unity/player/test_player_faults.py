"""Faults: what arrives at the other side, and how a trainer takes each of them from a real process."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import grpc
import psutil
import pytest
from google.protobuf.message import DecodeError

from bridge.errors import AgvBridgeError, UnityPlayerDiedError, UnityProtocolError, UnityTimeoutError, UnityVersionError
from bridge.unity import messages
from bridge.unity.launch import PlayerCommand
from bridge.unity.player.faults import MALFORMED_EXIT_CODE, Fault, FaultKind
from bridge.unity.session import SessionOptions, UnitySession
from bridge.unity.side_channels import SideChannelHub

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


def test_malformed_bytes_are_answered_by_grpc_itself(trainer: Any) -> None:
    """What the faults above rely on: a call whose bytes are no message ends with a status of its own."""
    with grpc.insecure_channel(f"127.0.0.1:{trainer.port}") as channel:
        call = channel.unary_unary(messages.EXCHANGE_METHOD)
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff" * 8, timeout=10)
    assert caught.value.code() is grpc.StatusCode.INTERNAL


def open_session(scenario: Path, *arguments: str) -> UnitySession:
    prefix = (sys.executable, "-P", "-m", "bridge.unity.player", "--scenario", str(scenario))
    return UnitySession(PlayerCommand(prefix, additional=arguments), SessionOptions(timeout_s=180), SideChannelHub([]))


@pytest.fixture
def no_process_left() -> Iterator[None]:
    """After the test there are no other children of this process than before it, however deep."""
    this = psutil.Process()
    before = {child.pid for child in this.children(recursive=True)}
    yield
    _, alive = psutil.wait_procs([child for child in this.children(recursive=True) if child.pid not in before], 10)
    assert alive == []


# Kind -> what the trainer is told, and why.
TOLD: dict[FaultKind, tuple[type[AgvBridgeError], str]] = {
    "crash": (UnityPlayerDiedError, r"(?s)player died \(exit code 7\).*RuntimeError: crash on request at exchange 1$"),
    "exit": (UnityPlayerDiedError, r"(?s)player died \(exit code 3\).*Reset of 1 areas"),
    "hang": (UnityTimeoutError, r"(?s)expected an answer within 1 s, got none.*Fault on request at exchange 1: hang"),
    "vanish": (UnityTimeoutError, r"(?s)expected an answer within 1 s, got none.*Fault on request .*: vanish"),
    "quit": (UnityPlayerDiedError, r"the player quit \(exit code 0\)"),
    "garbage": (UnityProtocolError, r"expected a protocol message, got 64 bytes that are none from byte 0 on"),
    "cut": (UnityProtocolError, r"expected a protocol message, got [0-9]+ bytes that are none from byte [0-9]+ on"),
    "shape": (UnityProtocolError, r"agent 0: sensor 0 \('agv_[0-9a-f]{16}'\): expected 52 values, got 51"),
}


@pytest.mark.usefixtures("no_process_left")
@pytest.mark.parametrize("kind", TOLD)
def test_trainer_says_what_is_wrong_with_a_player_and_ends_it(
    small_scenario: Path, monkeypatch: pytest.MonkeyPatch, kind: FaultKind
) -> None:
    session = open_session(small_scenario, "--fault", "crash@1:7" if kind == "crash" else f"{kind}@1")
    session.reset()
    if kind in ("hang", "vanish"):  # the player is there, and has compiled its kernels: it is not waited for in vain
        monkeypatch.setattr(session, "_options", SessionOptions(timeout_s=1.0))
    error, message = TOLD[kind]
    with pytest.raises(error, match=message):
        session.step({})
    assert session.pid is not None
    assert not psutil.pid_exists(session.pid)


def test_every_fault_is_played_to_a_trainer() -> None:
    assert {*TOLD, "slow"} == set(get_args(FaultKind))


@pytest.mark.usefixtures("no_process_left")
def test_trainer_waits_for_a_slow_player_and_ends_it_when_it_closes(small_scenario: Path) -> None:
    session = open_session(small_scenario, "--fault", "slow@1:300")
    session.reset()
    start = time.monotonic()
    output = session.step({})
    assert time.monotonic() - start >= 0.3
    assert len(output.batches[CARRIER]) == 3
    session.close()
    assert session.pid is not None
    assert not psutil.pid_exists(session.pid)


@pytest.mark.usefixtures("no_process_left")
def test_trainer_turns_a_player_of_another_protocol_away_and_ends_it(small_scenario: Path) -> None:
    wanted = r"expected protocol version 1\.5\.0 .* got '2\.0\.0' from a player with com\.unity\.ml-agents '9\.1\.0'"
    with pytest.raises(UnityVersionError, match=wanted):
        open_session(small_scenario, "--communication-version", "2.0.0", "--package-version", "9.1.0")
