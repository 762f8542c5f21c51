"""Failures on request: how a player can go wrong, for tests of the side that has to cope with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from bridge.errors import AgvBridgeError

__all__ = ["CRASH_EXIT_CODE", "HANG_LIMIT_S", "Fault", "FaultKind", "parse_fault"]

FaultKind = Literal["crash", "exit", "hang", "quit"]

CRASH_EXIT_CODE = 3
"""Exit code of a played crash, unless another one is asked for."""

HANG_LIMIT_S = 600.0
"""A hanging player ends by itself after this time, so that no test leaves one behind for good."""


@dataclass(frozen=True)
class Fault:
    """One failure.

    Attributes:
        kind: ``crash``: a traceback in the log, then the process ends without goodbye; ``exit``: the same
            without a word in the log; ``hang``: the player stops answering; ``quit``: it says goodbye
            and ends as if its window had been closed.
        step: Number of the exchange, from 0, that is not made.
        exit_code: Exit code of ``crash`` and ``exit``.
    """

    kind: FaultKind
    step: int
    exit_code: int = CRASH_EXIT_CODE


def parse_fault(text: str) -> Fault:
    """Read ``KIND@STEP`` or ``KIND@STEP:EXIT_CODE``.

    Raises:
        AgvBridgeError: The text has another form.
    """
    match = re.fullmatch(r"([a-z]+)@(\d{1,9})(?::(\d{1,3}))?", text)
    kinds: tuple[FaultKind, ...] = get_args(FaultKind)
    for kind in kinds:
        if match is not None and match[1] == kind:
            exit_code = CRASH_EXIT_CODE if match[3] is None else int(match[3])
            return Fault(kind, int(match[2]), exit_code)
    raise AgvBridgeError(
        f"player: --fault: expected KIND@STEP or KIND@STEP:EXIT_CODE with KIND one of {', '.join(kinds)}, got {text!r}."
    )
