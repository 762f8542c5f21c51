"""Environments that swap scenarios between episodes, each in a process that goes on.

:class:`bridge.mixed_roster.MixedRoster` keeps a roster per scenario. Where each
environment has a process of its own that takes another scenario while it runs,
one roster is enough. Both play the same episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bridge.drawn_roster import DrawnRoster
from bridge.registry import World
from bridge.roster import Roster, RosterArrays
from bridge.scenario_draw import ScenarioDraw
from bridge.scenario_mix import ScenarioMix
from bridge.specs import WorldSpec

__all__ = ["SharesProcesses", "SwappedRoster", "SwappingEnvs"]

Envs = NDArray[np.int64]

_OUTCOMES = ("rewards", "terminated", "truncated")


class SwappingEnvs(Roster, Protocol):
    """A roster each of whose environments can be reset alone and given another scenario of a list."""

    def set_scenario(self, env: int, index: int) -> None:
        """Let an environment play scenario ``index`` from its next reset on."""
        ...


@runtime_checkable
class SharesProcesses(Protocol):
    """A world whose environments may share a process that resets them together, and that takes other scenarios."""

    def with_processes_apart(self) -> Self:
        """The same world with a process per environment, so that each can be reset alone.

        Raises:
            ScenarioError: The scenario says otherwise.
        """
        ...

    def swapping_envs(
        self, worlds: Sequence[World], num_envs: int, first_env: int, arrays: RosterArrays
    ) -> SwappingEnvs | None:
        """Environments that play all of ``worlds`` in turn; None if each of those needs processes of its own.

        Args:
            worlds: The worlds in the order of the mix; this one is the first.
            num_envs: Number of environments E.
            first_env: Index of the first one among all environments of the run.
            arrays: Where to write, of a world that all of ``worlds`` fit into.
        """
        ...


class SwappedRoster(DrawnRoster):
    """A :class:`bridge.roster.Roster` whose environments are given scenarios between episodes."""

    def __init__(self, mix: ScenarioMix, spec: WorldSpec, envs: SwappingEnvs, first_env: int) -> None:
        """Over environments that write into arrays of ``spec``, into which every scenario of ``mix`` fits."""
        self._draw = ScenarioDraw(mix, envs.arrays.num_envs, first_env)
        super().__init__(spec, envs.arrays, self._draw.playing)
        self._envs = envs
        self._given: Envs = np.full(envs.arrays.num_envs, -1, np.int64)

    def set_weights(self, weights: Sequence[float]) -> None:
        """See :meth:`bridge.scenario_draw.ScenarioDraw.set_weights`."""
        self._draw.set_weights(weights)

    def close(self) -> None:
        """Close every environment; may be called twice."""
        self._envs.close()

    def _begin_first(self, envs: Envs, seed: int) -> None:
        self._draw.seed(envs, seed)
        self._begin(envs, seed)
        self._arrays.episode[:] = self._draw.episode

    def _begin_next(self, envs: Envs) -> None:
        changed = self._draw.next_episode(envs)
        self._begin(np.setdiff1d(envs, changed), None)
        self._swap_in(changed)
        self._arrays.episode[:] = self._draw.episode

    def _advance(self) -> None:
        self._envs.step()
        over = np.flatnonzero(self._arrays.episode_over)
        if over.size:
            self._arrays.final_scenario[over] = self._playing[over]
            # Where the scenario stays the same the next episode has begun already.
            changed = self._draw.next_episode(over)
            # The reset that swaps clears what the ended episodes have come to.
            outcomes = [getattr(role, name) for role in self._arrays.roles.values() for name in _OUTCOMES]
            kept = [values[changed] for values in outcomes]
            self._swap_in(changed)
            for values, rows in zip(outcomes, kept, strict=True):
                values[changed] = rows
            self._arrays.episode_over[changed] = True
        self._arrays.episode[:] = self._draw.episode

    def _swap_in(self, envs: Envs) -> None:
        """Begin an episode in the scenarios that ``envs`` play now, on a stream of its own."""
        seeds: dict[int, list[Envs]] = {}
        for _, seed, members in self._draw.swaps(envs):
            seeds.setdefault(seed, []).append(members)
        for seed, groups in seeds.items():
            self._begin(np.concatenate(groups), seed)

    def _begin(self, envs: Envs, seed: int | None) -> None:
        """Reset environments, with the scenarios that they play now."""
        if not envs.size:
            return
        for env in envs[self._given[envs] != self._playing[envs]].tolist():
            self._envs.set_scenario(env, int(self._playing[env]))
        self._given[envs] = self._playing[envs]
        self._envs.reset(seed, self._mask(envs))
