"""One player from start to end: launch, handshake, exchanges, goodbye.

The layer below :mod:`bridge.unity.environment` and :mod:`bridge.unity.roster`:
it knows the order of the messages, watches the player, and hands out decoded
arrays; it knows nothing of episodes. Every wait has a time limit, and while it
waits it looks after the player, so that a crash is noticed within a second.
"""

from __future__ import annotations

import logging
import re
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

from bridge.errors import (
    CallOrderError,
    UnityPlayerDiedError,
    UnityProtocolError,
    UnityTimeoutError,
    UnityVersionError,
)
from bridge.unity.behaviors import Behavior
from bridge.unity.blank_images import BlankImageWatch
from bridge.unity.decode import OutputDecoder, PlayerOutput, parse_initialization
from bridge.unity.encode import BehaviorActions, encode_initialization, encode_reset, encode_step
from bridge.unity.images import sends_channels_first
from bridge.unity.launch import PlayerCommand, PlayerResources
from bridge.unity.messages import API_VERSION, STATUS_QUIT
from bridge.unity.player_process import PlayerProcess, describe_exit
from bridge.unity.server import LOOPBACK, ExchangeServer, quit_reply
from bridge.unity.side_channels import SideChannelHub
from bridge.unity.wire import Request, compile_kernels, read_request

__all__ = ["SessionOptions", "UnitySession"]

_LOG = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_GOODBYE_S: Final = 5.0
_CLOSE_GRACE_S: Final = 10.0

_CONNECT_CAUSES = (
    "it needs a user to get past a dialog",
    "it has no agent that asks for decisions (no Decision Requester, or Behavior Type is not Default)",
    "it needs a display (start it with no_graphics)",
    "it was built with another ML-Agents package",
    "it is still loading (raise the time limit)",
)
_ATTACH_CAUSES = (
    "nobody pressed Play in the Editor, or the player was started without --mlagents-port and this port",
    "another program listens on the port, or the player runs on another machine (listen on its address)",
    "it has no agent whose Behavior Type is Default",
    "connecting is switched off in the Editor (Project Settings, ML-Agents)",
)
_STEP_CAUSES = (
    "no agent asks for a decision any more",
    "the scene is paused or in an endless loop",
    "a step takes longer than the time limit (raise it)",
)


@dataclass(frozen=True)
class SessionOptions:
    """What is agreed on when a player connects.

    Attributes:
        seed: Seed of Unity's random numbers.
        num_areas: Number of training areas.
        timeout_s: Longest wait for the player to connect, and for each answer.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
    """

    seed: int = 0
    num_areas: int = 1
    timeout_s: float = 60.0
    host: str = LOOPBACK
    port: int = 0


