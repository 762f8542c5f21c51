"""What a trainer is told when a player crashes, hangs, quits, or is of another version."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from bridge.errors import UnityPlayerDiedError, UnityProtocolError, UnityTimeoutError, UnityVersionError
from bridge.unity.launch import PlayerCommand
from bridge.unity.session import SessionOptions, UnitySession
from bridge.unity.side_channels import SideChannelHub

OPTIONS = SessionOptions(timeout_s=20)
FIRST = {
    "agents": {"AGV": [{"id": 1, "obs": [[0.0, 1.0]]}]},
    "behaviors": {"AGV": {"branches": [2]}},
}


def connect(command: PlayerCommand, options: SessionOptions = OPTIONS) -> UnitySession:
    return UnitySession(command, options, SideChannelHub([]))


def test_connect_shows_exit_code_and_log_when_the_player_crashes_in_the_handshake(
    scripted_player: Callable[..., Any],
) -> None:
    for moment in ("before_connect", "between_requests"):
        player = scripted_player(**{moment: {"crash": 7}})
        with pytest.raises(
            UnityPlayerDiedError,
            match=r"(?s)connect: expected an answer, but the player died \(exit code 7\).*Player-0.log:.*"
            r"NullReferenceException.*Player-0.out:.*stack trace on standard output",
        ):
            connect(player.command)


def test_step_raises_within_a_second_when_the_player_is_killed_in_it(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[FIRST, {"fault": {"hang": True}}])
    session = connect(player.command)
    assert session.pid is not None
    session.reset()
    os.kill(session.pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(UnityPlayerDiedError, match=r"step: .* the player died \(exit code -9 \(SIGKILL\)\)"):
        session.step({})
    assert time.monotonic() - start < 1.0


def test_step_keeps_the_log_when_a_folder_is_given(scripted_player: Callable[..., Any], tmp_path: Path) -> None:
    player = scripted_player(exchanges=[FIRST, {"fault": {"crash": 3}}])
    command = PlayerCommand(player.command.prefix, log_folder=tmp_path / "logs", worker_id=5)
    session = connect(command)
    session.reset()
    with pytest.raises(UnityPlayerDiedError, match=r"exit code 3"):
        session.step({})
    assert "everything is on fire" in (tmp_path / "logs" / "Player-5.log").read_text()


def test_connect_lists_likely_causes_when_no_player_connects(tmp_path: Path) -> None:
    idle = tmp_path / "idle.py"
    idle.write_text("import time\nprint('waiting for a licence', flush=True)\ntime.sleep(60)\n")
    with pytest.raises(
        UnityTimeoutError,
        match=r"(?s)expected a player to connect to port \d+ within 1 s, got none. Likely causes:.*Behavior Type is "
        r"not Default.*no_graphics.*another ML-Agents package.*waiting for a licence",
    ):
        connect(PlayerCommand((sys.executable, str(idle))), SessionOptions(timeout_s=1.0))


def test_step_raises_when_the_player_does_not_answer_in_time(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[FIRST, {"fault": {"hang": True}}])
    session = connect(player.command, SessionOptions(timeout_s=4.0))
    session.reset()
    with pytest.raises(UnityTimeoutError, match=r"(?s)step: expected an answer within 4 s, got none.*exchange 1"):
        session.step({})


@pytest.mark.parametrize("version", ["2.0.0", "0.15.0", "one.two", ""])
def test_connect_names_both_versions_when_they_do_not_fit(scripted_player: Callable[..., Any], version: str) -> None:
    player = scripted_player(communication_version=version, package_version="9.9.9")
    with pytest.raises(
        UnityVersionError,
        match=rf"expected protocol version 1\.5\.0 .*, got '{version}' .*com\.unity\.ml-agents '9\.9\.9'",
    ):
        connect(player.command)


def test_connect_accepts_a_player_when_only_the_minor_version_differs(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(communication_version="1.7.2", package_version="5.0.0", exchanges=[FIRST])
    session = connect(player.command)
    assert session.package_version == "5.0.0"
    session.reset()
    session.close()


def test_connect_raises_when_the_player_says_goodbye_at_once(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(before_connect={"quit": True})
    with pytest.raises(UnityPlayerDiedError, match=r"connect: expected an answer, but the player quit \(exit code 0\)"):
        connect(player.command)


def test_connect_raises_when_the_first_message_is_no_introduction(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(before_connect={"raw": "0a0308c801"})
    with pytest.raises(UnityProtocolError, match=r"expected the player to introduce itself first"):
        connect(player.command)


def test_close_ends_what_the_player_started(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(before_connect={"child": True}, exchanges=[FIRST])
    session = connect(player.command)
    assert session.pid is not None
    session.reset()
    children = psutil.Process(session.pid).children()
    assert [child.name() for child in children] == ["sleep"]
    session.close()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert alive == []


_ABANDON = """
import os, signal, sys
import psutil
from bridge.unity.launch import PlayerCommand
from bridge.unity.session import SessionOptions, UnitySession
from bridge.unity.side_channels import SideChannelHub
session = UnitySession(PlayerCommand(tuple(sys.argv[2:])), SessionOptions(timeout_s=20), SideChannelHub([]))
print(session.pid, *(child.pid for child in psutil.Process(session.pid).children()), flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "raise":
    raise RuntimeError("a bug in the trainer")
"""


@pytest.mark.parametrize(("ending", "exit_code"), [("kill", -signal.SIGKILL), ("raise", 1), ("forget", 0)])
def test_player_ends_with_all_that_it_started_when_its_trainer_ends_without_closing(
    scripted_player: Callable[..., Any], ending: str, exit_code: int
) -> None:
    player = scripted_player(before_connect={"child": True}, exchanges=[FIRST])
    trainer = subprocess.run(
        [sys.executable, "-c", _ABANDON, ending, *player.command.prefix],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert trainer.returncode == exit_code
    group = [int(pid) for pid in trainer.stdout.split()]
    assert len(group) == 2  # the player and its child
    deadline = time.monotonic() + 10
    while any(psutil.pid_exists(pid) for pid in group) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(psutil.pid_exists(pid) for pid in group)
