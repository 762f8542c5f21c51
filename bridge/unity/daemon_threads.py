"""Threads that never keep the interpreter from ending.

The interpreter joins the threads of the standard library's pool before it runs
its exit handlers; a thread that holds a player's request open would wait there
for a reply that only an exit handler can give.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

__all__ = ["DaemonThreads"]

Result = TypeVar("Result")

_JOIN_TIMEOUT_S = 5.0


class DaemonThreads(Executor):
    """A fixed number of daemon threads.

    Args:
        count: Number of threads.
        name: Their name.
    """

    def __init__(self, count: int, name: str) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{i}", daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """See :meth:`concurrent.futures.Executor.submit`."""
        future: Future[Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  (it belongs to whoever asks the future)
                future.set_exception(error)
            else:
                future.set_result(result)

        self._tasks.put(run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads when the tasks that are queued are done; running tasks cannot be cancelled."""
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join(_JOIN_TIMEOUT_S)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
