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

from bridge.errors import CallOrderError
from bridge.registry import World, open_world
from bridge.roster import Roster, RosterArrays
from bridge.roster_rows import clear_outcomes, copy_outcomes, copy_views, hand_over_actions, take_first_choices
from bridge.scenario import Scenario
from bridge.scenario_mix import ScenarioMix, merge_specs, require_weights
from bridge.seeding import scenario_chance, swap_seed
from bridge.specs import WorldSpec

__all__ = ["MixedRoster", "MixedWorld", "open_scenarios"]

Bool = NDArray[np.bool_]


class MixedWorld:
    """The worlds of a :class:`ScenarioMix`, opened.

    Args:
        mix: The scenarios.

    Raises:
        ScenarioError: As :func:`bridge.registry.open_world`.
        MissingExtraError: As :func:`bridge.registry.open_world`.
        SpecMismatchError: No single policy could drive them all; names the first observation block that differs.
    """

    def __init__(self, mix: ScenarioMix) -> None:
        self._mix = mix
        self._worlds = [open_world(scenario) for scenario in mix.scenarios]
        self._spec = merge_specs(mix.names, [world.spec for world in self._worlds])

    @property
    def spec(self) -> WorldSpec:
        """What they look like together; see :func:`bridge.scenario_mix.merge_specs`."""
        return self._spec

    def roster(self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None) -> MixedRoster:
        """``num_envs`` environments stepped together; see :meth:`bridge.registry.World.roster`."""
        rosters = [world.roster(num_envs, first_env=first_env) for world in self._worlds]
        arrays = RosterArrays.allocate(self._spec, num_envs) if arrays is None else arrays
        return MixedRoster(self._mix, self._spec, rosters, arrays, first_env)


def open_scenarios(scenario: Scenario | ScenarioMix) -> World | MixedWorld:
    """The world of a scenario, or those of several.

    Raises:
        ScenarioError, MissingExtraError, SpecMismatchError: As :func:`bridge.registry.open_world` and
            :class:`MixedWorld`.
    """
    return MixedWorld(scenario) if isinstance(scenario, ScenarioMix) else open_world(scenario)


class MixedRoster:
    """A :class:`bridge.roster.Roster` whose environments swap scenarios between episodes.

    The rosters must be able to reset single environments, as all worlds but Unity players with
    several areas are. Of the slots that a scenario does not fill, none has a robot: masked, all zero.
    """

    def __init__(
        self, mix: ScenarioMix, spec: WorldSpec, rosters: Sequence[Roster], arrays: RosterArrays, first_env: int
    ) -> None:
        """Over one roster per scenario of ``mix``, each with the E environments of ``arrays``."""
        self._names = mix.names
        self._spec = spec
        self._rosters = tuple(rosters)
        self._arrays = arrays
        self._first_env = first_env
        self._weights = np.array(mix.weights)
        self._playing = np.zeros(arrays.num_envs, np.int64)
        self._seeds: list[int | None] = [None] * arrays.num_envs

    @property
    def spec(self) -> WorldSpec:
        """What the worlds look like together."""
        return self._spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill; always the same objects."""
        return self._arrays

    @property
    def playing(self) -> NDArray[np.int64]:
        """(E,) int64, the scenario that each environment plays: an index into the mix."""
        return self._playing.copy()

    def set_weights(self, weights: Sequence[float]) -> None:
        """Draw the scenarios of episodes that begin from now on with other weights.

        Raises:
            SpecMismatchError: There is not one weight per scenario, or none is positive.
        """
        require_weights(weights, self._names)
        self._weights = np.array(weights, np.float64)

    def reset(self, seed: int | None = None, env_mask: Bool | None = None) -> None:
        """See :meth:`bridge.roster.Roster.reset`."""
        envs = np.arange(self._arrays.num_envs) if env_mask is None else np.flatnonzero(env_mask)
        if seed is None and any(self._seeds[env] is None for env in envs):
            raise CallOrderError("MixedRoster.reset: expected a seed at the first reset, got none. Pass seed=...")
        before = self._playing.copy()
        if seed is not None:
            for roster in self._rosters:
                roster.reset(seed, env_mask)
            for env in envs:
                self._seeds[env] = seed
        self._arrays.episode[envs] = 0 if seed is not None else self._arrays.episode[envs] + 1
        self._draw(envs)
        if seed is None:
            stays = envs[before[envs] == self._playing[envs]]
            for index, roster in enumerate(self._rosters):
                if (mine := stays[self._playing[stays] == index]).size:
                    roster.reset(None, self._mask(mine))
            self._swap_in(np.setdiff1d(envs, stays))
        clear_outcomes(self._arrays, envs)
        self._copy_views(envs)

    def step(self) -> None:
        """See :meth:`bridge.roster.Roster.step`."""
        if None in self._seeds:
            raise CallOrderError("MixedRoster.step: expected a reset before the first step, got none. Call reset.")
        for index, roster in enumerate(self._rosters):
            plays = np.flatnonzero(self._playing == index)
            if plays.size:
                hand_over_actions(self._arrays, roster.arrays, plays)
                take_first_choices(self._spec, roster.arrays, np.flatnonzero(self._playing != index))
                roster.step()
                copy_outcomes(self._arrays, roster.arrays, plays)
        over = np.flatnonzero(self._arrays.episode_over)
        if over.size:
            before = self._playing[over].copy()
            self._arrays.final_scenario[over] = before
            self._arrays.episode[over] += 1
            self._draw(over)
            # Where the scenario stays the same its roster has begun the next episode already.
            self._swap_in(over[before != self._playing[over]])
        self._copy_views(np.arange(self._arrays.num_envs))

    def close(self) -> None:
        """Close every scenario's environments; may be called twice."""
        for roster in self._rosters:
            roster.close()

    def _draw(self, envs: NDArray[np.int64]) -> None:
        """Choose the scenario of the episodes that the arrays number."""
        borders = np.cumsum(self._weights)
        for env in envs:
            chance = scenario_chance(self._seed(env), self._first_env + int(env), int(self._arrays.episode[env]))
            # Side "right": a scenario of weight 0 has an empty interval and is never drawn.
            drawn = int(np.searchsorted(borders, chance * borders[-1], side="right"))
            self._playing[env] = min(drawn, int(np.flatnonzero(self._weights)[-1]))

    def _swap_in(self, envs: NDArray[np.int64]) -> None:
        """Begin an episode in the scenarios that ``envs`` play now, on a stream of its own."""
        groups: dict[tuple[int, int], list[int]] = {}
        for env in envs.tolist():
            seed = swap_seed(self._seed(env), int(self._arrays.episode[env]))
            groups.setdefault((int(self._playing[env]), seed), []).append(env)
        for (index, seed), members in groups.items():
            self._rosters[index].reset(seed, self._mask(np.array(members)))

    def _seed(self, env: int) -> int:
        seed = self._seeds[env]
        assert seed is not None, "an environment is seeded before it plays"
        return seed

    def _mask(self, envs: NDArray[np.int64]) -> Bool:
        mask = np.zeros(self._arrays.num_envs, np.bool_)
        mask[envs] = True
        return mask

    def _copy_views(self, envs: NDArray[np.int64]) -> None:
        for index, roster in enumerate(self._rosters):
            mine = envs[self._playing[envs] == index]
            if mine.size:
                copy_views(self._arrays, roster.arrays, mine)
