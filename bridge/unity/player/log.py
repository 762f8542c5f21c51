"""The player's log, as a Unity build writes it: plain lines, to a file or to standard output."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

__all__ = ["PlayerLog"]


class PlayerLog:
    """Writes lines at once, so that the end of the file tells why a player died.

    Args:
        log_file: File to write, replacing what was there; None or ``-`` means standard output.
    """

    def __init__(self, log_file: str | None) -> None:
        self._file: TextIO | None = None
        if log_file is not None and log_file != "-":
            path = Path(log_file)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8", buffering=1)

    def write(self, line: str) -> None:
        """Write one line."""
        print(line, file=self._file or sys.stdout, flush=True)

    def exception(self, error: BaseException) -> None:
        """Write an exception with its traceback."""
        self.write("".join(traceback.format_exception(error)).rstrip())

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._file is not None and not self._file.closed:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
