"""A planner on a warehouse whose floor plan differs between episodes: one of its kind per variant."""

from __future__ import annotations

from collections.abc import Callable

from bridge.policy import FleetPolicy
from bridge.roster import RosterArrays
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.variant_roster import VariantRoster

__all__ = ["EachVariantPolicy"]


class EachVariantPolicy:
    """Lets every environment be driven by the planner of the variant that it plays.

    Args:
        roster: What is driven.
        make: Makes the planner of one variant; it must bear that floors are emptied and filled between two steps.
    """

    def __init__(self, roster: VariantRoster, make: Callable[[WarehouseSimulator], FleetPolicy]) -> None:
        self._roster = roster
        self._policies = [make(simulator) for simulator in roster.simulators]

    def act(self, arrays: RosterArrays) -> None:
        """See :class:`bridge.policy.FleetPolicy`."""
        playing = self._roster.playing
        for number, (simulator, policy) in enumerate(zip(self._roster.simulators, self._policies, strict=True)):
            plays = playing == number
            if not plays.any():
                continue
            policy.act(simulator.arrays)
            for name, values in arrays.roles.items():
                planned = simulator.arrays.roles[name]
                values.continuous_actions[plays] = planned.continuous_actions[plays]
                values.discrete_actions[plays] = planned.discrete_actions[plays]
