"""Failures on request: how a player can go wrong, for tests of the side that has to cope with it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Literal, get_args

from bridge.errors import AgvBridgeError
from bridge.unity.messages import STATUS_OK, ListAgentInfo
from bridge.unity.player.communicator import Communicator
from bridge.unity.player.envelope import Envelope, EnvelopeHeader, EnvelopeOutput
from bridge.unity.player.log import PlayerLog

__all__ = ["CRASH_EXIT_CODE", "HANG_LIMIT_S", "MALFORMED_EXIT_CODE", "Fault", "FaultKind", "parse_fault", "play_fault"]

FaultKind = Literal["crash", "exit", "hang", "quit", "slow", "vanish", "garbage", "cut", "shape"]

CRASH_EXIT_CODE = 3
"""Exit code of a played crash, unless another one is asked for."""

MALFORMED_EXIT_CODE = 1
"""Exit code of a player whose malformed message has been answered, in whatever way."""

HANG_LIMIT_S = 600.0
"""A player that hangs or has vanished ends by itself after this time, so that no test leaves one behind for good."""

_DEFAULT_DELAY_S = 1.0
_GARBAGE = bytes(range(255, 191, -1))
_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)


@dataclass(frozen=True)
class Fault:
    """One failure.

    Attributes:
        kind: ``crash``: a traceback in the log, then the process ends without goodbye; ``exit``: the same
            without a word in the log; ``hang``: the player stops answering; ``quit``: it says goodbye
            and ends as if its window had been closed; ``slow``: it makes the exchange, but late;
            ``vanish``: it closes its connection without goodbye, and goes on living; ``garbage``: it
            sends bytes that are no message; ``cut``: a message without its second half; ``shape``: a
            message whose observations have fewer values than their shape says.
        step: Number of the exchange, from 0.
        exit_code: Exit code of ``crash`` and ``exit``.
        delay_s: Lateness of ``slow``.
    """

    kind: FaultKind
    step: int
    exit_code: int = CRASH_EXIT_CODE
    delay_s: float = _DEFAULT_DELAY_S


def parse_fault(text: str) -> Fault:
    """Read ``KIND@STEP``, ``KIND@STEP:EXIT_CODE``, or ``slow@STEP:MILLISECONDS``.

    Raises:
        AgvBridgeError: The text has another form.
    """
    match = re.fullmatch(r"([a-z]+)@([0-9]{1,9})(?::([0-9]{1,6}))?", text)
    for kind in _KINDS:
        if match is not None and match[1] == kind:
            step = int(match[2])
            if match[3] is None:
                return Fault(kind, step)
            if kind == "slow":
                return Fault(kind, step, delay_s=int(match[3]) / 1000)
            if kind in ("crash", "exit") and int(match[3]) <= 255:
                return Fault(kind, step, exit_code=int(match[3]))
    raise AgvBridgeError(
        f"player: --fault: expected KIND@STEP, crash@STEP:EXIT_CODE, exit@STEP:EXIT_CODE or slow@STEP:MILLISECONDS "
        f"with KIND one of {', '.join(_KINDS)}, got {text!r}."
    )


def play_fault(fault: Fault, output: Any, communicator: Communicator, log: PlayerLog) -> int | None:
    """Go wrong in place of an exchange, or before it.

    Args:
        fault: What to play.
        output: The ``UnityRLOutputProto`` that was to be sent, an envelope's; ``shape`` damages it.
        communicator: The player's end of the wire.
        log: Where it is reported.

    Returns:
        The exit code of the player; None if it makes the exchange.
    """
    if fault.kind == "crash":
        log.exception(RuntimeError(f"crash on request at exchange {fault.step}"))
    if fault.kind in ("crash", "exit"):
        return fault.exit_code
    log.write(f"Fault on request at exchange {fault.step}: {fault.kind}")
    match fault.kind:
        case "slow":
            time.sleep(fault.delay_s)
            return None
        case "shape":
            _shorten_observations(output)
            return None
        case "quit":
            communicator.say_goodbye()
            return 0
        case "garbage":
            communicator.send_bytes(_GARBAGE)
            return MALFORMED_EXIT_CODE
        case "cut":
            message = Envelope(header=EnvelopeHeader(status=STATUS_OK), unity_output=EnvelopeOutput(rl_output=output))
            data = message.SerializeToString()
            communicator.send_bytes(data[: len(data) // 2])
            return MALFORMED_EXIT_CODE
        case "vanish":
            communicator.close()
    time.sleep(HANG_LIMIT_S)  # hang and vanish
    return fault.exit_code


def _shorten_observations(output: Any) -> None:
    for behavior, data in list(output.agentInfos.items()):
        agents = ListAgentInfo.FromString(data)
        for info in agents.value:
            for observation in info.observations:
                if observation.HasField("float_data"):
                    del observation.float_data.data[-1:]
        output.agentInfos[behavior] = agents.SerializeToString()
