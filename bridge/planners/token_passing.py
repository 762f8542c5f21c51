"""Token passing with space-time A*: paths planned one robot after the other into a table that all share.

Ma, Li, Kumar, Koenig: "Lifelong multi-agent path finding for online pickup and delivery tasks"
(AAMAS 2017, arXiv 1705.10868). The *token* holds the path of every robot, cell by cell and step by
step; a robot that has come to the end of its path stays there for ever as far as the others know. Who
needs a new path plans it around all others: through the pick-up of its task, where it is served, to its
delivery, where it may stay. On well-formed floors (``well_formed.py``) this never deadlocks.

The simulator's dispatcher gives out the tasks: with ``dispatch: token`` as the paper does, so that no
other path ends where a robot's does. What differs otherwise:

- With another dispatch several robots may be sent to one delivery. Who finds it taken by another's path plans
  to its pick-up alone meanwhile; who finds that taken, too, waits. If it stands where somebody else has to
  go, it goes to a free parking place.
- Tasks of several pick-ups are planned one pick-up after the other, because robots are told of the next one alone.
  So are those that need a picker: nobody knows when it comes, and until then the path ends at the pick-up.
- Pickers are planned like any robot, to the meeting place of the pick-up that they are called to, or to park.
- A robot whose target changes on the way (a task for one that goes to park) plans anew at once, and
  keeps its path if that fails. So does one that was served faster than it might have been.
- Where the floor does not follow the plan (a battery ran flat, a robot stopped, left or came back), the token
  begins anew from where the robots are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.planners.space_time import Demand, Ways, make_scratch, make_token, pass_token
from bridge.planners.well_formed import well_formed_faults
from bridge.roster import RosterArrays
from bridge.warehouse.config import DifferentialDriveConfig, WarehouseConfig
from bridge.warehouse.drives.speed_zones import steps_per_cell
from bridge.warehouse.floor import goal_cells
from bridge.warehouse.layout import Layout
from bridge.warehouse.view import WarehouseView

__all__ = ["TokenPassingPolicy", "token_passing_faults"]

Int32 = NDArray[np.int32]


def token_passing_faults(config: WarehouseConfig, layout: Layout) -> list[str]:
    """Why token passing is not sure to finish every task of a warehouse, in words; empty if it is."""
    if config.drive.kind != "grid":
        return [f"expected drive 'grid', got {config.drive.kind!r}: it plans on cells"]
    faults = []
    random = config.randomisation
    if random is not None and random.max_action_delay_steps > 0:
        late = random.max_action_delay_steps
        faults.append(f"expected actions that are carried out at once, got max_action_delay_steps {late}")
    return faults + well_formed_faults(layout, config.num_robots, charges=config.charges)


class TokenPassingPolicy:
    """Drives every robot of a grid warehouse along collision-free paths from a shared token."""

    def __init__(self, simulator: WarehouseView, *, require_well_formed: bool = True) -> None:
        """A planner for the environments of ``simulator``.

        Args:
            simulator: What is driven.
            require_well_formed: Refuse floors on which robots may end up waiting for each other for ever.

        Raises:
            SpecMismatchError: The robots do not do at once what they are told, cell by cell, or the warehouse is
                not well-formed.
        """
        config, layout = simulator.config, simulator.layout
        faults = token_passing_faults(config, layout)
        formed = well_formed_faults(layout, config.num_robots, charges=config.charges)
        if unfit := [fault for fault in faults if fault not in formed]:
            raise SpecMismatchError(f"TokenPassingPolicy: {'; '.join(unfit)}. Use PIBT, or another scenario.")
        if formed and require_well_formed:
            raise SpecMismatchError(
                f"TokenPassingPolicy: expected a well-formed warehouse, got one where: {'; '.join(formed)}. "
                "Mark parking places off the robots' ways, lower the fleet, or use PIBT."
            )
        self._simulator = simulator
        num_envs, num_robots = simulator.cells.shape
        self._ways = _ways_of(simulator)
        # A path takes the shortest way, may end in a slow cell, and may wait as long again.
        longest = int(self._ways.distance.max()) + int(self._ways.stay.max())
        horizon = 64 + (3 if self._ways.whole_paths else 2) * longest + 2 * self._ways.pick_steps
        num_cells = len(simulator.moves)
        self._tokens = [make_token(num_robots, num_cells, horizon) for _ in range(num_envs)]
        self._scratch = make_scratch(num_cells, horizon)
        self._moves = np.zeros((num_envs, num_robots), np.int32)

    def act(self, arrays: RosterArrays) -> None:
        """See :class:`bridge.policy.FleetPolicy`."""
        view = self._simulator
        movable, order = view.movable, np.argsort(-view.priority, axis=1)
        for env, token in enumerate(self._tokens):
            demand = Demand(
                cells=view.cells[env],
                goals=view.goal_index[env],
                deliveries=view.delivery_index[env],
                alive=view.alive[env],
                movable=movable[env],
                order=order[env],
            )
            pass_token(token, self._ways, demand, self._scratch, self._moves[env])
        for role, place in view.role_slices.items():
            actions = arrays.roles[role]
            # Robots that also speak say zeros, or the first symbol.
            actions.discrete_actions[..., 1:] = 0
            actions.continuous_actions[:] = 0.0
            actions.discrete_actions[..., 0] = self._moves[:, place]


def _ways_of(simulator: WarehouseView) -> Ways:
    """The floor of a simulator, for the search."""
    config, layout, moves = simulator.config, simulator.layout, simulator.moves
    assert not isinstance(config.drive, DifferentialDriveConfig), "refused by the policy"
    goals = goal_cells(layout)
    sources = np.zeros_like(moves)
    for move in range(1, 5):
        leads = moves[:, move] != np.arange(len(moves))
        sources[moves[leads, move], move] = np.flatnonzero(leads)
    service = config.tasks.service
    longest_s = 0.0 if service is None else service.pick_s * (1.0 + service.spread)
    return Ways(
        goal_cells=goals,
        is_refuge=np.isin(goals, layout.parking),
        moves=moves,
        sources=sources,
        distance=simulator.goal_distances,
        stay=steps_per_cell(layout, config.drive.step_s) - np.int32(1),
        pick_steps=math.ceil(longest_s / config.drive.step_s - 1e-9),
        whole_paths=not config.tasks.has_errands and not config.has_pickers,
    )
