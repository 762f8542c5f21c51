"""Which training area an agent is in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError

__all__ = ["AreaTable"]


class AreaTable:
    """Which environment a group of agents belongs to: group ids in ascending order as they appear.

    With one environment all agents belong to it, whatever their groups: there a group may be a team.

    Args:
        num_envs: Number of environments E.
    """

    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs
        self._envs: dict[int, int] = {}

    def learn(self, group_ids: list[NDArray[np.int32]]) -> None:
        """Give environments to groups that have not been seen, in ascending order.

        Args:
            group_ids: Group ids of all entries of an exchange.

        Raises:
            SpecMismatchError: An agent has no group, or there are more groups than environments.
        """
        if self._num_envs == 1 or not group_ids:
            return
        for group in np.unique(np.concatenate(group_ids)).tolist():
            if group in self._envs:
                continue
            if group == 0:
                raise SpecMismatchError(
                    f"UnityRoster: expected every agent to be in a group when there are {self._num_envs} areas, "
                    "got one without. Register the agents of each area with a SimpleMultiAgentGroup, or use one area."
                )
            if len(self._envs) == self._num_envs:
                raise SpecMismatchError(
                    f"UnityRoster: expected {self._num_envs} groups of agents, one per area, got the groups "
                    f"{sorted(self._envs)} and {group}. Start the player with as many areas as it has groups."
                )
            self._envs[group] = len(self._envs)

    def envs(self, group_ids: NDArray[np.int32]) -> NDArray[np.intp]:
        """Environments of groups that have been learnt, (N,) int32 -> (N,) intp."""
        if self._num_envs == 1:
            return np.zeros(len(group_ids), np.intp)
        groups, inverse = np.unique(group_ids, return_inverse=True)
        return np.array([self._envs[group] for group in groups.tolist()], np.intp)[inverse]
