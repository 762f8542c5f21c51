"""Environments in worker processes over shared memory.

Per step one byte travels to each worker and one back; observations, rewards,
flags and actions stay where they are. Which worker plays which environment has
no influence on the outcome (``bridge/seeding.py``).
"""

from __future__ import annotations

import json
import signal
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from bridge import errors
from bridge.errors import AgvBridgeError, SpecMismatchError, WorkerDiedError, WorkerTimeoutError
from bridge.mixed_roster import open_scenarios
from bridge.registry import AskedOnce
from bridge.roster import RosterArrays, array_shapes
from bridge.scenario import Scenario
from bridge.scenario_mix import ScenarioMix
from bridge.specs import WorldSpec
from bridge.vector.processes import WorkerHandle, start_workers, stop_workers
from bridge.vector.protocol import VectorState, require_mix, require_resettable, require_state
from bridge.vector.shared_blocks import SharedBlocks
from bridge.vector.worker import FAILED, RESET, STEP, WEIGHTS, WorkerTask, spec_digest

__all__ = ["AsyncVectorEnv"]

_LIVENESS_S = 1.0


class AsyncVectorEnv:
    """Steps the environments of a scenario in worker processes.

    Workers are spawned, never forked, have one thread for numerics and ignore
    Ctrl-C. They end with :meth:`close`, at the first failure of one of them, when
    this object is collected, and when this process ends in whatever way.
    """

    def __init__(
        self,
        scenario: Scenario | ScenarioMix,
        num_envs: int,
        num_workers: int,
        *,
        step_timeout_s: float = 120.0,
        start_timeout_s: float = 300.0,
    ) -> None:
        """Start the workers and wait until all have opened the world.

        Args:
            scenario: The scenario, or several to swap between episodes.
            num_envs: Number of environments E.
            num_workers: Number of processes W, at most E.
            step_timeout_s: Longest time for a step or a reset.
            start_timeout_s: Longest time for all workers to start, and for the first reset, in which
                kernels may be compiled.

        Raises:
            SpecMismatchError: There is not at least one environment per worker, one policy could not
                drive all scenarios of a mix, or only one process can know what the world looks like.
            ScenarioError: As :func:`bridge.registry.open_world`.
            MissingExtraError: As :func:`bridge.registry.open_world`.
            WorkerDiedError: A worker ended or raised while starting.
            WorkerTimeoutError: A worker did not start in time.
        """
        if not 1 <= num_workers <= num_envs:
            raise SpecMismatchError(
                f"AsyncVectorEnv: expected 1 <= num_workers <= num_envs, got num_workers={num_workers} and "
                f"num_envs={num_envs}. Lower num_workers."
            )
        self._scenario = scenario
        world = open_scenarios(scenario)
        if isinstance(world, AskedOnce):
            world.require_described()
        self._spec = world.spec
        self._num_envs = num_envs
        self._step_timeout_s = step_timeout_s
        shapes = array_shapes(self._spec, num_envs)
        blocks = SharedBlocks.create(shapes)
        self._arrays = RosterArrays.from_blocks(self._spec, blocks.arrays)
        self._workers: list[WorkerHandle] = []
        self._finalizer = weakref.finalize(self, stop_workers, self._workers)
        self._state = VectorState.FAILED  # unless what follows succeeds
        try:
            borders = np.linspace(0, num_envs, num_workers + 1).astype(int).tolist()
            digest = spec_digest(self._spec)
            tasks = [WorkerTask.of(scenario, num_envs, start, stop, digest) for start, stop in pairwise(borders)]
            start_workers(tasks, blocks.descriptor, self._workers)
            self._await("start", start_timeout_s)
            self._reset_timeout_s = max(start_timeout_s, step_timeout_s)
        except BaseException:
            stop_workers(self._workers, politely=False)
            raise
        finally:
            blocks.close()  # the arrays keep the memory
        self._state = VectorState.NEW

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        return self._spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill; still readable after :meth:`close`."""
        return self._arrays

    @property
    def num_envs(self) -> int:
        """Number of environments E."""
        return self._num_envs

    @property
    def state(self) -> VectorState:
        """Which calls are allowed now."""
        return self._state

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers, for monitoring."""
        return tuple(worker.process.pid or 0 for worker in self._workers)

    def reset(self, seed: int | None = None, env_mask: NDArray[np.bool_] | None = None) -> None:
        """See :meth:`bridge.roster.Roster.reset`."""
        require_resettable("AsyncVectorEnv.reset", self._state, seed, env_mask)
        mask = np.ones(self._num_envs, np.bool_) if env_mask is None else np.asarray(env_mask, np.bool_)
        with self._failing():
            for worker in self._workers:
                part = None if env_mask is None else mask[worker.start : worker.stop].tolist()
                order = {"seed": None if seed is None else int(seed), "env_mask": part}
                self._send(worker, RESET + json.dumps(order).encode(), "reset")
            self._await("reset", self._reset_timeout_s)
        self._reset_timeout_s = self._step_timeout_s
        self._state = VectorState.READY

    def step_async(self) -> None:
        """Let the workers start a step with the actions in the arrays."""
        require_state("AsyncVectorEnv.step_async", self._state, (VectorState.READY,), "Call reset first.")
        with self._failing():
            for worker in self._workers:
                self._send(worker, STEP, "step")
        self._state = VectorState.STEPPING

    def step_wait(self) -> None:
        """Wait for the step that was started; afterwards the arrays hold its outcome."""
        require_state("AsyncVectorEnv.step_wait", self._state, (VectorState.STEPPING,), "Call step_async first.")
        with self._failing():
            self._await("step", self._step_timeout_s)
        self._state = VectorState.READY

    def step(self) -> None:
        """``step_async`` and ``step_wait``."""
        self.step_async()
        self.step_wait()

    def set_scenario_weights(self, weights: Sequence[float]) -> None:
        """See :meth:`bridge.vector.VectorEnv.set_scenario_weights`."""
        require_mix("AsyncVectorEnv.set_scenario_weights", self._state, self._scenario, weights)
        order = WEIGHTS + json.dumps([float(weight) for weight in weights]).encode()
        with self._failing():
            for worker in self._workers:
                self._send(worker, order, "set_scenario_weights")
            self._await("set_scenario_weights", self._step_timeout_s)

    def close(self) -> None:
        """Stop the workers and wait for their end; may be called twice, and after a failure."""
        self._state = VectorState.CLOSED
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever interrupts the body leaves the workers stopped and the state FAILED."""
        try:
            yield
        except BaseException:
            self._state = VectorState.FAILED
            stop_workers(self._workers, politely=False)
            raise

    def _send(self, worker: WorkerHandle, message: bytes, command: str) -> None:
        try:
            worker.connection.send_bytes(message)
        except (BrokenPipeError, ConnectionResetError):
            self._raise_for(worker, command)

    def _await(self, command: str, timeout_s: float) -> None:
        """Collect one answer of every worker."""
        deadline = time.monotonic() + timeout_s
        pending = {worker.connection: worker for worker in self._workers}
        while pending:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                late = next(iter(pending.values()))
                raise WorkerTimeoutError(
                    f"AsyncVectorEnv.{command}: expected an answer of {late} within {timeout_s:g} s, got none "
                    f"from {len(pending)} of {len(self._workers)} workers. Raise the timeout if the world is that slow."
                )
            # A worker's death closes its end of the pipe, which makes it ready.
            ready = wait(list(pending), min(left_s, _LIVENESS_S))
            for connection in ready:
                assert isinstance(connection, Connection)
                self._receive(pending.pop(connection), command)
            for worker in [] if ready else pending.values():
                if not worker.process.is_alive():  # and something else holds its pipe open
                    self._raise_for(worker, command)

    def _receive(self, worker: WorkerHandle, command: str) -> None:
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, ConnectionResetError):
            self._raise_for(worker, command)
        if message[:1] == FAILED:
            _raise_report(worker, command, message[1:])

    def _raise_for(self, worker: WorkerHandle, command: str) -> NoReturn:
        """Raise for a worker that has gone."""
        with suppress(EOFError, ConnectionResetError):  # unless it left without a word
            if worker.connection.poll():
                message = worker.connection.recv_bytes()
                if message[:1] == FAILED:
                    _raise_report(worker, command, message[1:])
        worker.process.join(_LIVENESS_S)
        code = worker.process.exitcode
        ended = "closed its pipe" if code is None else f"died with exit code {code}"
        raise WorkerDiedError(f"AsyncVectorEnv.{command}: {worker} {ended} during {command!r}. {_hint(code, command)}")


def _raise_report(worker: WorkerHandle, command: str, payload: bytes) -> NoReturn:
    """Raise what a worker reported: an error of this package as itself, any other as WorkerDiedError."""
    report = json.loads(payload)
    kind = getattr(errors, report["type"], None)
    if isinstance(kind, type) and issubclass(kind, AgvBridgeError):
        error = kind(f"{report['message']} ({worker} during {command!r})")
        error.add_note(f"The worker's traceback:\n{report['traceback']}")
        raise error
    raise WorkerDiedError(
        f"AsyncVectorEnv.{command}: {worker} raised {report['type']} during {command!r}: {report['message']}\n"
        f"The worker's traceback:\n{report['traceback']}"
    )


def _hint(code: int | None, command: str) -> str:
    if code == -signal.SIGKILL:
        return "It was killed, most likely for memory: lower num_envs."
    if command == "start":
        return "Look at its output above; a script that makes an AsyncVectorEnv needs `if __name__ == '__main__':`."
    return "Look at its output above."
