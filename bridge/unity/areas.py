"""Which training area an agent is in."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError

__all__ = ["AreaTable"]


class AreaTable:
    """Which environment a group of agents belongs to: group ids in ascending order as they appear.

    A group that appears when all environments have one takes the first whose own group has nobody left: after
    a scene was loaded anew, all groups are new. With one environment all agents belong to it, whatever their
    groups: there a group may be a team.

    Args:
        num_envs: Number of environments E.
    """

    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs
        self._envs: dict[int, int] = {}
        self._owners: dict[int, int] = {}

    def learn(self, asking: Iterable[int], vacant: Callable[[], NDArray[np.bool_]]) -> None:
        """Give environments to groups that have none, in ascending order.

        Args:
            asking: Group ids of all agents that ask for a decision in an exchange.
            vacant: Tells the (E,) environments in which nobody is left; called only when there are too many groups.

        Raises:
            SpecMismatchError: An agent has no group, or there are more groups than environments.
        """
        if self._num_envs == 1:
            return
        groups = set(asking)
        for group in sorted(groups):
            env = self._envs.get(group)
            if env is not None and self._owners[env] == group:
                continue
            if group == 0:
                raise SpecMismatchError(
                    f"UnityRoster: expected every agent to be in a group when there are {self._num_envs} areas, "
                    "got one without. Register the agents of each area with a SimpleMultiAgentGroup, or use one area."
                )
            env = self._free_env(group, groups, vacant)
            # The old group stays known: terminals of its agents may still come.
            self._envs[group] = env
            self._owners[env] = group
        if len(self._envs) > 2 * self._num_envs:
            self._envs = {group: env for env, group in self._owners.items()}

    def envs(self, group_ids: NDArray[np.int32]) -> NDArray[np.intp]:
        """Environments of groups, (N,) int32 -> (N,) intp; -1 for a group that never asked."""
        if self._num_envs == 1:
            return np.zeros(len(group_ids), np.intp)
        groups, inverse = np.unique(group_ids, return_inverse=True)
        return np.array([self._envs.get(group, -1) for group in groups.tolist()], np.intp)[inverse]

    def _free_env(self, group: int, asking: set[int], vacant: Callable[[], NDArray[np.bool_]]) -> int:
        if len(self._owners) < self._num_envs:
            return len(self._owners)
        empty = vacant()
        for env, owner in self._owners.items():
            if empty[env] and owner not in asking:
                return env
        raise SpecMismatchError(
            f"UnityRoster: expected {self._num_envs} groups of agents, one per area, got the groups "
            f"{sorted(self._owners.values())} and {group}. Start the player with as many areas as it has groups."
        )
