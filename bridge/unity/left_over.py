"""Which rewards are left over from before a reset.

A reset cuts lives without a terminal, and agents keep the rewards that they had
earned by then; the first entry of an agent that was there before carries them.
Ids only grow in a player's process, so they tell who was there.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["LeftOver"]

_NONE: Final = -1 << 31
"""No agent has a smaller id."""


class LeftOver:
    """Knows whose next entry is the first one after a reset that it was there before."""

    def __init__(self) -> None:
        self._newest = _NONE
        self._back: set[int] = set()

    def begin_reset(self, newest_id: int) -> None:
        """Agents with ids up to this one were there before."""
        self._newest = newest_id
        self._back.clear()

    def begin_restart(self) -> None:
        """Nobody was: a new player begins."""
        self.begin_reset(_NONE)

    def takes(self, agent_id: int) -> bool:
        """Whether an agent's entry carries something left over; to be asked once for each of its entries."""
        if agent_id > self._newest or agent_id in self._back:
            return False
        self._back.add(agent_id)
        return True

    def takes_all(self, agent_ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """:meth:`takes` of distinct agents, (n,) int32 -> (n,) bool."""
        old: NDArray[np.bool_] = agent_ids <= self._newest
        ids = agent_ids[old].tolist()
        old[old] = [agent_id not in self._back for agent_id in ids]
        self._back.update(ids)
        return old
