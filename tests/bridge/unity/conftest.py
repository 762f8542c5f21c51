"""Scripted players, and the rule that no test leaves a process behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from bridge.unity.launch import PlayerCommand

_PROGRAM = Path(__file__).with_name("scripted_player.py")


@dataclass(frozen=True)
class ScriptedPlayer:
    """A script on disk and how to start its player."""

    command: PlayerCommand
    build: str
    record: Path

    def replies(self) -> list[dict[str, Any]]:
        """What the player was answered, from the first request on."""
        return [json.loads(line) for line in self.record.read_text().splitlines()]

    def wait_for_replies(self, count: int) -> list[dict[str, Any]]:
        """The first ``count`` replies; the player writes a reply down after it has arrived."""
        import time

        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            replies = self.replies() if self.record.exists() else []
            if len(replies) >= count:
                return replies[:count]
            time.sleep(0.01)
        raise AssertionError(f"the player recorded fewer than {count} replies")


@pytest.fixture
def scripted_player(tmp_path: Path) -> Callable[..., ScriptedPlayer]:
    """Makes a player from the keys of a script; see ``scripted_player.py``."""

    def make(**script: Any) -> ScriptedPlayer:
        record = tmp_path / "replies.jsonl"
        path = tmp_path / "script.json"
        path.write_text(json.dumps({"record": str(record), **script}))
        build = tmp_path / "build.d" / "AGV scene[1]"
        build.parent.mkdir(exist_ok=True)
        executable = build.with_name(build.name + ".x86_64")
        executable.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{_PROGRAM}" --script "{path}" "$@"\n')
        executable.chmod(0o755)
        prefix = (sys.executable, str(_PROGRAM), "--script", str(path))
        return ScriptedPlayer(PlayerCommand(prefix), str(build), record)

    return make


@pytest.fixture(autouse=True)
def no_leftover_processes() -> Iterator[None]:
    """Fail a test that leaves a child process running or unreaped."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    commands = [child.cmdline() for child in left if child.is_running()]
    for child in left:
        child.kill()
    assert not left, f"left behind: {commands}"
