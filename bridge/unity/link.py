"""A player and its side channels, started again when it fails.

The layer between :class:`~bridge.unity.session.UnitySession`, which ends with
its player, and :class:`~bridge.unity.roster.UnityRoster`, which outlives it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.errors import ScenarioError, SpecMismatchError, WorldDiedError, WorldTimeoutError
from bridge.unity.behaviors import Behavior
from bridge.unity.config import GaussianSampler, Parameter, RangesSampler, UniformSampler
from bridge.unity.decode import PlayerOutput
from bridge.unity.encode import BehaviorActions
from bridge.unity.launch import PlayerCommand
from bridge.unity.messages import SEED_HIGH, SEED_LIMIT, SEED_LOW
from bridge.unity.session import SessionOptions, UnitySession
from bridge.unity.side_channels import (
    DefaultTrainingAnalyticsSideChannel,
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    GlobalStateChannel,
    RosterChannel,
    ScenarioChannel,
    SideChannelHub,
    StatsChannel,
)

__all__ = ["LinkOptions", "LinkTerms", "UnityLink"]

_LOG = logging.getLogger(__name__)

_MAX_DELAY_S: Final = 60.0
# Odd, so that no seed returns before all have been used.
_SEED_STRIDE: Final = 0x9E3779B97F4B
_PLAYER_STRIDE: Final = 0x5851F42D4C95


@dataclass(frozen=True)
class LinkOptions:
    """How a player is kept alive and what it is told.

    Attributes:
        time_scale: Factor on the speed of Unity's clock.
        max_restarts: Most restarts of a player that crashed, quit or hung; 0 for none.
        restart_delay_s: Wait before the first restart; twice as long before each further one, up to a minute.
        raise_channel_errors: Let an exception of a side channel's handler end the run; else it is logged.
        parameters: Environment parameters that every player is told when it starts.
        seed_offset: Number of the player among those that play the same scene; keys the seeds that it is sent.
    """

    time_scale: float = 20.0
    max_restarts: int = 0
    restart_delay_s: float = 1.0
    raise_channel_errors: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    seed_offset: int = 0


@dataclass(frozen=True)
class LinkTerms:
    """Everything that a link and its player agree on.

    Attributes:
        session: What is agreed on when the player connects.
        options: How it is kept alive and what it is told.
        state_size: Number of values of the global state; 0 if the scene sends none.
    """

    session: SessionOptions
    options: LinkOptions
    state_size: int = 0


class UnityLink:
    """Talks with a player, and starts it again.

    Args:
        command: How to start the player; None waits for one that somebody else starts.
        terms: Everything else.

    Attributes:
        terms: As given.
        parameters: Environment parameters; what is set is sent with the next message.
        stats: Statistics that the scene reports.
        identities: What the scene announced of its agents.
        states: Global states of the areas.
        restarts: How often the player was started again.

    Raises:
        UnityPlayerDiedError: The player cannot be started, or ended before it was connected.
        UnityTimeoutError: It did not connect in time.
        UnityVersionError: It speaks another version of the protocol.
    """

    def __init__(self, command: PlayerCommand | None, terms: LinkTerms) -> None:
        self._command = command
        self.terms = terms
        self._options = terms.options
        self.stats = StatsChannel()
        self.parameters = EnvironmentParametersChannel()
        self.identities = RosterChannel()
        self.states = GlobalStateChannel(terms.session.num_areas, terms.state_size)
        self._scenarios = ScenarioChannel()
        self._scenario: Mapping[str, Any] | None = None
        self._scenario_is_new = False
        self._seed: int | None = None
        self.restarts = 0
        self.session = self._start()

    @property
    def behaviors(self) -> Mapping[str, Behavior]:
        """Behaviors that have appeared, by name on the wire."""
        return self.session.behaviors

    def set_scenario(self, scenario: Mapping[str, Any]) -> None:
        """Let the scene play another scenario from the next reset on; see :meth:`reset`."""
        self._scenario = scenario
        self._scenario_is_new = True

    def reset(self, seed: int | None) -> PlayerOutput:
        """Start new episodes; a player that fails meanwhile is started again.

        Args:
            seed: In [0, 2**48); None goes on with the seed before.

        Raises:
            SpecMismatchError: The seed is out of range.
            ScenarioError: The scene refused the scenario, or does not know what to do with it.
            UnityPlayerDiedError: The player has ended, and was started again too often.
            UnityTimeoutError: It did not answer in time, and was started again too often.
            UnityProtocolError: It broke the protocol.
        """
        if seed is not None:
            self._send_seed(seed)
            self._seed = seed
        request = self._send_scenario() if self._scenario_is_new else None
        return self._play_reset(seed, request)

    def step(self, actions: Mapping[str, BehaviorActions]) -> PlayerOutput:
        """Give the agents that asked their actions; returns the next exchange.

        Raises:
            UnityPlayerDiedError: The player has ended; see :meth:`restart`.
            UnityTimeoutError: It did not answer in time; see :meth:`restart`.
            UnityProtocolError: It broke the protocol.
        """
        self.states.begin_exchange()
        return self.session.step(actions)

    def restart(self, error: Exception) -> PlayerOutput:
        """Start the player again after :meth:`step` has raised, and start new episodes.

        Args:
            error: What it raised.

        Raises:
            Exception: ``error``, or a later one, if the player was started again too often.
        """
        self._open_again(error)
        return self._play_reset(None, self._prepare_again(None))

    def close(self) -> None:
        """Make the player quit; may be called twice."""
        self.session.close()

    def _start(self) -> UnitySession:
        engine = EngineConfigurationChannel()
        engine.set_configuration_parameters(time_scale=self._options.time_scale)
        for key, value in self._options.parameters.items():
            _set_parameter(self.parameters, key, value, self.terms.session.seed)
        analytics = DefaultTrainingAnalyticsSideChannel()
        analytics.environment_initialized()
        channels = [engine, self.parameters, self.stats, self.identities, self._scenarios, self.states, analytics]
        hub = SideChannelHub(channels, raise_handler_errors=self._options.raise_channel_errors)
        return UnitySession(self._command, self.terms.session, hub)

    def _open_again(self, error: Exception) -> None:
        """A new session in place of one that failed; bounded, with growing waits."""
        while True:
            if self.restarts >= self._options.max_restarts:
                if self._options.max_restarts:
                    error.add_note(f"The player was started again {self.restarts} times; given up.")
                raise error
            delay_s = min(self._options.restart_delay_s * 2**self.restarts, _MAX_DELAY_S)
            self.restarts += 1
            _LOG.warning(
                "player %d failed and is started again in %g s (%d of %d): %s",
                0 if self._command is None else self._command.worker_id,
                delay_s,
                self.restarts,
                self._options.max_restarts,
                error,
            )
            time.sleep(delay_s)
            self.identities.clear()
            try:
                self.session = self._start()
            except (WorldDiedError, WorldTimeoutError) as next_error:
                error = next_error
            else:
                return

    def _prepare_again(self, seed: int | None) -> int | None:
        """Queue once more what the new player has to know; returns the number of the scenario's request."""
        if seed is None and self._seed is not None:
            # Not the seed before: the episodes that were played already would be played once more.
            seed = (self._seed + _SEED_STRIDE * self.restarts) % SEED_LIMIT
        if seed is not None:
            self._send_seed(seed)
        return None if self._scenario is None else self._send_scenario()

    def _play_reset(self, seed: int | None, request: int | None) -> PlayerOutput:
        while True:
            self.states.begin_exchange()
            try:
                output = self.session.reset()
            except (WorldDiedError, WorldTimeoutError) as error:
                self._open_again(error)
                request = self._prepare_again(seed)
            else:
                self._require_taken(request)
                return output

    def _send_seed(self, seed: int) -> None:
        if not 0 <= seed < SEED_LIMIT:
            raise SpecMismatchError(f"UnityRoster.reset: expected a seed in [0, 2**48), got {seed}.")
        seed = (seed + _PLAYER_STRIDE * self._options.seed_offset) % SEED_LIMIT
        self.parameters.set_float_parameter(SEED_HIGH, float(seed >> 24))
        self.parameters.set_float_parameter(SEED_LOW, float(seed & 0xFFFFFF))

    def _send_scenario(self) -> int:
        assert self._scenario is not None
        self._scenario_is_new = False
        self.states.may_be_shorter = True
        return self._scenarios.send(self._scenario)

    def _require_taken(self, request: int | None) -> None:
        if request is None:
            return
        answer = self._scenarios.answer(request)
        if answer is None:
            raise ScenarioError(
                "UnityRoster.reset: expected the scene to answer the scenario that was sent, got no answer. "
                "Let it handle the scenario channel (docs/unity.md), or do not swap scenarios."
            )
        if not answer.taken:
            raise ScenarioError(f"UnityRoster.reset: expected the scene to take the scenario, got: {answer.reason}")


def _set_parameter(channel: EnvironmentParametersChannel, key: str, value: Parameter, seed: int) -> None:
    match value:
        case UniformSampler():
            channel.set_uniform_sampler_parameters(key, *value.uniform, seed)
        case GaussianSampler():
            channel.set_gaussian_sampler_parameters(key, *value.gaussian, seed)
        case RangesSampler():
            channel.set_multirangeuniform_sampler_parameters(key, [list(pair) for pair in value.ranges], seed)
        case _:
            channel.set_float_parameter(key, float(value))
