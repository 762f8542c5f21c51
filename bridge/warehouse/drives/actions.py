"""Taking the actions of one role, and finding those that the world cannot take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, lean_kernel

__all__ = ["hold_robots", "take_continuous", "take_moves"]

Bool = NDArray[np.bool_]


@lean_kernel
def take_moves(actions: NDArray[np.int32], asked: Bool, mask: Bool, first: int, taken: NDArray[np.int32]) -> int:
    """Copy the moves of one role to the robot axis.

    Args:
        actions: (E, A, 1) int32.
        asked: (E, A) bool, robots whose action counts.
        mask: (E, A, 5) bool, True = allowed.
        first: Slot of the role's first robot on the robot axis.
        taken: (E, N) int32, written; 0 (stay) for robots that were not asked.

    Returns:
        0, or 1 + ``env * A + slot`` of the first robot whose move is out of range or masked.
    """
    num_envs, num_slots = asked.shape
    wrong = 0
    for env in range(num_envs):
        for slot in range(num_slots):
            move, robot = actions[env, slot, 0], index(first + slot)
            taken[env, robot] = 0
            if asked[env, slot]:
                if 0 <= move < mask.shape[2] and mask[env, slot, index(move)]:
                    taken[env, robot] = move
                elif wrong == 0:
                    wrong = 1 + env * num_slots + slot
    return wrong


@lean_kernel
def take_continuous(actions: NDArray[np.float32], asked: Bool, first: int, taken: NDArray[np.float32]) -> int:
    """Copy the continuous actions of one role to the robot axis.

    Args:
        actions: (E, A, C) float32.
        asked: (E, A) bool, robots whose action counts.
        first: Slot of the role's first robot on the robot axis.
        taken: (E, N, C) float32, written; 0 for robots that were not asked.

    Returns:
        0, or 1 + ``env * A + slot`` of the first robot with a value outside [-1, 1] or NaN.
    """
    num_envs, num_slots = asked.shape
    wrong = 0
    for env in range(num_envs):
        for slot in range(num_slots):
            for channel in range(actions.shape[2]):
                value = actions[env, slot, channel]
                if not asked[env, slot]:
                    value = np.float32(0.0)
                elif not abs(value) <= 1.0 and wrong == 0:
                    wrong = 1 + env * num_slots + slot
                taken[env, index(first + slot), channel] = value
    return wrong


@lean_kernel
def hold_robots(held: NDArray[np.int32], moves: NDArray[np.int32], commands: NDArray[np.float32]) -> None:
    """Let the robots that are held stand: writes 0 into ``moves`` (E, N) and ``commands`` (E, N, 2) of theirs."""
    num_envs, num_robots = held.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            if held[env, robot] != 0:
                moves[env, robot] = 0
                commands[env, robot] = 0.0
