"""The search and the table of token passing: who is where when, and paths around everybody.

Times are steps of the token's clock: at step ``t`` stands a robot before its move of that step.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel, kernel_part

__all__ = ["MAX_EXPANSIONS", "Demand", "Scratch", "Token", "Ways", "make_scratch", "make_token", "pass_token"]

Int8 = NDArray[np.int8]
Int16 = NDArray[np.int16]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

MAX_EXPANSIONS: Final = 50_000
"""A search gives up after so many states; the robot tries again at the next step."""

_NOBODY: Final = -1
_SERVED: Final = 5
_SERVED_FROM_START: Final = 6


class Token(NamedTuple):
    """What the robots of one environment know of each other's ways.

    Attributes:
        table: (H, cells) int16, robot that stands on a cell at a step of the clock, modulo the horizon H.
        ends: (N,) int64, step of the clock at which the path of each robot ends.
        end_cells: (N,) int32, where it ends and the robot stays.
        planned: (N,) int32, goal that the path ends at; -1 for a place to wait.
        passes: (N,) int32, goal of the pick-up that the path passes on its way; -1 for none.
        departs: (N,) int64, step at which the path leaves that pick-up.
        expected: (N,) int32, where each robot should stand now.
        lived: (N,) bool, robots that were on the floor.
        clock: (1,) int64, steps since the policy was made.
    """

    table: Int16
    ends: Int64
    end_cells: Int32
    planned: Int32
    passes: Int32
    departs: Int64
    expected: Int32
    lived: Bool
    clock: Int64


class Ways(NamedTuple):
    """The floor of a scenario, G goals.

    Attributes:
        goal_cells: (G,) int32, cell of each goal.
        is_refuge: (G,) bool, goals at which robots may wait.
        moves: (cells, 5) int32, where each move leads.
        sources: (cells, 5) int32, from where each move leads into a cell; stale where none does.
        distance: (G, cells) int32, steps until a robot comes into the goal at least; -1 for no way.
        stay: (cells,) int32, further steps for which a robot that came into a cell cannot leave it.
        pick_steps: Steps that a robot stands at its pick-up.
        whole_paths: Paths lead through the pick-up to the delivery.
    """

    goal_cells: Int32
    is_refuge: Bool
    moves: Int32
    sources: Int32
    distance: Int32
    stay: Int32
    pick_steps: int
    whole_paths: bool


class Demand(NamedTuple):
    """What the robots of one environment are to do; all (N,).

    Attributes:
        cells: int32, where robots are.
        goals: int32, row of each robot's goal in ``Ways.distance``; -1 for none.
        deliveries: int32, row of the delivery of its task; -1 without a task.
        alive: bool, robots on the floor.
        movable: bool, those that can move.
        order: int64, robots in the order in which they plan.
    """

    cells: Int32
    goals: Int32
    deliveries: Int32
    alive: Bool
    movable: Bool
    order: Int64


class Scratch(NamedTuple):
    """Memory of the searches; the first axis is 1 once the pick-up is done.

    Attributes:
        stamps: (2, H, cells) int32, search that saw a state last.
        came: (2, H, cells) int8, how it was reached: move, or by being served.
        searches: (1,) int32, searches so far.
    """

    stamps: Int32
    came: Int8
    searches: Int32


def make_token(num_robots: int, num_cells: int, horizon: int) -> Token:
    """A token that nobody has planned on."""
    return Token(
        table=np.full((horizon, num_cells), _NOBODY, np.int16),
        ends=np.zeros(num_robots, np.int64),
        end_cells=np.full(num_robots, -1, np.int32),
        planned=np.full(num_robots, -1, np.int32),
        passes=np.full(num_robots, -1, np.int32),
        departs=np.zeros(num_robots, np.int64),
        expected=np.full(num_robots, -1, np.int32),
        lived=np.zeros(num_robots, np.bool_),
        clock=np.zeros(1, np.int64),
    )


def make_scratch(num_cells: int, horizon: int) -> Scratch:
    """Scratch for searches up to a horizon."""
    shape = (2, horizon, num_cells)
    return Scratch(np.zeros(shape, np.int32), np.zeros(shape, np.int8), np.zeros(1, np.int32))


@kernel
def pass_token(token: Token, ways: Ways, demand: Demand, scratch: Scratch, chosen: Int32) -> None:
    """Plan where it is needed and read the moves of this step off the token.

    Args:
        token: Updated.
        ways: The floor.
        demand: What robots are to do.
        scratch: Of :func:`make_scratch`.
        chosen: (N,) int32, the moves; 0 for robots off the floor. Written.
    """
    cells, alive = demand.cells, demand.alive
    horizon, now = len(token.table), token.clock[0]
    if _deviates(token, ways, demand):
        token.table[:] = _NOBODY
        for robot in range(len(cells)):
            token.ends[robot], token.planned[robot], token.passes[robot], token.end_cells[robot] = now, -1, -1, -1
            if alive[robot]:
                token.end_cells[robot] = cells[robot]
                token.table[now % horizon, cells[robot]] = robot
    holder = np.full(len(ways.moves), _NOBODY, np.int32)  # robot whose path ends on a cell
    wanted = np.zeros(len(ways.moves), np.bool_)  # somebody has to go to the cell
    for robot in range(len(cells)):
        goal = demand.goals[robot]
        token.lived[robot] = alive[robot]
        if alive[robot]:
            holder[token.end_cells[robot]] = robot
            on_way = token.ends[robot] > now and (token.planned[robot] == goal or token.passes[robot] == goal)
            if goal >= 0 and not on_way and token.end_cells[robot] != ways.goal_cells[goal]:
                wanted[ways.goal_cells[goal]] = True
    for robot in demand.order:
        if not demand.movable[robot] or _plan_for_task(robot, token, ways, demand, scratch, holder):
            continue
        if token.ends[robot] <= now and wanted[cells[robot]]:
            refuge = _nearest_refuge(cells[robot], ways, holder)
            if refuge >= 0:
                _plan(robot, -1, refuge, token, ways, demand, scratch, holder)
                token.planned[robot] = -1
    for robot in range(len(cells)):
        chosen[robot] = _next_move(robot, token, ways, cells) if alive[robot] else 0
        token.expected[robot] = ways.moves[cells[robot], chosen[robot]]
    # The row of this step is the next to be filled, a horizon from now.
    token.table[now % horizon] = _NOBODY
    token.clock[0] = now + 1


@kernel
def _deviates(token: Token, ways: Ways, demand: Demand) -> bool:
    """The floor does not follow the plan, or will not: a robot cannot make its move."""
    for robot in range(len(demand.cells)):
        if demand.alive[robot] != token.lived[robot]:
            return True
        if demand.alive[robot]:
            if demand.cells[robot] != token.expected[robot]:
                return True
            if not demand.movable[robot] and _next_move(robot, token, ways, demand.cells) > 0:
                return True
    return False


@kernel
def _next_move(robot: int, token: Token, ways: Ways, cells: Int32) -> int:
    """The move of a robot's path in this step."""
    now, horizon = token.clock[0], len(token.table)
    if token.ends[robot] > now:
        for move in range(1, 5):
            target = ways.moves[cells[robot], move]
            if target != cells[robot] and token.table[(now + 1) % horizon, target] == robot:
                return move
    return 0


