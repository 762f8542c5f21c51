"""Which kinds of world there are.

Adding a world is one adapter module and one line here. An adapter module
defines its configuration model and a :class:`World`; it is imported only when
a scenario of its kind is read, and must not import the world's own heavy
packages before the world is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from pettingzoo import ParallelEnv
from pydantic import BaseModel

from bridge.errors import MissingExtraError, ScenarioError
from bridge.policy import PolicyFactory
from bridge.roster import Roster, RosterArrays
from bridge.specs import WorldSpec

if TYPE_CHECKING:
    from bridge.scenario import Scenario

__all__ = ["AskedOnce", "World", "WorldKind", "open_world", "world_kind", "world_kinds"]


class WorldKind(NamedTuple):
    """Where the adapter of one kind of world is, and what it needs."""

    name: str
    module: str
    config: str
    world: str
    extra: str | None = None

    def config_model(self) -> type[BaseModel]:
        """The pydantic model of the scenario section named after the kind."""
        model: type[BaseModel] = getattr(import_module(self.module), self.config)
        return model


_KINDS = {
    kind.name: kind
    for kind in (
        WorldKind("warehouse", "bridge.adapters.warehouse", "WarehouseConfig", "WarehouseWorld"),
        WorldKind("unity", "bridge.adapters.unity", "UnityConfig", "UnityWorld"),
        WorldKind("mamujoco", "bridge.adapters.mamujoco", "MamujocoConfig", "MamujocoWorld", extra="mamujoco"),
        WorldKind("mpe", "bridge.adapters.mpe", "MpeConfig", "MpeWorld", extra="mpe"),
        WorldKind("pettingzoo", "bridge.adapters.pettingzoo", "PettingZooConfig", "PettingZooWorld"),
    )
}


class World(Protocol):
    """One scenario, ready to be stepped. Made by ``World(config, folder)``."""

    def __init__(self, config: Any, folder: Path) -> None:
        """Check everything that needs more than the schema; ``folder`` holds the scenario file.

        Raises:
            ScenarioError: The section is well-formed but makes no world.
            MissingExtraError: The world's packages are not installed.
        """
        ...

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like; for a Unity player this may start one for a moment."""
        ...

    def roster(self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None) -> Roster:
        """``num_envs`` environments stepped together.

        Args:
            num_envs: Number of environments E.
            first_env: Index of the first one among all environments of the run; keys its random streams.
            arrays: Where to write, (E, ...) as in :func:`bridge.roster.array_shapes`; allocated if None.
        """
        ...

    @property
    def planners(self) -> Mapping[str, PolicyFactory]:
        """What would drive this world without learning, by name; empty where there is nothing."""
        ...

    def parallel_env(self, render_mode: str | None = None) -> ParallelEnv[str, Any, Any]:
        """One environment behind PettingZoo's parallel API."""
        ...


@runtime_checkable
class AskedOnce(Protocol):
    """A world that may be there only once, so that only one process can ask it what it looks like."""

    def require_described(self) -> None:
        """Raise unless other processes can open the world, too, without asking it.

        Raises:
            SpecMismatchError: Says what describes it.
        """
        ...


def world_kinds() -> tuple[WorldKind, ...]:
    """Every kind of world, in a fixed order."""
    return tuple(_KINDS.values())


def world_kind(name: str) -> WorldKind:
    """The kind of this name.

    Raises:
        KeyError: There is no such kind.
    """
    return _KINDS[name]


def open_world(scenario: Scenario) -> World:
    """The world of a scenario.

    Raises:
        ScenarioError: The scenario is well-formed but makes no world.
        MissingExtraError: The packages of this kind of world are not installed; names the extra.
    """
    kind = _KINDS[scenario.world]
    try:
        world: World = getattr(import_module(kind.module), kind.world)(scenario.config, scenario.folder)
    except ScenarioError as error:
        # A world knows its section, not the file that it stands in.
        raise ScenarioError("\n".join(f"{scenario.path}: {line}" for line in str(error).splitlines())) from error
    except ModuleNotFoundError as error:
        if kind.extra is None:
            raise
        raise MissingExtraError(
            f"world {kind.name!r}: expected the package {error.name!r} to be installed, got none. "
            f"Run: pip install 'agv-bridge[{kind.extra}]'"
        ) from error
    return world
