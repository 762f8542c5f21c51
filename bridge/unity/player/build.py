"""Writes a file that trainers start as if it were a Unity build."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from bridge.scenario import find_scenario

__all__ = ["write_build"]


def write_build(
    path: str | Path, scenario: str | Path, python: str = sys.executable, arguments: Sequence[str] = ()
) -> Path:
    """Write an executable (a shell script, for Linux) that runs the headless player on a scenario.

    Args:
        path: Path of the build as it is given to ``UnityEnvironment(file_name=...)``; the
            file itself ends in ``.x86_64`` as a Linux build's does.
        scenario: Scenario file, or the name of a shipped one.
        python: Interpreter that runs the player; must have agv-bridge installed.
        arguments: Further options of the player; those of the command line come after them.

    Returns:
        The file that was written.

    Raises:
        ScenarioError: There is no such scenario.
    """
    target = Path(path)
    if target.suffix != ".x86_64":
        target = target.with_name(target.name + ".x86_64")
    # -P: the folder that the player happens to be started in must not shadow the installed package.
    command = [python, "-P", "-m", "bridge.unity.player", "--scenario", str(find_scenario(scenario).resolve())]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f'#!/bin/sh\nexec {shlex.join([*command, *arguments])} "$@"\n', encoding="utf-8")
    target.chmod(0o755)
    return target
