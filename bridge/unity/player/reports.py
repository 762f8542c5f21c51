"""What a player reports beside its agents' infos: figures of episodes, parameters, who is who, global states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bridge.roster import Roster
from bridge.unity.messages import SEED_HIGH, SEED_LOW
from bridge.unity.player.agents import RoleAgents
from bridge.unity.player.log import PlayerLog
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.side_channels import Newcomer, SideChannels

__all__ = ["Reports"]


class Reports:
    """Fills the side channels and the log.

    Args:
        channels: Takes the messages.
        options: What to announce.
        log: The player's log.
    """

    def __init__(self, channels: SideChannels, options: PlayerOptions, log: PlayerLog) -> None:
        self._channels = channels
        self._announce = options.announce
        self._log = log

    def reset(self, num_areas: int, seed: int | None) -> None:
        """A reset of all areas; the value that each parameter has, or has drawn, is a statistic.

        Args:
            num_areas: Number of areas E.
            seed: The seed that it came with, if any.
        """
        self._log.write(f"Reset of {num_areas} areas" + (f", seed {seed}" if seed is not None else ""))
        parameters = self._channels.parameters
        for key in parameters:
            if key not in (SEED_HIGH, SEED_LOW):
                self._channels.send_statistic(f"parameter/{key}", parameters.get(key))

    def step(self, roster: Roster, episode_steps: Sequence[int]) -> None:
        """The simulator has made a step.

        Args:
            roster: The simulator.
            episode_steps: Steps of each area's running, or just ended, episode.
        """
        arrays = roster.arrays
        for area in np.flatnonzero(arrays.episode_over).tolist():
            values = arrays.metrics[area].tolist()
            figures = dict(zip(roster.spec.metric_names, values, strict=True))
            for name, value in figures.items():
                self._channels.send_statistic(f"episode/{area}/{name}", value)
            text = ", ".join(f"{name} {value:.6g}" for name, value in figures.items())
            self._log.write(f"Area {area}: episode ended after {episode_steps[area]} steps: {text}")
            if "state" in self._announce:
                self._channels.send_state(area, arrays.final_state[area], final=True)

    def exchange(self, roster: Roster, roles: Sequence[RoleAgents]) -> None:
        """The next exchange is about to be made.

        Args:
            roster: The simulator.
            roles: Its agents.
        """
        newcomers = [Newcomer(agent, area, role.name, slot) for role in roles for agent, area, slot in role.newcomers()]
        if "roster" in self._announce:
            self._channels.announce(newcomers)
        if "state" in self._announce:
            for area, state in enumerate(roster.arrays.state):
                self._channels.send_state(area, state, final=False)
