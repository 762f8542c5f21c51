"""PIBT for robots that have to turn before they can drive: the moves of PIBT, carried out one quarter turn at a time.

Every step PIBT plans moves as if robots could drive to any side (``pibt``). A robot that does not
face its cell turns towards it and keeps its own cell meanwhile; so does every robot that would
drive into a cell that is not vacated in this step. As PIBT's moves have neither two robots in one
cell nor swaps, what remains has none either, and no move is refused. Ties between cells are
broken anew only every eighth step, so that robots do not turn to and fro between equal ways.

Deviation: turns cost nothing in the plan (``ways_around`` says why). PIBT's guarantee of
reachability does not carry over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.jit import kernel
from bridge.planners.pibt import plan_fleet
from bridge.planners.ways_around import WaysAround
from bridge.planners.ways_out import WaysOut
from bridge.roster import RosterArrays
from bridge.warehouse.view import WarehouseView

__all__ = ["PibtHeadingPolicy", "plan_actions"]

Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

_TIE_STEPS = 8


class PibtHeadingPolicy:
    """Drives every robot of a warehouse with drive ``grid_heading``.

    Equal seeds give equal runs, however many environments are stepped together.
    """

    def __init__(self, simulator: WarehouseView, seed: int = 0, first_env: int = 0) -> None:
        """A planner for the environments of ``simulator``, of which ``first_env`` is the first one's index.

        Raises:
            SpecMismatchError: The robots do not turn and drive from cell to cell.
        """
        if simulator.config.drive.kind != "grid_heading":
            raise SpecMismatchError(
                f"PibtHeadingPolicy: expected drive 'grid_heading', got {simulator.config.drive.kind!r}. "
                "Use PibtPolicy for drive 'grid'."
            )
        self._simulator = simulator
        self._ways = WaysAround(simulator)
        self._out = WaysOut(simulator)
        self._seed = seed
        num_envs, num_robots = simulator.cells.shape
        self._env_index = np.arange(first_env, first_env + num_envs, dtype=np.uint64)
        self._moves = np.zeros((num_envs, num_robots), np.int32)
        self._actions = np.zeros((num_envs, num_robots), np.int32)

    def act(self, arrays: RosterArrays) -> None:
        """See :class:`bridge.policy.FleetPolicy`."""
        view = self._simulator
        steps = view.steps // _TIE_STEPS
        plan_fleet(view, self._ways, self._out, self._seed, self._env_index, arrays.episode, steps, self._moves)
        plan_actions(view.cells, view.alive, view.heading_rad, view.moves, self._moves, self._actions)
        for role, place in view.role_slices.items():
            actions = arrays.roles[role]
            # Robots that also speak say zeros, or the first symbol.
            actions.discrete_actions[..., 1:] = 0
            actions.continuous_actions[:] = 0.0
            actions.discrete_actions[..., 0] = self._actions[:, place]


@kernel
def plan_actions(
    cells: Int32, alive: Bool, heading: NDArray[np.float64], neighbours: Int32, moves: Int32, actions: Int32
) -> None:
    """Turn robots towards their moves, and let those drive that can.

    Args:
        cells: (E, N) int32, cell of every robot.
        alive: (E, N) bool, the robot is on the floor.
        heading: (E, N) float64, rad, a multiple of a quarter turn.
        neighbours: (C, 5) int32, cell that each move leads to.
        moves: (E, N) int32, moves of PIBT.
        actions: (E, N) int32, written: stay, forward, turn left or turn right.
    """
    num_envs, num_robots = cells.shape
    keeps = np.zeros(neighbours.shape[0], np.bool_)  # a robot will still be in this cell
    for env in range(num_envs):
        for robot in range(num_robots):
            # Quarter turns clockwise from up, as the moves are numbered.
            faced = (1 - int(np.round(heading[env, robot] / (0.5 * np.pi)))) % 4
            turn = (moves[env, robot] - 1 - faced) % 4
            actions[env, robot] = 0
            if alive[env, robot]:
                if moves[env, robot] > 0:
                    actions[env, robot] = 1 if turn == 0 else 3 if turn == 1 else 2
                keeps[cells[env, robot]] = actions[env, robot] != 1
        changed = True
        while changed:
            changed = False
            for robot in range(num_robots):
                if actions[env, robot] == 1 and keeps[neighbours[cells[env, robot], moves[env, robot]]]:
                    actions[env, robot] = 0
                    keeps[cells[env, robot]] = True
                    changed = True
        for robot in range(num_robots):
            keeps[cells[env, robot]] = False
