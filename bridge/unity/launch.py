"""A player, the server that it connects to, and the folder of its logs: made and released together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bridge.unity.player_process import PlayerProcess, player_arguments
from bridge.unity.server import ExchangeServer

__all__ = ["PlayerCommand", "PlayerResources"]


@dataclass(frozen=True)
class PlayerCommand:
    """How to start a player.

    Attributes:
        prefix: Executable and the arguments that come first.
        no_graphics: Run without a window.
        additional: Arguments that come last.
        log_folder: Folder for the logs; None makes one that is removed at the end.
        worker_id: Number in the log files' names.
    """

    prefix: tuple[str, ...]
    no_graphics: bool = False
    additional: tuple[str, ...] = ()
    log_folder: Path | None = None
    worker_id: int = 0

    @property
    def is_without_graphics(self) -> bool:
        """Whether the player draws nothing."""
        return self.no_graphics or any(name.lower() == "-nographics" for name in self.additional)


class PlayerResources:
    """What has to be released: the server, the player, and the folder of its logs."""

    def __init__(self, server: ExchangeServer) -> None:
        self.server = server
        self._owner = os.getpid()
        self.process: PlayerProcess | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def launch(self, command: PlayerCommand) -> None:
        """Start the player.

        Raises:
            UnityPlayerDiedError: The command cannot be started.
        """
        folder = command.log_folder
        if folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="agv-bridge-player-")
            folder = Path(self._folder.name)
        folder.mkdir(parents=True, exist_ok=True)
        chosen = _log_file_argument(command.additional)
        log_file = (folder / f"Player-{command.worker_id}.log").resolve()
        arguments = player_arguments(
            self.server.port,
            no_graphics=command.no_graphics,
            log_file=None if chosen else log_file,
            additional=command.additional,
        )
        self.process = PlayerProcess(
            [*command.prefix, *arguments],
            output_file=folder / f"Player-{command.worker_id}.out",
            log_files=[Path(chosen) if chosen else log_file],
        )

    def release(self, grace_s: float) -> None:
        """Stop the server, which makes the player quit, and kill the player if it has not ended after ``grace_s``."""
        if os.getpid() != self._owner:
            return  # a forked copy of this object owns nothing
        self.server.close()
        if self.process is not None:
            self.process.close(grace_s)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _log_file_argument(arguments: Sequence[str]) -> str | None:
    """The value of ``-logFile``, which Unity reads without regard to case."""
    for name, value in pairwise(arguments):
        if name.lower() == "-logfile":
            return value
    return None
