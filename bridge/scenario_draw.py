"""Which scenario of a mix each environment plays: drawn anew at the start of every episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bridge.scenario_mix import ScenarioMix, require_weights
from bridge.seeding import scenario_chance, swap_seed

__all__ = ["ScenarioDraw"]

Envs = NDArray[np.int64]


class ScenarioDraw:
    """Counts the episodes of E environments and draws a scenario for each.

    What is drawn is keyed by seed, environment and episode, so that it does not depend on how the work is divided.

    Args:
        mix: The scenarios.
        num_envs: Number of environments E.
        first_env: Index of the first one among all environments of the run.

    Attributes:
        playing: (E,) int64, the scenario that each environment plays: an index into the mix.
        episode: (E,) int64, number of the running episode since the last seeded reset, from 0.
    """

    def __init__(self, mix: ScenarioMix, num_envs: int, first_env: int) -> None:
        self._names = mix.names
        self._weights = np.array(mix.weights)
        self._first_env = first_env
        self._seeds: list[int | None] = [None] * num_envs
        self.playing: Envs = np.zeros(num_envs, np.int64)
        self.episode: Envs = np.zeros(num_envs, np.int64)

    def set_weights(self, weights: Sequence[float]) -> None:
        """Draw the scenarios of episodes that begin from now on with other weights.

        Raises:
            SpecMismatchError: There is not one weight per scenario, or none is positive.
        """
        require_weights(weights, self._names)
        self._weights = np.array(weights, np.float64)

    def seed(self, envs: Envs, seed: int) -> None:
        """Begin the first episodes of a seed."""
        for env in envs.tolist():
            self._seeds[env] = seed
        self.episode[envs] = 0
        self._draw(envs)

    def next_episode(self, envs: Envs) -> Envs:
        """Begin the next episodes; returns those of the environments that play another scenario from now on."""
        before = self.playing[envs].copy()
        self.episode[envs] += 1
        self._draw(envs)
        changed: Envs = envs[before != self.playing[envs]]
        return changed

    def swaps(self, envs: Envs) -> list[tuple[int, int, Envs]]:
        """For environments that begin another scenario: the scenario, the seed of its stream, and who has them."""
        groups: dict[tuple[int, int], list[int]] = {}
        for env in envs.tolist():
            key = int(self.playing[env]), swap_seed(self._seed_of(env), int(self.episode[env]))
            groups.setdefault(key, []).append(env)
        return [(index, seed, np.array(members)) for (index, seed), members in groups.items()]

    def _draw(self, envs: Envs) -> None:
        borders = np.cumsum(self._weights)
        for env in envs.tolist():
            chance = scenario_chance(self._seed_of(env), self._first_env + env, int(self.episode[env]))
            # Side "right": a scenario of weight 0 has an empty interval and is never drawn.
            drawn = int(np.searchsorted(borders, chance * borders[-1], side="right"))
            self.playing[env] = min(drawn, int(np.flatnonzero(self._weights)[-1]))

    def _seed_of(self, env: int) -> int:
        seed = self._seeds[env]
        assert seed is not None, "an environment is seeded before it plays"
        return seed
