"""Carriers and pickers that have to meet.

Robots of a role with ``job: pick`` carry nothing. A carrier that has come to its
pick-up is served there only while a picker stands beside it: in a cell that
shares a side with the station's (or, where robots may overlap, in the station's
own). One picker helps one carrier at a time; where service takes time, it is held
like the carrier until the load has been taken. Until the picker has come, the
carrier has the right of way over nobody, as any robot that has reached its goal.

Who is sent where is up to ``picker_calls``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, kernel_part, lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.config import DifferentialDriveConfig, WarehouseConfig
from bridge.warehouse.feature import HELD_HELPING, OFF_PICKING, Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.work.arrival import has_arrived
from bridge.warehouse.work.meeting_state import WAITED, MeetingRules, MeetingState, wants_to_fetch
from bridge.warehouse.work.off_duty import find_columns, observe_off_duty
from bridge.warehouse.work.picker_calls import call_pickers

__all__ = ["MEETING_METRICS", "Meeting", "find_helpers", "find_partners"]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]

MEETING_METRICS: Final = (
    MetricSpec("meetings", "loads that were fetched with the help of a picker", True),
    MetricSpec(
        "meeting_wait_s", "time that carriers stood at a pick-up without a picker in s, per load fetched", False
    ),
    MetricSpec("picker_busy_share", "share of the pickers' time on the floor in which they were called", None),
)


class Meeting(Feature):
    """Lets carriers wait for pickers, and sends these.

    Args:
        parts: The simulator's arrays.
        ready: (E, N) bool, of ``service``: written, whether each robot may be served; unused if stations take no time.
    """

    def __init__(self, parts: Parts, ready: Bool) -> None:
        self._parts = parts
        self._rules = _make_rules(parts)
        robots, num_goals = parts.fleet.cell.shape, len(parts.floor.goal_cell)
        self._state = MeetingState(
            station=np.full(robots, -1, np.int32),
            helper=np.full(robots, -1, np.int32),
            stands=np.zeros(robots, np.int32),
            partner_is_there=np.zeros(robots, np.bool_),
            called=np.zeros((robots[0], num_goals), np.bool_),
            went_first=np.zeros(robots, np.bool_),
            demand=np.zeros(num_goals, np.int32),
            awaited=np.zeros(num_goals, np.bool_),
            sums=np.zeros((robots[0], 4)),
        )
        fleet, pose, outcome, rules, state = parts.fleet, parts.pose, parts.outcome, self._rules, self._state
        self._find = bind(find_helpers, parts.floor, fleet, pose, outcome, rules, state, ready)
        self._call = bind(call_pickers, parts.floor, fleet, outcome, parts.pool, rules, state)
        self._columns = find_columns(parts, "partner_is_there", "to_meeting")

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        fleet, state = self._parts.fleet, self._state
        fleet.off_duty[envs] |= np.where(self._rules.is_picker, OFF_PICKING, 0).astype(np.int32)
        fleet.held[envs] &= ~HELD_HELPING
        fleet.in_service[envs] = False
        state.station[envs] = -1
        state.helper[envs] = -1
        state.stands[envs] = 0
        state.called[envs] = False
        self.clear_figures(envs)

    def before_service(self) -> None:
        """See :class:`Feature`."""
        self._find()

    def after_service(self) -> None:
        """See :class:`Feature`."""
        self._call()

    def observe(self, first: int, envs: Bool, observations: NDArray[np.float32]) -> None:
        """See :class:`Feature`."""
        fleet, state = self._parts.fleet, self._state
        find_partners(fleet, self._rules, state, first, observations.shape[1], envs)
        observe_off_duty(fleet.alive, state.partner_is_there, state.station, self._columns, first, envs, observations)

    def clear_figures(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._state.sums[envs] = 0.0

    def figures(self, envs: Bool) -> Float64:
        """See :class:`Feature`; in the order of ``MEETING_METRICS``."""
        # (E, sums) -> one (E,) array per sum
        meetings, waited, called, present = self._state.sums[envs].T
        wait_s = waited * self._parts.step_s / np.maximum(meetings, 1.0)
        return np.stack([meetings, wait_s, called / np.maximum(present, 1.0)], axis=1)


def _make_rules(parts: Parts) -> MeetingRules:
    config, layout = parts.config, parts.layout
    assert layout.meeting is not None, "loading.load_layout makes meeting places where there are pickers"
    place = np.full(len(parts.floor.goal_cell), -1, np.int32)
    place[parts.floor.pickups] = np.searchsorted(parts.floor.goal_cell, layout.meeting)
    service, drives = config.tasks.service, isinstance(config.drive, DifferentialDriveConfig)
    return MeetingRules(
        is_picker=_pickers(config),
        place=place,
        slow_mps=float(service.docking_speed_mps) if service is not None and drives else np.inf,
        takes_time=service is not None,
        radius_m=float(parts.radius_m),
    )


def _pickers(config: WarehouseConfig) -> Bool:
    return np.array([role.job == "pick" for role in config.fleet for _ in range(role.count)])


@lean_kernel
def find_helpers(
    floor: Floor, fleet: Fleet, pose: Pose, outcome: Outcome, rules: MeetingRules, state: MeetingState, ready: Bool
) -> None:
    """Find the pickers that stand beside carriers at their pick-ups, and let the others wait.

    Args:
        floor: The floor plan.
        fleet: ``in_service`` is written if stations take no time, ``waiting`` of carriers at their pick-up.
        pose: Where robots are.
        outcome: Of the motion.
        rules: Who is a picker.
        state: ``helper`` and ``stands`` are written, waiting is counted.
        ready: (E, N) bool, written: False for carriers that have to wait.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        helper = state.helper[env]
        for robot in range(num_robots):
            ready[env, robot] = True
            stands = wants_to_fetch(fleet, outcome, env, robot)
            if stands:
                stands = has_arrived(floor, fleet, pose, env, robot, rules.radius_m)
            state.stands[env, robot] = state.stands[env, robot] + 1 if stands else 0
            # A picker goes on helping the carrier that it has begun with.
            keeps = stands and helper[robot] >= 0
            if not keeps or not _can_help(floor, fleet, pose, outcome, rules, env, helper[robot], robot):
                helper[robot] = -1
        for robot in range(num_robots):
            if state.stands[env, robot] > 0:
                if helper[robot] < 0:
                    helper[robot] = _find_helper(floor, fleet, pose, outcome, rules, state, env, robot)
                ready[env, robot] = helper[robot] >= 0
                # Who has arrived gives way: otherwise a queue of them shuts everybody in, their picker with them.
                fleet.waiting[env, robot] = 0
                state.sums[env, WAITED] += helper[robot] < 0
            if not rules.takes_time:
                fleet.in_service[env, robot] = not ready[env, robot]


