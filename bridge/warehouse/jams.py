"""Robots that are stuck: deadlocks and livelocks, found by a stated rule.

*Deadlock* (grid). A robot with a target wants the cells that bring it one cell
nearer. If robots stand in all of them, it waits for the robot in the first of
them (up, right, down, left). A circle of robots that wait for each other is a
deadlock once each of them has stood still for ``cycle_s``; standing at a station
until it is served, or in a slow cell until it may go on, is no such standing.

*Deadlock* (differential drive). Drives never quite stand, and are not in step with
the cells. There a robot is *stuck* that has a task and has come no cell nearer to its
target for ``cycle_s``, and it waits for the robot that it would touch if it drove
straight to the centre of the next cell: the nearest one on that line, of robots as
wide as their discs or, with rectangular footprints, as their shorter side. As on the
grid it waits only if that holds for all cells that bring it nearer. A circle of
stuck robots that wait for each other is a deadlock; they are looked for once a second.

*Livelock*. A robot with a task has made no progress for ``no_progress_s``: it
has not come nearer to its target than it ever was since it was given it,
whether it stands, spins or shuttles; steps in slow cells that take it this long do
not count. Robots that stand at their target, robots in a deadlock and robots with an
empty battery, or held at a charger since, are not counted.

A deadlock counts once, however many robots it holds; it ends for a robot that
moves or whose way is free. The time lost is that of each robot concerned, from
the moment at which it stood still or made no more progress.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.config_monitoring import DeadlockConfig
from bridge.warehouse.drives.cell_lists import CellLists, link, make_cell_lists
from bridge.warehouse.durations import steps_of
from bridge.warehouse.feature import HELD_CHARGING, HELD_SLOW
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor, cells_between

__all__ = [
    "DEADLOCKED",
    "LIVELOCKED",
    "JamLimits",
    "JamScratch",
    "Jams",
    "clear_jams",
    "find_jams",
    "forget_lives",
    "make_jam_limits",
    "make_jam_scratch",
    "make_jams",
]

Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

DEADLOCKED: Final = 1
LIVELOCKED: Final = 2


class Jams(NamedTuple):
    """Who is stuck; all (E, N).

    Attributes:
        still: int32, steps since the robot last moved, was served, or was in a slow cell that takes it this long.
        goal: int32, target that ``nearest`` is about; -1 without a task.
        nearest: int32, fewest cells that it has been away from the target since it was given it.
        stalled: int32, steps since ``nearest`` last fell.
        state: int8, 0 free, 1 in a deadlock, 2 in a livelock.
        began: int8, the state that began in the last step, or 0.
        group: int32, lowest slot of the circle that it is part of; its own slot in a livelock.
        relocated: bool, was chosen in the last step to be taken away.
        num_deadlocks: int32, deadlocks in this episode after the warm-up, noted at the lowest slot of the circle.
        num_livelocks: int32, livelocks of the robot, likewise.
        lost: int32, robot-steps lost in them, likewise.
    """

    still: Int32
    goal: Int32
    nearest: Int32
    stalled: Int32
    state: Int8
    began: Int8
    group: Int32
    relocated: Bool
    num_deadlocks: Int32
    num_livelocks: Int32
    lost: Int32


class JamLimits(NamedTuple):
    """When a robot is stuck.

    Attributes:
        cycle_steps: Steps that a circle stands.
        progress_steps: Steps without progress.
        relocate: Robots that are stuck are taken away.
        drives: Robots are not in step with the cells.
        look_steps: Circles are looked for every so many steps: at each on the grid, once a second where robots drive.
        widest_m: Half of how wide the widest robot is; for drives.
        holds: Something lets robots stand whatever they are told.
    """

    cycle_steps: int
    progress_steps: int
    relocate: bool
    drives: bool
    look_steps: int
    widest_m: float
    holds: bool = False


class JamScratch(NamedTuple):
    """Robots by cell, empty between calls; whom each robot waits for and marks, (N,) int32."""

    lists: CellLists
    waits_for: Int32
    mark: Int32


def make_jam_limits(
    config: DeadlockConfig, step_s: float, drives: bool, widest_m: float, holds: bool = False
) -> JamLimits:
    """The limits of a scenario whose steps last ``step_s``; see :class:`JamLimits`."""
    return JamLimits(
        cycle_steps=max(steps_of(config.cycle_s, step_s), 1),
        progress_steps=max(steps_of(config.no_progress_s, step_s), 1),
        relocate=config.resolve == "relocate",
        drives=drives,
        look_steps=max(round(1.0 / step_s), 1) if drives else 1,
        widest_m=widest_m,
        holds=holds,
    )


def make_jams(num_envs: int, num_robots: int) -> Jams:
    """Nobody is stuck."""
    dtypes: dict[str, type[np.generic]] = {"state": np.int8, "began": np.int8, "relocated": np.bool_}
    return Jams(**{name: np.zeros((num_envs, num_robots), dtypes.get(name, np.int32)) for name in Jams._fields})


def make_jam_scratch(num_cells: int, num_robots: int) -> JamScratch:
    """Scratch for a floor and a fleet."""
    robots = np.zeros(num_robots, np.int32)
    return JamScratch(make_cell_lists(num_cells, num_robots), robots, robots.copy())


def clear_jams(jams: Jams, envs: Bool) -> None:
    """Start an episode in the environments of ``envs``: (E,) bool."""
    for values in jams:
        values[envs] = 0
    jams.goal[envs] = -1


@lean_kernel
def forget_lives(leaving: Bool, jams: Jams) -> None:
    """Forget about the robots that left in the step, (E, N) bool: those in their slots by now have just come."""
    for env in range(leaving.shape[0]):
        for robot in range(leaving.shape[1]):
            if leaving[env, robot]:
                # Counted up by ``find_jams``.
                jams.still[env, robot] = -1
                jams.goal[env, robot] = -1


@lean_kernel
def find_jams(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    half_width: Float64,
    limits: JamLimits,
    scratch: JamScratch,
    steps: Int32,
    warm_up_steps: int,
    jams: Jams,
) -> None:
    """Look for robots that are stuck after a step.

    Args:
        floor: The floor plan.
        fleet: After motion, service and dispatch.
        pose: Where robots are; for drives.
        outcome: ``moved_m`` of the step.
        half_width: (N,) float64, half of how wide each robot is in m; for drives.
        limits: Of :func:`make_jam_limits`.
        scratch: Of :func:`make_jam_scratch`.
        steps: (E,) int32, steps since the start of the episode, with this one.
        warm_up_steps: Steps of an episode that are not counted.
        jams: Advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        candidates, suspects = 0, 0
        for robot in range(num_robots):
            jams.began[env, robot] = 0
            jams.relocated[env, robot] = False
            acted = (outcome.moved_m[env, robot] > 0.0) | (outcome.served[env, robot] != 0)
            held = fleet.held[env, robot] if limits.holds else 0
            moved = acted | (not fleet.alive[env, robot]) | (held & HELD_SLOW != 0)
            still = 0 if moved else jams.still[env, robot] + 1
            jams.still[env, robot] = still
            waiting = _note_progress(fleet, jams, env, robot, held)
            stalled = jams.stalled[env, robot]
            candidates += waiting & (limits.cycle_steps <= (stalled if limits.drives else still))
            suspects += (jams.state[env, robot] != 0) | (stalled >= limits.progress_steps)
        counts = steps[env] > warm_up_steps
        if candidates > 1 and steps[env] % limits.look_steps == 0:
            _find_circles(floor, fleet, pose, half_width, limits, scratch, jams, counts, env)
        elif candidates > 1:
            for robot in range(num_robots):
                jams.lost[env, robot] += counts and jams.state[env, robot] == DEADLOCKED
        elif suspects > 0:
            for robot in range(num_robots):
                if jams.state[env, robot] == DEADLOCKED:
                    jams.state[env, robot] = 0
        if suspects > 0:
            for robot in range(num_robots):
                _judge_progress(limits, jams, counts, env, robot)


