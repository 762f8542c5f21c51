"""Stations that take their time: who is served when, who waits, and where the time of a transport goes.

A station serves one robot at a time. A robot that has reached the station of
its task, and with differential drive is not faster than the docking speed, is served at once if the
station is free (who moves from cell to cell comes to rest with every step); its
service lasts ``pick_s`` or ``drop_s``, drawn uniformly
within ``spread`` of it, rounded up to whole steps. Until then it is *held*: it
stands whatever it is told. The others wait, free to move; the one that
has been at the station for longest is next, the lower slot among equals.

Every step that a robot has a task counts as one of seven things, so that their
sum is the time from the assignment of a task to its delivery: being served at
the pick-up or at the delivery; travel, empty or loaded, if it moved, turned on
the spot, came to rest at its station or was crossing a slow cell; being halted, if it could not drive (a delay
of its execution, a protective stop, an empty battery); waiting in the queue, if it
stood while its station served another robot or, at its pick-up, lacked a picker;
else waiting for traffic: it stood although it could drive.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, kernel_part, lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.config import DifferentialDriveConfig, ServiceConfig
from bridge.warehouse.feature import HELD_SERVED, Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.pauses import DRIVES, HALTED
from bridge.warehouse.random_streams import Purpose, uniform
from bridge.warehouse.work.arrival import has_arrived

__all__ = [
    "SERVICE_METRICS",
    "Service",
    "ServiceState",
    "ServiceTimes",
    "make_service_state",
    "make_service_times",
    "run_stations",
]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

_SPLIT: Final = ("queue_wait", "empty_travel", "pick", "loaded_travel", "drop", "traffic_wait", "halted")
_QUEUE_WAIT: Final = 0
_EMPTY_TRAVEL: Final = 1
_PICK: Final = 2
_LOADED_TRAVEL: Final = 3
_DROP: Final = 4
_TRAFFIC_WAIT: Final = 5
_HALTED: Final = 6
_DELIVERIES: Final = 7

SERVICE_METRICS: Final = (
    MetricSpec("transport_s", "mean time from the assignment of a delivered task to its delivery in s", False),
    MetricSpec(
        "queue_wait_s", "part of transport_s: stood while its station served another, or without a picker", False
    ),
    MetricSpec("empty_travel_s", "part of transport_s: drove without the load", None),
    MetricSpec("pick_s", "part of transport_s: was served at the pick-up", None),
    MetricSpec("loaded_travel_s", "part of transport_s: drove with the load", None),
    MetricSpec("drop_s", "part of transport_s: was served at the delivery", None),
    MetricSpec("traffic_wait_s", "part of transport_s: stood although it could drive", False),
    MetricSpec("halted_s", "part of transport_s: could not drive (delayed, stopped, battery empty)", False),
)


class ServiceTimes(NamedTuple):
    """How long services last.

    Attributes:
        pick_steps: Steps of a pick, not rounded.
        drop_steps: Steps of a drop, not rounded.
        spread: Half the width of their uniform distribution, as a share.
        docking_speed: Largest speed in m/s at which a service begins; inf for robots that move from cell to cell.
    """

    pick_steps: float
    drop_steps: float
    spread: float
    docking_speed: float


class ServiceState(NamedTuple):
    """Who is being served.

    Attributes:
        left: (E, N) int32, steps that the robot's service still lasts; 0 if it is not being served.
        at: (E, N) int32, goal at which it is served; stale otherwise.
        since: (E, N) int32, step in which it came to its station; -1 if it is not there, or may not be served.
        ready: (E, N) bool, it may be served once it is there; all of them unless somebody else says otherwise.
        server: (E, G) int32, robot that is served at each goal; -1 for nobody.
        spent: (E, N, 7) int32, steps of the running task by kind.
        sums: (E, 8) float64, the same of the delivered tasks, and their number.
    """

    left: Int32
    at: Int32
    since: Int32
    ready: Bool
    server: Int32
    spent: Int32
    sums: Float64


def make_service_state(num_envs: int, num_robots: int, num_goals: int) -> ServiceState:
    """Nobody is served."""
    robots = (num_envs, num_robots)
    return ServiceState(
        left=np.zeros(robots, np.int32),
        at=np.zeros(robots, np.int32),
        since=np.full(robots, -1, np.int32),
        ready=np.ones(robots, np.bool_),
        server=np.full((num_envs, num_goals), -1, np.int32),
        spent=np.zeros((*robots, len(_SPLIT)), np.int32),
        sums=np.zeros((num_envs, len(_SPLIT) + 1)),
    )


def make_service_times(service: ServiceConfig, step_s: float, *, drives: bool) -> ServiceTimes:
    """The times of a scenario; ``drives``: with differential drive."""
    docking_speed = float(service.docking_speed_mps) if drives else np.inf
    return ServiceTimes(service.pick_s / step_s, service.drop_s / step_s, float(service.spread), docking_speed)


class Service(Feature):
    """Runs the stations of a simulator."""

    def __init__(self, parts: Parts, service: ServiceConfig) -> None:
        self._parts = parts
        drives = isinstance(parts.config.drive, DifferentialDriveConfig)
        self._times = make_service_times(service, parts.step_s, drives=drives)
        num_envs, num_robots = parts.fleet.cell.shape
        self._state = make_service_state(num_envs, num_robots, len(parts.floor.goal_cell))
        self._self_at = parts.column("self", "being_served")
        state, keys = (parts.floor, parts.fleet, parts.pose, parts.outcome), parts.keys[Purpose.SERVICE]
        self._run = bind(run_stations, *state, self._times, self._state, keys, parts.steps, parts.radius_m)

    @property
    def ready(self) -> Bool:
        """(E, N) bool, which robots may be served once they are at their station; for others to write."""
        return self._state.ready

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        fleet, state = self._parts.fleet, self._state
        fleet.in_service[envs] = False
        fleet.held[envs] &= ~HELD_SERVED
        state.left[envs] = 0
        state.since[envs] = -1
        state.server[envs] = -1
        self.clear_figures(envs)

    def before_service(self) -> None:
        """See :class:`Feature`."""
        self._run()

    def observe(self, first: int, envs: Bool, observations: NDArray[np.float32]) -> None:
        """See :class:`Feature`."""
        if self._self_at >= 0:
            # (E, N) -> (E', A)
            served = self._state.left[envs, first : first + observations.shape[1]] > 0
            observations[envs, :, self._self_at] = served

    def clear_figures(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._state.sums[envs] = 0.0

    def figures(self, envs: Bool) -> Float64:
        """See :class:`Feature`; in the order of ``SERVICE_METRICS``."""
        sums = self._state.sums[envs]
        split = sums[:, :_DELIVERIES] * self._parts.step_s / np.maximum(sums[:, _DELIVERIES:], 1.0)
        return np.concatenate([split.sum(axis=1, keepdims=True), split], axis=1)


@lean_kernel
def run_stations(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    times: ServiceTimes,
    state: ServiceState,
    keys: NDArray[np.uint64],
    steps: Int32,
    radius_m: float,
) -> None:
    """Serve the robots at their stations for one step; ``tasks.serve`` then treats those that are done.

    Args:
        floor: The floor plan.
        fleet: ``in_service`` and ``held`` are written.
        pose: Where robots are.
        outcome: Of the motion; ``pause`` is written for robots that come to rest at their station.
        times: Of :func:`make_service_times`.
        state: Advanced.
        keys: (E,) uint64, stream of the durations.
        steps: (E,) int32, number of the step in its episode.
        radius_m: How near to the centre of a station's cell counts as there; negative: in its cell.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            here = fleet.alive[env, robot] and not outcome.leaving[env, robot] and fleet.pickup[env, robot] >= 0
            if here:
                _count_step(fleet, outcome, state, env, robot)
                here = has_arrived(floor, fleet, pose, env, robot, radius_m)
            fleet.in_service[env, robot] = here
            here = here and state.ready[env, robot]
            if state.left[env, robot] > 0:
                state.left[env, robot] = state.left[env, robot] - 1 if here else 0
                if state.left[env, robot] == 0:
                    state.server[env, state.at[env, robot]] = -1
                    state.since[env, robot] = -1
                    if here:
                        _finish(fleet, state, env, robot)
            elif not here:
                state.since[env, robot] = -1
            elif state.since[env, robot] < 0:
                state.since[env, robot] = steps[env]
        for robot in range(num_robots):
            if state.since[env, robot] >= 0 and state.left[env, robot] == 0:
                slow = abs(pose.speed[env, robot]) <= times.docking_speed
                if slow and _is_next(fleet, pose, times, state, env, robot):
                    share = uniform(keys[env], int(steps[env]) * num_robots + robot)
                    _begin_service(fleet, times, state, env, robot, share)
            held = fleet.held[env, robot] & ~HELD_SERVED
            fleet.held[env, robot] = held | HELD_SERVED if state.left[env, robot] > 0 else held


