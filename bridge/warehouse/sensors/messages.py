"""Messages on their way from robot to robot: who hears whom, what is lost, what is held.

In every step whose number is a multiple of the period, each robot that chose
an action sends the message in it to all others. A message sent in step s
reaches a receiver in step s + latency, if then, after the motion, the two are
within range of each other and, where that is asked for, no rack or wall stands
between them. It may be lost there, by chance of its own or in a burst that the
receiver is in. A receiver holds the newest message of every robot until it is
too old, and sees those of the nearest robots in range. With a robot that leaves the floor goes what
it said, also what is still under way, and what it heard: a new robot in its slot is another one.

All chances are drawn by number of the message, sender and receiver from a
stream of their own, so they do not depend on what else is drawn.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.random_streams import uniform
from bridge.warehouse.sensors.buckets import Buckets, place_in_runs, runs_near

__all__ = [
    "NUM_SUMS",
    "Channel",
    "Inbox",
    "MessageKeys",
    "exchange",
    "make_inbox",
    "observe_messages",
    "take_symbols",
    "take_values",
]

Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
UInt64 = NDArray[np.uint64]

_SENT: Final = 0
_OFFERED: Final = 1
_ARRIVED: Final = 2
_HANDOVER_OFFERED: Final = 3
_HANDOVER_ARRIVED: Final = 4
_AGES: Final = 5
_SHOWN: Final = 6
NUM_SUMS: Final = 7


class Channel(NamedTuple):
    """The numbers of :class:`bridge.warehouse.config_communication.CommunicationConfig`; 0 for no bursts."""

    range_m: float
    line_of_sight: bool
    period: int
    latency: int
    jitter: int
    loss: float
    burst_enter: float
    burst_leave: float
    burst_loss: float
    hold: int
    warm_up_steps: int


class MessageKeys(NamedTuple):
    """Streams of the losses, latencies and bursts; each (E,) uint64."""

    loss: UInt64
    latency: UInt64
    burst: UInt64


class Inbox(NamedTuple):
    """What was said, and what of it each robot has; K robots are shown, W steps make a window.

    Attributes:
        values: (E, hold + 1, N, S) float32, what each robot said, a ring over the steps.
        spoke: (E, hold + 1, N) bool, whether it said anything.
        newest: (E, N, N) int32, step in which the newest message was sent that a robot has of each other; -1.
        nearest: (E, N, K) int32, nearest robots in range; -1 for none.
        distance: (K,) float64, scratch.
        in_burst: (E, N) bool, the receiver's channel is bad.
        offered: (E, N) int64, messages that should have reached the robot in this episode.
        arrived: (E, N) int64, messages that did.
        offered_then: (E, W, N) int64, the same W steps ago, a ring over the steps.
        arrived_then: (E, W, N) int64, likewise.
        sums: (E, NUM_SUMS) float64, after the warm-up: sent, offered, arrived; offered and arrived in the
            windows before hand-overs; ages in steps and number of the messages that robots saw.
    """

    values: Float32
    spoke: Bool
    newest: Int32
    nearest: Int32
    distance: Float64
    in_burst: Bool
    offered: NDArray[np.int64]
    arrived: NDArray[np.int64]
    offered_then: NDArray[np.int64]
    arrived_then: NDArray[np.int64]
    sums: Float64


def make_inbox(num_envs: int, num_robots: int, size: int, hold: int, shown: int, window: int) -> Inbox:
    """Nothing was said yet."""
    robots = (num_envs, num_robots)
    return Inbox(
        values=np.zeros((num_envs, hold + 1, num_robots, size), np.float32),
        spoke=np.zeros((num_envs, hold + 1, num_robots), np.bool_),
        newest=np.full((num_envs, num_robots, num_robots), -1, np.int32),
        nearest=np.full((num_envs, num_robots, shown), -1, np.int32),
        distance=np.zeros(shown, np.float64),
        in_burst=np.zeros(robots, np.bool_),
        offered=np.zeros(robots, np.int64),
        arrived=np.zeros(robots, np.int64),
        offered_then=np.zeros((num_envs, window, num_robots), np.int64),
        arrived_then=np.zeros((num_envs, window, num_robots), np.int64),
        sums=np.zeros((num_envs, NUM_SUMS)),
    )


@lean_kernel
def take_values(
    actions: Float32, asked: Bool, at: int, first: int, period: int, steps: Int32, values: Float32, spoke: Bool
) -> int:
    """Note what the robots of one role say in this step.

    Args:
        actions: (E, A, C) float32, continuous actions.
        asked: (E, A) bool, robots whose action counts.
        at: Where the message begins in an action.
        first: Slot of the role's first robot on the robot axis.
        period: A message is sent every so many steps.
        steps: (E,) int32, number of the step in its episode, from 0.
        values: ``Inbox.values``, written.
        spoke: ``Inbox.spoke``, written.

    Returns:
        ``env * A + slot`` of the first robot with a value outside [-1, 1] or NaN, or -1.
    """
    num_envs, num_slots = asked.shape
    wrong = -1
    for env in range(num_envs):
        ring = steps[env] % values.shape[1]
        for slot in range(num_slots):
            spoke[env, ring, first + slot] = asked[env, slot] and steps[env] % period == 0
            for index in range(values.shape[3]):
                value = actions[env, slot, at + index]
                if asked[env, slot] and not abs(value) <= 1.0 and wrong < 0:
                    wrong = env * num_slots + slot
                values[env, ring, first + slot, index] = value
    return wrong


@lean_kernel
def take_symbols(
    actions: Int32, asked: Bool, at: int, first: int, period: int, steps: Int32, values: Float32, spoke: Bool
) -> int:
    """Like :func:`take_values` for branch ``at`` of discrete actions, (E, A, B) int32; symbols become one-hot."""
    num_envs, num_slots = asked.shape
    wrong = -1
    for env in range(num_envs):
        ring = steps[env] % values.shape[1]
        for slot in range(num_slots):
            spoke[env, ring, first + slot] = asked[env, slot] and steps[env] % period == 0
            symbol = actions[env, slot, at]
            if asked[env, slot] and not 0 <= symbol < values.shape[3] and wrong < 0:
                wrong = env * num_slots + slot
            for index in range(values.shape[3]):
                values[env, ring, first + slot, index] = 1.0 if index == symbol else 0.0
    return wrong


@lean_kernel
def exchange(
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    outcome: Outcome,
    buckets: Buckets,
    channel: Channel,
    keys: MessageKeys,
    steps: Int32,
    inbox: Inbox,
) -> None:
    """Let messages arrive after the motion of a step.

    Args:
        floor: The floor plan.
        fleet: Who is on the floor.
        pose: Where they are.
        outcome: ``served`` tells who has just handed something over, ``leaving`` who has left.
        buckets: Sorted for these places, with an edge of at least the range.
        channel: What happens to messages.
        keys: Streams of chance.
        steps: (E,) int32, steps since the start of the episode, with this one.
        inbox: Advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        step = int(steps[env]) - 1
        counts = step >= channel.warm_up_steps
        ring = step % inbox.offered_then.shape[1]
        if counts:
            for robot in range(num_robots):
                inbox.sums[env, _SENT] += inbox.spoke[env, step % inbox.spoke.shape[1], robot]
        for robot in range(num_robots):
            if outcome.leaving[env, robot]:
                inbox.newest[env, robot] = -1
                for ring_step in range(inbox.spoke.shape[1]):
                    inbox.spoke[env, ring_step, robot] = False
                for other in range(num_robots):
                    inbox.newest[env, other, robot] = -1
        for robot in range(num_robots):
            _move_burst(channel, keys, inbox, env, robot, step)
            inbox.nearest[env, robot] = -1
            if fleet.alive[env, robot]:
                _listen(floor, pose, buckets, channel, keys, inbox, env, robot, step, counts)
            if outcome.lived[env, robot] and outcome.served[env, robot] > 0 and counts:
                then = inbox.offered_then[env, ring, robot], inbox.arrived_then[env, ring, robot]
                inbox.sums[env, _HANDOVER_OFFERED] += inbox.offered[env, robot] - then[0]
                inbox.sums[env, _HANDOVER_ARRIVED] += inbox.arrived[env, robot] - then[1]
            inbox.offered_then[env, ring, robot] = inbox.offered[env, robot]
            inbox.arrived_then[env, ring, robot] = inbox.arrived[env, robot]