@kernel_part
def _can_help(
    floor: Floor, fleet: Fleet, pose: Pose, outcome: Outcome, rules: MeetingRules, env: int, picker: int, carrier: int
) -> bool:
    """The picker stands beside the station of the carrier."""
    if not rules.is_picker[picker] or not fleet.alive[env, picker] or outcome.leaving[env, picker]:
        return False
    if fleet.charge[env, picker] <= 0.0 or abs(pose.speed[env, picker]) > rules.slow_mps:
        return False
    station, cell = floor.goal_cell[fleet.goal[env, carrier]], fleet.cell[env, picker]
    rows = abs(station // floor.width - cell // floor.width)
    columns = abs(station % floor.width - cell % floor.width)
    return bool(rows + columns <= 1)


@kernel_part
def _find_helper(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    rules: MeetingRules,
    state: MeetingState,
    env: int,
    carrier: int,
) -> int:
    """A picker beside the carrier that helps nobody else: the one that was called there, or the lowest slot; or -1."""
    best = -1
    for picker in range(fleet.cell.shape[1]):
        if _can_help(floor, fleet, pose, outcome, rules, env, picker, carrier):
            is_free = True
            for other in range(fleet.cell.shape[1]):
                is_free = is_free and state.helper[env, other] != picker
            if is_free and state.station[env, picker] == fleet.goal[env, carrier]:
                return picker
            if is_free and best < 0:
                best = picker
    return best


@lean_kernel
def find_partners(
    fleet: Fleet, rules: MeetingRules, state: MeetingState, first: int, num_slots: int, envs: Bool
) -> None:
    """Write ``partner_is_there`` of ``state`` for the slots of a role, in the environments of ``envs``: (E,) bool."""
    for env in range(len(envs)):
        if envs[env]:
            for robot in range(first, first + num_slots):
                state.partner_is_there[env, robot] = _partner_is_there(fleet, rules, state, env, robot)


@kernel_part
def _partner_is_there(fleet: Fleet, rules: MeetingRules, state: MeetingState, env: int, robot: int) -> bool:
    """A picker helps this carrier; or a carrier stands at the station that this picker is called to."""
    if not rules.is_picker[robot]:
        return bool(state.helper[env, robot] >= 0)
    station = state.station[env, robot]
    for carrier in range(fleet.cell.shape[1]):
        if station >= 0 and state.stands[env, carrier] > 0 and fleet.goal[env, carrier] == station:
            return True
    return False
