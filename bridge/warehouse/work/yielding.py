"""Idle robots that stand in the way are sent elsewhere.

A robot is idle if it has no task, and is neither called by a carrier nor kept a charger:
it is sent to park, or to wait there for a charger. It blocks another one if that one has a
task, waits (``pauses``), and has its next cell on the shortest way taken by the idle one. Who
has an empty battery is not idle, but out of order. An idle robot that
has blocked anyone for ``idle_yield_s`` without a break is sent to the nearest
other parking place that nobody has, the lowest cell among equals, if there is
one. Its target changes; who drives it is still the policy.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, kernel_part, lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.durations import steps_of
from bridge.warehouse.feature import Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome, TaskPool
from bridge.warehouse.floor import Floor, nearest_unclaimed

__all__ = ["YIELD_METRICS", "YieldState", "Yielding", "make_yield_state", "send_away"]

Bool = NDArray[np.bool_]

YIELD_METRICS: Final = (
    MetricSpec("blocked_by_idle_s", "time of robots with a task that an idle robot blocked, in s", False),
    MetricSpec("idle_yields", "idle robots that were sent away because they blocked others", None),
)

_STANDING_M: Final = 1e-3


class YieldState(NamedTuple):
    """Who blocks whom.

    Attributes:
        is_parking: (G,) bool, goals that are parking places.
        idle_at: (cells,) int32, scratch: idle robot in each cell; -1 for none, also between calls.
        presses: (N,) bool, scratch: the robot blocks another one.
        steps: (E, N) int32, steps that each robot has blocked others without a break.
        blocked: (E,) int64, steps of robots that were blocked.
        yields: (E,) int64, robots sent away.
    """

    is_parking: Bool
    idle_at: NDArray[np.int32]
    presses: Bool
    steps: NDArray[np.int32]
    blocked: NDArray[np.int64]
    yields: NDArray[np.int64]


def make_yield_state(num_envs: int, num_robots: int, floor: Floor) -> YieldState:
    """Nobody blocks anyone."""
    is_parking = np.zeros(len(floor.goal_cell), np.bool_)
    is_parking[floor.parking] = True
    return YieldState(
        is_parking=is_parking,
        idle_at=np.full(floor.blocked.size, -1, np.int32),
        presses=np.zeros(num_robots, np.bool_),
        steps=np.zeros((num_envs, num_robots), np.int32),
        blocked=np.zeros(num_envs, np.int64),
        yields=np.zeros(num_envs, np.int64),
    )


class Yielding(Feature):
    """Sends idle robots out of the way."""

    def __init__(self, parts: Parts, idle_yield_s: float) -> None:
        self._parts = parts
        limit = max(steps_of(idle_yield_s, parts.step_s), 1)
        num_envs, num_robots = parts.fleet.cell.shape
        self._state = make_yield_state(num_envs, num_robots, parts.floor)
        self._send = bind(send_away, parts.floor, parts.fleet, parts.outcome, parts.pool, self._state, limit)

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._state.steps[envs] = 0
        self.clear_figures(envs)

    def after_service(self) -> None:
        """See :class:`Feature`."""
        self._send()

    def clear_figures(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._state.blocked[envs] = 0
        self._state.yields[envs] = 0

    def figures(self, envs: Bool) -> NDArray[np.float64]:
        """See :class:`Feature`; in the order of ``YIELD_METRICS``."""
        return np.stack([self._state.blocked[envs] * self._parts.step_s, self._state.yields[envs]], axis=1)


@lean_kernel
def send_away(
    floor: Floor, fleet: Fleet, outcome: Outcome, pool: TaskPool, state: YieldState, limit_steps: int
) -> None:
    """Count who blocks whom, and send idle robots away that have blocked others for too long.

    Args:
        floor: The floor plan.
        fleet: ``goal`` is written for robots that are sent away.
        outcome: Of the step.
        pool: ``claimed`` follows the goals.
        state: Advanced.
        limit_steps: Steps of blocking after which a robot is sent away.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            state.presses[robot] = False
            if _is_idle(fleet, state, env, robot):
                state.idle_at[fleet.cell[env, robot]] = robot
        for robot in range(num_robots):
            works = fleet.alive[env, robot] and fleet.pickup[env, robot] >= 0 and fleet.age[env, robot] > 0
            waits = outcome.moved_m[env, robot] < _STANDING_M and outcome.pause[env, robot] == 0
            if works and outcome.served[env, robot] == 0 and waits:
                column = int(fleet.way_x[env, robot] / floor.cell_size_m)
                row = floor.height - 1 - int(fleet.way_y[env, robot] / floor.cell_size_m)
                other = state.idle_at[row * floor.width + column]
                if other >= 0:
                    state.presses[other] = True
                    state.blocked[env] += 1
        for robot in range(num_robots):
            if _is_idle(fleet, state, env, robot):
                state.idle_at[fleet.cell[env, robot]] = -1
            state.steps[env, robot] = state.steps[env, robot] + 1 if state.presses[robot] else 0
            if state.steps[env, robot] >= limit_steps:
                place = nearest_unclaimed(
                    floor, floor.parking, pool.claimed[env], fleet.cell[env, robot], fleet.cell[env, robot]
                )
                if place >= 0:
                    if fleet.goal[env, robot] >= 0:
                        pool.claimed[env, fleet.goal[env, robot]] = False
                    pool.claimed[env, place] = True
                    fleet.goal[env, robot] = place
                    state.steps[env, robot] = 0
                    state.yields[env] += 1


@kernel_part
def _is_idle(fleet: Fleet, state: YieldState, env: int, robot: int) -> bool:
    """On the floor without a task, sent to no other place than one to park, and able to drive."""
    if not fleet.alive[env, robot] or fleet.pickup[env, robot] >= 0 or fleet.charge[env, robot] <= 0.0:
        return False
    goal = fleet.goal[env, robot]
    return bool(goal < 0 or state.is_parking[goal])