@kernel
def _plan_for_task(robot: int, token: Token, ways: Ways, demand: Demand, scratch: Scratch, holder: Int32) -> bool:
    """Whether a robot has a path to where its task, or parking place, sends it."""
    now, cell = token.clock[0], demand.cells[robot]
    goal, last = demand.goals[robot], demand.deliveries[robot]
    if goal < 0:
        return False
    has_stopped = token.ends[robot] <= now
    to_goal = token.planned[robot] == goal and not (has_stopped and cell != ways.goal_cells[goal])
    if ways.whole_paths and last >= 0 and goal != last:
        if token.planned[robot] == last and token.passes[robot] == goal and not has_stopped:
            return True
        if holder[ways.goal_cells[last]] == _NOBODY and _plan(robot, goal, last, token, ways, demand, scratch, holder):
            return True
    elif to_goal and token.departs[robot] > now:
        # It was served faster than it might have been.
        _plan(robot, -1, goal, token, ways, demand, scratch, holder)
    return to_goal or _plan(robot, -1, goal, token, ways, demand, scratch, holder)


@kernel
def _plan(
    robot: int, via: int, goal: int, token: Token, ways: Ways, demand: Demand, scratch: Scratch, holder: Int32
) -> bool:
    """Space-time A* of one robot: whether there is a path, which then replaces the robot's old one.

    A state is a cell at a step, before (0) or after (1) the pick-up ``via`` (-1 for none). Nobody else may be on the
    cell then, nor come the other way, nor have stopped there for good; the goal must be free from the arrival on.
    """
    now, horizon, num_cells = token.clock[0], len(token.table), len(ways.moves)
    start, target = demand.cells[robot], ways.goal_cells[goal]
    label = 0 if via >= 0 else 1
    ahead = _steps_ahead(label, via, goal, start, ways)
    if ahead < 0 or _is_held(robot, target, holder) or (via >= 0 and _is_held(robot, ways.goal_cells[via], holder)):
        return False
    free_from = _free_from(robot, target, token)
    scratch.searches[0] += 1
    # Of equal sums of steps and distance the later step first.
    heap = [(np.int64(ahead), np.int64(0), np.int64(label * num_cells + start))]
    scratch.stamps[label, now % horizon, start] = scratch.searches[0]
    for _ in range(MAX_EXPANSIONS):
        if len(heap) == 0:
            return False
        _, negative_step, top = heapq.heappop(heap)
        step, label, cell = int(now - negative_step), int(top) // num_cells, int(top) % num_cells
        if label == 1 and cell == target and step >= free_from:
            _take_off(robot, token, ways, demand.cells, holder)
            _write_path(robot, via, step, target, token, ways, scratch, holder)
            token.planned[robot], token.passes[robot] = goal, via
            return True
        for move in range(5):
            code, following, other, later = _successor(label, via, cell, step, move, now, ways)
            if code < 0 or later + 1 >= now + horizon:
                continue
            stamp, came = scratch.stamps[following, later % horizon], scratch.came[following, later % horizon]
            rest = _steps_ahead(following, via, goal, other, ways)
            if stamp[other] == scratch.searches[0] or rest < 0:
                continue
            if _is_free(robot, cell, other, step, later, token, holder):
                stamp[other], came[other] = scratch.searches[0], code
                # No path ends before the goal is free.
                total = max(later + rest, free_from) - now
                heapq.heappush(heap, (np.int64(total), np.int64(now - later), np.int64(following * num_cells + other)))
    return False


