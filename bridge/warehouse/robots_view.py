"""The truth about the robots of a running warehouse, for planners, the renderer and the headless player."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.feature import Parts
from bridge.warehouse.fleet import Outcome
from bridge.warehouse.layout import Layout

__all__ = ["RobotsView"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]

# Steps until a robot comes back: more than an episode has, and not never, which would end it.
_NOT_IN_THIS_EPISODE: Final = 1 << 30


class RobotsView:
    """Shows a simulator's arrays; a ``view.WarehouseView``.

    Args:
        parts: The arrays.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        slices: dict[str, slice] = {}
        start = 0
        for role in parts.spec.roles:
            slices[role.name] = slice(start, start + role.num_slots)
            start += role.num_slots
        self._role_slices = MappingProxyType(slices)

    @property
    def config(self) -> WarehouseConfig:
        """The warehouse section that is simulated."""
        return self._parts.config

    @property
    def layout(self) -> Layout:
        """The floor plan."""
        return self._parts.layout

    @property
    def role_slices(self) -> Mapping[str, slice]:
        """Where the robots of each role lie on the robot axis N."""
        return self._role_slices

    @property
    def cells(self) -> Int32:
        """(E, N) int32, the cell that holds each robot's centre; stale where it is not alive."""
        return self._parts.fleet.cell

    @property
    def goal_cells(self) -> Int32:
        """(E, N) int32, where each robot has to go now; its own cell if nowhere."""
        goal = self._parts.fleet.goal
        cells: Int32 = np.where(goal >= 0, self._parts.floor.goal_cell[goal], self._parts.fleet.cell)
        return cells

    @property
    def goal_index(self) -> Int32:
        """(E, N) int32, row of the robot's goal in :attr:`goal_distances`; -1 if it has none."""
        return self._parts.fleet.goal

    @property
    def delivery_index(self) -> Int32:
        """(E, N) int32, row of the delivery of the robot's task in :attr:`goal_distances`; -1 if it has no task."""
        return self._parts.fleet.delivery

    @cached_property
    def goal_distances(self) -> Int32:
        """(G, H*W) int32, what the way from every cell to each goal cell costs, in units of ``routes``; -1 if none.

        Cells, where nothing is slow and no robot turns. Else the steps until a robot that can leave the cell comes into
        the goal, facing the best side; for differential drive quarters of the time of a cell at full speed.
        """
        routes = self._parts.floor.routes
        # Not at once: the tables of large floors fill the memory as it is.
        distances = np.empty(routes.shape, np.int32)
        for row, entries in zip(distances, routes, strict=True):
            row[:] = entries >> 4
            row[entries == np.iinfo(routes.dtype).max] = -1
        return distances

    @property
    def moves(self) -> Int32:
        """(H*W, 5) int32, the cell that each move leads to; the cell itself where a rack or wall is in the way."""
        return self._parts.floor.moves

    @property
    def alive(self) -> Bool:
        """(E, N) bool, the robot is on the floor."""
        return self._parts.fleet.alive

    @property
    def has_task(self) -> Bool:
        """(E, N) bool, the robot has a transport to do."""
        return self._parts.fleet.pickup >= 0

    @property
    def loaded(self) -> Bool:
        """(E, N) bool, the robot carries a load."""
        return self._parts.fleet.loaded

    @property
    def charge(self) -> NDArray[np.float32]:
        """(E, N) float32 in [0, 1], charge of the battery; a robot at 0 cannot move."""
        return self._parts.fleet.charge

    @property
    def movable(self) -> Bool:
        """(E, N) bool, the robot can move: it has charge, and nothing holds it."""
        movable: Bool = (self._parts.fleet.charge > 0.0) & (self._parts.fleet.held == 0)
        return movable

    @property
    def positions_m(self) -> NDArray[np.float64]:
        """(E, N, 2) float64, centre of each robot in the floor frame."""
        return np.stack([self._parts.pose.x, self._parts.pose.y], axis=-1)

    @property
    def heading_rad(self) -> NDArray[np.float64]:
        """(E, N) float64, heading in the floor frame; 0 for robots that move from cell to cell."""
        return self._parts.pose.heading

    @property
    def priority(self) -> NDArray[np.int64]:
        """(E, N) int64, distinct within an environment; the larger number has the right of way."""
        num_robots = self._parts.fleet.cell.shape[1]
        waited = self._parts.fleet.waiting.astype(np.int64) * num_robots
        priority: NDArray[np.int64] = waited + np.arange(num_robots - 1, -1, -1)
        return priority

    @property
    def steps(self) -> Int32:
        """(E,) int32, steps since the start of the running episode."""
        return self._parts.steps

    @property
    def outcome(self) -> Outcome:
        """What happened to each robot in the last step; ``refused`` is cleared where an episode began."""
        return self._parts.outcome

    def empty_floors(self, envs: Bool) -> None:
        """Take all robots off the floor in the environments of ``envs``, (E,) bool, until these are reset or end.

        No robot comes back, and no episode ends because its floor is empty. For rosters that play elsewhere meanwhile.
        """
        self._parts.fleet.alive[envs] = False
        self._parts.fleet.returns_in[envs] = _NOT_IN_THIS_EPISODE
