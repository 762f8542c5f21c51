"""Where and how robots come onto the floor: at the start of an episode, and after they left it.

At the start, the robots are spread at random over the parking places, and over
the other free cells that are no station when there are more robots than
parking places; no two share a cell. A robot that comes back takes the first
free parking place counted from a random one, or else the first free other
cell counted from a random one; if there is none, it waits another step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet, Outcome, Pose, Traits
from bridge.warehouse.floor import Floor
from bridge.warehouse.random_streams import uniform

__all__ = ["bring_back", "place_fleet", "relocate"]

UInt64 = NDArray[np.uint64]
Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]


@lean_kernel
def place_fleet(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    traits: Traits,
    cell_keys: UInt64,
    charge_keys: UInt64,
    heading_keys: UInt64,
    turning: bool,
    places: Int32,
    envs: Bool,
) -> None:
    """Start an episode: every robot on the floor, at rest, without a task.

    Args:
        floor: The floor plan.
        fleet: Cell, charge and flags are written; tasks are left to ``tasks.clear_tasks``.
        pose: Written.
        traits: Bounds of the charge.
        cell_keys: (E,) uint64, stream of the start cells.
        charge_keys: (E,) uint64, stream of the charges.
        heading_keys: (E,) uint64, stream of the headings.
        turning: Robots have a heading.
        places: (len(floor.start_cells),) int32, scratch.
        envs: (E,) bool, environments to treat.
    """
    num_robots = fleet.cell.shape[1]
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for index in range(len(places)):
            places[index] = floor.start_cells[index]
        for robot in range(num_robots):
            # One step of a Fisher-Yates shuffle, within the parking places while there are any.
            last = floor.num_parking if robot < floor.num_parking else len(places)
            chosen = robot + int(uniform(cell_keys[env], robot) * (last - robot))
            places[robot], places[chosen] = places[chosen], places[robot]
            span = traits.initial_max[robot] - traits.initial_min[robot]
            charge = traits.initial_min[robot] + span * uniform(charge_keys[env], robot)
            heading = np.pi * (2.0 * uniform(heading_keys[env], robot) - 1.0) if turning else 0.0
            _put(floor, fleet, pose, env, robot, places[robot], charge, heading)


@lean_kernel
def bring_back(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    traits: Traits,
    keys: UInt64,
    steps: Int32,
    return_steps: int,
    last_step: int,
    turning: bool,
) -> None:
    """Count down the robots that left and bring back those that are due.

    Args:
        floor: The floor plan.
        fleet: ``returns_in`` is counted down; robots that come back are alive, charged and without a task.
        pose: Written for robots that come back.
        outcome: ``leaving`` tells which robots left in this step.
        traits: Footprint, and bounds of the charge.
        keys: (E,) uint64, stream of the returns.
        steps: (E,) int32, number of the step in its episode.
        return_steps: Steps after which a robot comes back; -1 for never.
        last_step: Number of the last step of an episode, in which nobody comes back.
        turning: Robots have a heading.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            if fleet.alive[env, robot]:
                continue
            if outcome.leaving[env, robot]:
                fleet.returns_in[env, robot] = return_steps
            elif fleet.returns_in[env, robot] > 0:
                fleet.returns_in[env, robot] -= 1
            if fleet.returns_in[env, robot] != 0 or steps[env] == last_step:
                continue
            counter = 4 * (int(steps[env]) * num_robots + robot)
            cell = _free_place(floor, fleet, pose, traits, env, robot, keys[env], counter)
            if cell >= 0:
                span = traits.initial_max[robot] - traits.initial_min[robot]
                charge = traits.initial_min[robot] + span * uniform(keys[env], counter + 2)
                heading = np.pi * (2.0 * uniform(keys[env], counter + 3) - 1.0) if turning else 0.0
                _put(floor, fleet, pose, env, robot, cell, charge, heading)


@lean_kernel
def relocate(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    traits: Traits,
    keys: UInt64,
    steps: Int32,
    turning: bool,
    chosen: Bool,
) -> None:
    """Take robots to free places, as an operator would; they keep their tasks, loads and charge.

    Args:
        floor: The floor plan.
        fleet: ``cell`` is written.
        pose: Written.
        traits: Footprint.
        keys: (E,) uint64, stream of the places.
        steps: (E,) int32, number of the step in its episode.
        turning: Robots have a heading.
        chosen: (E, N) bool, robots to take away; cleared where there is no free place.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            if chosen[env, robot]:
                counter = 4 * (int(steps[env]) * num_robots + robot)
                cell = _free_place(floor, fleet, pose, traits, env, robot, keys[env], counter)
                chosen[env, robot] = cell >= 0
                if cell >= 0:
                    heading = np.pi * (2.0 * uniform(keys[env], counter + 2) - 1.0) if turning else 0.0
                    _put(floor, fleet, pose, env, robot, cell, fleet.charge[env, robot], heading)


@kernel_part
def _free_place(
    floor: Floor, fleet: Fleet, pose: Pose, traits: Traits, env: int, robot: int, key: np.uint64, counter: int
) -> int:
    """A start cell where the robot would touch nobody, or -1."""
    parts = ((0, floor.num_parking), (floor.num_parking, len(floor.start_cells)))
    for part in range(2):
        start, stop = parts[part]
        size = stop - start
        offset = int(uniform(key, counter + part) * size)
        for index in range(size):
            cell = floor.start_cells[start + (offset + index) % size]
            x = floor.x[cell]
            y = floor.y[cell]
            free = True
            for other in range(len(traits.radius_m)):
                if fleet.alive[env, other]:
                    dx, dy = pose.x[env, other] - x, pose.y[env, other] - y
                    reach = traits.radius_m[robot] + traits.radius_m[other]
                    if fleet.cell[env, other] == cell or dx * dx + dy * dy < reach * reach:
                        free = False
                        break
            if free:
                return int(cell)
    return -1


@kernel_part
def _put(
    floor: Floor, fleet: Fleet, pose: Pose, env: int, robot: int, cell: int, charge: float, heading: float
) -> None:
    """Put a robot onto the floor, at rest on the centre of a cell."""
    fleet.cell[env, robot] = cell
    fleet.alive[env, robot] = True
    fleet.charge[env, robot] = charge
    fleet.returns_in[env, robot] = -1
    pose.x[env, robot] = floor.x[cell]
    pose.y[env, robot] = floor.y[cell]
    pose.heading[env, robot] = heading
    pose.cos[env, robot] = np.cos(heading)
    pose.sin[env, robot] = np.sin(heading)
    pose.speed[env, robot] = 0.0
    pose.turn_rate[env, robot] = 0.0
    pose.vx[env, robot] = 0.0
    pose.vy[env, robot] = 0.0
