"""The stream of transports: drawing tasks, sending robots, noticing what they have done.

A task is a pick-up and a delivery, each drawn uniformly over the stations of
its kind. Order of events in a step, after the motion:

1. :func:`serve`: a robot that stands at its pick-up takes the load, one that
   stands at its delivery hands it over and has no task any more. Being served
   takes no time and any number of robots may be served at one station, unless
   ``service`` says otherwise. A robot
   that leaves the floor gives its task back: it waits again with its old
   number, and its load is back at the pick-up.
2. Robots come back (``spawn``).
3. :func:`dispatch`: new tasks arrive. Then each robot without a task that is
   not off duty, in slot order, takes the waiting task whose pick-up is nearest to it by the length of
   the shortest path; the older task among equals. A robot that gets none is
   sent to the nearest parking place that is no other robot's target, the
   lowest cell among equals, and keeps it until it is given a task. Tasks whose load is
   too heavy for a robot (``loads``) do not exist for it. Robots with an empty
   battery are off duty and are sent nowhere (``stranding``).

With ``backlog``, tasks are drawn until ``open`` of them wait, before and after
robots are sent. With ``poisson``, the number of arrivals in a step has the mean
``rate_per_h * step``; tasks that find ``open`` others waiting are turned away, and
counted (``turned_away``).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import index, kernel_part, lean_kernel
from bridge.warehouse.config import TaskConfig
from bridge.warehouse.feature import OFF_STRANDED
from bridge.warehouse.fleet import Fleet, Outcome, Pose, TaskPool
from bridge.warehouse.floor import Floor, least_units, nearest_unclaimed, next_cell, route_entry
from bridge.warehouse.layout import Layout
from bridge.warehouse.random_streams import uniform
from bridge.warehouse.work.arrival import has_arrived
from bridge.warehouse.work.loads import NO_LOADS, Loads, can_carry
from bridge.warehouse.work.transports import listed_deliveries, listed_pickups, listed_release_steps

__all__ = [
    "DELIVERED",
    "PICKED_UP",
    "TaskStream",
    "clear_tasks",
    "dispatch",
    "give_back_task",
    "look_up_routes",
    "make_stream",
    "serve",
]

UInt64 = NDArray[np.uint64]
Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

_NO_TASKS: Final = np.zeros(0, np.int32)

PICKED_UP: Final = 1
DELIVERED: Final = 2


class TaskStream(NamedTuple):
    """How tasks arrive and who gets them.

    Attributes:
        open: Tasks that wait at most.
        mean: Arrivals per step, or -1.0 to fill up.
        oldest_first: The oldest task is given to the nearest robot, instead of the nearest to each robot.
        pickups: (tasks,) int32, goals of listed tasks; empty unless tasks are listed.
        deliveries: (tasks,) int32, likewise.
        release_steps: (tasks,) int32, ascending, step in which each of them arrives.
        loads: What loads weigh, and who can carry them.
        ends_apart: No task is given out that begins or ends where the task of another robot ends (token passing).
    """

    open: int
    mean: float
    oldest_first: bool = False
    pickups: Int32 = _NO_TASKS
    deliveries: Int32 = _NO_TASKS
    release_steps: Int32 = _NO_TASKS
    loads: Loads = NO_LOADS
    ends_apart: bool = False


def make_stream(tasks: TaskConfig, step_s: float, layout: Layout, loads: Loads = NO_LOADS) -> TaskStream:
    """The stream of a scenario whose steps last ``step_s``."""
    oldest_first = tasks.dispatch == "fifo"
    if tasks.arrival == "list":
        return TaskStream(
            open=0,
            mean=-1.0,
            oldest_first=oldest_first,
            pickups=np.ascontiguousarray(listed_pickups(tasks, layout)[:, 0]),
            deliveries=listed_deliveries(tasks, layout),
            release_steps=listed_release_steps(tasks, step_s),
            loads=loads,
            ends_apart=tasks.dispatch == "token",
        )
    mean = tasks.rate_per_h * step_s / 3600.0 if tasks.arrival == "poisson" else -1.0
    return TaskStream(tasks.open, float(mean), oldest_first, loads=loads, ends_apart=tasks.dispatch == "token")


@lean_kernel
def serve(
    floor: Floor, fleet: Fleet, pose: Pose, pool: TaskPool, outcome: Outcome, steps: Int32, radius_m: float
) -> None:
    """Let robots at their stations fetch and deliver, and take leaving robots off the floor.

    Args:
        floor: The floor plan.
        fleet: Task, load and goal are advanced; ``alive`` is cleared where a robot leaves.
        pose: Where robots are.
        pool: Takes back the tasks of leaving robots.
        outcome: ``served``, ``task_steps`` and ``flow_steps`` are written; ``leaving`` is read.
        steps: (E,) int32, number of the step in its episode, from 0.
        radius_m: How near to the centre of the goal's cell counts as there; negative: in its cell.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            outcome.served[env, robot] = 0
            if not fleet.alive[env, robot]:
                continue
            if outcome.leaving[env, robot]:
                _leave(fleet, pool, env, robot)
                continue
            if fleet.pickup[env, robot] < 0:
                continue
            fleet.age[env, robot] += 1
            fleet.waiting[env, robot] += 1
            if fleet.in_service[env, robot] or not has_arrived(floor, fleet, pose, env, robot, radius_m):
                continue
            fleet.waiting[env, robot] = 0
            if not fleet.loaded[env, robot]:
                fleet.loaded[env, robot] = True
                fleet.goal[env, robot] = fleet.delivery[env, robot]
                outcome.served[env, robot] = PICKED_UP
            else:
                outcome.served[env, robot] = DELIVERED
                outcome.task_steps[env, robot] = fleet.age[env, robot]
                outcome.flow_steps[env, robot] = steps[env] + 1 - fleet.released[env, robot]
                _drop_task(fleet, env, robot)


