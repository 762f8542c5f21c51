"""What planners, the renderer and the headless player may read of a running warehouse.

Everything here is the global truth of the simulator: a policy never sees it.
:class:`bridge.warehouse.simulator.WarehouseSimulator` provides it.

E is the number of environments, N the number of robots of all roles: role
after role, in the order of the fleet, slot after slot. Cells are numbered
``row * width + column`` with row 0 at the top, as in ``Layout``. Metres and
headings are in the floor frame: origin at the bottom left corner, x to the
right, y up, headings in radians counter-clockwise from x. ``up`` is the move
to the row above, which is ``+y``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout

__all__ = ["DOWN", "LEFT", "MOVE_NAMES", "RIGHT", "STAY", "UP", "WarehouseView"]

STAY: Final = 0
UP: Final = 1
RIGHT: Final = 2
DOWN: Final = 3
LEFT: Final = 4

MOVE_NAMES: Final = ("stay", "up", "right", "down", "left")


class WarehouseView(Protocol):
    """Read-only view; the arrays are the simulator's own or copies and must not be written."""

    @property
    def config(self) -> WarehouseConfig:
        """The warehouse section that is simulated."""
        ...

    @property
    def layout(self) -> Layout:
        """The floor plan."""
        ...

    @property
    def role_slices(self) -> Mapping[str, slice]:
        """Where the robots of each role lie on the robot axis N."""
        ...

    @property
    def cells(self) -> NDArray[np.int32]:
        """(E, N) int32, the cell that holds each robot's centre; stale where it is not alive."""
        ...

    @property
    def goal_cells(self) -> NDArray[np.int32]:
        """(E, N) int32, where each robot has to go now: pick-up, delivery or parking; its own cell if nowhere."""
        ...

    @property
    def goal_index(self) -> NDArray[np.int32]:
        """(E, N) int32, row of the robot's goal in :attr:`goal_distances`; -1 if it has none."""
        ...

    @property
    def delivery_index(self) -> NDArray[np.int32]:
        """(E, N) int32, the same of the delivery of the robot's task; -1 if it has no task."""
        ...

    @property
    def goal_distances(self) -> NDArray[np.int32]:
        """(G, H*W) int32, what the way from every cell to each goal cell costs, in units of ``routes``; -1 if none.

        Cells, where nothing is slow and no robot turns. Else the steps until a robot that can leave the cell comes into
        the goal, facing the best side; for differential drive quarters of the time of a cell at full speed.
        """
        ...

    @property
    def moves(self) -> NDArray[np.int32]:
        """(H*W, 5) int32, the cell that each move leads to; the cell itself where a rack or wall is in the way."""
        ...

    @property
    def alive(self) -> NDArray[np.bool_]:
        """(E, N) bool, the robot is on the floor."""
        ...

    @property
    def has_task(self) -> NDArray[np.bool_]:
        """(E, N) bool, the robot has a transport to do."""
        ...

    @property
    def loaded(self) -> NDArray[np.bool_]:
        """(E, N) bool, the robot carries a load."""
        ...

    @property
    def charge(self) -> NDArray[np.float32]:
        """(E, N) float32 in [0, 1], charge of the battery; a robot at 0 cannot move."""
        ...

    @property
    def movable(self) -> NDArray[np.bool_]:
        """(E, N) bool, the robot can move: it has charge, and nothing holds it (a service at a station)."""
        ...

    @property
    def positions_m(self) -> NDArray[np.float64]:
        """(E, N, 2) float64, centre of each robot in the floor frame."""
        ...

    @property
    def heading_rad(self) -> NDArray[np.float64]:
        """(E, N) float64, heading in the floor frame; 0 for robots that move from cell to cell."""
        ...

    @property
    def priority(self) -> NDArray[np.int64]:
        """(E, N) int64, distinct within an environment; the larger number has the right of way.

        Steps since the robot last reached a pick-up or delivery (0 without a task), then the lower slot.
        """
        ...

    @property
    def steps(self) -> NDArray[np.int32]:
        """(E,) int32, steps since the start of the running episode."""
        ...
