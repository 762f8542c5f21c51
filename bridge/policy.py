"""The contract of whatever drives a fleet: learned, exported, planned or random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from bridge.roster import Roster, RosterArrays
from bridge.specs import WorldSpec

__all__ = ["FleetPolicy", "PolicyFactory", "RandomPolicy"]


class FleetPolicy(Protocol):
    """Chooses the actions of all robots of a roster."""

    def act(self, arrays: RosterArrays) -> None:
        """Write ``continuous_actions`` and ``discrete_actions`` for every slot that is asked for a decision."""
        ...


PolicyFactory: TypeAlias = Callable[[Roster], FleetPolicy]
"""Makes a policy for the environments that it will drive; a planner reads more of them than observations."""


class RandomPolicy:
    """Uniform over the allowed actions; the floor that every trained policy is compared with."""

    def __init__(self, spec: WorldSpec, seed: int) -> None:
        self._spec = spec
        self._rng = np.random.default_rng(seed)

    def act(self, arrays: RosterArrays) -> None:
        """See :class:`FleetPolicy`."""
        for role in self._spec.roles:
            values = arrays.roles[role.name]
            values.continuous_actions[:] = self._rng.uniform(-1.0, 1.0, values.continuous_actions.shape)
            start = 0
            for branch, size in enumerate(role.action.discrete_branches):
                allowed = values.action_mask[..., start : start + size]
                # The allowed choice with the largest random key is uniform over the allowed choices.
                keys = np.where(allowed, self._rng.random(allowed.shape), -1.0)
                values.discrete_actions[..., branch] = keys.argmax(axis=-1)
                start += size
