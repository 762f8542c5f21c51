"""Who is who: the scene tells area, role and slot of its agents.

Unity's agent ids say nothing about the robot behind them, and change whenever
a robot is disabled and enabled again. A scene that announces its agents on this
channel keeps each robot in its slot. One message announces any number of agents:

    int32 version, 1
    int32 number of agents, then for each
        int32  agent id, as in the agent's messages
        int32  area, from 0
        string role, the behavior's name without the team
        int32  slot in the role and area, from 0

It must arrive no later than the first decision of the agent's life in question.
Later announcements take effect with the agent's next life.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from bridge.unity.messages import ROSTER_CHANNEL
from bridge.unity.mlagents_types import SideChannel
from bridge.unity.side_channels.codec import PayloadReader

__all__ = ["MAX_ANNOUNCED", "ROSTER_VERSION", "Identity", "RosterChannel"]

ROSTER_VERSION: Final = 1

MAX_ANNOUNCED: Final = 100_000
"""Most agents that are remembered; those that were announced first go first."""

_MAX_ROLE_BYTES: Final = 1024


class Identity(NamedTuple):
    """Which robot an agent is.

    Attributes:
        area: Training area, from 0.
        role: Name of its role.
        slot: Slot in the role and area.
    """

    area: int
    role: str
    slot: int


class RosterChannel(SideChannel):  # type: ignore[misc]
    """Remembers what the scene announced."""

    def __init__(self) -> None:
        super().__init__(ROSTER_CHANNEL)
        self._identities: dict[int, Identity] = {}

    def on_message_received(self, message: Any) -> None:
        """Take in one announcement; of a malformed one, nothing.

        Raises:
            UnityProtocolError: The message is malformed, or of another version.
        """
        reader = PayloadReader(bytes(message.buffer), "RosterChannel")
        reader.int32("version", ROSTER_VERSION, ROSTER_VERSION)
        count = reader.int32("number of agents", 0, MAX_ANNOUNCED)
        announced = {}
        for _ in range(count):
            agent_id = reader.int32("agent id")
            area = reader.int32("area", 0)
            role = reader.string("role", _MAX_ROLE_BYTES)
            announced[agent_id] = Identity(area, role, reader.int32("slot", 0))
        reader.end()
        for agent_id, identity in announced.items():
            self._identities.pop(agent_id, None)  # the newest last
            self._identities[agent_id] = identity
        while len(self._identities) > MAX_ANNOUNCED:
            del self._identities[next(iter(self._identities))]

    def identity(self, agent_id: int) -> Identity | None:
        """What was announced of an agent; None if nothing was."""
        return self._identities.get(agent_id)

    def clear(self) -> None:
        """Forget everything; another player numbers its agents anew."""
        self._identities.clear()

    def __len__(self) -> int:
        return len(self._identities)