@kernel_part
def _steps_ahead(label: int, via: int, goal: int, cell: int, ways: Ways) -> int:
    """Steps from a cell to the goal at least, through the pick-up and its service if ``label`` is 0; -1 for no way."""
    if label == 1:
        return int(ways.distance[goal, cell])
    first, second = int(ways.distance[via, cell]), int(ways.distance[goal, ways.goal_cells[via]])
    return -1 if first < 0 or second < 0 else first + ways.pick_steps + second


@kernel_part
def _successor(
    label: int, via: int, cell: int, step: int, move: int, now: int, ways: Ways
) -> tuple[int, int, int, int]:
    """What a move makes of a state: how it is reached (-1 if it is none), label, cell and step of the next one."""
    if label == 0 and cell == ways.goal_cells[via]:
        # Served before anything else; a robot that stands there already, from the next step on.
        if move > 0:
            return -1, label, cell, step
        if step == now:
            return _SERVED_FROM_START, 1, cell, step + ways.pick_steps + 1
        return _SERVED, 1, cell, step + ways.pick_steps
    other = int(ways.moves[cell, move])
    if move == 0:
        return 0, label, cell, step + 1
    if other == cell:
        return -1, label, cell, step
    return move, label, other, step + 1 + int(ways.stay[other])


@kernel
def _is_held(robot: int, cell: int, holder: Int32) -> bool:
    """Whether the path of another robot ends on a cell."""
    return bool(holder[cell] != _NOBODY and holder[cell] != robot)


