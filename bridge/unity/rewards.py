"""Where the rewards of a role go: none is lost, none is counted twice.

A player sends with every entry what an agent earned since its last one. What
comes with the entry that starts a life was earned before anything was asked of
it; it is held back and belongs to the life's first step. What no life can be
credited with is summed up, so that the sum of everything that was sent is the
sum of everything that is accounted for:

- an agent ended before it was ever asked, or in the exchange in which it was
  asked for the first time: there is no action that the reward could judge;
- a reset: what is left over from a life that was cut by it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bridge.unity.slots import Place, Places

__all__ = ["GroupReward", "RewardAccount", "group_metric"]

GroupReward = Literal["add", "ignore", "separate"]
"""What becomes of a group's reward: added to each member's own, ignored, or kept in arrays of its own."""

Float32 = NDArray[np.float32]
Where = Place | Places


def group_metric(role: str) -> str:
    """Name of the figure of an episode that sums up the group rewards of a role, where they are kept apart."""
    return f"group_reward_{role}"


class RewardAccount:
    """Books the rewards of one role.

    Args:
        rewards: (E, A) float32, the role's rewards of a step, written to.
        rule: What becomes of group rewards.

    Attributes:
        group_rewards: (E, A) float32, group rewards of the lives that ran before the step; zeros unless
            the rule is ``separate``.
        unclaimed: Sum of all rewards that no life could be credited with, group rewards by the rule ``add`` only.
    """

    def __init__(self, rewards: Float32, rule: GroupReward) -> None:
        self._rewards = rewards
        self._rule = rule
        self.group_rewards: Float32 = np.zeros_like(rewards)
        self.unclaimed = 0.0
        self._held: Float32 = np.zeros_like(rewards)
        self._held_group: Float32 = np.zeros_like(rewards)

    def begin_step(self) -> None:
        """Clear the rewards of the last step."""
        self._rewards[:] = 0.0
        self.group_rewards[:] = 0.0

    def begin_life(self, where: Where, own: float | Float32, group: float | Float32) -> None:
        """Hold back what came before the first steps of lives; arguments as in :meth:`credit`."""
        mine, apart = self._split(own, group)
        self._held[where] += mine
        self._held_group[where] += apart

    def credit(self, where: Where, own: float | Float32, group: float | Float32) -> None:
        """Give lives that run what they earned in this step, with what was held back for them.

        Args:
            where: A place, or (n,) environments and (n,) slots, each pair once.
            own: Their own rewards, one each.
            group: Their groups' rewards, one each.
        """
        mine, apart = self._split(own, group)
        self._rewards[where] += self._held[where] + mine
        self._held[where] = 0.0
        if self._rule == "separate":
            self.group_rewards[where] += self._held_group[where] + apart
            self._held_group[where] = 0.0

    def credit_all(self, own: Float32, group: Float32) -> None:
        """As :meth:`credit`, to all slots: (E, A) rewards."""
        mine, apart = self._split(own, group)
        self._rewards += self._held + mine
        self._held[:] = 0.0
        if self._rule == "separate":
            self.group_rewards += self._held_group + apart
            self._held_group[:] = 0.0

    def forfeit(self, where: Where) -> None:
        """Lives end without a step: nobody can be credited with what was held back."""
        self.unclaimed += float(self._held[where].sum(dtype=np.float64))
        self._held[where] = 0.0
        self._held_group[where] = 0.0

    def forfeit_all(self) -> None:
        """As :meth:`forfeit`, in all slots."""
        self.unclaimed += float(self._held.sum(dtype=np.float64))
        self._held[:] = 0.0
        self._held_group[:] = 0.0

    def leave_unclaimed(self, own: float | Float32, group: float | Float32) -> None:
        """Rewards of agents that do not live here."""
        self.unclaimed += float(np.sum(self._split(own, group)[0], dtype=np.float64))

    def _split(self, own: float | Float32, group: float | Float32) -> tuple[float | Float32, float | Float32]:
        """What goes into the rewards and what into the group rewards."""
        match self._rule:
            case "add":
                return own + group, 0.0
            case "ignore":
                return own, 0.0
            case "separate":
                return own, group