@kernel_part
def _drop_task(fleet: Fleet, env: int, robot: int) -> None:
    fleet.loaded[env, robot] = False
    fleet.goal[env, robot] = -1
    fleet.pickup[env, robot] = -1
    fleet.delivery[env, robot] = -1
    fleet.errand[env, robot] = 0
    fleet.age[env, robot] = 0
    fleet.waiting[env, robot] = 0


@kernel_part
def give_back_task(fleet: Fleet, pool: TaskPool, env: int, robot: int) -> None:
    """Let the task of a robot wait again, as it was; also part of the kernel of ``timeouts``."""
    slot = pool.num_waiting[env]
    pool.pickup[env, slot] = fleet.origin[env, robot]
    pool.delivery[env, slot] = fleet.delivery[env, robot]
    pool.number[env, slot] = fleet.number[env, robot]
    pool.released[env, slot] = fleet.released[env, robot]
    pool.num_waiting[env] += 1
    _drop_task(fleet, env, robot)


@kernel_part
def _leave(fleet: Fleet, pool: TaskPool, env: int, robot: int) -> None:
    fleet.alive[env, robot] = False
    if fleet.pickup[env, robot] >= 0:
        give_back_task(fleet, pool, env, robot)
        return
    if fleet.goal[env, robot] >= 0:
        pool.claimed[env, fleet.goal[env, robot]] = False
    _drop_task(fleet, env, robot)


@lean_kernel
def clear_tasks(fleet: Fleet, pool: TaskPool, envs: Bool) -> None:
    """Forget every task of the environments in ``envs``: (E,) bool."""
    for env in range(len(envs)):
        if envs[env]:
            pool.num_waiting[env] = 0
            pool.drawn[env] = 0
            pool.claimed[env] = False
            for robot in range(fleet.cell.shape[1]):
                _drop_task(fleet, env, robot)


