"""A player as a child process: found, started, watched, ended.

The player runs in a session of its own, so that Ctrl-C in the trainer's
terminal does not reach it. It never outlives the trainer: a small watchdog
process waits for the end of a pipe that only the trainer holds, and kills the
player's process group when the pipe ends, also when the trainer was killed
with SIGKILL (POSIX; on Windows a player quits when its trainer is gone).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bridge.errors import UnityPlayerDiedError

__all__ = ["PlayerProcess", "describe_exit", "player_arguments", "resolve_player"]

_TAIL_LINES: Final = 20
_TAIL_BYTES: Final = 8192
_KILL_TIMEOUT_S: Final = 5.0

# Reads the process group, then waits for the end of the pipe. An empty group means that nothing was started.
# Not "kill -KILL --", which dash, the /bin/sh of Debian and Ubuntu, refuses.
_WATCHDOG = 'read -r group; read -r end; if [ -n "$group" ]; then kill -s KILL -- "-$group"; fi'


def resolve_player(path: str | Path, platform: str = sys.platform) -> Path:
    """The executable that a build's path stands for.

    A path is taken as it is when it is a file. Else, as builds are often named
    without their suffix: Linux tries ``PATH.x86_64`` and ``PATH.x86``, macOS the
    bundle ``PATH`` or ``PATH.app``, Windows ``PATH.exe`` and, in a folder, the
    only ``*.exe`` that is not Unity's crash handler. Nothing is removed from the
    path and no character in it is a wildcard.

    Raises:
        UnityPlayerDiedError: There is no such build; lists what was tried.
    """
    given = Path(path).expanduser()
    candidates = [given]
    if platform == "darwin":
        candidates += [*_bundle_executables(given), *_bundle_executables(given.with_name(given.name + ".app"))]
    elif platform == "win32":
        candidates += [given.with_name(given.name + ".exe"), *_windows_executables(given)]
    else:
        candidates += [given.with_name(given.name + suffix) for suffix in (".x86_64", ".x86")]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    tried = ", ".join(str(candidate) for candidate in candidates)
    raise UnityPlayerDiedError(
        f"resolve_player: expected a Unity build, got {str(path)!r}. "
        f"Give the path of the build's executable; tried {tried}."
    )


def _bundle_executables(bundle: Path) -> list[Path]:
    folder = bundle / "Contents" / "MacOS"
    if not folder.is_dir():
        return []
    return [folder / bundle.name.removesuffix(".app"), *sorted(folder.iterdir())]


def _windows_executables(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        file
        for file in folder.iterdir()
        if file.suffix.lower() == ".exe" and not file.name.startswith("UnityCrashHandler")
    )


def player_arguments(
    port: int, *, no_graphics: bool = False, log_file: Path | None = None, additional: Sequence[str] = ()
) -> list[str]:
    """Command-line arguments of a player, in the order in which Unity's own trainer gives them."""
    arguments = ["-nographics", "-batchmode"] if no_graphics else []
    arguments += ["--mlagents-port", str(port)]
    if log_file is not None:
        arguments += ["-logFile", str(log_file)]
    return [*arguments, *additional]


def describe_exit(code: int) -> str:
    """An exit code in words, with the signal's name where one ended the process."""
    if code >= 0:
        return f"exit code {code}"
    known = {member.value: member.name for member in signal.Signals}
    return f"exit code {code} ({known.get(-code, 'unknown signal')})"


class PlayerProcess:
    """Runs one player.

    Args:
        command: Executable and arguments.
        log_files: Files that the player writes its log to; shown when it dies.
        output_file: File that its standard output and error go to.

    Raises:
        UnityPlayerDiedError: The command cannot be started.
    """

    def __init__(self, command: Sequence[str], *, output_file: Path, log_files: Sequence[Path] = ()) -> None:
        self._files = [*log_files, output_file]
        self._final_code: int | None = None
        self._watchdog = _start_watchdog()
        try:
            with output_file.open("wb") as output:
                self._process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            _end_watchdog(self._watchdog)
            raise UnityPlayerDiedError(
                f"PlayerProcess: expected a command that starts, got {command[0]!r}: {error.strerror}. "
                "Check the path and make the file executable (chmod +x)."
            ) from error
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._watchdog.stdin.write(f"{self._process.pid}\n".encode())
            self._watchdog.stdin.flush()

    @property
    def pid(self) -> int:
        """Process id of the player, also the id of its process group."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """The exit code, negative if a signal ended it, or None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the player to end; None if it has not in time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def log_tail(self) -> str:
        """The last lines of the player's log and output, indented; empty if it wrote nothing."""
        parts = []
        for file in self._files:
            lines = _last_lines(file)
            if lines:
                parts.append("\n".join([f"  {file}:", *(f"    {line}" for line in lines)]))
        return "\n".join(parts)

    def close(self, grace_s: float) -> int:
        """End the player and everything that it started, and return its exit code; may be called twice.

        Args:
            grace_s: Time that it gets to end by itself.
        """
        if self._final_code is None:
            self.wait(grace_s)
            _kill_group(self.pid)  # also after a clean end: children of the player may still run
            self._final_code = self._process.wait(_KILL_TIMEOUT_S)
            _end_watchdog(self._watchdog)
        return self._final_code


def _start_watchdog() -> subprocess.Popen[bytes] | None:
    if os.name != "posix":
        return None
    return subprocess.Popen(
        ["/bin/sh", "-c", _WATCHDOG],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end_watchdog(watchdog: subprocess.Popen[bytes] | None) -> None:
    if watchdog is None:
        return
    watchdog.kill()
    watchdog.wait(_KILL_TIMEOUT_S)
    if watchdog.stdin is not None:
        watchdog.stdin.close()


def _kill_group(group: int) -> None:
    if os.name != "posix":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(group)], check=False, capture_output=True, timeout=30)
        return
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return  # the whole group has ended


def _last_lines(file: Path) -> list[str]:
    try:
        with file.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            text = stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []  # a player that died early may not have opened its log
    return [line for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
