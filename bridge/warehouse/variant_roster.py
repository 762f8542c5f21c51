"""Environments of a warehouse whose floor plan differs from episode to episode.

There is one simulator per variant of the floor plan, with all E environments. An
environment plays an episode in the simulator of its variant, while its floors in
the others are empty, which costs next to nothing; simulators in which nobody plays
are not stepped. Which variant an episode has is drawn from a stream of its own,
keyed by seed, environment and episode; starts and tasks keep their streams, so
that an episode is the same one on whichever simulator it is played.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bridge.drawn_roster import DrawnRoster
from bridge.roster import RosterArrays
from bridge.roster_rows import PlayedRows, clear_outcomes
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.random_streams import Purpose, stream_keys
from bridge.warehouse.simulator import WarehouseSimulator

__all__ = ["VariantRoster", "simulator_of"]

Bool = NDArray[np.bool_]
Rows = NDArray[np.int64]

_SEED_BITS = (1 << 64) - 1


class VariantRoster(DrawnRoster):
    """A :class:`bridge.roster.Roster` over the variants of one warehouse.

    Args:
        config: The warehouse.
        layouts: Its variants, each accepted by ``validation.check_warehouse``.
        num_envs: Number of environments E.
        first_env: Index of the first one among all environments of the run.
        arrays: Where to write, as in ``bridge.roster.array_shapes``; allocated if None.
        respawn: As of :class:`bridge.warehouse.simulator.WarehouseSimulator`.
    """

    def __init__(
        self,
        config: WarehouseConfig,
        layouts: Sequence[Layout],
        num_envs: int,
        *,
        first_env: int = 0,
        arrays: RosterArrays | None = None,
        respawn: bool = True,
    ) -> None:
        self._simulators = tuple(
            WarehouseSimulator(config, layout, num_envs, first_env=first_env, respawn=respawn) for layout in layouts
        )
        spec = self._simulators[0].spec
        arrays = RosterArrays.allocate(spec, num_envs) if arrays is None else arrays
        super().__init__(spec, arrays, np.zeros(num_envs, np.int64))
        self._envs = np.arange(first_env, first_env + num_envs, dtype=np.int64)
        self._seeds = np.zeros(num_envs, np.uint64)
        self._robot_metrics = self._simulators[0].robot_metrics
        self._rows = [
            PlayedRows(self._arrays, simulator.arrays, self._playing, number)
            for number, simulator in enumerate(self._simulators)
        ]

    @property
    def simulators(self) -> tuple[WarehouseSimulator, ...]:
        """One per variant; they belong to this roster, and are for looking."""
        return self._simulators

    @property
    def robot_metric_names(self) -> tuple[str, ...]:
        """Names of the figures of each robot."""
        return self._simulators[0].robot_metric_names

    @property
    def robot_metrics(self) -> NDArray[np.float64]:
        """(E, N, K) float64, figures of each robot in the episode that ended last; a copy."""
        return self._robot_metrics.copy()

    def close(self) -> None:
        """Refuse further calls; may be called twice."""
        for simulator in self._simulators:
            simulator.close()

    def _begin_first(self, envs: Rows, seed: int) -> None:
        for simulator in self._simulators:
            simulator.reset(seed, self._mask(envs))
        self._seeds[envs] = seed & _SEED_BITS
        self._begin_episodes(envs, np.zeros(len(envs), np.int64))

    def _begin_next(self, envs: Rows) -> None:
        self._begin_episodes(envs, self._arrays.episode[envs] + 1)

    def _begin_episodes(self, envs: Rows, episode: Rows) -> None:
        self._arrays.episode[envs] = episode
        self._draw(envs)
        self._begin(envs)
        clear_outcomes(self._arrays, envs)
        self._fetch_views()

    def _advance(self) -> None:
        for number, simulator in enumerate(self._simulators):
            idle = self._playing != number
            if not idle.all():
                self._rows[number].hand_over_actions()
                simulator.step()
                self._rows[number].fetch_outcomes()
                if (ended := simulator.arrays.episode_over & ~idle).any():
                    self._robot_metrics[ended] = simulator.robot_metrics[ended]
                # Empty floors have episodes, too, and each begins with a full one.
                _empty(simulator, simulator.arrays.episode_over & idle)
        over = np.flatnonzero(self._arrays.episode_over)
        if over.size:
            before = self._playing[over].copy()
            self._arrays.episode[over] += 1
            self._draw(over)
            # Where the variant stays the same its simulator has begun the next episode already.
            self._begin(over[before != self._playing[over]])
        self._fetch_views()

    def _draw(self, envs: Rows) -> None:
        """Choose the variants of the episodes that the arrays number."""
        keys = stream_keys(self._seeds[envs], self._envs[envs], self._arrays.episode[envs])[:, Purpose.LAYOUT]
        # The high half of the key times the number of variants: uniform, and exact.
        count = np.uint64(len(self._simulators))
        self._playing[envs] = ((keys >> np.uint64(32)) * count >> np.uint64(32)).astype(np.int64)

    def _begin(self, envs: Rows) -> None:
        """Begin the episodes that the arrays number where ``envs`` play now, and empty their floors elsewhere."""
        for number, simulator in enumerate(self._simulators):
            plays = self._playing[envs] == number
            if (mine := envs[plays]).size:
                simulator.arrays.episode[mine] = self._arrays.episode[mine] - 1
                simulator.reset(None, self._mask(mine))
            _empty(simulator, self._mask(envs[~plays]))

    def _fetch_views(self) -> None:
        for rows in self._rows:
            rows.fetch_views()


def simulator_of(roster: WarehouseSimulator | VariantRoster, env: int) -> WarehouseSimulator:
    """Where the running episode of environment ``env`` is played, to look into; for one episode only."""
    return roster.simulators[roster.playing[env]] if isinstance(roster, VariantRoster) else roster


def _empty(simulator: WarehouseSimulator, envs: Bool) -> None:
    """Leave nobody on the floors of ``envs``, (E,) bool, and ask nobody there."""
    if envs.any():
        simulator.empty_floors(envs)
        for values in simulator.arrays.roles.values():
            values.agent_mask[envs] = False
            values.decision_mask[envs] = False
