"""The player's command line, read the way a Unity build reads its own.

Unknown arguments are no error: trainers and scripts pass a build options of
Unity and of the scene that the player need not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bridge.errors import AgvBridgeError
from bridge.unity.messages import API_VERSION
from bridge.unity.player.faults import Fault, parse_fault

__all__ = ["PACKAGE_VERSION", "PlayerOptions", "parse_options"]

PACKAGE_VERSION = "3.0.0"
"""Version of the C# package whose behaviour the player follows."""

_FLAGS = ("-nographics", "-batchmode")


@dataclass(frozen=True)
class PlayerOptions:
    """How a player runs.

    Attributes:
        scenario: Scenario file, or the name of a shipped one.
        port: Port of the trainer on this machine, or None.
        log_file: File that the log goes to; None or ``-`` means standard output.
        num_areas: Number of training areas; None leaves it to the trainer, as a scene with a replicator does.
        first_env: Index of the first area among all environments of the run; keys the random streams.
        decision_period: Simulation steps between two decisions; the last action is repeated in between.
        act_after_reset: Whether robots still carry out one (zero or old) action in the step in which a
            RESET arrives. The C# package calls ``OnActionReceived`` there; scenes that guard against
            it are the default here.
        package_version: Version of the C# package to announce.
        communication_version: Version of the protocol to announce.
        fault: Failure to play, or None.
        ignored: Arguments that mean nothing to the player.
    """

    scenario: str | Path
    port: int | None = None
    log_file: str | None = None
    num_areas: int | None = None
    first_env: int = 0
    decision_period: int = 1
    act_after_reset: bool = False
    package_version: str = PACKAGE_VERSION
    communication_version: str = API_VERSION
    fault: Fault | None = None
    ignored: tuple[str, ...] = ()


def parse_options(arguments: Sequence[str]) -> PlayerOptions:
    """Read a command line; of a repeated option the last one counts.

    Raises:
        AgvBridgeError: No scenario, or a value that the player cannot use. A missing or unreadable
            port is no error here: a Unity build starts without one too.
    """
    values, switches, ignored = _split(arguments)
    scenario = values.get("--scenario")
    if scenario is None:
        raise AgvBridgeError("player: expected --scenario FILE, got none. Name a scenario file or a shipped scenario.")
    fault = values.get("--fault")
    return PlayerOptions(
        scenario=scenario,
        port=_port(values.get("--mlagents-port")),
        log_file=values.get("-logfile"),
        num_areas=_at_least(1, values, "--num-areas"),
        first_env=_at_least(0, values, "--first-env") or 0,
        decision_period=_at_least(1, values, "--decision-period") or 1,
        act_after_reset="--act-after-reset" in switches,
        package_version=values.get("--package-version", PACKAGE_VERSION),
        communication_version=values.get("--communication-version", API_VERSION),
        fault=None if fault is None else parse_fault(fault),
        ignored=tuple(ignored),
    )


_WITH_VALUE = (
    "--scenario",
    "--mlagents-port",
    "-logfile",
    "--num-areas",
    "--first-env",
    "--decision-period",
    "--package-version",
    "--communication-version",
    "--fault",
)


def _split(arguments: Sequence[str]) -> tuple[dict[str, str], set[str], list[str]]:
    """Options with a value, switches, and everything else; Unity's own options are not case-sensitive."""
    values: dict[str, str] = {}
    switches: set[str] = set()
    ignored: list[str] = []
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        name, separator, value = argument.partition("=")
        if not name.startswith("--"):
            name = name.lower()
        if name in _WITH_VALUE and separator:
            values[name] = value
        elif name in _WITH_VALUE and remaining:
            values[name] = remaining.pop(0)
        elif argument == "--act-after-reset":
            switches.add(argument)
        elif name not in _FLAGS:
            ignored.append(argument)
    return values, switches, ignored


def _port(text: str | None) -> int | None:
    if text is None or not text.isdecimal():
        return None
    port = int(text)
    return port if 0 < port < 65536 else None


def _at_least(smallest: int, values: dict[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < smallest:
        raise AgvBridgeError(f"player: {name}: expected an integer >= {smallest}, got {text!r}.")
    return int(text)
