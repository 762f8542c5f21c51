"""Scripted players, and the rule that no test leaves a process behind."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from bridge.unity.launch import PlayerCommand

_PROGRAM = Path(__file__).with_name("scripted_player.py")


def load_beside(name: str) -> Any:
    """A module of this folder that is no test."""
    known = sys.modules.get(f"unity_tests_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"unity_tests_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def live_player() -> Iterator[Callable[..., int]]:
    """Starts players in threads: gets their exchanges (a list, or what makes them), returns the port to listen on.

    They are real clients on real sockets; only the start of a process is saved.
    """
    players: list[Any] = []

    def start(exchanges: Callable[[Any], Iterable[dict[str, Any]]] | list[dict[str, Any]], **script: Any) -> int:
        make = (lambda _: exchanges) if isinstance(exchanges, list) else exchanges
        player = load_beside("scripted_player").LivePlayer(make, free_port(), **script)
        players.append(player)
        player.start()
        port: int = player.port
        return port

    yield start
    for player in players:
        player.join(20)
        assert not player.is_alive(), "a player did not end"
        if player.error is not None:
            raise player.error


@pytest.fixture(scope="session")
def csharp_scene() -> Any:
    """The module ``csharp_scene.py``."""
    return load_beside("csharp_scene")


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
