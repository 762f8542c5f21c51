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

import numpy as np
from numpy.typing import NDArray

from bridge.unity.messages import ROSTER_CHANNEL
from bridge.unity.mlagents_types import SideChannel
from bridge.unity.side_channels.codec import PayloadReader

__all__ = ["MAX_ANNOUNCED", "ROSTER_VERSION", "Announced", "Identity", "RosterChannel"]

ROSTER_VERSION: Final = 1

MAX_ANNOUNCED: Final = 100_000
"""Most agents that are remembered; where there are more, the half that was announced first goes."""

_MAX_ROLE_BYTES: Final = 1024
_MAX_UNUSED_ROLES: Final = 256
_HEAD_BYTES: Final = 8
_BEFORE_ROLE: Final = 12
_BESIDE_ROLE: Final = 16
_AREA, _SLOT, _ROLE, _AGE = range(4)


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


class Announced(NamedTuple):
    """What was announced of n agents.

    Attributes:
        known: (n,) bool, something was; else the rest has no meaning.
        areas: (n,) int64.
        slots: (n,) int64.
        roles: (n,) int64, numbers of roles, see :meth:`RosterChannel.role_number`.
    """

    known: NDArray[np.bool_]
    areas: NDArray[np.int64]
    slots: NDArray[np.int64]
    roles: NDArray[np.int64]


