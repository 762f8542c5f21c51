"""Which picker goes where.

Pickers are sent by these rules after every step:

1. A picker that has helped, whose station nobody goes to any more, or whose battery
   is empty, is free; the latter is not called. So is one that has come to its place where
   no carrier stands, while one stands at a station that is not called: the carrier that it
   waits for may be kept out by the one that waits in vain.
2. Stations that carriers are on their way to are *called* in turn, unless a
   picker goes there already: first those at which a carrier stands, the one that
   has stood for longest; then those with the shortest way left (the lower slot
   among equals). Each time the free picker with the shortest way is sent to the
   station's meeting place (``meeting_places``), the lower slot among equals.
3. Who is free and not called goes to park, as any robot without work.

Once a carrier stands at its station, the picker that is called there has the
right of way over every robot that is sent to that station: otherwise the queue
would keep it out. Before that it yields to all. It is given this once per call.
If others push it away nonetheless, it goes on counting the steps for which it
was awaited, from 0 whenever it has come to its place, as other robots do from
their last station. Who would always be first never lets those out that have
fetched their load: in a lane the carriers that it drives back drive it back in
turn, for ever.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.feature import HELD_HELPING, HELD_SERVED, OFF_PICKING
from bridge.warehouse.fleet import Fleet, Outcome, TaskPool
from bridge.warehouse.floor import Floor
from bridge.warehouse.work.meeting_state import CALLED, MEETINGS, PRESENT, MeetingRules, MeetingState, wants_to_fetch

__all__ = ["HELPED", "call_pickers"]

_PICKED_UP: Final = 1
HELPED: Final = 3
"""Value of ``Outcome.served`` for a picker that has helped."""


@lean_kernel
def call_pickers(
    floor: Floor, fleet: Fleet, outcome: Outcome, pool: TaskPool, rules: MeetingRules, state: MeetingState
) -> None:
    """Thank those that have helped, and send the free pickers to where they are needed.

    Args:
        floor: The floor plan.
        fleet: ``goal``, ``waiting`` and ``held`` of pickers are written.
        outcome: ``served`` becomes 3 for pickers that have helped in this step.
        pool: ``claimed`` is cleared for the parking places that called pickers leave.
        rules: Who is a picker.
        state: Advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        _thank_helpers(fleet, outcome, rules, state, env)
        for robot in range(num_robots):
            if wants_to_fetch(fleet, outcome, env, robot):
                station = fleet.goal[env, robot]
                state.demand[station] = max(state.demand[station], fleet.waiting[env, robot] + 1)
                state.awaited[station] |= state.stands[env, robot] > 0
        _release(floor, fleet, outcome, rules, state, env)
        while True:
            carrier = _next_call(fleet, outcome, state, env)
            if carrier < 0:
                break
            station = fleet.goal[env, carrier]
            picker = _nearest_picker(floor, fleet, rules, state, env, station)
            if picker < 0:
                break
            if fleet.goal[env, picker] >= 0:
                pool.claimed[env, fleet.goal[env, picker]] = False
            state.station[env, picker] = station
            state.called[env, station] = True
            state.went_first[env, picker] = False
            fleet.goal[env, picker] = rules.place[station]
        _give_right_of_way(floor, fleet, rules, state, env)
        for robot in range(num_robots):
            if fleet.goal[env, robot] >= 0:
                state.demand[fleet.goal[env, robot]] = 0
                state.awaited[fleet.goal[env, robot]] = False


@kernel_part
def _give_right_of_way(floor: Floor, fleet: Fleet, rules: MeetingRules, state: MeetingState, env: int) -> None:
    """Set ``Fleet.waiting`` of the pickers, and count what they do."""
    for picker in range(fleet.cell.shape[1]):
        if not rules.is_picker[picker] or not fleet.alive[env, picker]:
            continue
        station = state.station[env, picker]
        state.sums[env, PRESENT] += 1.0
        state.sums[env, CALLED] += station >= 0
        if station < 0 or fleet.cell[env, picker] == floor.goal_cell[rules.place[station]]:
            fleet.waiting[env, picker] = 0
        elif state.awaited[station]:
            ahead_of_queue = 0 if state.went_first[env, picker] else state.demand[station]
            fleet.waiting[env, picker] = max(fleet.waiting[env, picker] + 1, ahead_of_queue)
            state.went_first[env, picker] = True


