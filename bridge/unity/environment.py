"""A drop-in for ``mlagents_envs.environment.UnityEnvironment``.

Takes the same arguments and returns the same types, so that code written for
Unity's package runs on a current stack by changing one import. Differences:
ports are free ones unless asked for, only loopback is listened on, a crashed
player is noticed within a second, every wait has a time limit, a masked action
is refused, actions that are not given respect the masks, and errors are those
of :mod:`bridge.errors` as well as those of ``mlagents_envs.exception``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bridge.errors import ActionError, CallOrderError
from bridge.unity.actions import checked_actions, default_actions
from bridge.unity.behaviors import Behavior
from bridge.unity.decode import AgentBatch, PlayerOutput
from bridge.unity.encode import BehaviorActions
from bridge.unity.launch import PlayerCommand
from bridge.unity.messages import API_VERSION
from bridge.unity.mlagents_errors import mlagents_errors
from bridge.unity.mlagents_types import BaseEnv, BehaviorMapping, DecisionSteps, TerminalSteps
from bridge.unity.player_process import resolve_player
from bridge.unity.session import SessionOptions, UnitySession
from bridge.unity.side_channels import DefaultTrainingAnalyticsSideChannel, SideChannelHub, StatsChannel
from bridge.unity.steps import decision_steps, terminal_steps

__all__ = ["UnityEnvironment"]


class UnityEnvironment(BaseEnv):  # type: ignore[misc]
    """A Unity player behind ML-Agents' ``BaseEnv``.

    Args:
        file_name: Path of the build; None waits for the Editor.
        worker_id: Offset to ``base_port``, and number in the log file's name.
        base_port: First port; None takes any free one (with the Editor: 5004).
        seed: Seed of Unity's random numbers.
        no_graphics: Start the build without a window.
        timeout_wait: Longest wait for the player to connect, and for each answer, in s.
        additional_args: Further arguments of the build.
        side_channels: Instances of ``mlagents_envs``' ``SideChannel``.
        log_folder: Folder for the player's log; None keeps no log.
        num_areas: Number of training areas.
        no_graphics_monitor: Start the build without a window unless ``worker_id`` is 0.

    Attributes:
        stats: What the player reports through the statistics channel, unless ``side_channels`` has one.

    Raises:
        UnityPlayerDiedError: The player cannot be started, or ended before it was connected.
        UnityTimeoutError: It did not connect in time.
        UnityVersionError: It speaks another version of the protocol.
        UnityPortError: The port is taken.
    """

    API_VERSION: Final = API_VERSION
    DEFAULT_EDITOR_PORT: Final = 5004
    BASE_ENVIRONMENT_PORT: Final = 5005

    @mlagents_errors()
    def __init__(  # the signature is that of mlagents_envs
        self,
        file_name: str | None = None,
        worker_id: int = 0,
        base_port: int | None = None,
        seed: int = 0,
        no_graphics: bool = False,
        timeout_wait: float = 60,
        additional_args: Sequence[str] | None = None,
        side_channels: Sequence[Any] | None = None,
        log_folder: str | None = None,
        num_areas: int = 1,
        no_graphics_monitor: bool = False,
    ) -> None:
        self.stats = StatsChannel()
        channels = list(side_channels or [])
        analytics = DefaultTrainingAnalyticsSideChannel()
        analytics.environment_initialized()
        taken = {channel.channel_id for channel in channels}
        channels += [channel for channel in (self.stats, analytics) if channel.channel_id not in taken]
        command = None
        port = 0 if base_port is None else base_port + worker_id
        if file_name is None:
            port = port or self.DEFAULT_EDITOR_PORT
        else:
            command = PlayerCommand(
                prefix=(str(resolve_player(file_name)),),
                no_graphics=no_graphics or (no_graphics_monitor and worker_id != 0),
                additional=tuple(additional_args or ()),
                log_folder=None if log_folder is None else Path(log_folder),
                worker_id=worker_id,
            )
        options = SessionOptions(seed=seed, num_areas=num_areas, timeout_s=timeout_wait, port=port)
        self._session = UnitySession(command, options, SideChannelHub(channels))
        self._specs: dict[str, Any] = {}
        self._nobody: dict[str, tuple[Any, Any]] = {}
        self._batches: dict[str, AgentBatch] = {}
        self._asked: dict[str, AgentBatch] = {}
        self._steps: dict[str, tuple[Any, Any]] = {}
        self._actions: dict[str, BehaviorActions] = {}
        self._was_reset = False

    @property
    def academy_capabilities(self) -> Any:
        """What the player can do, as it announced when it connected."""
        return self._session.capabilities

    @property
    def behavior_specs(self) -> Mapping[str, Any]:
        """``BehaviorSpec`` of every behavior that has appeared, by name."""
        specs: Mapping[str, Any] = BehaviorMapping(self._specs)
        return specs

    @mlagents_errors()
    def reset(self) -> None:
        """Start new episodes."""
        self._take(self._session.reset())
        self._was_reset = True

    @mlagents_errors()
    def step(self) -> None:
        """Send the actions and wait for the next exchange; the first call is a reset."""
        if not self._was_reset:
            self.reset()
            return
        actions = {
            name: self._actions.get(name) or default_actions(batch, self._session.behaviors[name])
            for name, batch in self._asked.items()
        }
        self._take(self._session.step(actions))

    @mlagents_errors()
    def get_steps(self, behavior_name: str) -> tuple[Any, Any]:
        """``DecisionSteps`` and ``TerminalSteps`` of a behavior in the last exchange.

        Raises:
            ActionError: There is no such behavior.
        """
        behavior = self._behavior("get_steps", behavior_name)
        if behavior_name not in self._steps:
            self._steps[behavior_name] = self._make_steps(behavior)
        return self._steps[behavior_name]

    @mlagents_errors()
    def set_actions(self, behavior_name: str, action: Any) -> None:
        """Choose the actions of all agents in the last ``DecisionSteps``, in their order.

        Raises:
            ActionError: Unknown behavior, wrong shape, a value that is not finite, or a masked action.
        """
        behavior = self._behavior("set_actions", behavior_name)
        batch = self._asked.get(behavior_name)
        count = 0 if batch is None else len(batch)
        self._actions[behavior_name] = checked_actions(
            f"UnityEnvironment.set_actions: {behavior_name!r}", behavior, batch, action, np.arange(count)
        )

    @mlagents_errors()
    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: Any) -> None:
        """Choose the action of one agent in the last ``DecisionSteps``.

        Raises:
            ActionError: Unknown behavior or agent, wrong shape, a value that is not finite, or a masked action.
        """
        behavior = self._behavior("set_action_for_agent", behavior_name)
        batch = self._asked.get(behavior_name)
        rows = np.flatnonzero(batch.agent_id == agent_id) if batch is not None else np.zeros(0, np.intp)
        if batch is None or len(rows) == 0:
            raise ActionError(
                f"UnityEnvironment.set_action_for_agent: expected an agent of {behavior_name!r} that asked for a "
                f"decision, got agent {agent_id}. Look into get_steps."
            )
        chosen = checked_actions(
            f"UnityEnvironment.set_action_for_agent: {behavior_name!r}", behavior, batch, action, rows[:1]
        )
        actions = self._actions.setdefault(behavior_name, default_actions(batch, behavior))
        actions.continuous[rows[0]] = chosen.continuous[0]
        actions.discrete[rows[0]] = chosen.discrete[0]

    def close(self) -> None:
        """Make the player quit; may be called twice."""
        self._session.close()

    def _behavior(self, call: str, name: str) -> Behavior:
        if not self._was_reset:
            raise CallOrderError(f"UnityEnvironment.{call}: expected a reset first, got none.")
        behavior = self._session.behaviors.get(name)
        if behavior is None:
            known = ", ".join(self._session.behaviors)
            raise ActionError(f"UnityEnvironment.{call}: expected one of the behaviors {known}, got {name!r}.")
        return behavior

    def _make_steps(self, behavior: Behavior) -> tuple[Any, Any]:
        no_decisions, no_terminals = self._nobody[behavior.name]
        batch = self._batches.get(behavior.name)
        if batch is None:
            return no_decisions, no_terminals
        asked = self._asked[behavior.name]
        has_ended = len(asked) < len(batch)
        terminals = terminal_steps(batch.rows(batch.done), behavior) if has_ended else no_terminals
        return decision_steps(asked, behavior), terminals

    def _take(self, output: PlayerOutput) -> None:
        for name, behavior in output.new_behaviors.items():
            spec = self._specs[name] = behavior.to_mlagents()
            self._nobody[name] = DecisionSteps.empty(spec), TerminalSteps.empty(spec)
        self._actions.clear()
        self._steps.clear()
        self._batches = output.batches
        self._asked = {
            name: batch.rows(~batch.done) if batch.done.any() else batch for name, batch in output.batches.items()
        }
