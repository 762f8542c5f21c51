"""The player's command line, read the way a Unity build reads its own.

Unknown arguments are no error: trainers and scripts pass a build options of
Unity and of the scene that the player need not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from uuid import UUID

from bridge.errors import AgvBridgeError
from bridge.unity.messages import API_VERSION
from bridge.unity.player.camera_options import CameraOptions, parse_cameras
from bridge.unity.player.faults import Fault, parse_fault

__all__ = ["OPTION_NAMES", "PACKAGE_VERSION", "USAGE", "PlayerOptions", "parse_options", "without_options"]

PACKAGE_VERSION = "3.0.0"
"""Version of the C# package whose behaviour the player follows."""

USAGE = """\
usage: agv-bridge player --scenario FILE --mlagents-port PORT [OPTION ...]

The built-in simulator behind the ML-Agents protocol, started like a Unity build.

  --scenario FILE           scenario file, or name of a shipped scenario
  --mlagents-port PORT      port of the trainer on this machine
  --write-build PATH        write a file that trainers start as a Unity build, and end
  -logFile FILE             where the log goes; standard output by default
  --num-areas N             training areas; as many as the trainer wants by default
  --first-env N             index of the first area among all environments of a run
  --decision-period N       steps between two decisions, of all roles or with ROLE=N,... of some
  --on-demand               robots ask only when there is something to decide
  --act-after-reset         robots act once more in the step of a reset
  --despawn-as KIND         disable (default) or end-episode, when a robot leaves the floor
  --late ROLE@STEP,...      roles that appear later
  --group-reward SHARE      share of the reward that goes to the team, 0 to 1
  --visual WxH[:png|raw][:grey][:xN],...        pictures of the floor around each robot
  --buffer-neighbours N     the nearest robots as a buffer sensor
  --goal-signal BLOCK       a block of the observation once more, as a goal signal
  --announce roster,state   who is who, and the global state, on side channels of agv-bridge
  --echo UUID               send the messages of a side channel back
  --package-version V       version of the C# package to announce
  --communication-version V version of the protocol to announce
  --fault KIND@EXCHANGE     go wrong on purpose

docs/headless_player.md explains each option. Unknown arguments are ignored, as a build does.
"""

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
        role_periods: The same for single roles.
        on_demand: Robots ask when there is something to decide instead; see :mod:`bridge.unity.player.requests`.
        group_reward: Share of each robot's reward that goes to its team instead, in [0, 1].
        despawn_as: How a robot that leaves the floor ends: ``disable`` gives it a new id when it comes
            back, ``end-episode`` leaves it its id.
        late: First simulation step, counted from the start, in which a role's agents are there.
        cameras: Pictures of the floor around each robot, as further sensors.
        buffer_neighbours: Number of robots in a buffer sensor of the nearest robots; 0 for no such sensor.
        goal_signal: Observation block that is sent once more as a goal signal, or None.
        announce: ``roster``: which robot each agent is; ``state``: the global state of each area; sent on
            the side channels of these names, which trainers other than agv-bridge do not know.
        echo: Side channel whose messages are sent back as they came, or None.
        act_after_reset: Whether robots still carry out one (zero or old) action in the step in which a
            RESET arrives. The C# package calls ``OnActionReceived`` there; scenes that guard against
            it are the default here.
        package_version: Version of the C# package to announce.
        communication_version: Version of the protocol to announce.
        fault: Failure to play, or None.
        write_build: Write a build to this path instead of playing, or None.
        ignored: Arguments that mean nothing to the player.
    """

    scenario: str | Path
    port: int | None = None
    log_file: str | None = None
    num_areas: int | None = None
    first_env: int = 0
    decision_period: int = 1
    role_periods: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    on_demand: bool = False
    group_reward: float = 0.0
    despawn_as: Literal["disable", "end-episode"] = "disable"
    late: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    cameras: tuple[CameraOptions, ...] = ()
    buffer_neighbours: int = 0
    goal_signal: str | None = None
    announce: frozenset[str] = frozenset()
    echo: UUID | None = None
    act_after_reset: bool = False
    package_version: str = PACKAGE_VERSION
    communication_version: str = API_VERSION
    fault: Fault | None = None
    write_build: str | None = None
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
    if "--on-demand" in switches and "--decision-period" in values:
        raise AgvBridgeError(
            f"player: --on-demand: expected no --decision-period beside it, got {values['--decision-period']!r}. "
            "Give one of the two."
        )
    period, role_periods = _periods(values.get("--decision-period", "1"))
    fault = values.get("--fault")
    return PlayerOptions(
        scenario=scenario,
        port=_port(values.get("--mlagents-port")),
        log_file=values.get("-logfile"),
        num_areas=_at_least(1, values, "--num-areas"),
        first_env=_at_least(0, values, "--first-env") or 0,
        decision_period=period,
        role_periods=role_periods,
        on_demand="--on-demand" in switches,
        group_reward=_share(values.get("--group-reward", "0")),
        despawn_as=_despawn(values.get("--despawn-as", "disable")),
        late=_late(values.get("--late")),
        cameras=parse_cameras(values["--visual"]) if "--visual" in values else (),
        buffer_neighbours=_at_least(1, values, "--buffer-neighbours") or 0,
        goal_signal=values.get("--goal-signal"),
        announce=_announced(values.get("--announce")),
        echo=_channel(values.get("--echo")),
        act_after_reset="--act-after-reset" in switches,
        package_version=values.get("--package-version", PACKAGE_VERSION),
        communication_version=values.get("--communication-version", API_VERSION),
        fault=None if fault is None else parse_fault(fault),
        write_build=values.get("--write-build"),
        ignored=tuple(ignored),
    )


_WITH_VALUE = (
    "--scenario",
    "--mlagents-port",
    "-logfile",
    "--num-areas",
    "--first-env",
    "--decision-period",
    "--group-reward",
    "--despawn-as",
    "--late",
    "--visual",
    "--buffer-neighbours",
    "--goal-signal",
    "--announce",
    "--echo",
    "--package-version",
    "--communication-version",
    "--fault",
    "--write-build",
)
_SWITCHES = ("--act-after-reset", "--on-demand")

OPTION_NAMES = (*_WITH_VALUE, *_SWITCHES)
"""Every option but those of Unity that a player has no use for."""


def without_options(arguments: Sequence[str], *names: str) -> list[str]:
    """A command line less some options that have a value."""
    kept: list[str] = []
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        name, separator, _ = argument.partition("=")
        if name not in names:
            kept.append(argument)
        elif not separator and remaining:
            remaining.pop(0)
    return kept


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
        elif argument in _SWITCHES:
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
    if not _is_integer(text) or int(text) < smallest:
        raise _refused(name, f"an integer >= {smallest}", text)
    return int(text)


def _periods(text: str) -> tuple[int, Mapping[str, int]]:
    """``4``, ``carrier=2,tugger=5``, or ``4,tugger=5``: the period of all roles, and those of single ones."""
    default, roles = 1, {}
    for part in text.split(","):
        role, separator, steps = part.rpartition("=")
        if not _is_integer(steps) or int(steps) < 1 or (separator and not role):
            raise _refused("--decision-period", "an integer >= 1 or a list of ROLE=INTEGER", text)
        if separator:
            roles[role] = int(steps)
        else:
            default = int(steps)
    return default, MappingProxyType(roles)


def _late(text: str | None) -> Mapping[str, int]:
    """``carrier@5,tugger@9``."""
    late = {}
    for part in text.split(",") if text is not None else ():
        role, _, step = part.rpartition("@")
        if not role or not _is_integer(step):
            raise _refused("--late", "a list of ROLE@STEP", text)
        late[role] = int(step)
    return MappingProxyType(late)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise _refused("--group-reward", "a number from 0 to 1", text)
    return share


def _despawn(text: str) -> Literal["disable", "end-episode"]:
    if text == "disable":
        return "disable"
    if text == "end-episode":
        return "end-episode"
    raise _refused("--despawn-as", "'disable' or 'end-episode'", text)


def _announced(text: str | None) -> frozenset[str]:
    names = frozenset(text.split(",") if text is not None else ())
    if not names <= {"roster", "state"}:
        raise _refused("--announce", "'roster', 'state' or 'roster,state'", text)
    return names


def _channel(text: str | None) -> UUID | None:
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise _refused("--echo", "the UUID of a side channel", text) from None


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", text) is not None


def _refused(option: str, expected: str, value: str | None) -> AgvBridgeError:
    return AgvBridgeError(f"player: {option}: expected {expected}, got {value!r}.")
