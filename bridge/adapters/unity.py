"""Unity players as worlds: real builds, and the headless player.

The world of a build is what the player announces; that of the headless player
is the warehouse scenario that it runs, which also names the blocks of the
observation. Players are started when a roster is made; gRPC and ``mlagents_envs``
are imported only then.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pettingzoo import ParallelEnv

from bridge.errors import AgvBridgeError, ScenarioError, SpecMismatchError, UnityPlayerDiedError
from bridge.parallel_env import RosterParallelEnv
from bridge.policy import PolicyFactory
from bridge.registry import World, open_world
from bridge.roster import Roster, RosterArrays
from bridge.scenario import Scenario, load_scenario, resolve_inside
from bridge.specs import MetricSpec, WorldSpec
from bridge.unity.config import ATTACH, EDITOR, HEADLESS, UnityConfig
from bridge.unity.player_process import resolve_player
from bridge.unity.rewards import group_metric

if TYPE_CHECKING:
    from bridge.unity.launch import PlayerCommand
    from bridge.unity.link import LinkTerms
    from bridge.unity.players import UnityPlayers
    from bridge.unity.probe import AskedPlayer
    from bridge.unity.roster import UnityRoster
    from bridge.unity.session import SessionOptions
    from bridge.unity.swapping_players import SwappingPlayers

__all__ = ["HEADLESS", "UnityConfig", "UnityWorld", "headless_twin"]

_LOG = logging.getLogger(__name__)

_OWN_OF_EACH = frozenset({"scenario", "log_folder"})
"""Keys in which scenarios may differ that one player plays in turn."""

_NO_BUILDS = (HEADLESS, EDITOR, ATTACH)


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
        self._asked: AskedPlayer | None = None
        self._reports_episodes = False
        if self._scenario is not None:
            played = self._as_played(self._scenario)
            # The headless player reports the figures of its world, if that has any.
            self._reports_episodes = config.player == HEADLESS and len(played.metrics) > 0
            self._spec = self._with_channels(played)

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like; without a scenario, a player is asked.

        A build is started once for that. A player that somebody else starts stays connected, for the first
        roster that wants one with as many areas, for as long as this object lives.

        Raises:
            UnityPlayerDiedError: The player cannot be started, or ended before it told.
            UnityTimeoutError: It did not connect or answer in time.
            UnityProtocolError: It broke the protocol.
        """
        if self._spec is None:
            self._spec = self._ask(1 if self._config.is_launched else self._config.areas or 1)
        return self._spec

    def require_described(self) -> None:
        """Raise if only the process that asks the player can go on with it; see :class:`bridge.registry.AskedOnce`."""
        if self._scenario is None and not self._config.is_launched:
            raise SpecMismatchError(
                f"unity.scenario: expected a scenario with player {self._config.player!r} where worker processes play, "
                "got none. Name the warehouse whose observations and fleet the player has, or train with num_workers 0."
            )

    def roster(self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None) -> Roster:
        """Players with ``num_envs`` training areas together; see :meth:`bridge.registry.World.roster`.

        Raises:
            SpecMismatchError: The Editor is to play more than one player.
            UnityPlayerDiedError: A player cannot be started, or ended before it was connected.
            UnityTimeoutError: One did not connect in time.
            UnityProtocolError: One broke the protocol.
        """
        return self._players(num_envs, first_env, arrays)

    def _players(self, num_envs: int, first_env: int, arrays: RosterArrays | None) -> UnityRoster | UnityPlayers:
        areas = num_envs if self._config.areas is None else min(self._config.areas, num_envs)
        sizes = [min(areas, num_envs - start) for start in range(0, num_envs, areas)]
        if self._config.player == EDITOR and (len(sizes) > 1 or first_env > 0):
            raise SpecMismatchError(
                "unity.player: expected one player with 'editor', got several. The Editor plays one scene at a time: "
                "train with num_workers 0, and with as many environments as the scene has areas."
            )
        if self._spec is None and not self._config.is_launched:
            self._spec = self._ask(sizes[0], first_env)
        if len(sizes) == 1:
            return self._player(num_envs, first_env, arrays)
        from bridge.unity.players import UnityPlayers

        starts = range(first_env, first_env + num_envs, areas)
        return UnityPlayers(
            self.spec,
            RosterArrays.allocate(self.spec, num_envs) if arrays is None else arrays,
            [partial(self._player, size, start) for size, start in zip(sizes, starts, strict=True)],
            sizes,
            self._config.timeout_s,
        )

    def with_processes_apart(self) -> Self:
        """The same world with a player per environment; see :class:`bridge.swapped_roster.SharesProcesses`."""
        if self._config.areas is not None and self._config.areas > 1:
            raise ScenarioError(
                f"unity.areas: expected 1 where several scenarios are played in turn, got {self._config.areas}. A "
                "player resets all its areas together, but environments change their scenarios one by one."
            )
        apart = copy(self)
        apart._config = self._config.model_copy(update={"areas": 1})
        return apart

    def swapping_envs(
        self, worlds: Sequence[World], num_envs: int, first_env: int, arrays: RosterArrays
    ) -> SwappingPlayers | None:
        """A player per environment, which is sent scenarios; see :class:`bridge.swapped_roster.SharesProcesses`."""
        players = [world for world in worlds if isinstance(world, UnityWorld)]
        if len(players) < len(worlds):
            return None
        from bridge.unity.swapping_players import SwappingPlayers

        try:
            lead, documents = _swap_plan(players)
        except ScenarioError as error:
            _LOG.warning("there is a player for each scenario, because one cannot play all of them: %s", error)
            return None
        return SwappingPlayers(lead._players(num_envs, first_env, arrays), documents)

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
        name = self._config.player if self._config.player in _NO_BUILDS else Path(self._config.player).stem
        return RosterParallelEnv(self.roster(1), name=f"unity_{name}")

    def _ask(self, num_areas: int, first_env: int = 0) -> WorldSpec:
        """Ask a player what it looks like; see :attr:`spec`."""
        from bridge.unity.link import UnityLink
        from bridge.unity.probe import ask_player, keep_asked, take_asked

        is_launched = self._config.is_launched
        terms = self._terms(first_env, num_areas, self._config.state_size or 0)
        asked = None if is_launched else take_asked(terms)
        if asked is None:
            link = UnityLink(self._command(first_env), terms)
            try:
                asked = ask_player(link, self._config.slots)
            finally:
                if asked is None or is_launched:
                    link.close()
        if not is_launched:
            self._asked = asked
            keep_asked(asked)
        return self._with_channels(asked.spec)

    def _with_channels(self, spec: WorldSpec) -> WorldSpec:
        """The spec with what comes besides: the global state, statistics, and group rewards that are kept apart."""
        taken = set(spec.metric_names)
        more = [MetricSpec(key, "Statistic of the Unity scene.") for key in self._config.statistics if key not in taken]
        if self._config.group_reward == "separate":
            more += [
                MetricSpec(group_metric(role.name), f"Group rewards of the robots {role.name}, all together.", True)
                for role in spec.roles
            ]
        size = self._config.state_size
        if self._config.player == HEADLESS and size not in (None, 0, spec.state_size):
            raise SpecMismatchError(
                f"unity.state_size: expected {spec.state_size} as in the headless player's world, or 0, got {size}."
            )
        if size is None:
            size = spec.state_size if self._config.player == HEADLESS else 0
        return replace(spec, state_size=size, metrics=(*spec.metrics, *more))

    def _as_played(self, scenario: Scenario) -> WorldSpec:
        """The scenario's spec, and what the headless player's arguments add to the observations."""
        spec = open_world(scenario).spec
        if self._config.player != HEADLESS or not self._config.arguments:
            return spec
        from bridge.unity.player.scene import played_spec

        try:
            return played_spec(spec, scenario.world, self._config.arguments)
        except AgvBridgeError as error:
            raise ScenarioError(f"unity.arguments: {error}") from error

    def _command_prefix(self, folder: Path) -> tuple[str, ...]:
        if not self._config.is_launched:
            return ()
        if self._config.player != HEADLESS:
            return (str(_build_inside(folder, self._config.player)),)
        assert self._scenario is not None
        # -P: the folder that training happens to run in must not shadow the installed package.
        return (sys.executable, "-P", "-m", "bridge.unity.player", "--scenario", str(self._scenario.path))

    def _player(self, num_areas: int, first_env: int, arrays: RosterArrays | None) -> UnityRoster:
        from bridge.unity.probe import take_asked
        from bridge.unity.roster import RosterOptions, UnityRoster

        config, terms = self._config, self._terms(first_env, num_areas, self.spec.state_size)
        options = RosterOptions(
            reports_episodes=self._reports_episodes,
            first_env=first_env,
            group_reward=config.group_reward,
            silence_limit=config.silence_limit,
            link=terms.options,
        )
        asked = None if config.is_launched else take_asked(terms)
        return UnityRoster(self._command(first_env), self.spec, terms.session, options, arrays, asked)

    def _terms(self, first_env: int, num_areas: int, state_size: int) -> LinkTerms:
        from bridge.unity.link import LinkOptions, LinkTerms

        # The headless player is told its first environment; scenes are told a seed of their own.
        offset = 0 if self._config.player == HEADLESS else first_env
        options = LinkOptions(**self._config.link_settings(), seed_offset=offset)
        return LinkTerms(self._session(first_env, num_areas), options, state_size)

    def _command(self, first_env: int) -> PlayerCommand | None:
        from bridge.unity.launch import PlayerCommand

        if not self._config.is_launched:
            return None
        own: tuple[str, ...] = ()
        if self._config.player == HEADLESS:
            announced = "roster,state" if self.spec.state_size else "roster"
            own = ("--first-env", str(first_env), "--announce", announced)
        return PlayerCommand(
            prefix=self._prefix,
            no_graphics=self._config.no_graphics,
            additional=(*own, *self._config.arguments),
            log_folder=None if self._config.log_folder is None else Path(self._config.log_folder),
            worker_id=first_env,
        )

    def _session(self, first_env: int, num_areas: int) -> SessionOptions:
        from bridge.unity.session import SessionOptions

        return SessionOptions(
            seed=(self._config.seed + first_env) % (1 << 31),
            num_areas=num_areas,
            timeout_s=self._config.timeout_s,
            host=self._config.listen,
            port=self._config.port_of(first_env),
        )


