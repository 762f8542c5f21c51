"""What a replay keeps of one environment of a simulator after a step, before a next episode begins in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.simulator import WarehouseSimulator

__all__ = ["Doing", "Frame", "nothing_done", "read_doing", "read_frame", "read_scan"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]


class Frame(NamedTuple):
    """The robots; all (N, ...), meaning as in ``recording.Recording``."""

    positions_m: Float64
    heading_rad: Float64
    alive: Bool
    loaded: Bool
    has_task: Bool
    goal_cells: Int32
    charge: Float64


class Doing(NamedTuple):
    """What happened to them in the step before the frame; all (N,), meaning as in ``warehouse.fleet.Outcome``."""

    refused: Bool
    robot_contacts: Int32
    rack_contacts: Int32
    leaving: Bool
    served: Int32
    pause: NDArray[np.int8]


def nothing_done(num_robots: int) -> Doing:
    """Before the first frame."""
    nobody, nothing = np.zeros(num_robots, np.bool_), np.zeros(num_robots, np.int32)
    return Doing(nobody, nothing, nothing, nobody, nothing, nothing.astype(np.int8))


def read_frame(simulator: WarehouseSimulator, env: int) -> Frame:
    """Copies of the simulator's arrays."""
    goal = np.where(simulator.goal_index[env] >= 0, simulator.goal_cells[env], -1)
    return Frame(
        positions_m=simulator.positions_m[env].copy(),
        heading_rad=simulator.heading_rad[env].copy(),
        alive=simulator.alive[env].copy(),
        loaded=simulator.loaded[env].copy(),
        has_task=simulator.has_task[env].copy(),
        goal_cells=goal.astype(np.int32),
        charge=simulator.charge[env].astype(np.float64),
    )


def read_doing(simulator: WarehouseSimulator, env: int) -> Doing:
    """The outcome of the last step; what is noted of robots that were off the floor before it is older."""
    outcome = simulator.outcome
    lived = outcome.lived[env]
    return Doing(
        refused=outcome.refused[env] & lived,
        robot_contacts=np.where(lived, outcome.robot_contacts[env], 0).astype(np.int32),
        rack_contacts=np.where(lived, outcome.rack_contacts[env], 0).astype(np.int32),
        leaving=outcome.leaving[env] & lived,
        served=np.where(lived, outcome.served[env], 0).astype(np.int32),
        pause=np.where(lived, outcome.pause[env], 0).astype(np.int8),
    )


def read_scan(simulator: WarehouseSimulator, env: int, final: bool) -> NDArray[np.float32]:
    """(N, beams) float32, the observed ``lidar`` block of every robot; of the ended episode if ``final``."""
    parts = []
    for role in simulator.spec.roles:
        values = simulator.arrays.roles[role.name]
        seen = values.final_observations if final else values.observations
        parts.append(seen[env, :, role.observation.slice_of("lidar")])
    return np.concatenate(parts)
