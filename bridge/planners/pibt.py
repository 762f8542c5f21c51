"""PIBT: priority inheritance with backtracking, the planner that learned policies are compared with.

Okumura, Machida, Defago, Tamura: "Priority inheritance with backtracking for iterative
multi-agent path finding" (IJCAI 2019; Artificial Intelligence 310, 2022). Every step each
robot, highest priority first, claims the neighbouring cell nearest to its goal. A robot that
stands there inherits the priority and moves out of the way first; if it cannot, the claim
fails and the next cell is tried.

The policy drives a grid warehouse through the same actions and towards the same targets as a
learned policy, but it is central: it sees all robots. On a floor where every two neighbouring
cells lie on a cycle every robot reaches its target in finite time; dead ends break this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.jit import kernel
from bridge.planners.ways_around import WaysAround
from bridge.planners.ways_out import WaysOut
from bridge.roster import RosterArrays
from bridge.warehouse.view import MOVE_NAMES, WarehouseView

__all__ = ["PibtPolicy", "plan_fleet", "plan_moves"]

Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

_NONE = -1
_NUM_MOVES = len(MOVE_NAMES)


class PibtPolicy:
    """Drives every robot of a grid warehouse by PIBT.

    Priorities are the simulator's: steps since the robot last reached a pick-up or delivery, as
    in the paper. Ties between cells are broken by a hash of seed, environment, episode, step and
    robot: equal seeds give equal runs, however many environments are stepped together.

    Ways are as long as they take: a cell of a speed zone counts its steps.

    Deviations: a robot that cannot move is an obstacle. Ways lead around one with an empty battery (``ways_around``),
    not around one that is being served. Who comes out of a dead end of one lane is planned before those that go in
    against it (``ways_out``).
    """

    def __init__(self, simulator: WarehouseView, seed: int = 0, first_env: int = 0) -> None:
        """A planner for the environments of ``simulator``, of which ``first_env`` is the first one's index.

        Raises:
            SpecMismatchError: The robots do not move from cell to cell.
        """
        if simulator.config.drive.kind != "grid":
            raise SpecMismatchError(
                f"PibtPolicy: expected drive 'grid', got {simulator.config.drive.kind!r}. "
                "PIBT plans on cells; use a scenario with drive: {kind: grid}."
            )
        self._simulator = simulator
        self._ways = WaysAround(simulator)
        self._out = WaysOut(simulator)
        self._seed = seed
        num_envs, num_robots = simulator.cells.shape
        self._env_index = np.arange(first_env, first_env + num_envs, dtype=np.uint64)
        self._moves = np.zeros((num_envs, num_robots), np.int32)

    def act(self, arrays: RosterArrays) -> None:
        """See :class:`bridge.policy.FleetPolicy`."""
        view = self._simulator
        plan_fleet(view, self._ways, self._out, self._seed, self._env_index, arrays.episode, view.steps, self._moves)
        for role, place in view.role_slices.items():
            actions = arrays.roles[role]
            # Robots that also speak say zeros, or the first symbol.
            actions.discrete_actions[..., 1:] = 0
            actions.continuous_actions[:] = 0.0
            actions.discrete_actions[..., 0] = self._moves[:, place]


def plan_fleet(
    view: WarehouseView,
    ways: WaysAround,
    out: WaysOut,
    seed: int,
    env_index: NDArray[np.uint64],
    episode: NDArray[np.int64],
    steps: Int32,
    moves: Int32,
) -> None:
    """:func:`plan_moves` for the robots of a running warehouse, around those that are flat; arguments as there."""
    key = np.uint64(seed % 2**64)

    def plan(envs: slice, distance: Int32) -> None:
        plan_moves(
            view.cells[envs],
            view.goal_index[envs],
            view.alive[envs],
            view.movable[envs],
            out.priority(envs, distance),
            view.moves,
            distance,
            key,
            env_index[envs],
            episode[envs],
            steps[envs],
            moves[envs],
        )

    plan(slice(None), ways.distance)
    for env, distance in ways.around_flat_robots():
        plan(slice(env, env + 1), distance)


@kernel
def plan_moves(
    cells: Int32,
    goals: Int32,
    alive: Bool,
    movable: Bool,
    priority: NDArray[np.int64],
    neighbours: Int32,
    distance: Int32,
    seed: np.uint64,
    env_index: NDArray[np.uint64],
    episode: NDArray[np.int64],
    steps: Int32,
    moves: Int32,
) -> None:
    """Plan one step of every robot in every environment.

    Args:
        cells: (E, N) int32, cell of every robot.
        goals: (E, N) int32, row of the robot's goal in ``distance``; -1 if it has none.
        alive: (E, N) bool, the robot is on the floor.
        movable: (E, N) bool, it can move.
        priority: (E, N) int64, larger plans first; distinct within an environment.
        neighbours: (C, 5) int32, cell that each move leads to, the cell itself where it is blocked; column 0 stays.
        distance: (G, C) int32, of ``ways_around``.
        seed: Key of the tie breaks, with the next three.
        env_index: (E,) uint64.
        episode: (E,) int64.
        steps: (E,) int32, steps since the start of the episode.
        moves: (E, N) int32, the plan: a column of ``neighbours`` per robot; 0 for robots off the floor.
    """
    num_envs, num_robots = cells.shape
    num_cells = neighbours.shape[0]
    robot_at = np.full(num_cells, _NONE, np.int32)  # robot that stands on a cell now
    claimed_by = np.full(num_cells, _NONE, np.int32)  # robot that will stand on it
    order = np.empty((num_robots, _NUM_MOVES), np.int32)  # moves of a robot, best first
    tried = np.empty(num_robots, np.int32)  # place in `order` that a robot has come to; -1 before its turn
    stack = np.empty(num_robots, np.int32)
    for env in range(num_envs):
        key = _mix(seed ^ _mix(env_index[env] ^ _mix(np.uint64(episode[env]) ^ _mix(np.uint64(steps[env])))))
        at, goal, move = cells[env], goals[env], moves[env]
        for robot in range(num_robots):
            move[robot] = 0
            tried[robot] = _NONE
            if alive[env, robot]:
                robot_at[at[robot]] = robot
                if not movable[env, robot]:
                    tried[robot] = 0
                    claimed_by[at[robot]] = robot
        for robot in np.argsort(-priority[env]):
            if alive[env, robot] and tried[robot] == _NONE:
                _plan_chain(robot, at, goal, neighbours, distance, key, robot_at, claimed_by, order, tried, stack, move)
        for robot in range(num_robots):
            if alive[env, robot]:
                robot_at[at[robot]] = _NONE
                claimed_by[neighbours[at[robot], move[robot]]] = _NONE


@kernel
def _plan_chain(
    first: int,
    at: Int32,
    goal: Int32,
    neighbours: Int32,
    distance: Int32,
    key: np.uint64,
    robot_at: Int32,
    claimed_by: Int32,
    order: Int32,
    tried: Int32,
    stack: Int32,
    move: Int32,
) -> None:
    """Plan ``first`` and every robot that has to give way to it.

    The paper's recursion with a stack of its own: each robot on the stack but the last has
    claimed the cell of the one above it and waits until that one has left. The first robot that
    finds a cell which nobody has to leave settles all of them.
    """
    depth = 0
    stack[0] = first
    while depth >= 0:
        robot = stack[depth]
        here = at[robot]
        if tried[robot] == _NONE:
            _order_moves(robot, here, goal[robot], neighbours, distance, key, robot_at, order[robot])
        tried[robot] += 1
        if tried[robot] == _NUM_MOVES or order[robot, tried[robot]] == _NONE:
            # Nowhere to go: it stays, takes its cell back, and the robot that pushed it tries its next cell.
            move[robot] = 0
            claimed_by[here] = robot
            depth -= 1
            continue
        step = order[robot, tried[robot]]
        target = neighbours[here, step]
        if claimed_by[target] != _NONE:
            continue
        other = robot_at[target]
        stands_there = other != _NONE and other != robot
        if stands_there and tried[other] != _NONE and neighbours[target, move[other]] == here:
            continue  # the two would swap places
        move[robot] = step
        claimed_by[target] = robot
        if not stands_there or tried[other] != _NONE:
            return
        depth += 1
        stack[depth] = other


@kernel
def _order_moves(
    robot: int,
    here: int,
    goal: int,
    neighbours: Int32,
    distance: Int32,
    key: np.uint64,
    robot_at: Int32,
    order: Int32,
) -> None:
    """Write a robot's moves into ``order`` (5,): nearest to the goal first, then empty cells, then by chance."""
    chance = _mix(key ^ np.uint64(robot))
    keys = np.empty(_NUM_MOVES, np.int64)
    found = 0
    order[:] = _NONE
    for step in range(_NUM_MOVES):
        target = neighbours[here, step]
        if step > 0 and target == here:
            continue
        away = np.int64(step > 0) if goal == _NONE else np.int64(distance[goal, target])
        if away < 0:
            continue
        occupied = np.int64(robot_at[target] != _NONE and robot_at[target] != robot)
        tie = np.int64((chance >> np.uint64(8 * step)) & np.uint64(0xFF))
        value = (away << 12) | (occupied << 11) | (tie << 3) | step
        place = found
        while place > 0 and keys[place - 1] > value:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = value
        found += 1
    for place in range(found):
        order[place] = keys[place] & 7


@kernel
def _mix(value: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64 (Steele et al. 2014): well spread bits, equal on every machine."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