@kernel_part
def _thank_helpers(fleet: Fleet, outcome: Outcome, rules: MeetingRules, state: MeetingState, env: int) -> None:
    """Note the pickers that have helped, and hold those that are helping."""
    num_robots = fleet.cell.shape[1]
    for picker in range(num_robots):
        if rules.is_picker[picker]:
            fleet.held[env, picker] &= ~HELD_HELPING
    for robot in range(num_robots):
        helper = state.helper[env, robot]
        if helper >= 0 and outcome.served[env, robot] == _PICKED_UP:
            outcome.served[env, helper] = HELPED
            state.sums[env, MEETINGS] += 1.0
            state.helper[env, robot] = -1
            _free(fleet, rules, state, env, helper)
        elif helper >= 0 and fleet.held[env, robot] & HELD_SERVED != 0:
            fleet.held[env, helper] |= HELD_HELPING


@kernel_part
def _release(floor: Floor, fleet: Fleet, outcome: Outcome, rules: MeetingRules, state: MeetingState, env: int) -> None:
    """Free pickers that nobody goes to meet, or that are needed elsewhere; forget those off the floor or charging."""
    stands_alone = False
    for carrier in range(fleet.cell.shape[1]):
        if state.stands[env, carrier] > 0 and state.helper[env, carrier] < 0:
            alone = wants_to_fetch(fleet, outcome, env, carrier) and not state.called[env, fleet.goal[env, carrier]]
            stands_alone = stands_alone or alone
    for picker in range(fleet.cell.shape[1]):
        station = state.station[env, picker]
        if rules.is_picker[picker] and station >= 0:
            if not fleet.alive[env, picker] or fleet.goal[env, picker] != rules.place[station]:
                state.station[env, picker] = -1
                state.called[env, station] = False
            else:
                is_there = fleet.cell[env, picker] == floor.goal_cell[rules.place[station]]
                in_vain = stands_alone and is_there and not state.awaited[station]
                if in_vain or state.demand[station] == 0 or fleet.charge[env, picker] <= 0.0:
                    _free(fleet, rules, state, env, picker)


@kernel_part
def _free(fleet: Fleet, rules: MeetingRules, state: MeetingState, env: int, picker: int) -> None:
    """The picker has nothing to do; nobody has claimed its meeting place. It may have been sent to a charger since."""
    station = state.station[env, picker]
    if station >= 0:
        state.called[env, station] = False
        state.station[env, picker] = -1
        if fleet.goal[env, picker] == rules.place[station]:
            fleet.goal[env, picker] = -1


@kernel_part
def _next_call(fleet: Fleet, outcome: Outcome, state: MeetingState, env: int) -> int:
    """The carrier whose station is called next, or -1."""
    best = -1
    for robot in range(fleet.cell.shape[1]):
        if not wants_to_fetch(fleet, outcome, env, robot) or state.called[env, fleet.goal[env, robot]]:
            continue
        if state.helper[env, robot] >= 0:
            continue
        stands = state.stands[env, robot]
        if best < 0 or stands > state.stands[env, best]:
            best = robot
        elif stands == 0 and state.stands[env, best] == 0:
            best = robot if fleet.route[env, robot] >> 4 < fleet.route[env, best] >> 4 else best
    return best


@kernel_part
def _nearest_picker(
    floor: Floor, fleet: Fleet, rules: MeetingRules, state: MeetingState, env: int, station: int
) -> int:
    """The free picker with the shortest way to the meeting place of a station, or -1."""
    best = -1
    best_length = np.int64(1) << 62
    for picker in range(fleet.cell.shape[1]):
        is_free = rules.is_picker[picker] and fleet.alive[env, picker] and state.station[env, picker] < 0
        if is_free and fleet.off_duty[env, picker] == OFF_PICKING and fleet.charge[env, picker] > 0.0:
            length = np.int64(floor.routes[rules.place[station], fleet.cell[env, picker]]) >> 4
            if length < best_length:
                best, best_length = picker, length
    return best