@kernel_part
def _note_progress(fleet: Fleet, jams: Jams, env: int, robot: int, held: int) -> bool:
    """Count steps without progress; whether the robot is on its way and could drive."""
    # Without branches: which robots come nearer is hard to foresee.
    goal, left = fleet.goal[env, robot], fleet.route[env, robot] >> 4
    could_drive = fleet.alive[env, robot] & (goal >= 0) & (fleet.charge[env, robot] > 0.0)
    could_drive &= held & HELD_CHARGING == 0
    works = could_drive & (fleet.pickup[env, robot] >= 0)
    nearest, stalled = jams.nearest[env, robot], jams.stalled[env, robot]
    nearer = works & ((goal != jams.goal[env, robot]) | (left < nearest) | (left == 0))
    jams.goal[env, robot] = goal if works else -1
    jams.nearest[env, robot] = left if nearer else nearest
    jams.stalled[env, robot] = stalled + (held & HELD_SLOW == 0) if works & (not nearer) else 0
    return bool(could_drive & (left > 0))


@kernel_part
def _stuck_steps(limits: JamLimits, jams: Jams, env: int, robot: int) -> int:
    """Steps since the robot last moved, or came nearer where robots drive."""
    return int(jams.stalled[env, robot] if limits.drives else jams.still[env, robot])


@kernel_part
def _find_circles(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    half_width: Float64,
    limits: JamLimits,
    scratch: JamScratch,
    jams: Jams,
    counts: bool,
    env: int,
) -> None:
    """Follow from every robot whom it waits for; a robot met twice on one walk is part of a circle."""
    num_robots = fleet.cell.shape[1]
    lists, waits_for, mark = scratch.lists, scratch.waits_for, scratch.mark
    for robot in range(num_robots):
        mark[robot] = 0
        if fleet.alive[env, robot]:
            link(fleet.cell[env, robot], robot, lists)
    for robot in range(num_robots):
        waits_for[robot] = _waits_for(floor, fleet, pose, half_width, limits, jams, lists, env, robot)
    for robot in range(num_robots):
        lists.first[fleet.cell[env, robot]] = -1
    for start in range(num_robots):
        robot = start
        while robot >= 0 and mark[robot] == 0:
            mark[robot] = start + 1
            robot = waits_for[robot]
        if robot >= 0 and mark[robot] == start + 1:
            _note_circle(fleet, limits, jams, waits_for, mark, counts, env, robot)
    for robot in range(num_robots):
        if jams.state[env, robot] == DEADLOCKED and mark[robot] >= 0:
            jams.state[env, robot] = 0


