"""Token passing with space-time A*: paths planned one robot after the other into a table that all share.

Ma, Li, Kumar, Koenig: "Lifelong multi-agent path finding for online pickup and delivery tasks"
(AAMAS 2017, arXiv 1705.10868). The *token* holds the path of every robot, cell by cell and step by
step; a robot that has come to the end of its path stays there for ever as far as the others know. Who
needs a new path plans it around all others, and only to a place where it may stay. On well-formed
floors (``well_formed.py``) this never deadlocks.

Deviations, because the simulator, not the planner, gives out tasks (the nearest one to an idle robot):

- A robot plans to its present target, then on from there, not through pick-up and delivery at once.
- Several robots may be sent to one station. Who finds it taken by another's path waits; if it stands
  where somebody else has to go, it goes to a free parking place meanwhile.
- A robot whose target changes on the way (a task for one that goes to park) plans anew at once, and
  keeps its path if that fails.
- Where the floor does not follow the plan (a battery ran flat, a robot left or came back), the token
  begins anew from where the robots are.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.jit import kernel
from bridge.planners.well_formed import well_formed_faults
from bridge.roster import RosterArrays
from bridge.warehouse.view import WarehouseView

__all__ = ["MAX_EXPANSIONS", "TokenPassingPolicy"]

Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

MAX_EXPANSIONS = 50_000
"""A search gives up after so many states; the robot tries again at the next step."""

_NOBODY = -1


class TokenPassingPolicy:
    """Drives every robot of a grid warehouse along collision-free paths from a shared token."""

    def __init__(self, simulator: WarehouseView, *, require_well_formed: bool = True) -> None:
        """A planner for the environments of ``simulator``.

        Args:
            simulator: What is driven.
            require_well_formed: Refuse floors on which robots may end up waiting for each other for ever.

        Raises:
            SpecMismatchError: The robots do not move from cell to cell, or the warehouse is not well-formed.
        """
        if simulator.config.drive.kind != "grid":
            raise SpecMismatchError(
                f"TokenPassingPolicy: expected drive 'grid', got {simulator.config.drive.kind!r}. "
                "It plans on cells; use a scenario with drive: {kind: grid}."
            )
        faults = well_formed_faults(simulator.layout, simulator.config.num_robots)
        if faults and require_well_formed:
            raise SpecMismatchError(
                f"TokenPassingPolicy: expected a well-formed warehouse, got one where: {'; '.join(faults)}. "
                "Mark parking places off the robots' ways, lower the fleet, or use PIBT."
            )
        self._simulator = simulator
        num_envs, num_robots = simulator.cells.shape
        num_cells = len(simulator.moves)
        self._goal_cells = _cells_of_goals(simulator.goal_distances)
        # A path takes the shortest way and may wait as long again.
        self._horizon = 64 + 2 * int(simulator.goal_distances.max())
        self._tokens = [_Token(num_robots, num_cells, self._horizon) for _ in range(num_envs)]
        self._stamps = np.zeros((self._horizon, num_cells), np.int32)
        self._came = np.zeros((self._horizon, num_cells), np.int32)
        self._searches = np.zeros(1, np.int32)
        self._moves = np.zeros((num_envs, num_robots), np.int32)

    def act(self, arrays: RosterArrays) -> None:
        """See :class:`bridge.policy.FleetPolicy`."""
        view = self._simulator
        movable, priority = view.movable, view.priority
        for env, token in enumerate(self._tokens):
            _pass_token(
                token.table, token.ends, token.end_cells, token.planned, token.expected, token.lived, token.clock,
                view.cells[env], view.goal_index[env], view.alive[env], movable[env], priority[env],
                self._goal_cells, view.layout.parking, view.moves, view.goal_distances, self._stamps, self._came,
                self._searches, self._moves[env],
            )  # fmt: skip
        for role, place in view.role_slices.items():
            actions = arrays.roles[role]
            # Robots that also speak say zeros, or the first symbol.
            actions.discrete_actions[..., 1:] = 0
            actions.continuous_actions[:] = 0.0
            actions.discrete_actions[..., 0] = self._moves[:, place]


class _Token:
    """What the robots of one environment know of each other's ways.

    Attributes:
        table: (H, cells) int16, robot that stands on a cell at a step of the clock, modulo the horizon H.
        ends: (N,) int64, step of the clock at which the path of each robot ends.
        end_cells: (N,) int32, where it ends and the robot stays.
        planned: (N,) int32, goal that the path was planned to.
        expected: (N,) int32, where each robot should stand now.
        lived: (N,) bool, robots that were on the floor.
        clock: (1,) int64, steps since the policy was made.
    """

    def __init__(self, num_robots: int, num_cells: int, horizon: int) -> None:
        self.table = np.full((horizon, num_cells), _NOBODY, np.int16)
        self.ends = np.zeros(num_robots, np.int64)
        self.end_cells = np.full(num_robots, -1, np.int32)
        self.planned = np.full(num_robots, -1, np.int32)
        self.expected = np.full(num_robots, -1, np.int32)
        self.lived = np.zeros(num_robots, np.bool_)
        self.clock = np.zeros(1, np.int64)


def _cells_of_goals(distances: Int32) -> Int32:
    """(G,) int32, the cell of every goal: the one at distance 0."""
    nearest: Int32 = np.argmin(np.where(distances < 0, np.iinfo(np.int32).max, distances), axis=1).astype(np.int32)
    return nearest


@kernel
def _pass_token(
    table: NDArray[np.int16], ends: NDArray[np.int64], end_cells: Int32, planned: Int32, expected: Int32, lived: Bool,
    clock: NDArray[np.int64], cells: Int32, goals: Int32, alive: Bool, movable: Bool, priority: NDArray[np.int64],
    goal_cells: Int32, parking: Int32, moves: Int32, distance: Int32, stamps: Int32, came: Int32, searches: Int32,
    chosen: Int32,
) -> None:  # fmt: skip
    """Plan where it is needed and read the moves of this step off the token.

    Args:
        table: As in ``_Token``, with the six that follow; updated.
        ends: See there.
        end_cells: See there.
        planned: See there.
        expected: See there.
        lived: See there.
        clock: See there.
        cells: (N,) int32, where robots are.
        goals: (N,) int32, row of each robot's goal in ``distance``; -1 for none.
        alive: (N,) bool, robots on the floor.
        movable: (N,) bool, those that can move.
        priority: (N,) int64, who plans first: the larger number.
        goal_cells: (G,) int32, cell of each goal.
        parking: (n,) int32, cells where robots may wait.
        moves: (cells, 5) int32, where each move leads.
        distance: (G, cells) int32, length of the shortest path; -1 for none.
        stamps: (H, cells) int32, scratch: search that saw a state last.
        came: (H, cells) int32, scratch: cell from which a state was reached.
        searches: (1,) int32, searches so far.
        chosen: (N,) int32, the moves; 0 for robots off the floor. Written.
    """
    horizon = len(table)
    now = clock[0]
    if (alive != lived).any() or (alive & (cells != expected)).any():
        table[:] = _NOBODY
        for robot in range(len(cells)):
            ends[robot], planned[robot], end_cells[robot] = now, -1, -1
            if alive[robot]:
                end_cells[robot] = cells[robot]
                table[now % horizon, cells[robot]] = robot
    lived[:] = alive
    holder = np.full(moves.shape[0], _NOBODY, np.int32)  # robot whose path ends on a cell
    wanted = np.zeros(moves.shape[0], np.bool_)  # somebody has to go to the cell
    for robot in range(len(cells)):
        if alive[robot]:
            holder[end_cells[robot]] = robot
    for robot in range(len(cells)):
        if alive[robot] and goals[robot] >= 0 and end_cells[robot] != goal_cells[goals[robot]]:
            wanted[goal_cells[goals[robot]]] = True
    for robot in np.argsort(-priority):
        if not movable[robot]:
            continue
        goal = goals[robot]
        has_stopped = ends[robot] <= now
        if goal >= 0:
            if planned[robot] == goal and not (has_stopped and cells[robot] != goal_cells[goal]):
                continue
            if _plan(
                robot, goal, table, ends, end_cells, holder, now, cells, goal_cells, moves, distance, stamps, came,
                searches,
            ):  # fmt: skip
                planned[robot] = goal
                continue
        if has_stopped and wanted[cells[robot]]:
            refuge = _nearest_refuge(cells[robot], goal_cells, parking, holder, distance)
            if refuge >= 0:
                _plan(
                    robot, refuge, table, ends, end_cells, holder, now, cells, goal_cells, moves, distance, stamps,
                    came, searches,
                )  # fmt: skip
                planned[robot] = -1
    for robot in range(len(cells)):
        chosen[robot] = 0
        if not alive[robot]:
            continue
        for move in range(5):
            target = moves[cells[robot], move]
            on_way = ends[robot] > now and table[(now + 1) % horizon, target] == robot
            if on_way and (move == 0 or target != cells[robot]):
                chosen[robot] = move
                break
        expected[robot] = moves[cells[robot], chosen[robot]]
    # The row of this step is the next to be filled, a horizon from now.
    table[now % horizon] = _NOBODY
    clock[0] = now + 1


@kernel
def _plan(
    robot: int, goal: int, table: NDArray[np.int16], ends: NDArray[np.int64], end_cells: Int32, holder: Int32,
    now: int, cells: Int32, goal_cells: Int32, moves: Int32, distance: Int32, stamps: Int32, came: Int32,
    searches: Int32,
) -> bool:  # fmt: skip
    """Space-time A* of one robot to a goal: whether there is a path, which then replaces the robot's old one.

    A state is a cell
    at a step. Nobody else may be on the cell then, nor come the other way, nor have stopped there for good; the
    goal must be free from the arrival on.
    """
    horizon = len(table)
    start, target = cells[robot], goal_cells[goal]
    if distance[goal, start] < 0 or (holder[target] != _NOBODY and holder[target] != robot):
        return False
    free_from = now  # first step from which on nobody crosses the goal
    for step in range(now, now + horizon):
        other = table[step % horizon, target]
        if other != _NOBODY and other != robot:
            free_from = step + 1
    searches[0] += 1
    stamp = searches[0]
    # Of equal sums of steps and distance the later step first.
    heap = [(np.int64(distance[goal, start]), np.int64(0), np.int64(start))]
    stamps[now % horizon, start] = stamp
    expansions = 0
    while len(heap) > 0 and expansions < MAX_EXPANSIONS:
        _, negative_step, top = heapq.heappop(heap)
        step, cell = int(now - negative_step), int(top)
        expansions += 1
        if cell == target and step >= free_from:
            _take_off(robot, now, table, ends, end_cells, holder, cells, moves)
            _write_path(robot, cell, step, now, table, ends, end_cells, holder, came)
            return True
        if step + 2 >= now + horizon:
            continue
        here, after = step % horizon, (step + 1) % horizon
        for move in range(5):
            other_cell = moves[cell, move]
            if move > 0 and other_cell == cell:
                continue
            if stamps[after, other_cell] == stamp or distance[goal, other_cell] < 0:
                continue
            other = table[after, other_cell]
            if other != _NOBODY and other != robot:
                continue
            owner = holder[other_cell]
            if owner != _NOBODY and owner != robot and step + 1 >= ends[owner]:
                continue
            if move > 0:
                opposite = table[here, other_cell]
                if opposite != _NOBODY and opposite != robot and table[after, cell] == opposite:
                    continue  # the two would swap places
            stamps[after, other_cell] = stamp
            came[after, other_cell] = cell
            later = step + 1 - now
            sum_of_both = np.int64(later + distance[goal, other_cell])
            heapq.heappush(heap, (sum_of_both, np.int64(-later), np.int64(other_cell)))
    return False


@kernel
def _nearest_refuge(cell: int, goal_cells: Int32, parking: Int32, holder: Int32, distance: Int32) -> int:
    """The parking place (a goal) nearest to a cell at which no path ends; -1 if there is none."""
    best = -1
    for goal in range(len(goal_cells)):
        length = distance[goal, cell]
        if length <= 0 or holder[goal_cells[goal]] != _NOBODY or not (parking == goal_cells[goal]).any():
            continue
        if best < 0 or length < distance[best, cell]:
            best = goal
    return best


@kernel
def _take_off(
    robot: int, now: int, table: NDArray[np.int16], ends: NDArray[np.int64], end_cells: Int32, holder: Int32,
    cells: Int32, moves: Int32,
) -> None:  # fmt: skip
    """Clear the rest of a robot's path."""
    horizon = len(table)
    cell = cells[robot]
    for step in range(now, ends[robot] + 1):
        if table[step % horizon, cell] == robot:
            table[step % horizon, cell] = _NOBODY
        if step < ends[robot]:
            for move in range(5):
                if table[(step + 1) % horizon, moves[cell, move]] == robot:
                    cell = moves[cell, move]
                    break
    if holder[end_cells[robot]] == robot:
        holder[end_cells[robot]] = _NOBODY


@kernel
def _write_path(
    robot: int, cell: int, step: int, now: int, table: NDArray[np.int16], ends: NDArray[np.int64], end_cells: Int32,
    holder: Int32, came: Int32,
) -> None:  # fmt: skip
    """Put the path that a search has found on the table, from its last state backwards."""
    horizon = len(table)
    ends[robot], end_cells[robot], holder[cell] = step, cell, robot
    while step > now:
        table[step % horizon, cell] = robot
        cell = came[step % horizon, cell]
        step -= 1
    table[step % horizon, cell] = robot
