"""What a roster says of lives and episodes: rewards, ends, and who lives now."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, lean_kernel
from bridge.warehouse.fleet import Fleet, Outcome

__all__ = ["count_step", "end_episodes", "note_lives", "report_lives", "show_lives"]

Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@lean_kernel
def note_lives(fleet: Fleet, outcome: Outcome) -> None:
    """Note who lives before the step, and who carries a load in it: ``lived`` and ``carried`` of the outcome."""
    num_envs, num_robots = fleet.alive.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            outcome.lived[env, robot] = fleet.alive[env, robot]
            outcome.carried[env, robot] = fleet.loaded[env, robot]


@lean_kernel
def count_step(steps: NDArray[np.int32]) -> None:
    """One step more of every episode: (E,) int32."""
    for env in range(len(steps)):
        steps[env] += 1


@lean_kernel
def end_episodes(
    fleet: Fleet, steps: NDArray[np.int32], episode_steps: int, despawn: bool, over: Bool, ended: Int64
) -> None:
    """Find the episodes that end with this step: the time is up, or the floor is empty for good.

    Args:
        fleet: After the step.
        steps: (E,) int32, steps since the start of the episode, with this one.
        episode_steps: Steps until the episode is cut.
        despawn: Robots can leave the floor.
        over: (E,) bool, written.
        ended: (2,) int64, written: how many there are, and 0.
    """
    number = 0
    for env in range(len(over)):
        ends = steps[env] >= episode_steps
        if despawn and not ends:
            ends = True
            for robot in range(fleet.cell.shape[1]):
                if fleet.alive[env, robot] or fleet.returns_in[env, robot] >= 0:
                    ends = False
        over[env] = ends
        number += ends
    ended[0], ended[1] = number, 0


@lean_kernel
def report_lives(
    alive: Bool,
    leaving: Bool,
    paid: Float32,
    over: Bool,
    first: int,
    rewards: Float32,
    terminated: Bool,
    truncated: Bool,
    ended: Int64,
) -> None:
    """Write rewards and ends of the lives of one role that ran before the step.

    Args:
        alive: (E, N) bool, after the step.
        leaving: (E, N) bool, left the floor in the step.
        paid: (E, N) float32, rewards.
        over: (E,) bool, the episode has ended.
        first: Slot of the role's first robot on the robot axis.
        rewards: (E, A) float32, written.
        terminated: (E, A) bool, written.
        truncated: (E, A) bool, written.
        ended: (2,) int64; the number of lives that were ended by the task is added to the second.
    """
    number = 0
    for env in range(rewards.shape[0]):
        for slot in range(rewards.shape[1]):
            robot = index(first + slot)
            rewards[env, slot] = paid[env, robot]
            terminated[env, slot] = leaving[env, robot]
            truncated[env, slot] = over[env] and alive[env, robot]
            number += leaving[env, robot]
    ended[1] += number


@lean_kernel
def show_lives(alive: Bool, first: int, agent_mask: Bool, decision_mask: Bool) -> None:
    """Write which robots of one role live, all of which are asked: (E, N) bool to two of (E, A) bool."""
    for env in range(agent_mask.shape[0]):
        for slot in range(agent_mask.shape[1]):
            agent_mask[env, slot] = alive[env, index(first + slot)]
            decision_mask[env, slot] = alive[env, index(first + slot)]
