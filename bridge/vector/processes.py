"""Starting and stopping the worker processes of a vector environment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import send_handle
from typing import NamedTuple

from bridge.vector.worker import QUIT, WorkerTask, run_worker

__all__ = ["WorkerHandle", "start_workers", "stop_workers"]

_GRACE_S = 3.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class WorkerHandle(NamedTuple):
    """A worker as its parent sees it; it runs the environments ``start`` to ``stop - 1``."""

    number: int
    start: int
    stop: int
    process: SpawnProcess
    connection: Connection

    def __str__(self) -> str:
        last = self.stop - 1
        envs = f"env {last}" if last == self.start else f"envs {self.start}-{last}"
        return f"worker {self.number} ({envs})"


def start_workers(tasks: list[WorkerTask], descriptor: int, workers: list[WorkerHandle]) -> None:
    """Start one process per task; returns before they are ready.

    Args:
        tasks: The workers' shares.
        descriptor: File descriptor of the shared block.
        workers: Where to append each worker as soon as it runs, so that it is known even if the next one fails.
    """
    context = get_context("spawn")
    with _worker_surroundings():
        for number, task in enumerate(tasks):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=run_worker, args=(task, theirs), name=f"agv-bridge-worker-{number}", daemon=True
            )
            process.start()
            theirs.close()
            workers.append(WorkerHandle(number, task.start, task.stop, process, ours))
            assert process.pid is not None
            with suppress(BrokenPipeError, ConnectionResetError):  # it has died; waiting for its answer will tell
                send_handle(ours, descriptor, process.pid)


def stop_workers(workers: list[WorkerHandle], politely: bool = True) -> None:
    """End every worker and empty the list; leaves no process behind.

    Args:
        workers: The workers; those that have ended already are fine.
        politely: Let them finish their command first, for a few seconds.
    """
    for worker in workers:
        if politely:
            with suppress(OSError):  # it has left already
                worker.connection.send_bytes(QUIT)
        worker.connection.close()
    insistence: list[Callable[[SpawnProcess], None]] = [SpawnProcess.terminate, SpawnProcess.kill]
    if politely:
        _join(workers)
    for insist in insistence:
        for worker in workers:
            if worker.process.is_alive():
                insist(worker.process)
        _join(workers)
    for worker in workers:
        if worker.process.exitcode is not None:
            worker.process.close()
    workers.clear()


def _join(workers: list[WorkerHandle]) -> None:
    deadline = time.monotonic() + _GRACE_S
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))


@contextmanager
def _worker_surroundings() -> Iterator[None]:
    """What workers inherit: one thread for numerics, and Ctrl-C blocked from their first instruction on.

    Both are put back for this process afterwards.
    """
    resource_tracker.ensure_running()  # starting it unblocks SIGINT, so that comes first
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
