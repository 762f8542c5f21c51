"""What happened in one episode, as arrays over time; nothing here knows a running simulator or a web page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout

__all__ = [
    "EVENT_LABELS",
    "EventList",
    "FieldRecord",
    "LidarRecord",
    "MessageRecord",
    "Recording",
    "ReplayEvent",
    "list_events",
]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

EVENT_LABELS: Final = {
    "pickup": "pick-up",
    "delivery": "delivery",
    "help": "helped",
    "collision": "collision",
    "despawn": "despawn",
    "respawn": "respawn",
    "deadlock": "deadlock",
    "livelock": "livelock",
}
"""Kinds of events that the page has a word and a mark for; any other kind is shown by its name."""


@dataclass(frozen=True)
class ReplayEvent:
    """Something that happened to some robots.

    Attributes:
        step: Number of the step that it happened in; 0 is the start of the episode.
        kind: One of :data:`EVENT_LABELS`, or any other word.
        robots: Slots on the robot axis.
    """

    step: int
    kind: str
    robots: tuple[int, ...]


@dataclass(frozen=True)
class LidarRecord:
    """Scans of all robots, every ``stride`` steps.

    Attributes:
        values: (ceil((T + 1) / stride), N, beams) float32 in [0, 1], as observed: distance over the range.
        range_m: Longest distance.
        stride: Steps from one recorded scan to the next.
    """

    values: NDArray[np.float32]
    range_m: float
    stride: int


@dataclass(frozen=True)
class MessageRecord:
    """What robots said, and what each one has of it; S values and K senders are kept.

    Attributes:
        discrete: Messages are symbols: the one value is its number.
        size: Number of values, or of symbols, of which there may be more than S.
        num_shown: Number of senders that robots see, of which there may be more than K.
        said: (T + 1, N, S) float32, sent in the step before the frame; NaN where a robot was silent.
        heard_from: (T + 1, N, K) int32, the nearest robots in range, nearest first; -1 for none.
        age: (T + 1, N, K) int32, steps since each sent its newest message that the robot has: the one that it said in
            frame t - age. -1 where it has none.
    """

    discrete: bool
    size: int
    num_shown: int
    said: NDArray[np.float32]
    heard_from: Int32
    age: Int32


@dataclass(frozen=True)
class FieldRecord:
    """A further figure of every robot.

    Attributes:
        name: Unique among the fields.
        label: Shown to people.
        unit: Shown behind the value.
        resolution: Values are kept as multiples of it.
        choices: Words for the values 0, 1, ...; empty for numbers.
        values: (T + 1, N) or (T + 1, N, K), number or bool; NaN where there is none.
    """

    name: str
    label: str
    unit: str
    resolution: float
    choices: tuple[str, ...]
    values: NDArray[Any]


@dataclass(frozen=True)
class Recording:
    """One episode; frame t is the state after t of T steps, N robots, role after role.

    Attributes:
        scenario: Its name.
        policy: Name of what drove the fleet; may be empty.
        seed: Seed of the episode.
        step_s: Simulated time of a step in s.
        config: The warehouse.
        layout: Its floor plan.
        open_moves: (H*W,) uint8, bit m - 1 is set where move m of ``view.MOVE_NAMES`` leads out of the cell.
        positions_m: (T + 1, N, 2) float64, in the floor frame.
        heading_rad: (T + 1, N) float64.
        alive: (T + 1, N) bool.
        loaded: (T + 1, N) bool.
        has_task: (T + 1, N) bool.
        goal_cells: (T + 1, N) int32, target of each robot; -1 without one.
        charge: (T + 1, N) float64 in [0, 1].
        refused: (T + 1, N) bool, the motion of the step before the frame was refused.
        pauses: (T + 1, N) int8, why it stood in that step, if that is known; values as of ``warehouse.pauses``.
        contacts: (T + 1, N) int32, robots and racks that it touched in that step.
        jumped: (T + 1, N) bool, it left the floor and came back in that step.
        num_refused: (T + 1,) int64, how many motions were refused in that step.
        num_half_contacts: (T + 1,) int64, twice the number of contacts in that step.
        events: All events, by step.
        lidar: None where robots have none.
        messages: None where robots do not talk.
        fields: Further figures.
        figures: The simulator's metrics by name, with their meaning; empty when the episode did not end.
    """

    scenario: str
    policy: str
    seed: int
    step_s: float
    config: WarehouseConfig
    layout: Layout
    open_moves: NDArray[np.uint8]
    positions_m: Float64
    heading_rad: Float64
    alive: Bool
    loaded: Bool
    has_task: Bool
    goal_cells: Int32
    charge: Float64
    refused: Bool
    pauses: NDArray[np.int8]
    contacts: Int32
    jumped: Bool
    num_refused: NDArray[np.int64]
    num_half_contacts: NDArray[np.int64]
    events: EventList
    lidar: LidarRecord | None
    messages: MessageRecord | None
    fields: tuple[FieldRecord, ...]
    figures: tuple[tuple[str, str, float], ...]

    @property
    def num_steps(self) -> int:
        """T."""
        return len(self.alive) - 1

    @property
    def num_robots(self) -> int:
        """N."""
        return int(self.alive.shape[1])


@dataclass(frozen=True)
class EventList:
    """Events in the order of their steps; M events that name R robots together.

    Attributes:
        kinds: Names of the kinds.
        step: (M,) int64.
        kind: (M,) int64, place in ``kinds``.
        end: (M,) int64, where the robots of an event end in ``robots``; they begin where those before end.
        robots: (R,) int64.
    """

    kinds: tuple[str, ...]
    step: NDArray[np.int64]
    kind: NDArray[np.int64]
    end: NDArray[np.int64]
    robots: NDArray[np.int64]


def list_events(happened: dict[str, Bool], told: Sequence[ReplayEvent]) -> EventList:
    """One event per kind and step with all robots concerned, and those that somebody else found.

    Args:
        happened: (T + 1, N) bool by kind; at least one.
        told: Further events.

    Raises:
        SpecMismatchError: An event lies outside the recording, or names a robot that there is not.
    """
    num_frames, num_robots = next(iter(happened.values())).shape
    for event in told:
        if not 0 <= event.step < num_frames:
            raise SpecMismatchError(
                f"replay: event {event.kind!r}: expected a step from 0 to {num_frames - 1}, got {event.step}."
            )
        if not all(0 <= robot < num_robots for robot in event.robots):
            raise SpecMismatchError(
                f"replay: event {event.kind!r} in step {event.step}: expected robots from 0 to {num_robots - 1}, "
                f"got {event.robots}."
            )
    kinds = tuple(dict.fromkeys([*happened, *(event.kind for event in told)]))
    steps, numbers, counts, robots = [], [], [], []
    for number, mask in enumerate(happened.values()):
        step, robot = np.nonzero(mask)
        at, count = np.unique(step, return_counts=True)
        steps.append(at)
        counts.append(count)
        numbers.append(np.full(len(at), number))
        robots.append(robot)
    steps.append(np.array([event.step for event in told], np.int64))
    numbers.append(np.array([kinds.index(event.kind) for event in told], np.int64))
    counts.append(np.array([len(event.robots) for event in told], np.int64))
    robots.append(np.array([robot for event in told for robot in event.robots], np.int64))

    step, kind, count = np.concatenate(steps), np.concatenate(numbers), np.concatenate(counts)
    order = np.argsort(step, kind="stable")
    owner = np.repeat(np.arange(len(step)), count)
    # Robots of the events in their new order; within an event they keep theirs.
    rank = np.empty(len(step), np.int64)
    rank[order] = np.arange(len(step))
    by_event = np.argsort(rank[owner], kind="stable")
    return EventList(kinds, step[order], kind[order], np.cumsum(count[order]), np.concatenate(robots)[by_event])
