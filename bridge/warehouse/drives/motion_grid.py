"""Moves from cell to cell, and the rule that settles conflicts.

Rule ``block``. All robots wish at once; then, in this order:

1. A move into a rack or wall is refused, and so is every move of a robot
   whose battery is empty (that one is not counted as refused).
2. Two robots that wish to change places are both refused.
3. Of several robots that wish for one cell, the first in this step's right of
   way wins: the slots counted up from an offset that is drawn anew for every
   step. The others are refused.
4. A winner moves if its cell is free or is vacated in the same step, and is
   refused otherwise. Chains of robots that follow each other move as a whole,
   and so do cycles of three or more.

Because every cell has at most one winner, the winners form chains and pure
cycles, so step 4 visits every robot once: the rule costs O(N). Two robots
never share a cell and never pass through each other.

Rule ``despawn``. Nobody yields: robots that would end up in one cell, that
would change places, or that drive into a rack or wall, leave the floor; the
others move. A robot that hits a rack counts as standing in its cell.

Contacts are measured afterwards, from the cells before and after the step and
not from the rule's verdicts, so that a fault of the rule would show.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.random_streams import draw

__all__ = ["GridScratch", "make_grid_scratch", "mask_blocked_moves", "move_on_grid"]

Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

_STAYS: Final = 0
_UNKNOWN: Final = 1
_MOVES: Final = 2
_ON_PATH: Final = 3


class GridScratch(NamedTuple):
    """Memory that the rule works in, one environment after the other.

    Attributes:
        before: (cells,) int32, robot in each cell before the step; -1 for nobody, also between calls.
        claim: (cells,) int32, winner of each cell; -1 for nobody, also between calls.
        count_in: (cells,) int32, robots in each cell after the step; 0 between calls.
        wish: (N,) int32, cell that each robot wishes for.
        end: (N,) int32, cell in which it ends up.
        verdict: (N,) int8, what is known about its move.
        path: (N,) int32, chain of robots that is being followed.
        moved_m: (2,) float32, way of a robot that stays, and of one that moves.
    """

    before: Int32
    claim: Int32
    count_in: Int32
    wish: Int32
    end: Int32
    verdict: NDArray[np.int8]
    path: Int32
    moved_m: NDArray[np.float32]


def make_grid_scratch(num_cells: int, num_robots: int, cell_size_m: float) -> GridScratch:
    """Scratch for a floor and a fleet."""
    return GridScratch(
        before=np.full(num_cells, -1, np.int32),
        claim=np.full(num_cells, -1, np.int32),
        count_in=np.zeros(num_cells, np.int32),
        wish=np.zeros(num_robots, np.int32),
        end=np.zeros(num_robots, np.int32),
        verdict=np.zeros(num_robots, np.int8),
        path=np.zeros(num_robots, np.int32),
        moved_m=np.array([0.0, cell_size_m], np.float32),
    )


@lean_kernel
def move_on_grid(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    scratch: GridScratch,
    actions: Int32,
    keys: NDArray[np.uint64],
    steps: Int32,
    despawn: bool,
    step_s: float,
) -> None:
    """Move all robots by one step.

    Args:
        floor: The floor plan.
        fleet: ``cell`` is advanced.
        pose: ``x``, ``y``, ``vx`` and ``vy`` are advanced.
        outcome: ``refused``, ``robot_contacts``, ``rack_contacts``, ``leaving`` and ``moved_m`` are written.
        scratch: Of :func:`make_grid_scratch`.
        actions: (E, N) int32 in 0..4; 0 where a robot is not alive.
        keys: (E,) uint64, stream of the right of way.
        steps: (E,) int32, number of the step in its episode.
        despawn: Contact rule: robots that would touch leave the floor.
        step_s: Simulated time of one step.
    """
    num_envs, num_robots = fleet.cell.shape
    wish, end, before, count_in = scratch.wish, scratch.end, scratch.before, scratch.count_in
    per_s = 1.0 / step_s
    for env in range(num_envs):
        cell, alive = fleet.cell[env], fleet.alive[env]
        for robot in range(num_robots):
            drives = alive[robot] & (fleet.charge[env, robot] > 0.0)
            wish[robot] = floor.moves[index(cell[robot]), index(actions[env, robot] if drives else 0)]
            end[robot] = wish[robot]
            if alive[robot]:
                before[index(cell[robot])] = robot
        if not despawn:
            first = int(draw(keys[env], int(steps[env])) % np.uint64(num_robots))
            _settle(cell, alive, first, scratch)
        for robot in range(num_robots):
            count_in[index(end[robot])] += alive[robot]
        for robot in range(num_robots):
            own, there, lives = cell[robot], end[robot], alive[robot]
            hit = lives & (actions[env, robot] != 0) & (fleet.charge[env, robot] > 0.0) & (wish[robot] == own)
            # Robots that share the cell after the step, plus one if it changed places with another.
            other = before[index(there)]
            swapped = (other >= 0) & (other != robot) & (end[index(max(other, 0))] == own)
            contacts = count_in[index(there)] - 1 + swapped if lives else 0
            on_rack = lives & (floor.blocked[index(there)] | (despawn & hit))
            leaves = despawn & (contacts + on_rack > 0)
            outcome.refused[env, robot] = (not despawn) & (hit | (there != wish[robot]))
            outcome.robot_contacts[env, robot] = contacts
            outcome.rack_contacts[env, robot] = on_rack
            outcome.leaving[env, robot] = leaves
            # Who is not alive has stayed in its cell. Read from tables, not chosen: who moves is a coin toss.
            place = index(own if leaves else there)
            outcome.moved_m[env, robot] = scratch.moved_m[index((there != own) & (not leaves))]
            x, y = floor.x[place], floor.y[place]
            pose.vx[env, robot] = (x - pose.x[env, robot]) * per_s
            pose.vy[env, robot] = (y - pose.y[env, robot]) * per_s
            pose.x[env, robot] = x
            pose.y[env, robot] = y
        for robot in range(num_robots):
            before[index(cell[robot])] = -1
            count_in[index(end[robot])] = 0
            stays = not alive[robot] or outcome.leaving[env, robot]
            cell[robot] = cell[robot] if stays else end[robot]


@kernel_part
def _settle(cell: Int32, alive: Bool, first: int, scratch: GridScratch) -> None:
    """Rule ``block`` in one environment: writes to ``end`` where each robot ends up."""
    num_robots = np.uint64(len(cell))
    wish, claim, verdict = scratch.wish, scratch.claim, scratch.verdict
    unknown = 0
    turn = np.uint64(first)
    for _ in range(num_robots):
        own, wished = cell[turn], wish[turn]
        other = scratch.before[index(wished)]
        swaps = (other >= 0) & (wish[index(max(other, 0))] == own)
        claimed = claim[index(wished)]
        wins = alive[turn] & (wished != own) & (not swaps) & (claimed < 0)
        claim[index(wished)] = np.int32(turn) if wins else claimed
        # Into an empty cell there is nobody to wait for.
        waits = wins & (other >= 0)
        verdict[turn] = _UNKNOWN if waits else _MOVES if wins else _STAYS
        unknown += waits
        turn += np.uint64(1)
        turn = turn if turn < num_robots else np.uint64(0)
    if unknown > 0:
        for start in range(len(cell)):
            if verdict[start] == _UNKNOWN:
                _follow(start, wish, scratch.before, verdict, scratch.path)
    for robot in range(len(cell)):
        claim[index(wish[robot])] = -1
        scratch.end[robot] = wish[robot] if verdict[robot] == _MOVES else cell[robot]


@kernel_part
def _follow(start: int, wish: Int32, occupant: Int32, verdict: NDArray[np.int8], path: Int32) -> None:
    """Follow winners from robot to robot until the end of the chain is known, then give all of them its verdict."""
    length = 0
    robot = start
    while True:
        verdict[robot] = _ON_PATH
        path[length] = robot
        length += 1
        robot = occupant[wish[robot]]
        # A robot met again closes a cycle: only one winner can wish for its cell, so it is the start.
        if robot < 0 or verdict[robot] == _ON_PATH:
            result = _MOVES
            break
        if verdict[robot] != _UNKNOWN:
            result = verdict[robot]
            break
    for place in range(length):
        verdict[path[place]] = result


@lean_kernel
def mask_blocked_moves(floor: Floor, fleet: Fleet, first: int, mask: Bool) -> None:
    """Forbid moves into racks and walls: writes (E, A, 5) bool, all True in slots without a robot."""
    for env in range(mask.shape[0]):
        for slot in range(mask.shape[1]):
            cell = fleet.cell[env, first + slot]
            mask[env, slot, 0] = True
            for move in range(1, 5):
                mask[env, slot, move] = not fleet.alive[env, first + slot] or floor.moves[cell, move] != cell