@lean_kernel
def dispatch(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    pool: TaskPool,
    stream: TaskStream,
    task_keys: UInt64,
    arrival_keys: UInt64,
    steps: Int32,
    envs: Bool,
) -> None:
    """Let tasks arrive, send robots, and look up every robot's route.

    Args:
        floor: The floor plan.
        fleet: Task and goal are written where a robot has none, ``route`` and way-point for every robot.
        pose: Where robots are.
        pool: Tasks are added and taken.
        stream: How tasks arrive.
        task_keys: (E,) uint64, stream of the stations.
        arrival_keys: (E,) uint64, stream of the arrivals.
        steps: (E,) int32, number of the step in its episode.
        envs: (E,) bool, environments to treat.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        if not envs[env]:
            continue
        arriving = max(stream.open - pool.num_waiting[env], 0)
        if stream.mean >= 0.0:
            drawn = _poisson(stream.mean, uniform(arrival_keys[env], int(steps[env])))
            pool.turned_away[env] += max(drawn - arriving, 0)
            arriving = min(drawn, arriving)
        if len(stream.release_steps) > 0:
            _release_tasks(stream, pool, env, steps[env])
        else:
            _add_tasks(floor, pool, task_keys[env], env, arriving, steps[env])
        if stream.oldest_first:
            _give_oldest_first(floor, fleet, pool, stream, task_keys[env], env, steps[env])
        for robot in range(num_robots):
            if fleet.alive[env, robot] and fleet.pickup[env, robot] < 0:
                task = -1
                if pool.num_waiting[env] > 0 and fleet.off_duty[env, robot] == 0:
                    task = _nearest_task(floor, fleet, pool, stream, task_keys[env], env, robot)
                if task >= 0:
                    _take(fleet, pool, env, robot, task)
                    if stream.mean < 0.0:
                        _add_tasks(floor, pool, task_keys[env], env, stream.open - pool.num_waiting[env], steps[env])
                elif fleet.goal[env, robot] < 0 and fleet.off_duty[env, robot] & OFF_STRANDED == 0:
                    _send_to_parking(floor, fleet, pool, env, robot)
        # In two loops: the table is larger than the caches, and in a short loop many look-ups are under way at once.
        for robot in range(num_robots):
            if fleet.alive[env, robot]:
                _look_up_route(floor, fleet, pose, env, robot)
        for robot in range(num_robots):
            if fleet.alive[env, robot]:
                _point_the_way(floor, fleet, pose, env, robot)


@lean_kernel
def look_up_routes(floor: Floor, fleet: Fleet, pose: Pose, chosen: Bool) -> None:
    """Look up the routes of the robots in ``chosen``, (E, N) bool, that were moved after the dispatch."""
    for env in range(chosen.shape[0]):
        for robot in range(chosen.shape[1]):
            if chosen[env, robot]:
                _look_up_route(floor, fleet, pose, env, robot)
                _point_the_way(floor, fleet, pose, env, robot)


@kernel_part
def _look_up_route(floor: Floor, fleet: Fleet, pose: Pose, env: int, robot: int) -> None:
    goal = fleet.goal[env, robot]
    fleet.route[env, robot] = route_entry(floor, pose, goal, fleet.cell[env, robot], env, robot) if goal >= 0 else 0


@kernel_part
def _point_the_way(floor: Floor, fleet: Fleet, pose: Pose, env: int, robot: int) -> None:
    if fleet.goal[env, robot] < 0:
        fleet.way_x[env, robot] = pose.x[env, robot]
        fleet.way_y[env, robot] = pose.y[env, robot]
        return
    following = index(next_cell(floor, fleet.cell[env, robot], fleet.route[env, robot]))
    fleet.way_x[env, robot] = floor.x[following]
    fleet.way_y[env, robot] = floor.y[following]


@kernel_part
def _poisson(mean: float, probability: float) -> int:
    """The Poisson variable of this mean at a probability, by inversion; within 12 standard deviations of the mean."""
    spread = 12.0 * np.sqrt(mean)
    count = int(max(mean - spread, 0.0))
    most = int(mean + spread) + 40
    # The chance of ``count`` itself; that of less is below the precision of ``total``.
    term = np.exp(count * np.log(mean) - mean - math.lgamma(count + 1.0)) if count > 0 else np.exp(-mean)
    total = term
    while count < most and probability > total:
        count += 1
        term *= mean / count
        total += term
    return count


@kernel_part
def _add_tasks(floor: Floor, pool: TaskPool, key: np.uint64, env: int, number: int, step: int) -> None:
    for _ in range(number):
        slot = pool.num_waiting[env]
        drawn = int(pool.drawn[env])
        pickup = int(uniform(key, 2 * drawn) * len(floor.pickups))
        delivery = int(uniform(key, 2 * drawn + 1) * len(floor.deliveries))
        pool.pickup[env, slot] = floor.pickups[pickup]
        pool.delivery[env, slot] = floor.deliveries[delivery]
        pool.number[env, slot] = drawn
        pool.released[env, slot] = step
        pool.drawn[env] += 1
        pool.num_waiting[env] += 1


@kernel_part
def _release_tasks(stream: TaskStream, pool: TaskPool, env: int, step: int) -> None:
    """Let the listed tasks arrive that are due."""
    number = int(pool.drawn[env])
    while number < len(stream.release_steps) and stream.release_steps[number] <= step:
        slot = pool.num_waiting[env]
        pool.pickup[env, slot] = stream.pickups[number]
        pool.delivery[env, slot] = stream.deliveries[number]
        pool.number[env, slot] = number
        pool.released[env, slot] = step
        pool.num_waiting[env] += 1
        number += 1
    pool.drawn[env] = number


@kernel_part
def _give_oldest_first(
    floor: Floor, fleet: Fleet, pool: TaskPool, stream: TaskStream, key: np.uint64, env: int, step: int
) -> None:
    """Task after task, the oldest first, to the free robot with the shortest way; the lower slot among equals.

    A task that no free robot can carry is passed over.
    """
    limited = len(stream.loads.payload_kg) > 0
    passed = -1
    while True:
        oldest = -1
        for slot in range(pool.num_waiting[env]):
            number = pool.number[env, slot]
            if number > passed and (oldest < 0 or number < pool.number[env, oldest]):
                oldest = slot
        if oldest < 0:
            break
        best, is_any_free = -1, False
        best_length = np.int64(1) << 62
        for robot in range(fleet.cell.shape[1]):
            if fleet.alive[env, robot] and fleet.pickup[env, robot] < 0 and fleet.off_duty[env, robot] == 0:
                is_any_free = True
                length = np.int64(floor.routes[pool.pickup[env, oldest], fleet.cell[env, robot]]) >> 4
                number = int(pool.number[env, oldest])
                if length < best_length and (not limited or can_carry(stream.loads, key, robot, number)):
                    best, best_length = robot, length
        if not is_any_free:
            break
        if best < 0:
            passed = int(pool.number[env, oldest])
            continue
        _take(fleet, pool, env, best, oldest)
        if stream.mean < 0.0:
            _add_tasks(floor, pool, key, env, stream.open - pool.num_waiting[env], step)


@kernel_part
def _nearest_task(
    floor: Floor, fleet: Fleet, pool: TaskPool, stream: TaskStream, key: np.uint64, env: int, robot: int
) -> int:
    """The waiting task with the nearest pick-up that the robot can carry and may take; -1 for none."""
    loads = stream.loads
    limited = len(loads.payload_kg) > 0
    cell = fleet.cell[env, robot]
    row, column = cell // floor.width, cell % floor.width
    best = -1
    best_length = np.int64(1) << 62
    for slot in range(pool.num_waiting[env]):
        if least_units(floor, pool.pickup[env, slot], row, column) > best_length:
            continue
        length = np.int64(floor.routes[pool.pickup[env, slot], cell]) >> 4
        older = length == best_length and pool.number[env, slot] < pool.number[env, best]
        if length < best_length or older:
            if limited and not can_carry(loads, key, robot, int(pool.number[env, slot])):
                continue
            if stream.ends_apart and _meets_an_end(fleet, pool, env, slot):
                continue
            best, best_length = slot, length
    return best


@kernel_part
def _meets_an_end(fleet: Fleet, pool: TaskPool, env: int, slot: int) -> bool:
    """Whether a waiting task begins or ends where the task of some robot ends."""
    for robot in range(fleet.cell.shape[1]):
        if fleet.alive[env, robot] and fleet.pickup[env, robot] >= 0:
            end = fleet.delivery[env, robot]
            if end == pool.delivery[env, slot] or end == pool.pickup[env, slot]:
                return True
    return False


@kernel_part
def _take(fleet: Fleet, pool: TaskPool, env: int, robot: int, best: int) -> None:
    """Give a waiting task to a robot."""
    if fleet.goal[env, robot] >= 0:
        pool.claimed[env, fleet.goal[env, robot]] = False
    fleet.pickup[env, robot] = pool.pickup[env, best]
    fleet.origin[env, robot] = pool.pickup[env, best]
    fleet.delivery[env, robot] = pool.delivery[env, best]
    fleet.number[env, robot] = pool.number[env, best]
    fleet.released[env, robot] = pool.released[env, best]
    fleet.goal[env, robot] = pool.pickup[env, best]
    last = pool.num_waiting[env] - 1
    pool.pickup[env, best] = pool.pickup[env, last]
    pool.delivery[env, best] = pool.delivery[env, last]
    pool.number[env, best] = pool.number[env, last]
    pool.released[env, best] = pool.released[env, last]
    pool.num_waiting[env] = last


@kernel_part
def _send_to_parking(floor: Floor, fleet: Fleet, pool: TaskPool, env: int, robot: int) -> None:
    goal = nearest_unclaimed(floor, floor.parking, pool.claimed[env], fleet.cell[env, robot], -1)
    if goal >= 0:
        fleet.goal[env, robot] = goal
        pool.claimed[env, goal] = True
