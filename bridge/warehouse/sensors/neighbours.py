"""The observation block about the nearest robots in range.

What a robot shows of itself is the same for everybody who sees it, so it is put
together once, on a *card* of one cache line; a neighbour is then read from one place.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel, number_of
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.sensors.nearest import Nearest, slot_mask

__all__ = [
    "NEIGHBOUR_FIELDS",
    "Cards",
    "NeighbourBlock",
    "make_cards",
    "observe_neighbours",
    "write_cards",
]

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

NEIGHBOUR_FIELDS: Final = ("valid", "dx", "dy", "vx", "vy", "way_x", "way_y", "loaded", "has_priority")
_SIZE: Final = len(NEIGHBOUR_FIELDS)
_CARD: Final = 8


class Cards(NamedTuple):
    """What robots show of themselves, by slot; places 0 to ``slot_mask`` of the fleet, the last one nobody's: zeros.

    Attributes:
        shown: (E, places, 8) float32, in the floor frame and as in an observation: 1, place in ranges, velocity,
            direction of its next way, loaded.
        priority: (E, places) int64, the larger one has the right of way.
    """

    shown: Float32
    priority: Int64


class NeighbourBlock(NamedTuple):
    """Where the block lies in an observation, its number of robots, and what it is scaled by."""

    at: int
    num_robots: int
    range_m: float
    speed_scale: float


def make_cards(num_envs: int, num_robots: int) -> Cards:
    """Blank cards for a fleet."""
    last = slot_mask(num_robots)
    return Cards(
        shown=np.zeros((num_envs, last + 1, _CARD), np.float32),
        priority=np.zeros((num_envs, last + 1), np.int64),
    )


@lean_kernel
def write_cards(fleet: Fleet, pose: Pose, block: NeighbourBlock, turning: bool, envs: Bool, cards: Cards) -> None:
    """Write what each robot shows of itself, before :func:`observe_neighbours`.

    Args:
        fleet: What robots do.
        pose: Where robots are.
        block: What it is scaled by.
        turning: Robots have a heading, and ways in any direction.
        envs: (E,) bool, environments to treat.
        cards: Of :func:`make_cards`, written.
    """
    num_robots = fleet.cell.shape[1]
    per_m, per_speed = 1.0 / block.range_m, 1.0 / block.speed_scale
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for robot in range(num_robots):
            card = cards.shown[env, robot]
            card[0] = 1.0
            card[1] = pose.x[env, robot] * per_m
            card[2] = pose.y[env, robot] * per_m
            card[3] = pose.vx[env, robot] * per_speed
            card[4] = pose.vy[env, robot] * per_speed
            if turning:
                way_x = fleet.way_x[env, robot] - pose.x[env, robot]
                way_y = fleet.way_y[env, robot] - pose.y[env, robot]
                length = max(np.sqrt(way_x * way_x + way_y * way_y), 1e-9)
                card[5] = way_x / length
                card[6] = way_y / length
            else:
                route = fleet.route[env, robot]
                card[5] = (route >> 1 & 1) - (route >> 3 & 1)
                card[6] = (route & 1) - (route >> 2 & 1)
            card[7] = number_of(fleet.loaded, env, robot)
            # Who has waited longer, and the lower slot among equals.
            cards.priority[env, robot] = np.int64(fleet.waiting[env, robot]) * num_robots - robot


@lean_kernel
def observe_neighbours(
    alive: Bool,
    pose: Pose,
    nearest: Nearest,
    cards: Cards,
    block: NeighbourBlock,
    turning: bool,
    first: int,
    envs: Bool,
    observations: Float32,
) -> None:
    """Write the block of the nearest robots, nearest first, the lower slot among equals.

    ``has_priority`` is 1 if the neighbour has the right of way and -1 if it has not, so the two
    robots of any pair see opposite signs. The right of way is with the robot that has waited
    longer since it last reached a station, and with the lower slot among equals.

    Args:
        alive: (E, N) bool, robots on the floor.
        pose: Where robots are.
        nearest: Found by ``find_nearest``.
        cards: Written by :func:`write_cards`.
        block: Where and what.
        turning: Robots have a heading: places, velocities and ways are in the body frame, velocities relative.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, written.
    """
    for env in range(len(envs)):
        if not envs[env]:
            continue
        shown, priority = cards.shown[env], cards.priority[env]
        for slot in range(observations.shape[1]):
            robot = np.uint64(first + slot)
            if not alive[env, robot]:
                continue
            row, keys, own = observations[env, slot], nearest.keys[env, robot], shown[robot]
            at = np.uint64(block.at)
            # Arithmetic instead of branches on who is there and who goes first: those are coin tosses.
            for place in range(np.uint64(block.num_robots)):
                other = np.uint64(keys[place] & nearest.slot_bits)
                _write_relative(shown[other], own, turning, row, at)
                if turning:
                    _turn(pose.cos[env, robot], pose.sin[env, robot], row, at)
                ahead = min(max(priority[other] - priority[robot], -1), 1)
                # The sum makes 0 of the -0 of nobody.
                row[at + np.uint64(8)] = row[at] * np.float32(ahead) + np.float32(0.0)
                at += np.uint64(_SIZE)


@kernel_part
def _write_relative(card: Float32, own: Float32, turning: bool, row: Float32, at: np.uint64) -> None:
    """A card relative to the robot that looks at it; zeros of nobody's card stay zeros."""
    # All is read before the first value is written: what is only copied becomes a few wide instructions.
    seen, x, y, vx, vy = card[0], card[1], card[2], card[3], card[4]
    way_x, way_y, loaded = card[5], card[6], card[7]
    if turning:
        vx, vy = vx - own[3] * seen, vy - own[4] * seen
    row[at] = seen
    row[at + np.uint64(1)] = _cut(x - own[1] * seen)
    row[at + np.uint64(2)] = _cut(y - own[2] * seen)
    row[at + np.uint64(3)] = vx
    row[at + np.uint64(4)] = vy
    row[at + np.uint64(5)] = way_x
    row[at + np.uint64(6)] = way_y
    row[at + np.uint64(7)] = loaded


@kernel_part
def _turn(cos: np.float32, sin: np.float32, row: Float32, at: np.uint64) -> None:
    """Turn place, velocity and way into the body frame."""
    for offset in range(1, 7, 2):
        index = at + np.uint64(offset)
        x, y = row[index], row[index + np.uint64(1)]
        row[index] = _cut(cos * x + sin * y)
        row[index + np.uint64(1)] = _cut(cos * y - sin * x)


@kernel_part
def _cut(value: np.float32) -> np.float32:
    """At most 1 in size: rounding may lift what is just in range above it."""
    return min(max(value, np.float32(-1.0)), np.float32(1.0))