@kernel_part
def _count_step(fleet: Fleet, outcome: Outcome, state: ServiceState, env: int, robot: int) -> None:
    spent = state.spent[env, robot]
    if fleet.age[env, robot] == 0:
        spent[:] = 0
    loaded = fleet.loaded[env, robot]
    if state.left[env, robot] > 0:
        spent[_DROP if loaded else _PICK] += 1
    elif outcome.moved_m[env, robot] > 0.0 or outcome.pause[env, robot] == DRIVES:
        spent[_LOADED_TRAVEL if loaded else _EMPTY_TRAVEL] += 1
    elif outcome.pause[env, robot] == HALTED:
        spent[_HALTED] += 1
    elif state.server[env, fleet.goal[env, robot]] >= 0 or not state.ready[env, robot]:
        spent[_QUEUE_WAIT] += 1
    elif state.since[env, robot] >= 0:
        # It has come to its free station too fast to be served at once, and has now come to rest.
        spent[_LOADED_TRAVEL if loaded else _EMPTY_TRAVEL] += 1
        outcome.pause[env, robot] = DRIVES
    else:
        spent[_TRAFFIC_WAIT] += 1


@kernel_part
def _is_next(fleet: Fleet, pose: Pose, times: ServiceTimes, state: ServiceState, env: int, robot: int) -> bool:
    """The station is free, and no robot that could be served there has been there for longer."""
    goal = fleet.goal[env, robot]
    if state.server[env, goal] >= 0:
        return False
    for other in range(fleet.cell.shape[1]):
        waits = state.since[env, other] >= 0 and fleet.goal[env, other] == goal
        if waits and abs(pose.speed[env, other]) <= times.docking_speed:
            earlier = state.since[env, other] < state.since[env, robot]
            if earlier or (state.since[env, other] == state.since[env, robot] and other < robot):
                return False
    return True


@kernel_part
def _begin_service(fleet: Fleet, times: ServiceTimes, state: ServiceState, env: int, robot: int, share: float) -> None:
    mean = times.drop_steps if fleet.loaded[env, robot] else times.pick_steps
    duration = int(np.ceil(mean * (1.0 + times.spread * (2.0 * share - 1.0)) - 1e-9))
    if duration == 0:
        state.since[env, robot] = -1
        _finish(fleet, state, env, robot)
        return
    state.left[env, robot] = duration
    state.at[env, robot] = fleet.goal[env, robot]
    state.server[env, fleet.goal[env, robot]] = robot


@kernel_part
def _finish(fleet: Fleet, state: ServiceState, env: int, robot: int) -> None:
    """The robot is served: it takes or hands over its load in this step."""
    fleet.in_service[env, robot] = False
    if fleet.loaded[env, robot]:
        for kind in range(_DELIVERIES):
            state.sums[env, kind] += state.spent[env, robot, kind]
        state.sums[env, _DELIVERIES] += 1.0
