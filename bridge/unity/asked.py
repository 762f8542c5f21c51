"""Who asked for a decision in an exchange, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bridge.roster import RoleArrays
from bridge.unity.encode import BehaviorActions

__all__ = ["Asked"]


@dataclass(frozen=True)
class Asked:
    """Entries of one behavior that asked for a decision, in the player's order.

    Attributes:
        agent_id: (n,) int32.
        envs: (n,) intp.
        slots: (n,) intp.
        is_owed: (n,) bool, False where the agent ended after it had asked: an action is due, but nobody chooses it.
        is_everyone: The entries are those of all slots in their order.
    """

    agent_id: NDArray[np.int32]
    envs: NDArray[np.intp]
    slots: NDArray[np.intp]
    is_owed: NDArray[np.bool_]
    is_everyone: bool = False

    @classmethod
    def nowhere(cls, agent_id: NDArray[np.int32]) -> Self:
        """Entries whose places have yet to be filled in."""
        count = len(agent_id)
        return cls(agent_id, np.zeros(count, np.intp), np.zeros(count, np.intp), np.ones(count, np.bool_))

    def among(self, shape: tuple[int, ...]) -> Self:
        """The same when all places are filled in, told whether they are all of (E, A) slots."""
        order = self.envs * shape[1] + self.slots
        everyone = len(order) == shape[0] * shape[1] and bool((order == np.arange(len(order))).all())
        return replace(self, is_everyone=everyone)

    def chosen(self, arrays: RoleArrays) -> BehaviorActions:
        """What the policy chose for them."""
        continuous = arrays.continuous_actions[self.envs, self.slots]
        discrete = arrays.discrete_actions[self.envs, self.slots]
        continuous[~self.is_owed] = 0.0
        discrete[~self.is_owed] = 0
        return BehaviorActions(continuous, discrete)
