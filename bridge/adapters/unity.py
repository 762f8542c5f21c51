"""Unity players as worlds: real builds, and the headless player.

The world of a build is what the player announces; that of the headless player
is the warehouse scenario that it runs, which also names the blocks of the
observation. Players are started when a roster is made; gRPC and ``mlagents_envs``
are imported only then.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pettingzoo import ParallelEnv
from pydantic import BaseModel, ConfigDict, Field, model_validator

from bridge.errors import ScenarioError, SpecMismatchError, UnityPlayerDiedError
from bridge.parallel_env import RosterParallelEnv
from bridge.policy import PolicyFactory
from bridge.registry import open_world
from bridge.roster import RosterArrays
from bridge.scenario import Scenario, load_scenario, resolve_inside
from bridge.specs import WorldSpec
from bridge.unity.player_process import resolve_player

if TYPE_CHECKING:
    from bridge.unity.launch import PlayerCommand
    from bridge.unity.roster import UnityRoster
    from bridge.unity.session import SessionOptions

__all__ = ["HEADLESS", "UnityConfig", "UnityWorld", "headless_twin"]

HEADLESS = "headless"


class UnityConfig(BaseModel):
    """The ``unity:`` section of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    player: str = Field(
        HEADLESS,
        min_length=1,
        description="Path of a Unity build, relative to the scenario's folder and inside it, with or without the "
        "suffix of the platform; or 'headless', the built-in simulator behind Unity's protocol.",
    )
    scenario: str | None = Field(
        None,
        description="Warehouse scenario beside this one. The headless player runs it; with a build, it names the "
        "blocks of the observation and gives the slots.",
    )
    slots: dict[str, Annotated[int, Field(ge=1, le=10_000)]] = Field(
        default_factory=dict,
        description="Builds only: agents of each role that live at once in an area; by default as many as ask for a "
        "decision at first.",
    )
    time_scale: float = Field(20.0, ge=1, le=100, description="Factor on the speed of Unity's clock.")
    no_graphics: bool = Field(True, description="Start the player without a window.")
    timeout_s: float = Field(
        60.0, ge=1, le=3600, description="Longest wait for the player to connect, and for each answer, in s."
    )
    seed: int = Field(0, ge=0, lt=1 << 31, description="Seed of Unity's own random numbers.")
    arguments: tuple[str, ...] = Field((), description="Further command-line arguments of the player.")

    @model_validator(mode="after")
    def _parts_fit_player(self) -> Self:
        if self.player == HEADLESS and self.scenario is None:
            raise ValueError("expected a scenario with player 'headless', got none. Add the key 'scenario'.")
        if self.player == HEADLESS and self.slots:
            raise ValueError("expected no slots with player 'headless', got some. Its scenario's fleet gives them.")
        return self


def headless_twin(scenario: Scenario) -> Scenario:
    """The same world behind the ML-Agents protocol, played by the headless player."""
    config = UnityConfig(scenario=scenario.path.name)
    return replace(scenario, name=f"{scenario.name}_unity", world="unity", config=config)


class UnityWorld:
    """One player's scene.

    Args:
        config: The section.
        folder: Folder of the scenario file.

    Raises:
        ScenarioError: The player or the scenario is not there, or lies outside the folder.
    """

    def __init__(self, config: UnityConfig, folder: Path) -> None:
        self._config = config
        self._scenario = _inner_scenario(config, folder)
        self._prefix = self._command_prefix(folder)
        self._spec: WorldSpec | None = None
        if self._scenario is not None:
            # A player sends no global state.
            self._spec = replace(open_world(self._scenario).spec, state_size=0)

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like; without a scenario, a player is started once to ask it.

        Raises:
            UnityPlayerDiedError: The player cannot be started, or ended before it told.
            UnityTimeoutError: It did not connect or answer in time.
            UnityProtocolError: It broke the protocol.
        """
        if self._spec is None:
            from bridge.unity.probe import announced_spec

            self._spec = announced_spec(self._command(0), self._session(0, 1), self._config.slots)
        return self._spec

    def roster(self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None) -> UnityRoster:
        """One player with ``num_envs`` training areas; see :meth:`bridge.registry.World.roster`."""
        from bridge.unity.link import LinkOptions
        from bridge.unity.roster import RosterOptions, UnityRoster

        options = RosterOptions(
            link=LinkOptions(time_scale=self._config.time_scale),
            # The headless player reports the figures of its world, if that has any.
            reports_episodes=self._config.player == HEADLESS and bool(self.spec.metrics),
            first_env=first_env,
        )
        session = self._session(first_env, num_envs)
        return UnityRoster(self._command(first_env), self.spec, session, options, arrays)

    @property
    def planners(self) -> dict[str, PolicyFactory]:
        """None; see :attr:`bridge.registry.World.planners`."""
        return {}

    def parallel_env(self, render_mode: str | None = None) -> ParallelEnv[str, Any, Any]:
        """One area behind PettingZoo's parallel API."""
        if render_mode is not None:
            raise SpecMismatchError(
                f"UnityWorld.parallel_env: expected render_mode None, got {render_mode!r}. "
                "A player draws its own window: set no_graphics to false."
            )
        name = "unity_" + (HEADLESS if self._config.player == HEADLESS else Path(self._config.player).stem)
        return RosterParallelEnv(self.roster(1), name=name)

    def _command_prefix(self, folder: Path) -> tuple[str, ...]:
        if self._config.player != HEADLESS:
            return (str(_build_inside(folder, self._config.player)),)
        assert self._scenario is not None
        # -P: the folder that training happens to run in must not shadow the installed package.
        return (sys.executable, "-P", "-m", "bridge.unity.player", "--scenario", str(self._scenario.path))

    def _command(self, first_env: int) -> PlayerCommand:
        from bridge.unity.launch import PlayerCommand

        own = ("--first-env", str(first_env)) if self._config.player == HEADLESS else ()
        return PlayerCommand(
            prefix=self._prefix,
            no_graphics=self._config.no_graphics,
            additional=(*own, *self._config.arguments),
            worker_id=first_env,
        )

    def _session(self, first_env: int, num_areas: int) -> SessionOptions:
        from bridge.unity.session import SessionOptions

        seed = (self._config.seed + first_env) % (1 << 31)
        return SessionOptions(seed=seed, num_areas=num_areas, timeout_s=self._config.timeout_s)


def _inner_scenario(config: UnityConfig, folder: Path) -> Scenario | None:
    if config.scenario is None:
        return None
    scenario = load_scenario(resolve_inside(folder, config.scenario, "unity.scenario"))
    if scenario.world == "unity":
        raise ScenarioError(
            f"unity.scenario: expected a scenario of another kind of world, got {config.scenario!r} "
            "with world 'unity'. Name the warehouse that the player runs."
        )
    return scenario


def _build_inside(folder: Path, player: str) -> Path:
    path = folder / player
    if Path(player).is_absolute() or not path.resolve().is_relative_to(folder.resolve()):
        raise ScenarioError(
            f"unity.player: expected a path inside the scenario's folder, got {player!r}. "
            "Put the build beside the scenario."
        )
    try:
        return resolve_player(path)
    except UnityPlayerDiedError as error:
        raise ScenarioError(f"unity.player: {error}") from error
