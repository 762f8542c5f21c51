"""What robots see of a goal that no task has given them: a charger, or the place where a carrier needs them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel
from bridge.warehouse.feature import Parts

__all__ = ["OffDutyColumns", "find_columns", "observe_off_duty"]

Bool = NDArray[np.bool_]


class OffDutyColumns(NamedTuple):
    """Places of three fields in the observations; -1 for a block that is not used.

    Attributes:
        flag: Of the block ``self``.
        goal: Of the block ``target``: whether the goal is of this kind.
        parking: ``to_parking`` of the same block, which it then is not.
    """

    flag: int
    goal: int
    parking: int


def find_columns(parts: Parts, flag: str, goal: str) -> OffDutyColumns:
    """The places of a feature's fields ``self.<flag>`` and ``target.<goal>``."""
    return OffDutyColumns(
        parts.column("self", flag), parts.column("target", goal), parts.column("target", "to_parking")
    )


@lean_kernel
def observe_off_duty(
    alive: Bool,
    flag: Bool,
    goal: NDArray[np.int32],
    columns: OffDutyColumns,
    first: int,
    envs: Bool,
    observations: NDArray[np.float32],
) -> None:
    """Write a flag about the robot, and of which kind its goal is.

    Args:
        alive: (E, N) bool.
        flag: (E, N) bool, the flag.
        goal: (E, N) int32, goal of this kind that each robot has; -1 for none.
        columns: Where to write.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written where a robot lives.
    """
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for slot in range(observations.shape[1]):
            robot = first + slot
            if not alive[env, robot]:
                continue
            if columns.flag >= 0:
                observations[env, slot, columns.flag] = flag[env, robot]
            if columns.goal >= 0:
                has_goal = goal[env, robot] >= 0
                observations[env, slot, columns.goal] = has_goal
                if has_goal:
                    observations[env, slot, columns.parking] = 0.0
