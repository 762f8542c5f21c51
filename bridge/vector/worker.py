"""A worker process of :class:`~bridge.vector.async_env.AsyncVectorEnv`.

Steps its share of the environments over shared memory. The parent sends one
command at a time; the worker answers each: one byte, plus JSON where there is
something to say.

    parent                                   worker
    file descriptor of the shared block  ->
                                         <-  ``k`` once the world is open, or ``e`` + error
    ``r`` + {"seed", "env_mask"}         ->  reset
    ``w`` + [weight, ...]                ->  change how likely each scenario of several is
    ``s``                                ->  step
                                         <-  ``k`` done, or ``e`` + {"type", "message", "traceback"}
    ``q``                                ->  close and exit

A worker leaves when the pipe closes or its parent ends, whatever it is doing.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bridge.errors import SpecMismatchError
from bridge.mixed_roster import MixedRoster, open_scenarios
from bridge.registry import world_kind
from bridge.roster import Roster, RosterArrays, array_shapes
from bridge.scenario import Scenario
from bridge.scenario_mix import ScenarioMix
from bridge.specs import WorldSpec
from bridge.swapped_roster import SwappedRoster
from bridge.vector.shared_blocks import SharedBlocks

__all__ = [
    "DONE",
    "FAILED",
    "QUIT",
    "RESET",
    "STEP",
    "WEIGHTS",
    "PlainScenario",
    "WorkerTask",
    "run_worker",
    "spec_digest",
]

RESET, STEP, WEIGHTS, QUIT = b"r", b"s", b"w", b"q"
DONE, FAILED = b"k", b"e"

_ORPHAN_GRACE_S = 5.0


class PlainScenario(NamedTuple):
    """A scenario in plain values that cross a process border.

    Attributes:
        path: Scenario file, for messages and for the files beside it.
        name: Name of the scenario.
        kind: Kind of world.
        config: The world's section as JSON: workers run what the parent runs, even if the file changes.
    """

    path: str
    name: str
    kind: str
    config: str

    @classmethod
    def of(cls, scenario: Scenario) -> PlainScenario:
        """A scenario without its training section."""
        config = scenario.config.model_dump_json(by_alias=True)
        return cls(str(scenario.path), scenario.name, scenario.world, config)

    def scenario(self) -> Scenario:
        """The inverse of :meth:`of`."""
        config = world_kind(self.kind).config_model().model_validate_json(self.config)
        return Scenario(Path(self.path), self.name, "", self.kind, config, {})


class WorkerTask(NamedTuple):
    """What a worker needs to know, in plain values that cross a process border.

    Attributes:
        scenarios: The scenario to run, or several.
        weights: How likely each of several is; None for a single one.
        num_envs: Number of all environments E, the length of the shared arrays.
        start: First environment of this worker.
        stop: One past the last environment of this worker.
        digest: :func:`spec_digest` of the parent's spec.
    """

    scenarios: tuple[PlainScenario, ...]
    weights: tuple[float, ...] | None
    num_envs: int
    start: int
    stop: int
    digest: str

    @classmethod
    def of(cls, scenario: Scenario | ScenarioMix, num_envs: int, start: int, stop: int, digest: str) -> WorkerTask:
        """The task of running the environments ``start`` to ``stop - 1`` of a scenario."""
        if isinstance(scenario, ScenarioMix):
            plain = tuple(PlainScenario.of(part) for part in scenario.scenarios)
            return cls(plain, scenario.weights, num_envs, start, stop, digest)
        return cls((PlainScenario.of(scenario),), None, num_envs, start, stop, digest)

    def scenario(self) -> Scenario | ScenarioMix:
        """What to run."""
        scenarios = tuple(plain.scenario() for plain in self.scenarios)
        return scenarios[0] if self.weights is None else ScenarioMix(scenarios, self.weights)


def spec_digest(spec: WorldSpec) -> str:
    """A text that is equal for two specs only if their arrays mean the same."""
    roles = [[role.name, *role.agent_ids, role.observation.digest, repr(role.action)] for role in spec.roles]
    return json.dumps([roles, spec.state_size, spec.metric_names])


def run_worker(task: WorkerTask, connection: Connection) -> None:
    """Serve commands until the parent closes the pipe, says so, or ends.

    Args:
        task: The worker's share.
        connection: The worker's end of the pipe.
    """
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    finished = threading.Event()
    threading.Thread(target=_leave_with_parent, args=(finished,), daemon=True).start()
    try:
        _work(task, connection)
    finally:
        finished.set()


def _work(task: WorkerTask, connection: Connection) -> None:
    roster: Roster | None = None
    try:
        with _parent_may_leave():
            descriptor = recv_handle(connection)
        roster = _open_roster(task, descriptor)
        _send(connection, DONE)
        _serve(roster, connection)
    except _ParentLeftError:
        pass  # there is nobody to tell
    except Exception as error:  # noqa: BLE001  whatever the world raises is the parent's to raise
        _report(connection, error)
    finally:
        if roster is not None:
            roster.close()


def _open_roster(task: WorkerTask, descriptor: int) -> Roster:
    world = open_scenarios(task.scenario())
    spec = world.spec
    if spec_digest(spec) != task.digest:
        raise SpecMismatchError(
            f"{task.scenarios[0].path}: expected the world to be the same in every process, got another one in a "
            f"worker (environments {task.start}-{task.stop - 1}). Check what the world reads besides its scenario."
        )
    blocks = SharedBlocks(array_shapes(spec, task.num_envs), descriptor)
    blocks.close()  # the arrays keep the memory
    arrays = RosterArrays.from_blocks(spec, blocks.arrays).envs(task.start, task.stop)
    return world.roster(task.stop - task.start, first_env=task.start, arrays=arrays)


def _serve(roster: Roster, connection: Connection) -> None:
    while True:
        with _parent_may_leave():
            message = connection.recv_bytes()
        command = message[:1]
        if command == STEP:
            roster.step()
        elif command == RESET:
            order = json.loads(message[1:])
            mask = None if order["env_mask"] is None else np.array(order["env_mask"], np.bool_)
            roster.reset(order["seed"], mask)
        elif command == WEIGHTS:
            assert isinstance(roster, MixedRoster | SwappedRoster), (
                "the parent has checked that there are several scenarios"
            )
            roster.set_weights(json.loads(message[1:]))
        else:
            assert command == QUIT, f"unknown command {command!r}"
            return
        _send(connection, DONE)


def _report(connection: Connection, error: Exception) -> None:
    report = {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
    try:
        _send(connection, FAILED + json.dumps(report).encode())
    except _ParentLeftError:
        sys.stderr.write(report["traceback"])  # the log is the only place left


def _send(connection: Connection, message: bytes) -> None:
    with _parent_may_leave():
        connection.send_bytes(message)


class _ParentLeftError(Exception):
    """The parent has closed the pipe or has ended."""


@contextmanager
def _parent_may_leave() -> Iterator[None]:
    """Tell the end of the pipe from errors of the world, which may be of the same types."""
    try:
        yield
    except (EOFError, BrokenPipeError, ConnectionResetError) as error:
        raise _ParentLeftError from error


def _leave_with_parent(finished: threading.Event) -> None:
    """End this process soon after its parent, even if a step never returns."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()  # waits on the parent's sentinel for as long as the parent lives
    if not finished.wait(_ORPHAN_GRACE_S):
        os._exit(1)
