"""Robots go to chargers, queue for them, charge, and go back to work.

A robot without a task whose charge is below ``below`` goes off duty: it takes
no task until it has ``until``. A robot with a task ends it first. Chargers
serve one robot each, first come, first served: among the robots that are off
duty without a charger, the one that has been so for longest (the lower slot
among equals) is given the free charger with the shortest way, the lowest cell
among equals. Who finds none free is sent to a parking place, as a robot
without work, and is next when a charger gets free.

A robot charges while it stands at its charger, also when its battery is empty.
One whose battery becomes empty anywhere else is *stranded*: it gives back its
charger or its place in the queue. If it happens to stand at a charger, it gets
this one, also if another robot was on its way there: nobody else could reach it.
So does one that strands there with a load that it has fetched: it is *held* until it has
``until``, and then goes on with its task.
The order in a step: drain (``battery``), service, then :func:`charge_robots`,
:func:`send_to_chargers`, and dispatch.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, kernel_part, lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.feature import HELD_CHARGING, OFF_CHARGING, OFF_PICKING, OFF_STRANDED, Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome, Pose, TaskPool, Traits
from bridge.warehouse.floor import Floor, nearest_unclaimed
from bridge.warehouse.random_streams import Purpose
from bridge.warehouse.work.arrival import is_at
from bridge.warehouse.work.battery import drained_share
from bridge.warehouse.work.loads import Loads, make_loads
from bridge.warehouse.work.off_duty import find_columns, observe_off_duty

__all__ = [
    "CHARGING_METRICS",
    "ChargeRules",
    "ChargeState",
    "Charging",
    "charge_robots",
    "make_charge_rules",
    "make_charge_state",
    "send_to_chargers",
]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

CHARGING_METRICS: Final = (
    MetricSpec("energy_per_delivery_wh", "energy drawn by all robots over loads delivered, in Wh", False),
    MetricSpec("charging_share", "share of the robots' time on the floor in which they charged", None),
    MetricSpec(
        "charger_wait_share",
        "share of the robots' time in which they needed a charger, could drive, and none was free",
        False,
    ),
)

_ENERGY: Final = 0
_DELIVERIES: Final = 1
_CHARGING: Final = 2
_WAITING: Final = 3
_ALIVE: Final = 4
_SIZE: Final = 5


class ChargeRules(NamedTuple):
    """How each robot charges; all (N,) float64.

    Attributes:
        gain: Share of the full charge gained per step at a charger.
        below: A robot with less charge goes off duty; 0 for robots that never charge.
        until: It is on duty again with this charge.
        energy_wh: Energy of the full charge, as seen by the clock.
    """

    gain: Float64
    below: Float64
    until: Float64
    energy_wh: Float64


class ChargeState(NamedTuple):
    """Where each robot stands with its charging.

    Attributes:
        charger: (E, N) int32, goal of the charger that is kept for the robot; -1 for none.
        holds: (E, N) int32, goal of the charger at which a robot with a task is held; -1 for none.
        since: (E, N) int32, step in which it went off duty.
        charging: (E, N) bool, it charged in the last step.
        empty: (E, N) bool, its battery is empty.
        sums: (E, ...) float64, what the figures are made of.
    """

    charger: Int32
    holds: Int32
    since: Int32
    charging: Bool
    empty: Bool
    sums: Float64


def make_charge_rules(config: WarehouseConfig, step_s: float) -> ChargeRules:
    """The rules of every robot, role after role."""
    rows = []
    for role in config.fleet:
        battery, charging = role.battery, role.battery.charging
        energy_wh = battery.capacity_wh / battery.time_factor
        row = (0.0, 0.0, 0.0, energy_wh)
        if charging is not None:
            gain = charging.rate_per_h * battery.time_factor * step_s / 3600.0
            row = (gain, charging.below, charging.until, energy_wh)
        rows += [row] * role.count
    # (N, fields) -> one contiguous array per field
    return ChargeRules(*(np.array(column, np.float64) for column in zip(*rows, strict=True)))


def make_charge_state(num_envs: int, num_robots: int) -> ChargeState:
    """Nobody charges."""
    robots = (num_envs, num_robots)
    return ChargeState(
        charger=np.full(robots, -1, np.int32),
        holds=np.full(robots, -1, np.int32),
        since=np.zeros(robots, np.int32),
        charging=np.zeros(robots, np.bool_),
        empty=np.zeros(robots, np.bool_),
        sums=np.zeros((num_envs, _SIZE)),
    )


class Charging(Feature):
    """Runs the chargers of a simulator."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rules = make_charge_rules(parts.config, parts.step_s)
        self._state = make_charge_state(*parts.fleet.cell.shape)
        self._columns = find_columns(parts, "charging", "to_charger")
        state = (parts.floor, parts.fleet, parts.pose, parts.outcome, parts.pool, parts.traits)
        loads = (make_loads(parts.config), parts.keys[Purpose.TASK])
        self._charge = bind(charge_robots, *state, *loads, self._rules, self._state, parts.radius_m)
        self._send_all = bind(send_to_chargers, *self._send_arguments(np.ones(len(parts.steps), np.bool_)))

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._parts.fleet.off_duty[envs] &= ~OFF_CHARGING
        self._parts.fleet.held[envs] &= ~HELD_CHARGING
        self._state.charger[envs] = -1
        self._state.holds[envs] = -1
        self._state.charging[envs] = False
        self._state.empty[envs] = False
        self.clear_figures(envs)
        send_to_chargers(*self._send_arguments(envs))

    def after_service(self) -> None:
        """See :class:`Feature`."""
        self._charge()
        self._send_all()

    def _send_arguments(self, envs: Bool) -> tuple[Any, ...]:
        parts = self._parts
        places = (parts.floor, parts.fleet, parts.pose, parts.pool)
        return *places, self._rules, self._state, parts.steps, parts.radius_m, envs

    def observe(self, first: int, envs: Bool, observations: NDArray[np.float32]) -> None:
        """See :class:`Feature`."""
        alive, state = self._parts.fleet.alive, self._state
        observe_off_duty(alive, state.charging, state.charger, self._columns, first, envs, observations)

    def clear_figures(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._state.sums[envs] = 0.0

    def figures(self, envs: Bool) -> Float64:
        """See :class:`Feature`; in the order of ``CHARGING_METRICS``."""
        # (E, sums) -> one (E,) array per sum
        energy, deliveries, charging, waiting, alive = self._state.sums[envs].T
        time = np.maximum(alive, 1.0)
        return np.stack([energy / np.maximum(deliveries, 1.0), charging / time, waiting / time], axis=1)


@lean_kernel
def charge_robots(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    pool: TaskPool,
    traits: Traits,
    loads: Loads,
    task_keys: NDArray[np.uint64],
    rules: ChargeRules,
    state: ChargeState,
    radius_m: float,
) -> None:
    """Charge the robots at their chargers for one step, let those that have enough go, and count.

    Args:
        floor: The floor plan.
        fleet: ``charge`` is advanced; ``goal``, ``off_duty`` and ``held`` are cleared where a robot has enough.
        pose: Where robots are.
        outcome: Of the step.
        pool: ``claimed`` is cleared where a charger gets free.
        traits: Drains.
        loads: What is carried.
        task_keys: (E,) uint64, stream of the tasks.
        rules: Of :func:`make_charge_rules`.
        state: Advanced.
        radius_m: How near to the centre of a charger's cell counts as there; negative: in its cell.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            state.charging[env, robot] = False
            if not fleet.alive[env, robot] or outcome.leaving[env, robot]:
                # ``serve`` has released what it was on its way to.
                state.charger[env, robot] = -1
                state.empty[env, robot] = False
                fleet.off_duty[env, robot] &= ~OFF_CHARGING
                _unplug(fleet, pool, state, env, robot)
                continue
            carried = outcome.carried[env, robot]
            drained = drained_share(fleet, outcome, traits, loads, task_keys[env], env, robot, carried)
            _count(fleet, outcome, rules, state, env, robot, drained)
            charger = max(state.charger[env, robot], state.holds[env, robot])
            if charger < 0 or not is_at(floor, fleet, pose, charger, env, robot, radius_m):
                _unplug(fleet, pool, state, env, robot)
                if fleet.charge[env, robot] <= 0.0:
                    _let_go(fleet, pool, state, env, robot)
                continue
            state.charging[env, robot] = True
            state.sums[env, _CHARGING] += 1.0
            charge = min(fleet.charge[env, robot] + rules.gain[robot], 1.0)
            fleet.charge[env, robot] = charge
            if charge >= rules.until[robot]:
                _unplug(fleet, pool, state, env, robot)
                _let_go(fleet, pool, state, env, robot)


@kernel_part
def _let_go(fleet: Fleet, pool: TaskPool, state: ChargeState, env: int, robot: int) -> None:
    """The robot has its charger no more, if it had one, and is not in the queue for one."""
    if state.charger[env, robot] >= 0:
        pool.claimed[env, state.charger[env, robot]] = False
        state.charger[env, robot] = -1
        fleet.goal[env, robot] = -1
    fleet.off_duty[env, robot] &= ~OFF_CHARGING


@kernel_part
def _unplug(fleet: Fleet, pool: TaskPool, state: ChargeState, env: int, robot: int) -> None:
    """The robot is not held at a charger any more, if it was."""
    if state.holds[env, robot] >= 0:
        pool.claimed[env, state.holds[env, robot]] = False
        state.holds[env, robot] = -1
    fleet.held[env, robot] &= ~HELD_CHARGING


@kernel_part
def _count(
    fleet: Fleet, outcome: Outcome, rules: ChargeRules, state: ChargeState, env: int, robot: int, drained: float
) -> None:
    sums = state.sums[env]
    if not state.empty[env, robot]:
        sums[_ENERGY] += drained * rules.energy_wh[robot]
    state.empty[env, robot] = fleet.charge[env, robot] <= 0.0
    sums[_DELIVERIES] += outcome.served[env, robot] == 2
    sums[_WAITING] += fleet.off_duty[env, robot] & OFF_CHARGING != 0 and state.charger[env, robot] < 0
    sums[_ALIVE] += 1.0


@lean_kernel
def send_to_chargers(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    pool: TaskPool,
    rules: ChargeRules,
    state: ChargeState,
    steps: Int32,
    radius_m: float,
    envs: Bool,
) -> None:
    """Take robots off duty that have little charge, and give them chargers.

    Args:
        floor: The floor plan.
        fleet: ``off_duty`` and ``goal`` are written.
        pose: Where robots are.
        pool: ``claimed`` is set for chargers that are given, cleared for parking places that are left.
        rules: Of :func:`make_charge_rules`.
        state: ``charger`` and ``since`` are written.
        steps: (E,) int32, number of the step in its episode.
        radius_m: How near to the centre of a charger's cell counts as there; negative: in its cell.
        envs: (E,) bool, environments to treat.
    """
    num_robots = fleet.cell.shape[1]
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for robot in range(num_robots):
            is_low = fleet.alive[env, robot] and fleet.charge[env, robot] < rules.below[robot]
            if not is_low or fleet.off_duty[env, robot] & ~(OFF_PICKING | OFF_STRANDED) != 0:
                continue
            charger = -1
            if fleet.charge[env, robot] <= 0.0:
                charger = _charger_below(floor, fleet, pose, state, env, robot, radius_m)
                if charger < 0:
                    continue
                _take_away(fleet, state, env, charger)
            if fleet.pickup[env, robot] >= 0:
                if charger >= 0:
                    pool.claimed[env, charger] = True
                    state.holds[env, robot] = charger
                    fleet.held[env, robot] |= HELD_CHARGING
                continue
            if charger >= 0:
                _assign(fleet, pool, state, env, robot, charger)
            fleet.off_duty[env, robot] |= OFF_CHARGING
            state.since[env, robot] = steps[env]
        while True:
            robot = _next_in_queue(fleet, state, env)
            if robot < 0:
                break
            charger = nearest_unclaimed(floor, floor.chargers, pool.claimed[env], fleet.cell[env, robot], -1)
            if charger < 0:
                break
            _assign(fleet, pool, state, env, robot, charger)


@kernel_part
def _charger_below(
    floor: Floor, fleet: Fleet, pose: Pose, state: ChargeState, env: int, robot: int, radius_m: float
) -> int:
    """The charger that the robot stands at and that holds nobody, or -1."""
    for charger in floor.chargers:
        if is_at(floor, fleet, pose, int(charger), env, robot, radius_m):
            for other in range(fleet.cell.shape[1]):
                if state.holds[env, other] == charger:
                    return -1
            return int(charger)
    return -1


@kernel_part
def _take_away(fleet: Fleet, state: ChargeState, env: int, charger: int) -> None:
    """Whom the charger is kept for is back in the queue, at its old place."""
    for robot in range(fleet.cell.shape[1]):
        if state.charger[env, robot] == charger:
            state.charger[env, robot] = -1
            fleet.goal[env, robot] = -1


@kernel_part
def _assign(fleet: Fleet, pool: TaskPool, state: ChargeState, env: int, robot: int, charger: int) -> None:
    if fleet.goal[env, robot] >= 0:
        pool.claimed[env, fleet.goal[env, robot]] = False
    pool.claimed[env, charger] = True
    fleet.goal[env, robot] = charger
    state.charger[env, robot] = charger


@kernel_part
def _next_in_queue(fleet: Fleet, state: ChargeState, env: int) -> int:
    """The robot that has been off duty without a charger for longest, or -1."""
    best = -1
    for robot in range(fleet.cell.shape[1]):
        waits = fleet.off_duty[env, robot] & OFF_CHARGING != 0 and state.charger[env, robot] < 0
        if waits and (best < 0 or state.since[env, robot] < state.since[env, best]):
            best = robot
    return best
