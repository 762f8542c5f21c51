"""Right of way out of dead ends, for planners that push.

Where a robot that goes into a dead end of one lane meets one that comes out, one of them has to back out, and only the
first can. PIBT's priorities do not see that: if the one that goes in is the more urgent, it waits for a robot that it
shuts in, or drives it back, for ever. So whoever comes out against another one is planned before all others, and pushes
them out.

It is a rule of ours, not part of the papers' PIBT, and changes nothing on floors without dead ends. Nor does it promise
anything: robots without a goal come out for nobody, and those that are held cannot be pushed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel
from bridge.warehouse.dead_ends import ways_out
from bridge.warehouse.view import WarehouseView

__all__ = ["WaysOut", "let_out"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_NONE: Final = -1
# More than any priority: steps of an episode times robots.
_AHEAD_OF_ALL: Final = 1 << 48


class WaysOut:
    """Tells a planner who plans first.

    Args:
        view: The warehouse; its robots move from cell to cell.
    """

    def __init__(self, view: WarehouseView) -> None:
        self._view = view
        self._outwards = ways_out(view.layout)
        self._has_dead_ends = bool((self._outwards != _NONE).any())

    def priority(self, envs: slice, distance: Int32) -> Int64:
        """(E', N) int64, the simulator's priority of robots, but of those that come out against another one.

        Args:
            envs: Which environments.
            distance: (G, C) int32, how far it is from each cell to each goal in them.
        """
        view = self._view
        if not self._has_dead_ends:
            return view.priority[envs]
        state = (view.cells[envs], view.goal_index[envs], view.alive[envs], view.movable[envs], view.priority[envs])
        return let_out(*state, distance, self._outwards)


@kernel
def let_out(
    cells: Int32,
    goals: Int32,
    alive: Bool,
    movable: Bool,
    priority: Int64,
    distance: Int32,
    outwards: Int32,
) -> Int64:
    """Priorities in which robots that meet others on their way out of a dead end come before everybody.

    Args:
        cells: (E, N) int32, cell of every robot.
        goals: (E, N) int32, row of the robot's goal in ``distance``; -1 if it has none.
        alive: (E, N) bool, the robot is on the floor.
        movable: (E, N) bool, it can move.
        priority: (E, N) int64, larger plans first; distinct within an environment.
        distance: (G, C) int32.
        outwards: (C,) int32, the next cell on the way out of a dead end; -1 for cells in none.

    Returns:
        (E, N) int64, distinct within an environment.
    """
    num_envs, num_robots = cells.shape
    robot_at = np.full(len(outwards), _NONE, np.int32)
    changed = priority.copy()
    for env in range(num_envs):
        at, goal = cells[env], goals[env]
        for robot in range(num_robots):
            if alive[env, robot]:
                robot_at[at[robot]] = robot
        for robot in range(num_robots):
            here, way = at[robot], goal[robot]
            out = outwards[here]
            if not alive[env, robot] or not movable[env, robot] or way == _NONE or out == _NONE:
                continue
            other = robot_at[out]
            if other == _NONE or goal[other] == _NONE or distance[way, out] >= distance[way, here]:
                continue
            if distance[goal[other], here] < distance[goal[other], out]:
                changed[env, robot] += _AHEAD_OF_ALL
        for robot in range(num_robots):
            if alive[env, robot]:
                robot_at[at[robot]] = _NONE
    return changed