def _swap_plan(worlds: Sequence[UnityWorld]) -> tuple[UnityWorld, list[dict[str, Any]]]:
    """The world that players start with to play all of ``worlds`` in turn, and the document of each.

    Raises:
        ScenarioError: No player can play them all; says why.
    """
    from bridge.unity.scenario_document import scenario_document

    mine = worlds[0]._config
    for world in worlds[1:]:
        for key in sorted(set(UnityConfig.model_fields) - _OWN_OF_EACH):
            one, other = getattr(mine, key), getattr(world._config, key)
            if one != other:
                raise ScenarioError(f"unity.{key}: expected the same in all scenarios, got {one!r} and {other!r}.")
    inner = [world._scenario for world in worlds if world._scenario is not None]
    builds = {world._prefix for world in worlds if mine.player != HEADLESS}
    if len(inner) < len(worlds) or len(builds) > 1:
        raise ScenarioError("unity.scenario: expected one build and a warehouse scenario in each, got others.")
    documents = [scenario_document(scenario) for scenario in inner]
    for lead in worlds:
        if all(_has_room(lead.spec, world.spec) for world in worlds):
            return lead, documents
    raise ScenarioError(
        "unity.scenario: expected one warehouse with the most robots of every role and the largest global state, "
        "which the player would start with, got none."
    )


def _has_room(spec: WorldSpec, other: WorldSpec) -> bool:
    pairs = zip(spec.roles, other.roles, strict=True)
    return spec.state_size >= other.state_size and all(mine.num_slots >= its.num_slots for mine, its in pairs)


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
