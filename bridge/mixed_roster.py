"""Environments that play another scenario whenever an episode ends.

Each scenario has a roster of its own with all E environments; an environment *plays* in one of
them and idles in the others, so that a swap is a reset and nothing is ever opened while training
runs. A roster in which nobody plays is not stepped: one scenario at a time costs what it costs
alone. With several at once an idling environment costs a step of its world.

Which scenario an episode has is drawn from (seed, environment, episode), and what happens in it
depends on the seed, the environment and the draws so far alone: equal for any number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bridge.drawn_roster import DrawnRoster
from bridge.registry import World, open_world
from bridge.roster import Roster, RosterArrays
from bridge.roster_rows import PlayedRows, clear_outcomes, take_first_choices
from bridge.scenario import Scenario
from bridge.scenario_draw import ScenarioDraw
from bridge.scenario_mix import ScenarioMix, merge_specs
from bridge.specs import WorldSpec
from bridge.swapped_roster import SharesProcesses, SwappedRoster

__all__ = ["MixedRoster", "MixedWorld", "open_scenarios"]

Envs = NDArray[np.int64]


class MixedWorld:
    """The worlds of a :class:`ScenarioMix`, opened.

    Args:
        mix: The scenarios.

    Raises:
        ScenarioError: As :func:`bridge.registry.open_world`, or a scenario makes environments share a process
            in which they cannot be reset one by one.
        MissingExtraError: As :func:`bridge.registry.open_world`.
        SpecMismatchError: No single policy could drive them all; names the first observation block that differs.
    """

    def __init__(self, mix: ScenarioMix) -> None:
        self._mix = mix
        worlds = [open_world(scenario) for scenario in mix.scenarios]
        self._worlds = [
            world.with_processes_apart() if isinstance(world, SharesProcesses) else world for world in worlds
        ]
        self._spec = merge_specs(mix.names, [world.spec for world in self._worlds])

    @property
    def spec(self) -> WorldSpec:
        """What they look like together; see :func:`bridge.scenario_mix.merge_specs`."""
        return self._spec

    def roster(
        self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None
    ) -> MixedRoster | SwappedRoster:
        """``num_envs`` environments stepped together; see :meth:`bridge.registry.World.roster`."""
        arrays = RosterArrays.allocate(self._spec, num_envs) if arrays is None else arrays
        first = self._worlds[0]
        if isinstance(first, SharesProcesses):
            envs = first.swapping_envs(self._worlds, num_envs, first_env, arrays)
            if envs is not None:
                return SwappedRoster(self._mix, self._spec, envs, first_env)
        rosters = [world.roster(num_envs, first_env=first_env) for world in self._worlds]
        return MixedRoster(self._mix, self._spec, rosters, arrays, first_env)


def open_scenarios(scenario: Scenario | ScenarioMix) -> World | MixedWorld:
    """The world of a scenario, or those of several.

    Raises:
        ScenarioError, MissingExtraError, SpecMismatchError: As :func:`bridge.registry.open_world` and
            :class:`MixedWorld`.
    """
    return MixedWorld(scenario) if isinstance(scenario, ScenarioMix) else open_world(scenario)


class MixedRoster(DrawnRoster):
    """A :class:`bridge.roster.Roster` whose environments swap scenarios between episodes.

    The rosters must be able to reset single environments. Of the slots that a scenario does not fill, none has
    a robot: masked, all zero.
    """

    def __init__(
        self, mix: ScenarioMix, spec: WorldSpec, rosters: Sequence[Roster], arrays: RosterArrays, first_env: int
    ) -> None:
        """Over one roster per scenario of ``mix``, each with the E environments of ``arrays``."""
        self._draw = ScenarioDraw(mix, arrays.num_envs, first_env)
        super().__init__(spec, arrays, self._draw.playing)
        self._rosters = tuple(rosters)
        self._rows = [PlayedRows(arrays, roster.arrays, self._playing, index) for index, roster in enumerate(rosters)]

    def set_weights(self, weights: Sequence[float]) -> None:
        """See :meth:`bridge.scenario_draw.ScenarioDraw.set_weights`."""
        self._draw.set_weights(weights)

    def close(self) -> None:
        """Close every scenario's environments; may be called twice."""
        for roster in self._rosters:
            roster.close()

    def _begin_first(self, envs: Envs, seed: int) -> None:
        for roster in self._rosters:
            roster.reset(seed, self._mask(envs))
        self._draw.seed(envs, seed)
        self._show(envs)

    def _begin_next(self, envs: Envs) -> None:
        changed = self._draw.next_episode(envs)
        stays = np.setdiff1d(envs, changed)
        for index, roster in enumerate(self._rosters):
            if (mine := stays[self._playing[stays] == index]).size:
                roster.reset(None, self._mask(mine))
        self._swap_in(changed)
        self._show(envs)

    def _show(self, envs: Envs) -> None:
        """Write down what environments show that have been reset."""
        self._arrays.episode[:] = self._draw.episode
        clear_outcomes(self._arrays, envs)
        self._fetch_views()

    def _advance(self) -> None:
        for index, roster in enumerate(self._rosters):
            idle = np.flatnonzero(self._playing != index)
            if idle.size < self._arrays.num_envs:
                self._rows[index].hand_over_actions()
                take_first_choices(self._spec, roster.arrays, idle)
                roster.step()
                self._rows[index].fetch_outcomes()
        over = np.flatnonzero(self._arrays.episode_over)
        if over.size:
            self._arrays.final_scenario[over] = self._playing[over]
            # Where the scenario stays the same its roster has begun the next episode already.
            self._swap_in(self._draw.next_episode(over))
        self._arrays.episode[:] = self._draw.episode
        self._fetch_views()

    def _swap_in(self, envs: Envs) -> None:
        """Begin an episode in the scenarios that ``envs`` play now, on a stream of its own."""
        for index, seed, members in self._draw.swaps(envs):
            self._rosters[index].reset(seed, self._mask(members))

    def _fetch_views(self) -> None:
        for rows in self._rows:
            rows.fetch_views()
