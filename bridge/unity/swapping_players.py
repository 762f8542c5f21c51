"""Players that are given other warehouses while they run, one environment each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.roster import RosterArrays
from bridge.specs import WorldSpec
from bridge.unity.players import UnityPlayers
from bridge.unity.roster import UnityRoster

__all__ = ["SwappingPlayers"]


class SwappingPlayers:
    """Players with one training area each, as :class:`bridge.swapped_roster.SwappingEnvs`.

    Args:
        players: The players.
        documents: What they can be given, see :func:`bridge.unity.scenario_document.scenario_document`.
    """

    def __init__(self, players: UnityRoster | UnityPlayers, documents: Sequence[Mapping[str, Any]]) -> None:
        self._players = players
        self._rosters = (players,) if isinstance(players, UnityRoster) else players.rosters
        self._documents = documents

    @property
    def spec(self) -> WorldSpec:
        """What the players look like."""
        return self._players.spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill."""
        return self._players.arrays

    def set_scenario(self, env: int, index: int) -> None:
        """See :meth:`bridge.swapped_roster.SwappingEnvs.set_scenario`."""
        self._rosters[env].set_scenario(self._documents[index])

    def reset(self, seed: int | None = None, env_mask: NDArray[np.bool_] | None = None) -> None:
        """See :meth:`bridge.unity.players.UnityPlayers.reset`."""
        self._players.reset(seed, env_mask)

    def step(self) -> None:
        """Step all players at once."""
        self._players.step()

    def close(self) -> None:
        """Make the players quit; may be called twice."""
        self._players.close()