@kernel_part
def _move_burst(channel: Channel, keys: MessageKeys, inbox: Inbox, env: int, robot: int, step: int) -> None:
    """The receiver's channel turns bad or good; at the start of an episode it is in its long-run balance."""
    if channel.burst_enter <= 0.0:
        return
    chance = uniform(keys.burst[env], step * inbox.in_burst.shape[1] + robot)
    if step == 0:
        inbox.in_burst[env, robot] = chance < channel.burst_enter / (channel.burst_enter + channel.burst_leave)
    elif inbox.in_burst[env, robot]:
        inbox.in_burst[env, robot] = chance >= channel.burst_leave
    else:
        inbox.in_burst[env, robot] = chance < channel.burst_enter


@kernel_part
def _listen(
    floor: Floor,
    pose: Pose,
    buckets: Buckets,
    channel: Channel,
    keys: MessageKeys,
    inbox: Inbox,
    env: int,
    robot: int,
    step: int,
    counts: bool,
) -> None:
    """One receiver: note the nearest robots in range and take what arrives from all in range."""
    x, y = pose.x[env, robot], pose.y[env, robot]
    runs = runs_near(buckets, env, x, y)
    for candidate in range(runs.number):
        other = buckets.robot[env, place_in_runs(runs, candidate)]
        dx, dy = pose.x[env, other] - x, pose.y[env, other] - y
        square = dx * dx + dy * dy
        if other == robot or square > channel.range_m * channel.range_m:
            continue
        if channel.line_of_sight and not _sees(floor, x, y, dx, dy):
            continue
        _rank(inbox.nearest[env, robot], inbox.distance, other, square)
        _receive(channel, keys, inbox, env, robot, other, step, counts)
    for place in range(inbox.nearest.shape[2]):
        other = inbox.nearest[env, robot, place]
        if other >= 0 and counts:
            sent = inbox.newest[env, robot, other]
            if sent >= 0 and step - sent <= channel.hold:
                inbox.sums[env, _AGES] += step - sent
                inbox.sums[env, _SHOWN] += 1.0


