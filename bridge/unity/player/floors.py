"""What the player looks at of its warehouses: one floor per area, whichever simulator it is played in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.variant_roster import VariantRoster, simulator_of

__all__ = ["Floors"]

Value = TypeVar("Value", bound=np.generic)


class Floors:
    """E floors with N robots each; where the floor plan varies, each has a simulator of its own for an episode.

    Args:
        roster: The running warehouses.
    """

    def __init__(self, roster: WarehouseSimulator | VariantRoster) -> None:
        self._roster = roster
        self._simulators = roster.simulators if isinstance(roster, VariantRoster) else (roster,)

    @property
    def role_slices(self) -> Mapping[str, slice]:
        """Where the robots of each role lie on the robot axis N."""
        return self._simulators[0].role_slices

    def simulator(self, area: int) -> WarehouseSimulator:
        """Where the running episode of an area is played; the area is its environment of the same number."""
        return simulator_of(self._roster, area)

    def watch(self, ended: Callable[[int, WarehouseSimulator], None]) -> None:
        """Call a function with each area whose episode ends, while its simulator still shows the end."""
        for number, simulator in enumerate(self._simulators):
            simulator.on_episode_end = partial(self._tell, ended, number)

    def positions_m(self) -> NDArray[np.float64]:
        """(E, N, 2) float64, centre of each robot in the floor frame; the last one where it has left the floor."""
        return self._gathered(lambda simulator: simulator.positions_m)

    def alive(self) -> NDArray[np.bool_]:
        """(E, N) bool, the robot is on the floor."""
        return self._gathered(lambda simulator: simulator.alive)

    def goal_index(self) -> NDArray[np.int32]:
        """(E, N) int32, which of the floor's goals each robot has; -1 for none."""
        return self._gathered(lambda simulator: simulator.goal_index)

    def refused(self) -> NDArray[np.bool_]:
        """(E, N) bool, the robot's last motion was refused."""
        return self._gathered(lambda simulator: simulator.outcome.refused)

    def _gathered(self, read: Callable[[WarehouseSimulator], NDArray[Value]]) -> NDArray[Value]:
        """What each area's simulator says of it; a view where there is one simulator."""
        if not isinstance(self._roster, VariantRoster):
            return read(self._simulators[0])
        playing = self._roster.playing
        values = read(self._simulators[playing[0]]).copy()
        for number in np.unique(playing).tolist():
            areas = playing == number
            values[areas] = read(self._simulators[number])[areas]
        return values

    def _tell(self, ended: Callable[[int, WarehouseSimulator], None], number: int, over: NDArray[np.bool_]) -> None:
        simulator = self._simulators[number]
        for area in np.flatnonzero(over).tolist():
            if self.simulator(area) is simulator:  # else nobody plays on this floor
                ended(area, simulator)