@kernel
def _free_from(robot: int, target: int, token: Token) -> int:
    """First step from which on no other path crosses a cell."""
    now, horizon = int(token.clock[0]), len(token.table)
    free = now
    for step in range(now, now + horizon):
        other = token.table[step % horizon, target]
        if other != _NOBODY and other != robot:
            free = step + 1
    return free


@kernel
def _is_free(robot: int, cell: int, other_cell: int, step: int, later: int, token: Token, holder: Int32) -> bool:
    """Whether a robot can go from a cell to the same or the next one after ``step`` and stay there until ``later``."""
    horizon = len(token.table)
    for between in range(step + 1, later + 1):
        other = token.table[between % horizon, other_cell]
        if other != _NOBODY and other != robot:
            return False
    owner = holder[other_cell]
    if owner != _NOBODY and owner != robot and later >= token.ends[owner]:
        return False
    opposite = token.table[step % horizon, other_cell]
    swaps = other_cell != cell and opposite != _NOBODY and opposite != robot
    return not (swaps and token.table[(step + 1) % horizon, cell] == opposite)


@kernel
def _nearest_refuge(cell: int, ways: Ways, holder: Int32) -> int:
    """The parking place (a goal) nearest to a cell at which no path ends; -1 if there is none."""
    best = -1
    for goal in range(len(ways.goal_cells)):
        length = ways.distance[goal, cell]
        if length <= 0 or holder[ways.goal_cells[goal]] != _NOBODY or not ways.is_refuge[goal]:
            continue
        if best < 0 or length < ways.distance[best, cell]:
            best = goal
    return best


@kernel
def _take_off(robot: int, token: Token, ways: Ways, cells: Int32, holder: Int32) -> None:
    """Clear the rest of a robot's path."""
    now, horizon = token.clock[0], len(token.table)
    cell = cells[robot]
    for step in range(now, token.ends[robot] + 1):
        if token.table[step % horizon, cell] == robot:
            token.table[step % horizon, cell] = _NOBODY
        if step < token.ends[robot]:
            for move in range(5):
                if token.table[(step + 1) % horizon, ways.moves[cell, move]] == robot:
                    cell = ways.moves[cell, move]
                    break
    if holder[token.end_cells[robot]] == robot:
        holder[token.end_cells[robot]] = _NOBODY


@kernel
def _write_path(
    robot: int, via: int, step: int, cell: int, token: Token, ways: Ways, scratch: Scratch, holder: Int32
) -> None:
    """Put the path that a search has found on the table, from its last state backwards."""
    now, horizon = token.clock[0], len(token.table)
    token.ends[robot], token.end_cells[robot], holder[cell] = step, cell, robot
    token.departs[robot] = now
    label = 1
    token.table[step % horizon, cell] = robot
    while step > now or (label == 1 and via >= 0):
        code = scratch.came[label, step % horizon, cell]
        before = step - 1
        if code >= _SERVED:
            token.departs[robot] = step
            label = 0
            before = step - ways.pick_steps - (1 if code == _SERVED_FROM_START else 0)
        elif code > 0:
            before -= ways.stay[cell]
        for between in range(before + 1, step):
            token.table[between % horizon, cell] = robot
        if 0 < code < _SERVED:
            cell = ways.sources[cell, code]
        step = before
        token.table[step % horizon, cell] = robot
