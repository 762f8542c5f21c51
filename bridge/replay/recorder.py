"""Plays one episode of a policy and keeps what a replay shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.policy import FleetPolicy
from bridge.replay.fields import EventReader, FieldTape, RobotField
from bridge.replay.frames import Doing, Frame, nothing_done, read_doing, read_frame, read_scan
from bridge.replay.jam_events import read_jams
from bridge.replay.message_tape import MessageTape
from bridge.replay.recording import LidarRecord, Recording, ReplayEvent, list_events
from bridge.replay.writer import write_replay
from bridge.roster import Roster
from bridge.warehouse.config import LidarBlock
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.variant_roster import VariantRoster, simulator_of
from bridge.warehouse.work.picker_calls import HELPED
from bridge.warehouse.work.tasks import DELIVERED, PICKED_UP

__all__ = ["record_episode", "record_replay"]

# Scans are kept every so many steps that their number of values stays below this: some megabytes in the file.
_MAX_LIDAR_VALUES: Final = 5_000_000

Bool = NDArray[np.bool_]


def record_replay(
    roster: Roster,
    policy: FleetPolicy,
    path: Path,
    *,
    seed: int,
    max_steps: int = 2_000,
    env: int = 0,
    scenario_name: str,
    policy_name: str = "",
    fields: Sequence[RobotField] = (),
    read_events: EventReader | None = None,
) -> Recording:
    """Play an episode, or its beginning, and write it as a self-contained HTML page.

    Args:
        roster: The roster of a warehouse; it is reset first and not closed.
        policy: What drives the fleet.
        path: File to write; its folder must exist.
        seed: Seed of the episode.
        max_steps: Longest recording in steps; it ends with the episode.
        env: Which environment of the roster.
        scenario_name: Shown as the title.
        policy_name: Shown beside it.
        fields: Further figures of robots.
        read_events: Finds further events; deadlocks and livelocks that the simulator finds are always kept.

    Returns:
        What was recorded.

    Raises:
        SpecMismatchError: The roster is not that of a warehouse; env, max_steps, a field or an event is wrong; or
            the file cannot be written.
    """
    recording = record_episode(
        roster,
        policy,
        seed=seed,
        max_steps=max_steps,
        env=env,
        scenario_name=scenario_name,
        policy_name=policy_name,
        fields=fields,
        read_events=read_events,
    )
    write_replay(recording, path)
    return recording


def record_episode(
    roster: Roster,
    policy: FleetPolicy,
    *,
    seed: int,
    max_steps: int = 2_000,
    env: int = 0,
    scenario_name: str,
    policy_name: str = "",
    fields: Sequence[RobotField] = (),
    read_events: EventReader | None = None,
) -> Recording:
    """Play an episode, or its beginning; arguments, result and errors as in :func:`record_replay`."""
    if not isinstance(roster, (WarehouseSimulator, VariantRoster)):
        raise SpecMismatchError(
            f"replay: expected the built-in warehouse simulator, got {type(roster).__name__}, which cannot be drawn. "
            "Record on the scenario with `world: warehouse`."
        )
    if not 0 <= env < roster.arrays.num_envs:
        raise SpecMismatchError(f"replay: expected an env from 0 to {roster.arrays.num_envs - 1}, got {env}.")
    if max_steps < 1:
        raise SpecMismatchError(f"replay: expected max_steps >= 1, got {max_steps}.")
    roster.reset(seed)
    simulator = simulator_of(roster, env)
    tape = _Tape(simulator, env, min(max_steps, simulator.config.episode_steps), FieldTape(fields), read_events)
    tape.start()
    told = simulator.on_episode_end
    # An episode's last step begins the next one at once: everything is read before.
    simulator.on_episode_end = lambda over: tape.end(over, told)
    try:
        for _ in range(max_steps):
            policy.act(roster.arrays)
            roster.step()
            if roster.arrays.episode_over[env]:
                tape.keep_figures()
                break
            tape.add()
    finally:
        simulator.on_episode_end = told
    return tape.recording(scenario_name, policy_name, seed)


class _Tape:
    """Copies of one environment's arrays, frame after frame."""

    def __init__(
        self,
        simulator: WarehouseSimulator,
        env: int,
        num_steps: int,
        fields: FieldTape,
        read_events: EventReader | None,
    ) -> None:
        self._simulator, self._env = simulator, env
        self._fields, self._read_events = fields, read_events
        self._frames: list[Frame] = []
        self._doings: list[Doing] = []
        self._events: list[ReplayEvent] = []
        self._metrics: dict[str, float] | None = None
        self._scans: list[NDArray[np.float32]] = []
        self._lidar = next((block for block in simulator.config.observation if isinstance(block, LidarBlock)), None)
        num_values = (num_steps + 1) * simulator.config.num_robots * (self._lidar.beams if self._lidar else 0)
        self._stride = max(math.ceil(num_values / _MAX_LIDAR_VALUES), 1)
        talks = simulator.config.communication is not None
        self._messages = MessageTape(simulator.config, num_steps) if talks else None

    def start(self) -> None:
        """Keep the first frame."""
        self._keep(nothing_done(self._simulator.config.num_robots))

    def add(self, final: bool = False) -> None:
        """Keep the frame after a step, the last one of an episode if ``final``."""
        self._keep(read_doing(self._simulator, self._env), final)
        self._events.extend(read_jams(self._simulator, self._env))
        if self._read_events is not None:
            self._events.extend(self._read_events(self._simulator, self._env))

    def end(self, over: Bool, told: Callable[[Bool], None] | None) -> None:
        """Keep the last frame if the episode is among those that end, (E,) bool, and tell who is told otherwise."""
        if over[self._env]:
            self.add(final=True)
        if told is not None:
            told(over)

    def keep_figures(self) -> None:
        """Keep the figures of the episode that has ended."""
        names, values = self._simulator.spec.metric_names, self._simulator.arrays.metrics[self._env].tolist()
        self._metrics = dict(zip(names, values, strict=True))

    def _keep(self, doing: Doing, final: bool = False) -> None:
        if self._lidar is not None and len(self._frames) % self._stride == 0:
            self._scans.append(read_scan(self._simulator, self._env, final))
        self._frames.append(read_frame(self._simulator, self._env))
        self._doings.append(doing)
        self._fields.read(self._simulator, self._env)
        if self._messages is not None:
            self._messages.read(self._simulator, self._env)

    def recording(self, scenario: str, policy: str, seed: int) -> Recording:
        """All that was kept."""
        simulator = self._simulator
        frames = Frame(*(np.stack(column) for column in zip(*self._frames, strict=True)))
        doings = Doing(*(np.stack(column) for column in zip(*self._doings, strict=True)))
        contacts = doings.robot_contacts + doings.rack_contacts
        happened = {
            "delivery": doings.served == DELIVERED,
            "collision": contacts > 0,
            "despawn": doings.leaving,
            "respawn": _returned(frames, doings),
            "pickup": doings.served == PICKED_UP,
            "help": doings.served == HELPED,
        }
        return Recording(
            scenario=scenario,
            policy=policy,
            seed=seed,
            step_s=seconds_per_step(simulator.config.drive),
            config=simulator.config,
            layout=simulator.layout,
            open_moves=_open_moves(simulator),
            **frames._asdict(),
            refused=doings.refused,
            pauses=doings.pause,
            contacts=contacts,
            jumped=frames.alive & doings.leaving,
            num_refused=doings.refused.sum(axis=1, dtype=np.int64),
            num_half_contacts=(doings.robot_contacts + 2 * doings.rack_contacts).sum(axis=1, dtype=np.int64),
            events=list_events(happened, self._events),
            lidar=self._lidar_record(),
            messages=None if self._messages is None else self._messages.record(),
            fields=self._fields.records(),
            figures=self._figures(),
        )

    def _figures(self) -> tuple[tuple[str, str, float], ...]:
        if self._metrics is None:
            return ()
        return tuple((spec.name, spec.description, self._metrics[spec.name]) for spec in self._simulator.spec.metrics)

    def _lidar_record(self) -> LidarRecord | None:
        if self._lidar is None:
            return None
        return LidarRecord(np.stack(self._scans), float(self._lidar.range_m), self._stride)


def _returned(frames: Frame, doings: Doing) -> NDArray[np.bool_]:
    """(T + 1, N) bool, robots on the floor that were not there before the step, or left it in the step."""
    returned = frames.alive.copy()
    returned[1:] &= ~frames.alive[:-1] | doings.leaving[1:]
    returned[0] = False
    return returned


def _open_moves(simulator: WarehouseSimulator) -> NDArray[np.uint8]:
    moves = simulator.moves
    leads_out = moves[:, 1:] != np.arange(len(moves))[:, None]
    bits = leads_out << np.arange(leads_out.shape[1])
    return np.asarray(bits.sum(axis=1), np.uint8)
