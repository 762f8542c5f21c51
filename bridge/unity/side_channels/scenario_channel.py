"""Sends a scenario to the scene, which takes it or refuses it.

What is sent, with the reset at which it is to take effect:

    int32 version, 1
    int32 number of the request, from 1
    string the resolved scenario as JSON, ASCII (other characters escaped)

What the scene answers, in the exchange after the reset:

    int32 version, 1
    int32 number of the request
    int32 0 for refused, 1 for taken
    string reason, where it was refused
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bridge.errors import SpecMismatchError
from bridge.unity.messages import SCENARIO_CHANNEL
from bridge.unity.mlagents_types import OutgoingMessage, SideChannel
from bridge.unity.side_channels.codec import PayloadReader

__all__ = ["MAX_SCENARIO_BYTES", "SCENARIO_VERSION", "ScenarioAnswer", "ScenarioChannel"]

SCENARIO_VERSION: Final = 1

MAX_SCENARIO_BYTES: Final = 3 * 1024 * 1024
"""Largest scenario; a player receives at most 4 MiB in one message."""

_MAX_REASON_BYTES: Final = 4096


class ScenarioAnswer(NamedTuple):
    """What the scene made of a scenario.

    Attributes:
        request: Number of the request.
        taken: It plays the scenario from this reset on.
        reason: Why not; empty if it was taken.
    """

    request: int
    taken: bool
    reason: str


class ScenarioChannel(SideChannel):  # type: ignore[misc]
    """Queues scenarios and keeps the answer to the last one."""

    def __init__(self) -> None:
        super().__init__(SCENARIO_CHANNEL)
        self._requests = 0
        self._answer: ScenarioAnswer | None = None

    def send(self, scenario: Mapping[str, Any]) -> int:
        """Queue a scenario for the next message to the player.

        Args:
            scenario: The resolved scenario; everything in it has a form in JSON.

        Returns:
            The number of the request, which the answer will carry.

        Raises:
            SpecMismatchError: It is too large.
        """
        text = json.dumps(scenario, separators=(",", ":"), allow_nan=False)
        if len(text) > MAX_SCENARIO_BYTES:
            raise SpecMismatchError(
                f"ScenarioChannel.send: expected a scenario of at most {MAX_SCENARIO_BYTES} bytes, got {len(text)}. "
                "A player takes no larger messages: simplify the layout."
            )
        self._requests += 1
        self._answer = None
        message = OutgoingMessage()
        message.write_int32(SCENARIO_VERSION)
        message.write_int32(self._requests)
        message.write_string(text)
        self.queue_message_to_send(message)
        return self._requests

    def answer(self, request: int) -> ScenarioAnswer | None:
        """What the scene answered to a request; None if nothing."""
        return self._answer if self._answer is not None and self._answer.request == request else None

    def on_message_received(self, message: Any) -> None:
        """Take in an answer.

        Raises:
            UnityProtocolError: The message is malformed, or of another version.
        """
        reader = PayloadReader(bytes(message.buffer), "ScenarioChannel")
        reader.int32("version", SCENARIO_VERSION, SCENARIO_VERSION)
        request = reader.int32("number of the request", 1)
        taken = reader.int32("answer", 0, 1) == 1
        reason = reader.string("reason", _MAX_REASON_BYTES)
        reader.end()
        self._answer = ScenarioAnswer(request, taken, reason)