@kernel_part
def _waits_for(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    half_width: Float64,
    limits: JamLimits,
    jams: Jams,
    lists: CellLists,
    env: int,
    robot: int,
) -> int:
    """The robot in the first cell that this one wants, if it has stood long enough and all are taken; else -1."""
    goal = fleet.goal[env, robot]
    if _stuck_steps(limits, jams, env, robot) < limits.cycle_steps or goal < 0:
        return -1
    if not fleet.alive[env, robot] or fleet.charge[env, robot] <= 0.0:
        return -1
    cell, entry = fleet.cell[env, robot], fleet.route[env, robot]
    first = -1
    for move in range(1, 5):
        if entry >> (move - 1) & 1:
            wanted = floor.moves[cell, move]
            other = lists.first[wanted]
            if limits.drives:
                other = _in_the_way(floor, pose, half_width, limits.widest_m, lists, env, robot, wanted)
            if other < 0:
                return -1
            if first < 0:
                first = other
    return first


@kernel_part
def _in_the_way(
    floor: Floor, pose: Pose, half_width: Float64, widest_m: float, lists: CellLists, env: int, robot: int, cell: int
) -> int:
    """The nearest robot ahead that this one would touch on its straight way to the centre of a cell; or -1."""
    x, y = pose.x[env, robot], pose.y[env, robot]
    way_x, way_y = floor.x[cell] - x, floor.y[cell] - y
    length = np.sqrt(way_x * way_x + way_y * way_y)
    if length == 0.0:
        return -1
    reach = half_width[robot] + widest_m
    low_x, high_x = x + min(way_x, 0.0) - reach, x + max(way_x, 0.0) + reach
    low_y, high_y = y + min(way_y, 0.0) - reach, y + max(way_y, 0.0) + reach
    top, bottom, left, right = cells_between(floor, low_x, high_x, low_y, high_y)
    best, nearest = -1, np.inf
    for row in range(top, bottom):
        for column in range(left, right):
            other = lists.first[row * floor.width + column]
            while other >= 0:
                if other != robot:
                    dx, dy = pose.x[env, other] - x, pose.y[env, other] - y
                    ahead = (dx * way_x + dy * way_y) / length
                    beyond = max(ahead - length, 0.0)
                    aside = (dx * way_y - dy * way_x) / length
                    touch = half_width[robot] + half_width[other]
                    meets = ahead > 0.0 and beyond * beyond + aside * aside < touch * touch
                    # The lower slot among equals: the order of the lists means nothing.
                    if meets and (ahead < nearest or (ahead == nearest and other < best)):
                        best, nearest = other, ahead
                other = lists.follower[other]
    return best


@kernel_part
def _note_circle(
    fleet: Fleet, limits: JamLimits, jams: Jams, waits_for: Int32, mark: Int32, counts: bool, env: int, start: int
) -> None:
    """A circle through ``start``: its members get mark -1."""
    lowest, yields, is_new = start, start, False
    robot = start
    while mark[robot] >= 0:
        mark[robot] = -1
        lowest = min(lowest, robot)
        waited, least = fleet.waiting[env, robot], fleet.waiting[env, yields]
        if waited < least or (waited == least and robot > yields):
            yields = robot
        is_new = is_new or jams.state[env, robot] != DEADLOCKED
        robot = waits_for[robot]
    while True:
        if counts:
            known = jams.state[env, robot] == DEADLOCKED
            jams.lost[env, robot] += 1 if known else _stuck_steps(limits, jams, env, robot)
        jams.state[env, robot] = DEADLOCKED
        jams.began[env, robot] = DEADLOCKED if is_new else 0
        jams.group[env, robot] = lowest
        robot = waits_for[robot]
        if robot == start:
            break
    if is_new:
        jams.num_deadlocks[env, lowest] += counts
        jams.relocated[env, yields] = limits.relocate


@kernel_part
def _judge_progress(limits: JamLimits, jams: Jams, counts: bool, env: int, robot: int) -> None:
    """Begin, continue or end the livelock of a robot that is in no deadlock."""
    if jams.state[env, robot] == DEADLOCKED:
        return
    if jams.stalled[env, robot] < limits.progress_steps:
        jams.state[env, robot] = 0
        return
    is_new = jams.state[env, robot] != LIVELOCKED
    if counts:
        jams.lost[env, robot] += jams.stalled[env, robot] if is_new else 1
        jams.num_livelocks[env, robot] += is_new
    jams.state[env, robot] = LIVELOCKED
    if is_new:
        jams.began[env, robot] = LIVELOCKED
        jams.group[env, robot] = robot
        jams.relocated[env, robot] = limits.relocate
