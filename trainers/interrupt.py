"""Ctrl-C and SIGTERM as a wish that the training loop fulfils at the next safe place."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["StopRequest"]


class StopRequest:
    """While entered, the first SIGINT or SIGTERM sets a flag; a second SIGINT raises KeyboardInterrupt at once.

    Outside of the main thread signals cannot be caught; there only :meth:`request` sets the flag.
    """

    def __init__(self) -> None:
        self._requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        """True once training should stop."""
        return self._requested

    def request(self) -> None:
        """Ask training to stop."""
        self._requested = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._requested = True
