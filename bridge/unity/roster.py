"""A Unity player as a roster: training areas are environments, agents are slots.

One step of the roster is one exchange with the player. Roles are behaviors
without their team; environments are told apart by the agents' group ids, in
ascending order, where a player has more than one area; slots are given in the
order in which agents appear (:mod:`bridge.unity.slots`). A group's reward is
added to each member's own.

The episode of an area is over when all lives that ran in it have ended in one
exchange. A player that reports figures of its episodes through the statistics
channel (``episode/<area>/<figure>``, with the terminals) says it itself: there,
a fleet whose last robot has despawned is not mistaken for an ended episode.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.actions import require_valid_actions
from bridge.errors import (
    CallOrderError,
    SpecMismatchError,
    UnityProtocolError,
    WorldDiedError,
    WorldTimeoutError,
)
from bridge.roster import RosterArrays
from bridge.specs import WorldSpec
from bridge.unity.areas import AreaTable
from bridge.unity.behaviors import require_role
from bridge.unity.decode import PlayerOutput
from bridge.unity.launch import PlayerCommand
from bridge.unity.lives import RoleLives
from bridge.unity.session import SessionOptions, UnitySession
from bridge.unity.side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    SideChannelHub,
    StatsChannel,
)

__all__ = ["SEED_HIGH", "SEED_LIMIT", "SEED_LOW", "RosterOptions", "UnityRoster"]

SEED_HIGH: Final = "agv_seed_high"
SEED_LOW: Final = "agv_seed_low"
"""Environment parameters that carry the seed of a reset, 24 bits each: as many as a float32 holds exactly."""

SEED_LIMIT: Final = 1 << 48
"""Seeds are below this."""

_FIGURE = re.compile(r"episode/(\d{1,6})/(.+)", re.ASCII)


@dataclass(frozen=True)
class RosterOptions:
    """How a player is run as a roster.

    Attributes:
        time_scale: Factor on the speed of Unity's clock.
        reports_episodes: The player reports figures at the end of each episode; wait for them.
        first_env: Index of the first environment among all of the run; for messages.
    """

    time_scale: float = 20.0
    reports_episodes: bool = False
    first_env: int = 0


class UnityRoster:
    """Steps the training areas of one player.

    Args:
        command: How to start the player; None waits for one that somebody else starts.
        spec: What it looks like; compared with what it announces.
        session: Number of areas E, time limit, seed of Unity's own random numbers.
        options: Everything else.
        arrays: Where to write; allocated if None.

    Raises:
        UnityPlayerDiedError: The player cannot be started, or ended before it was connected.
        UnityTimeoutError: It did not connect in time.
        UnityVersionError: It speaks another version of the protocol.
    """

    def __init__(
        self,
        command: PlayerCommand | None,
        spec: WorldSpec,
        session: SessionOptions,
        options: RosterOptions,
        arrays: RosterArrays | None = None,
    ) -> None:
        self._spec = spec
        self._options = options
        self._arrays = RosterArrays.allocate(spec, session.num_areas) if arrays is None else arrays
        self._lives = {role.name: RoleLives(role, self._arrays.roles[role.name]) for role in spec.roles}
        self._areas = AreaTable(session.num_areas)
        self._figures: dict[int, dict[str, float]] = {}
        self._was_reset = False
        self._parameters = EnvironmentParametersChannel()
        self._stats = StatsChannel()
        engine = EngineConfigurationChannel()
        engine.set_configuration_parameters(time_scale=options.time_scale)
        self._session = UnitySession(command, session, SideChannelHub([engine, self._parameters, self._stats]))

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        return self._spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill."""
        return self._arrays

    @property
    def session(self) -> UnitySession:
        """The player behind the roster."""
        return self._session

    def reset(self, seed: int | None = None, env_mask: NDArray[np.bool_] | None = None) -> None:
        """Start an episode in every environment.

        With a seed, slots are given out anew, so that equal seeds give equal arrays. A scene must read
        the environment parameters ``agv_seed_high`` and ``agv_seed_low`` to obey it; Unity has no message
        for it.

        Args:
            seed: In [0, 2**48).
            env_mask: (E,) bool, must be all True: a player resets all of its areas together.

        Raises:
            CallOrderError: No seed at the first reset, a mask that leaves environments out, or after close.
            SpecMismatchError: The player's agents do not fit the spec, or the seed is out of range.
            UnityPlayerDiedError: The player has ended.
            UnityTimeoutError: It did not answer in time.
            UnityProtocolError: It broke the protocol.
        """
        if env_mask is not None and not np.asarray(env_mask).all():
            raise CallOrderError(
                f"UnityRoster.reset: expected all {self._arrays.num_envs} environments to be reset, got a mask that "
                "leaves some out. A player resets all its areas together: give each environment its own player."
            )
        if seed is None and not self._was_reset:
            raise CallOrderError("UnityRoster.reset: expected a seed at the first reset, got none.")
        if seed is not None:
            self._send_seed(seed)
        for lives in self._lives.values():
            lives.begin_reset(forget_slots=seed is not None)
        self._arrays.episode_over[:] = False
        self._figures.clear()
        self._take(self._guarded(self._session.reset))
        self._stats.take()
        self._was_reset = True
        if seed is None:
            self._arrays.episode[:] += 1
        else:
            self._arrays.episode[:] = 0

    def step(self) -> None:
        """Answer the robots that were asked, and take in the next exchange; see :meth:`bridge.roster.Roster.step`."""
        if not self._was_reset:
            raise CallOrderError("UnityRoster.step: expected a reset first, got a step.")
        require_valid_actions(self._spec, self._arrays, "UnityRoster.step", self._options.first_env)
        chosen = {name: self._lives[b.role].actions(name) for name, b in self._session.behaviors.items()}
        actions = {name: given for name, given in chosen.items() if given is not None}
        for lives in self._lives.values():
            lives.begin_step()
        self._arrays.episode_over[:] = False
        self._take(self._guarded(lambda: self._session.step(actions)))
        self._take_figures()
        self._end_episodes()

    def close(self) -> None:
        """Make the player quit; may be called twice."""
        self._session.close()

    def _guarded(self, exchange: Callable[[], PlayerOutput]) -> PlayerOutput:
        """An exchange; if the player fails in it, all open lives are truncated before the error goes on."""
        try:
            return exchange()
        except (WorldDiedError, WorldTimeoutError, UnityProtocolError):
            for lives in self._lives.values():
                lives.truncate_all()
            raise

    def _send_seed(self, seed: int) -> None:
        if not 0 <= seed < SEED_LIMIT:
            raise SpecMismatchError(f"UnityRoster.reset: expected a seed in [0, 2**48), got {seed}.")
        self._parameters.set_float_parameter(SEED_HIGH, float(seed >> 24))
        self._parameters.set_float_parameter(SEED_LOW, float(seed & 0xFFFFFF))

    def _take(self, output: PlayerOutput) -> None:
        for behavior in output.new_behaviors.values():
            require_role(behavior, self._spec.role(behavior.role))
        self._areas.learn([batch.group_id for batch in output.batches.values()])
        for name, batch in output.batches.items():
            role = self._session.behaviors[name].role
            self._lives[role].take(name, batch, self._areas.envs(batch.group_id))

    def _take_figures(self) -> None:
        for key, value, _ in self._stats.take():
            match = _FIGURE.fullmatch(key)
            if match is not None and int(match[1]) < self._arrays.num_envs:
                self._figures.setdefault(int(match[1]), {})[match[2]] = value

    def _end_episodes(self) -> None:
        lives_on = np.logical_or.reduce([lives.lives_on for lives in self._lives.values()])
        lived_before = np.logical_or.reduce([lives.lived_before for lives in self._lives.values()])
        over = self._arrays.episode_over
        if self._options.reports_episodes:
            over[list(self._figures)] = True
            over &= ~lives_on
        else:
            over[:] = lived_before & ~lives_on
        for env in np.flatnonzero(over).tolist():
            figures = self._figures.pop(env, {})
            self._arrays.metrics[env] = [figures.get(name, np.nan) for name in self._spec.metric_names]
        self._arrays.episode[over] += 1
