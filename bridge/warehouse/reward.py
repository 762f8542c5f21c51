"""The reward of every robot in a step: named terms with weights.

Shaping is potential-based (Ng, Harada, Russell 1999), which leaves the optimal
policies as they are: a step from s to s' earns ``gamma * Phi(s') - Phi(s)`` with

    Phi = progress * (bound - remaining)    >= 0,    Phi = 0 once the robot has left the floor,

where ``remaining`` is the length in cells of the robot's shortest path (with slow
cells counted by the time that they take, and quarter turns as a cell each): to its
pick-up and on to its delivery, to its delivery when loaded, to its parking
place without a task. As Phi is never negative, standing still earns
``(gamma - 1) * Phi <= 0``, and a loop back to the same state never earns more
than it costs. Because a new task makes the way longer again, a whole cycle of
work earns about nothing by shaping: deliveries are what pays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel, number_of
from bridge.warehouse.config import RewardConfig
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor, units_left

__all__ = ["RewardTerms", "make_terms", "pay_rewards", "start_potentials"]


class RewardTerms(NamedTuple):
    """Weights of :class:`bridge.warehouse.config.RewardConfig`."""

    delivery: float
    pickup: float
    help: float
    progress: float
    gamma: float
    step: float
    blocked: float
    collision: float


def make_terms(reward: RewardConfig) -> RewardTerms:
    """The weights of a scenario."""
    return RewardTerms(
        delivery=float(reward.delivery),
        pickup=float(reward.pickup),
        help=float(reward.help),
        progress=float(reward.progress),
        gamma=float(reward.progress_gamma),
        step=float(reward.step),
        blocked=float(reward.blocked),
        collision=float(reward.collision),
    )


@lean_kernel
def pay_rewards(
    floor: Floor, fleet: Fleet, pose: Pose, outcome: Outcome, terms: RewardTerms, rewards: NDArray[np.float32]
) -> None:
    """Write the rewards of the lives that ran before the step.

    Args:
        floor: The floor plan.
        fleet: After the step, with new tasks assigned; ``potential`` is advanced.
        pose: After the step.
        outcome: What happened in the step.
        terms: Weights.
        rewards: (E, N) float32, written; 0 where no robot lived.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            reward = 0.0
            if outcome.lived[env, robot]:
                served = outcome.served[env, robot]
                pay = terms.pickup if served == 1 else terms.delivery if served == 2 else terms.help
                reward = terms.step + (pay if served != 0 else 0.0)
                reward += terms.blocked * number_of(outcome.refused, env, robot)
                reward += terms.collision * (outcome.robot_contacts[env, robot] + outcome.rack_contacts[env, robot])
            if terms.progress > 0.0:
                before = fleet.potential[env, robot]
                after = _potential(floor, fleet, pose, terms, env, robot)
                fleet.potential[env, robot] = after
                if outcome.lived[env, robot]:
                    reward += (0.0 if outcome.leaving[env, robot] else terms.gamma * after) - before
            rewards[env, robot] = reward


@lean_kernel
def start_potentials(floor: Floor, fleet: Fleet, pose: Pose, terms: RewardTerms, envs: NDArray[np.bool_]) -> None:
    """Set the potentials at the start of an episode of the environments in ``envs``: (E,) bool."""
    for env in range(len(envs)):
        if envs[env] and terms.progress > 0.0:
            for robot in range(fleet.cell.shape[1]):
                fleet.potential[env, robot] = _potential(floor, fleet, pose, terms, env, robot)


@kernel_part
def _potential(floor: Floor, fleet: Fleet, pose: Pose, terms: RewardTerms, env: int, robot: int) -> float:
    if not fleet.alive[env, robot]:
        return 0.0
    remaining = float(fleet.route[env, robot] >> 4)
    if fleet.goal[env, robot] >= 0:
        # The way to the next cell's centre instead of a whole cell; on the grid they are the same.
        dx = fleet.way_x[env, robot] - pose.x[env, robot]
        dy = fleet.way_y[env, robot] - pose.y[env, robot]
        ahead = np.sqrt(dx * dx + dy * dy) / floor.cell_size_m
        if len(floor.drive_costs) > 0:
            remaining = units_left(floor, fleet.cell[env, robot], fleet.route[env, robot], ahead)
        else:
            remaining = max(remaining - 1.0, 0.0) + ahead
    if fleet.pickup[env, robot] >= 0 and not fleet.loaded[env, robot]:
        cell = floor.goal_cell[fleet.pickup[env, robot]]
        remaining += float(floor.routes[fleet.delivery[env, robot], cell] >> 4)
    return terms.progress * (floor.bound_cells - remaining * floor.cells_per_unit)
