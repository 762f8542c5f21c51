"""When agents ask for decisions: every so many steps, or when there is something to decide.

An agent that does not ask in a step carries out its last action once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridge.unity.player.floors import Floors

__all__ = ["LONGEST_WAIT_STEPS", "DecisionRequests", "OnDemandRequests", "PeriodicRequests"]

Bool = NDArray[np.bool_]

LONGEST_WAIT_STEPS = 20
"""On demand, a robot asks at the latest so many steps after it last asked: who chose to stay must not stay for good."""


class DecisionRequests(Protocol):
    """Decides who asks; E areas, A agents of one role."""

    def due(self, step: int, can_ask: Bool) -> Bool:
        """Who asks in a step.

        Args:
            step: Steps since the last reset.
            can_ask: (E, A) bool, agents that are there and may ask.

        Returns:
            (E, A) bool, a subset of ``can_ask``.
        """
        ...

    def restart(self, agents: Bool) -> None:
        """New lives or episodes begin; ``agents``: (E, A) bool."""
        ...


class PeriodicRequests:
    """All agents ask in every ``period``-th step, as a ``DecisionRequester`` makes them."""

    def __init__(self, period: int) -> None:
        self._period = period

    def due(self, step: int, can_ask: Bool) -> Bool:
        """See :class:`DecisionRequests`."""
        return can_ask if step % self._period == 0 else np.zeros_like(can_ask)

    def restart(self, agents: Bool) -> None:
        """See :class:`DecisionRequests`."""


class OnDemandRequests:
    """A robot asks when it has something to decide.

    That is: at the beginning of a life or episode; when its goal has changed, that is, it has
    reached a station or got another task; when its last motion was refused; and
    :data:`LONGEST_WAIT_STEPS` after it last asked.

    Args:
        floors: The running warehouses.
        robots: Where the role's robots lie on its robot axis.
    """

    def __init__(self, floors: Floors, robots: slice) -> None:
        self._floors = floors
        self._robots = robots
        self._goals = floors.goal_index()[:, robots].copy()  # (E, A)
        self._waited = np.full(self._goals.shape, LONGEST_WAIT_STEPS, np.int64)

    def due(self, step: int, can_ask: Bool) -> Bool:
        """See :class:`DecisionRequests`."""
        goals = self._floors.goal_index()[:, self._robots]
        blocked = self._floors.refused()[:, self._robots]
        asks: Bool = can_ask & ((goals != self._goals) | blocked | (self._waited >= LONGEST_WAIT_STEPS))
        self._goals[asks] = goals[asks]
        self._waited[asks] = 0
        self._waited += 1
        return asks

    def restart(self, agents: Bool) -> None:
        """See :class:`DecisionRequests`."""
        self._waited[agents] = LONGEST_WAIT_STEPS
