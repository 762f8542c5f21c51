"""The order of operations of a simulation step, as in the C# package's Academy.

One :meth:`Academy.environment_step` is one fixed update of Unity:

1. the first one, and every RESET, resets all areas; late behaviors appear;
2. agents that are asked put their infos, behind the terminals of the previous step;
3. one exchange with the trainer if anything was put; side channels of the
   reply come before its command, and the command before its actions;
4. the robots act, the simulator advances, lives end and begin.

Exchanges with terminals and without decisions therefore happen (decision
period above 1), and a step without anything to send makes no exchange.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.errors import AgvBridgeError, ScenarioError, UnityProtocolError
from bridge.roster import Roster
from bridge.unity.messages import COMMAND_RESET, InitializationOutput
from bridge.unity.player.agents import AgentRules, RoleAgents
from bridge.unity.player.communicator import Communicator
from bridge.unity.player.encoding import RoleEncoder
from bridge.unity.player.envelope import EnvelopeOutput, EnvelopeRLOutput
from bridge.unity.player.faults import play_fault
from bridge.unity.player.log import PlayerLog
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.reports import Reports
from bridge.unity.player.scene import Scene
from bridge.unity.player.side_channels import SideChannels

__all__ = ["Academy"]


class Academy:
    """Runs all training areas against one trainer.

    Args:
        roster: The simulator; environment ``e`` is training area ``e``. Closed by :meth:`close`.
        communicator: Connected to the trainer.
        channels: Has taken in the side channel data of the handshake.
        seed: Seed of the first reset, unless a side channel has brought one.
        options: What agents are like, behaviour at a reset, fault; fit for the roster's world.
        log: Where episodes are reported.
        load: Makes the simulator of a scenario that the trainer sends as JSON; None refuses all.
    """

    def __init__(
        self,
        roster: Roster,
        communicator: Communicator,
        channels: SideChannels,
        seed: int,
        options: PlayerOptions,
        log: PlayerLog,
        load: Callable[[str], Roster] | None = None,
    ) -> None:
        self._communicator = communicator
        self._channels = channels
        self._seed = seed
        self._options = options
        self._log = log
        self._load = load
        self._reports = Reports(channels, options, log)
        self._counter = itertools.count()
        self._announced: set[str] = set()
        self._had_first_reset = False
        self._step_count = 0
        self._total_step_count = 0
        self._exchange_count = 0
        self._exit_code: int | None = None
        self._set_scene(roster)

    def _set_scene(self, roster: Roster) -> None:
        """Put agents on the floor of a simulator that has not been reset; all of them are new."""
        options, arrays = self._options, roster.arrays
        self._roster = roster
        self._is_fresh = True
        self._scene = Scene(roster, options)
        rules = AgentRules(group_share=options.group_reward, disables=options.despawn_as == "disable")
        self._agents = [
            RoleAgents(
                role,
                arrays.roles[role.name],
                RoleEncoder(role, self._scene.sensors(role)),
                self._scene.requests(role),
                rules,
                self._counter,
            )
            for role in roster.spec.roles
        ]  # in the order of the world's roles, which is the order of ids
        self._first_steps = [options.late.get(role.name, 0) for role in roster.spec.roles]
        self._episode_steps = np.zeros(arrays.num_envs, np.int64)

    def run(self) -> int:
        """Step until one side quits.

        Returns:
            Exit code of the player.

        Raises:
            UnityProtocolError: The trainer sent something that a player cannot use.
            ActionError: An action that the simulator cannot take.
        """
        while self._exit_code is None:
            self.environment_step()
        return self._exit_code

    def close(self) -> None:
        """Close the simulator; may be called twice."""
        self._roster.close()

    def environment_step(self) -> None:
        """One simulation step; see the module's docstring."""
        if not self._had_first_reset:
            self._reset()
        for agents, first_step in zip(self._agents, self._first_steps, strict=True):
            if not agents.present and self._total_step_count >= first_step:
                agents.appear()
        output = EnvelopeRLOutput()
        sent = [agents for agents in self._agents if agents.send_state(output, self._step_count)]
        self._step_count += 1
        self._total_step_count += 1
        was_reset = bool(sent) and self._decide(output, sent)
        if self._exit_code is None and (not was_reset or self._options.act_after_reset):
            self._act()

    def _decide(self, output: Any, sent: list[RoleAgents]) -> bool:
        """Exchange messages; True if the trainer asked for a reset."""
        self._reports.exchange(self._roster, self._agents)
        output.side_channel = self._channels.take_outgoing()
        fault = self._options.fault
        if fault is not None and fault.step == self._exchange_count:
            self._exit_code = play_fault(fault, output, self._communicator, self._log)
            if self._exit_code is not None:
                return False
        self._exchange_count += 1
        message = EnvelopeOutput(rl_output=output, rl_initialization_output=self._news(sent))
        reply = self._communicator.exchange(message)
        if reply is None:
            self._exit_code = 0
            return False
        self._channels.process(reply.side_channel)
        if reply.command == COMMAND_RESET:
            self._reset()
            return True
        self._receive_actions(reply.agent_actions)
        return False

    def _receive_actions(self, actions: Any) -> None:
        known = self._announced
        for name in actions:
            if name not in known:
                raise UnityProtocolError(
                    f"player: expected actions for one of the behaviors {sorted(known)}, got {name!r}."
                )
        for agents in self._agents:
            agents.receive_actions(actions.get(agents.encoder.behavior_name))

    def _reset(self) -> None:
        self._swap_scenario()
        seed = self._channels.take_seed()
        if seed is not None:
            self._seed = seed
        elif self._is_fresh:
            seed = self._seed
        self._had_first_reset = True
        self._is_fresh = False
        self._step_count = 0
        self._episode_steps[:] = 0
        self._roster.reset(seed)
        self._scene.reset()
        for agents in self._agents:
            agents.on_reset()
        self._reports.reset(len(self._episode_steps), seed)

    def _swap_scenario(self) -> None:
        """Take or refuse the scenario that the trainer has sent, if it has: a new scene, whose agents are all new."""
        request = self._channels.take_scenario()
        if request is None:
            return
        try:
            if self._load is None:
                raise ScenarioError("scenario: expected none, got one. This player plays the scenario that it has.")
            roster = self._load(request.text)
        except AgvBridgeError as error:
            self._log.write(f"Scenario {request.number} refused: {error}")
            self._channels.answer_scenario(request.number, str(error))
            return
        self._roster.close()
        self._set_scene(roster)
        self._log.write(f"Scenario {request.number} taken.")
        self._channels.answer_scenario(request.number, None)

    def _act(self) -> None:
        for agents in self._agents:
            agents.act()
        self._roster.step()
        self._scene.new_frame()
        group_rewards = self._group_rewards()
        for agents in self._agents:
            agents.on_step(group_rewards)
        self._episode_steps += 1
        self._reports.step(self._roster, self._episode_steps.tolist())
        self._episode_steps[self._roster.arrays.episode_over] = 0

    def _group_rewards(self) -> NDArray[np.float64]:
        """(E,) float64, what each member of a group gets: the group's share, divided among its members.

        So a share moves reward between robots and makes none: what all members of a group get together is
        what the simulator paid.
        """
        arrays = self._roster.arrays
        paid = np.zeros(arrays.num_envs)
        members = np.zeros(arrays.num_envs)
        for role, agents in zip(self._roster.spec.roles, self._agents, strict=True):
            if agents.present:
                paid += arrays.roles[role.name].rewards.sum(axis=1, dtype=np.float64)
                members += agents.members.sum(axis=1)
        return self._options.group_reward * paid / np.maximum(members, 1.0)

    def _news(self, sent: list[RoleAgents]) -> bytes:
        """The announcement of behaviors that speak for the first time; empty if there are none."""
        new = [agents.encoder for agents in sent if agents.encoder.behavior_name not in self._announced]
        if not new:
            return b""
        self._announced.update(encoder.behavior_name for encoder in new)
        announcement = InitializationOutput(brain_parameters=[encoder.brain_parameters() for encoder in new])
        return bytes(announcement.SerializeToString())