@kernel_part
def _rank(nearest: Int32, distance: Float64, other: int, square: float) -> None:
    """Put a robot into the list of the nearest, the lower slot first among equals."""
    place = len(nearest)
    while place > 0:
        rival = nearest[place - 1]
        if rival >= 0 and (distance[place - 1] < square or (distance[place - 1] == square and rival < other)):
            break
        if place < len(nearest):
            nearest[place] = rival
            distance[place] = distance[place - 1]
        place -= 1
    if place < len(nearest):
        nearest[place] = other
        distance[place] = square


@kernel_part
def _receive(
    channel: Channel,
    keys: MessageKeys,
    inbox: Inbox,
    env: int,
    robot: int,
    other: int,
    step: int,
    counts: bool,
) -> None:
    """Messages of one robot that should reach another one in this step."""
    num_robots = inbox.spoke.shape[2]
    for extra in range(channel.jitter, -1, -1):
        sent = step - channel.latency - extra
        if sent < 0 or sent % channel.period != 0 or not inbox.spoke[env, sent % inbox.spoke.shape[1], other]:
            continue
        counter = (sent * num_robots + other) * num_robots + robot
        if channel.jitter > 0 and int(uniform(keys.latency[env], counter) * (channel.jitter + 1)) != extra:
            continue
        lost = False
        if channel.loss > 0.0:
            lost = uniform(keys.loss[env], 2 * counter) < channel.loss
        if inbox.in_burst[env, robot]:
            lost = lost or uniform(keys.loss[env], 2 * counter + 1) < channel.burst_loss
        inbox.offered[env, robot] += 1
        inbox.arrived[env, robot] += not lost
        if counts:
            inbox.sums[env, _OFFERED] += 1.0
            inbox.sums[env, _ARRIVED] += not lost
        if not lost:
            inbox.newest[env, robot, other] = max(inbox.newest[env, robot, other], sent)


@kernel_part
def _sees(floor: Floor, x: float, y: float, dx: float, dy: float) -> bool:
    """Whether the line from (x, y) by (dx, dy) crosses no blocked cell, nor touches the corner of one."""
    size = floor.cell_size_m
    column, line = int(x / size), int(y / size)
    last_column, last_line = int((x + dx) / size), int((y + dy) / size)
    step_x, step_y = 1 if dx > 0.0 else -1, 1 if dy > 0.0 else -1
    # Share of the line at which the next border of columns and of lines is crossed.
    to_x = ((column + (step_x > 0)) * size - x) / dx if dx != 0.0 else np.inf
    to_y = ((line + (step_y > 0)) * size - y) / dy if dy != 0.0 else np.inf
    per_x = size / abs(dx) if dx != 0.0 else np.inf
    per_y = size / abs(dy) if dy != 0.0 else np.inf
    for _ in range(abs(last_column - column) + abs(last_line - line)):
        # Through a corner both cells beside it count, so that two robots see each other or neither does.
        beside = _is_rack(floor, column + step_x, line) or _is_rack(floor, column, line + step_y)
        if beside and abs(to_x - to_y) < 1e-9:
            return False
        if to_x < to_y + 1e-9:
            column += step_x
            to_x += per_x
        else:
            line += step_y
            to_y += per_y
        if _is_rack(floor, column, line):
            return False
    return True


@kernel_part
def _is_rack(floor: Floor, column: int, line: int) -> bool:
    """Whether a cell is on the floor and blocked; lines are counted up from the bottom."""
    inside = 0 <= column < floor.width and 0 <= line < floor.height
    return bool(inside and floor.blocked[(floor.height - 1 - line) * floor.width + column])


@lean_kernel
def observe_messages(
    inbox: Inbox, alive: Bool, hold: int, steps: Int32, at: int, first: int, envs: Bool, observations: Float32
) -> None:
    """Write the block ``messages``: per robot valid, age and values; zeros where there is none or it is too old.

    Args:
        inbox: What robots have.
        alive: (E, N) bool.
        hold: Age in steps at which a message is forgotten; ages are divided by it.
        steps: (E,) int32, steps since the start of the episode.
        at: Where the block begins.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written.
    """
    size = inbox.values.shape[3]
    for env in range(len(envs)):
        for slot in range(observations.shape[1]):
            robot = first + slot
            if not envs[env] or not alive[env, robot]:
                continue
            for place in range(inbox.nearest.shape[2]):
                begin = at + place * (size + 2)
                row = observations[env, slot, begin : begin + size + 2]
                row[:] = 0.0
                other = inbox.nearest[env, robot, place]
                sent = inbox.newest[env, robot, other] if other >= 0 else -1
                age = steps[env] - 1 - sent
                if sent >= 0 and age <= hold:
                    row[0] = 1.0
                    row[1] = age / hold
                    for index in range(size):
                        row[2 + index] = inbox.values[env, sent % inbox.values.shape[1], other, index]