class RosterChannel(SideChannel):  # type: ignore[misc]
    """Remembers what the scene announced."""

    def __init__(self) -> None:
        super().__init__(ROSTER_CHANNEL)
        self.clear()

    def on_message_received(self, message: Any) -> None:
        """Take in one announcement; of a malformed one, nothing.

        Raises:
            UnityProtocolError: The message is malformed, or of another version.
        """
        payload = bytes(message.buffer)
        reader = PayloadReader(payload, "RosterChannel")
        reader.int32("version", ROSTER_VERSION, ROSTER_VERSION)
        count = reader.int32("number of agents", 0, MAX_ANNOUNCED)
        columns = self._alike(payload, count)
        if columns is None:
            columns = self._one_by_one(reader, count)
        self._remember(columns)

    def look_up(self, agent_ids: NDArray[np.int32]) -> Announced:
        """What was announced of agents, (n,) int32."""
        ids = self._ids[: self._count]
        if not len(ids):
            nothing = np.zeros(len(agent_ids), np.int64)
            return Announced(np.zeros(len(agent_ids), np.bool_), nothing, nothing, nothing)
        found = np.minimum(np.searchsorted(ids, agent_ids), len(ids) - 1)
        rows = self._rows[found]
        return Announced(ids[found] == agent_ids, rows[:, _AREA], rows[:, _SLOT], rows[:, _ROLE])

    def identity(self, agent_id: int) -> Identity | None:
        """What was announced of an agent; None if nothing was."""
        known, areas, slots, roles = self.look_up(np.array([agent_id], np.int32))
        return Identity(int(areas[0]), self.role_name(int(roles[0])), int(slots[0])) if known[0] else None

    def role_number(self, role: str) -> int:
        """The number of a role in what :meth:`look_up` returns; -1 for one that was never announced."""
        return self._numbers.get(role, -1)

    def role_name(self, number: int) -> str:
        """The role with a number."""
        return self._names[number]

    def clear(self) -> None:
        """Forget everything; another player numbers its agents anew."""
        self._count = 0
        self._age = 0
        # Sorted ids and what belongs to them: area, slot, role, number of the message. Longer than what is in them.
        self._ids: NDArray[np.int64] = np.zeros(64, np.int64)
        self._rows: NDArray[np.int64] = np.zeros((64, 4), np.int64)
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return self._count

    def _one_by_one(self, reader: PayloadReader, count: int) -> NDArray[np.int64]:
        """(n, 4) int64 of a message: agent, area, slot and role."""
        columns = np.zeros((count, 4), np.int64)
        roles = []
        for row in columns:
            row[0] = reader.int32("agent id")
            row[1] = reader.int32("area", 0)
            roles.append(reader.string("role", _MAX_ROLE_BYTES))
            row[2] = reader.int32("slot", 0)
        reader.end()
        columns[:, 3] = [self._number_of(role) for role in roles]
        return columns

    def _alike(self, payload: bytes, count: int) -> NDArray[np.int64] | None:
        """As :meth:`_one_by_one`, without a loop; None unless all names of roles are equally long and all is well."""
        if count == 0 or len(payload) < _HEAD_BYTES + _BESIDE_ROLE:
            return None
        length = int.from_bytes(payload[_HEAD_BYTES + 8 : _HEAD_BYTES + _BEFORE_ROLE], "little", signed=True)
        if not 0 <= length <= _MAX_ROLE_BYTES or len(payload) != _HEAD_BYTES + count * (_BESIDE_ROLE + length):
            return None
        table = np.frombuffer(payload, np.uint8, offset=_HEAD_BYTES).reshape(count, _BESIDE_ROLE + length)
        numbers = np.concatenate([table[:, :_BEFORE_ROLE], table[:, -4:]], axis=1).view("<i4")  # (n, 4)
        agents, areas, lengths, slots = numbers.T.astype(np.int64)
        if (lengths != length).any() or min(areas.min(), slots.min()) < 0:
            return None
        names = table[:, _BEFORE_ROLE:-4]
        if (names == names[0]).all():
            distinct, which = names[:1], np.zeros(count, np.int64)
        else:
            distinct, which = np.unique(names, axis=0, return_inverse=True)
        known = [self._number_of(name.tobytes().decode("ascii", errors="replace")) for name in distinct]
        return np.stack([agents, areas, slots, np.array(known)[which.ravel()]], axis=1)

    def _number_of(self, role: str) -> int:
        number = self._numbers.setdefault(role, len(self._names))
        if number == len(self._names):
            self._names.append(role)
        return number

    def _remember(self, columns: NDArray[np.int64]) -> None:
        """Take in (n, 4) agents, areas, slots and roles; the last one of an agent counts."""
        ids, last = np.unique(columns[::-1, 0], return_index=True)
        new = columns[len(columns) - 1 - last]
        new = np.stack([new[:, 1], new[:, 2], new[:, 3], np.full(len(new), self._age)], axis=1)
        self._age += 1
        if len(ids) and self._count and ids[0] <= self._ids[self._count - 1]:
            keeps = ~np.isin(self._ids[: self._count], ids)
            ids = np.concatenate([self._ids[: self._count][keeps], ids])
            new = np.concatenate([self._rows[: self._count][keeps], new])
            order = ids.argsort(kind="stable")
            ids, new = ids[order], new[order]
            self._count = 0
        count = self._count + len(ids)
        if count > len(self._ids):  # twice as much, so that appending stays cheap
            self._ids = np.concatenate([self._ids[: self._count], np.zeros(count, np.int64)])
            self._rows = np.concatenate([self._rows[: self._count], np.zeros((count, 4), np.int64)])
        self._ids[self._count : count] = ids
        self._rows[self._count : count] = new
        self._count = count
        if count > MAX_ANNOUNCED:
            self._forget_oldest(max(MAX_ANNOUNCED // 2, len(columns)))
        elif len(self._names) > count + _MAX_UNUSED_ROLES:
            self._forget_oldest(count)

    def _forget_oldest(self, keep: int) -> None:
        """Keep the agents that were announced last, and the names of their roles."""
        newest = np.sort(self._rows[: self._count, _AGE].argsort(kind="stable")[-keep:])
        self._ids, self._rows = self._ids[newest], self._rows[newest]
        self._count = len(newest)
        used, which = np.unique(self._rows[:, _ROLE], return_inverse=True)
        self._rows[:, _ROLE] = which.ravel()
        self._names = [self._names[number] for number in used.tolist()]
        self._numbers = {name: number for number, name in enumerate(self._names)}