class UnitySession:
    """Starts a player, or waits for one, and talks with it until it is closed.

    After any error the player has been ended and the session is closed.

    Args:
        command: How to start the player; None waits for one that somebody else starts.
        options: What is agreed on when it connects.
        channels: Its side channels.

    Attributes:
        behaviors: Behaviors that have appeared, by name on the wire; grows.
        package_version: Version of the player's ML-Agents package.
        capabilities: What the player announced, a ``Capabilities`` message.

    Raises:
        UnityPlayerDiedError: The player cannot be started, or ended before it was connected.
        UnityTimeoutError: It did not connect in time.
        UnityVersionError: It speaks another version of the protocol.
        UnityProtocolError: It did not introduce itself as the protocol demands.
        UnityPortError: The port is taken.
    """

    def __init__(self, command: PlayerCommand | None, options: SessionOptions, channels: SideChannelHub) -> None:
        self._decoder = OutputDecoder()
        self.behaviors: dict[str, Behavior] = self._decoder.behaviors
        self._options = options
        self._channels = channels
        self._closed = False
        self._running = False
        self._blank_images = BlankImageWatch() if command is not None and command.is_without_graphics else None
        # Before a player can wait for an answer.
        compile_kernels()
        self._resources = PlayerResources(ExchangeServer(options.host, options.port))
        # Also without close(): at garbage collection, and at the end of the interpreter.
        self._finalizer = weakref.finalize(self, self._resources.release, 0.0)
        try:
            if command is None:
                _LOG.warning(
                    "waiting up to %g s for a player to connect to %s:%d: press Play in the Unity Editor, or start "
                    "the player with --mlagents-port %d.",
                    options.timeout_s,
                    options.host,
                    self.port,
                    self.port,
                )
            else:
                self._resources.launch(command)
            introduction = self._handshake()
        except BaseException:
            self.close(grace_s=0.0)
            raise
        self.package_version: str = introduction.package_version
        self.capabilities: Any = introduction.capabilities

    @property
    def port(self) -> int:
        """The port that the player connects to."""
        return self._resources.server.port

    @property
    def pid(self) -> int | None:
        """Process id of the player; None if somebody else started it."""
        return None if self._resources.process is None else self._resources.process.pid

    def reset(self) -> PlayerOutput:
        """Start new episodes; returns what the agents see then.

        Raises:
            CallOrderError: The session is closed.
            UnityPlayerDiedError: The player crashed or quit.
            UnityTimeoutError: It did not answer in time.
            UnityProtocolError: Its answer breaks the protocol.
        """
        self._require_open("reset")
        output = self._exchange(encode_reset(self._channels.collect()), "reset")
        self._running = True
        return output

    def step(self, actions: Mapping[str, BehaviorActions]) -> PlayerOutput:
        """Give the agents that asked their actions; returns the next exchange.

        Args:
            actions: Per behavior, for exactly the entries of the last exchange that asked for a decision.

        Raises:
            CallOrderError: Before the first reset, or after close.
            UnityPlayerDiedError: The player crashed or quit.
            UnityTimeoutError: It did not answer in time.
            UnityProtocolError: Its answer breaks the protocol.
        """
        self._require_open("step")
        if not self._running:
            raise CallOrderError("UnitySession.step: expected a reset first, got a step.")
        return self._exchange(encode_step(actions, self._channels.collect()), "step")

    def close(self, grace_s: float = _CLOSE_GRACE_S) -> None:
        """Ask the player to quit, wait for its end, and kill it after ``grace_s``; may be called twice."""
        self._closed = True
        if self._finalizer.detach() is not None:
            self._resources.release(grace_s)

    def _require_open(self, call: str) -> None:
        if self._closed:
            raise CallOrderError(f"UnitySession.{call}: expected an open session, got a closed one. Make a new one.")

    def _handshake(self) -> Any:
        request = self._receive("connect")
        if request.initialization is None:
            raise UnityProtocolError(
                "UnitySession.connect: expected the player to introduce itself first, got a message without "
                "rl_initialization_output. Restart the player."
            )
        introduction = parse_initialization(request.initialization)
        _require_compatible(introduction.communication_version, introduction.package_version)
        self._decoder.channels_first = sends_channels_first(introduction.package_version)
        mine = encode_initialization(
            self._options.seed, self._options.num_areas, API_VERSION, f"agv-bridge {version('agv-bridge')}"
        )
        self._resources.server.reply(mine)
        # The player's second request is answered by the first reset.
        self._receive("connect")
        return introduction

    def _exchange(self, reply: bytes, call: str) -> PlayerOutput:
        try:
            self._resources.server.reply(reply)
            output = self._decoder.decode(self._receive(call))
            if self._blank_images is not None:
                self._blank_images.look(self.behaviors, output.batches)
            self._channels.deliver(output.side_channel)
        except BaseException:
            self.close(grace_s=0.0)
            raise
        return output

    def _receive(self, call: str) -> Request:
        request = read_request(self._wait_for_request(call))
        if request.status == STATUS_QUIT:
            self._resources.server.reply(quit_reply())
            raise UnityPlayerDiedError(self._obituary(call, "the player quit", _GOODBYE_S))
        return request

    def _wait_for_request(self, call: str) -> bytes:
        server, process = self._resources.server, self._resources.process
        deadline = time.monotonic() + self._options.timeout_s
        while True:
            data = server.receive(min(_POLL_S, self._options.timeout_s))
            if data is not None:
                return data
            if process is not None and process.exit_code() is not None:
                # What a player sent before it ended is still read.
                data = server.receive(0.0)
                if data is None:
                    raise UnityPlayerDiedError(self._obituary(call, "the player died", 0.0))
                return data
            if time.monotonic() > deadline:
                raise UnityTimeoutError(self._timeout_message(call))

    def _obituary(self, call: str, what: str, wait_s: float) -> str:
        process = self._resources.process
        if process is None:
            return f"UnitySession.{call}: expected an answer, but {what}. Start it again."
        code = process.wait(wait_s)
        how = "it is still running" if code is None else describe_exit(code)
        return f"UnitySession.{call}: expected an answer, but {what} ({how}).{_shown_log(process)}"

    def _timeout_message(self, call: str) -> str:
        causes: tuple[str, ...] = _STEP_CAUSES
        if call == "connect":
            causes = _ATTACH_CAUSES if self._resources.process is None else _CONNECT_CAUSES
        wanted = f"a player to connect to port {self.port}" if call == "connect" else "an answer"
        process = self._resources.process
        lines = [
            f"UnitySession.{call}: expected {wanted} within {self._options.timeout_s:g} s, got none. Likely causes:"
        ]
        lines += [f"  - {cause}" for cause in causes]
        return "\n".join(lines) + ("" if process is None else _shown_log(process))


def _shown_log(process: PlayerProcess) -> str:
    tail = process.log_tail()
    return f" Its last words:\n{tail}" if tail else " It wrote no log."


def _require_compatible(theirs: str, package: str) -> None:
    """Versions agree when their first numbers do, as on the C# side."""
    match = re.fullmatch(r"(\d+)\.\d+(\.\d+)?", theirs, re.ASCII)
    if match is None or match[1] != API_VERSION.split(".")[0]:
        raise UnityVersionError(
            f"UnitySession.connect: expected protocol version {API_VERSION} or another with the same first number, "
            f"got {theirs[:40]!r} from a player with com.unity.ml-agents {package[:40]!r}. "
            "Build the player with com.unity.ml-agents 2.0 or newer."
        )
