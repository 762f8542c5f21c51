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
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError
from bridge.roster import Roster
from bridge.unity.messages import COMMAND_RESET, InitializationOutput, RLOutput, UnityOutput
from bridge.unity.player.agents import AgentRules, RoleAgents
from bridge.unity.player.communicator import Communicator
from bridge.unity.player.encoding import RoleEncoder
from bridge.unity.player.faults import HANG_LIMIT_S, Fault
from bridge.unity.player.log import PlayerLog
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.scene import Scene
from bridge.unity.player.side_channels import SideChannels

__all__ = ["Academy"]


class Academy:
    """Runs all training areas against one trainer.

    Args:
        roster: The simulator; environment ``e`` is training area ``e``.
        communicator: Connected to the trainer.
        channels: Has taken in the side channel data of the handshake.
        seed: Seed of the first reset, unless a side channel has brought one.
        options: What agents are like, behaviour at a reset, fault; fit for the roster's world.
        log: Where episodes are reported.
    """

    def __init__(
        self,
        roster: Roster,
        communicator: Communicator,
        channels: SideChannels,
        seed: int,
        options: PlayerOptions,
        log: PlayerLog,
    ) -> None:
        self._roster = roster
        self._communicator = communicator
        self._channels = channels
        self._seed = seed
        self._options = options
        self._log = log
        self._scene = Scene(roster, options)
        rules = AgentRules(group_share=options.group_reward, disables=options.despawn_as == "disable")
        counter = itertools.count()
        self._agents = [
            RoleAgents(
                role,
                roster.arrays.roles[role.name],
                RoleEncoder(role, self._scene.sensors(role)),
                self._scene.requests(role),
                rules,
                counter,
            )
            for role in roster.spec.roles
        ]  # in the order of the world's roles, which is the order of ids
        self._first_steps = [options.late.get(role.name, 0) for role in roster.spec.roles]
        self._had_first_reset = False
        self._step_count = 0
        self._total_step_count = 0
        self._exchange_count = 0
        self._episode_steps = np.zeros(roster.arrays.num_envs, np.int64)
        self._exit_code: int | None = None

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

    def environment_step(self) -> None:
        """One simulation step; see the module's docstring."""
        if not self._had_first_reset:
            self._reset()
        for agents, first_step in zip(self._agents, self._first_steps, strict=True):
            if not agents.present and self._total_step_count >= first_step:
                agents.appear()
        output = RLOutput()
        sent = [agents for agents in self._agents if agents.send_state(output, self._step_count)]
        self._step_count += 1
        self._total_step_count += 1
        was_reset = bool(sent) and self._decide(output, sent)
        if self._exit_code is None and (not was_reset or self._options.act_after_reset):
            self._act()

    def _decide(self, output: Any, sent: list[RoleAgents]) -> bool:
        """Exchange messages; True if the trainer asked for a reset."""
        fault = self._options.fault
        if fault is not None and fault.step == self._exchange_count:
            self._exit_code = self._play_fault(fault)
            return False
        self._exchange_count += 1
        output.side_channel = self._channels.take_outgoing()
        reply = self._communicator.exchange(UnityOutput(rl_output=output, rl_initialization_output=_news(sent)))
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
        known = {agents.encoder.behavior_name for agents in self._agents if agents.announced}
        for name in actions:
            if name not in known:
                raise UnityProtocolError(
                    f"player: expected actions for one of the behaviors {sorted(known)}, got {name!r}."
                )
        for agents in self._agents:
            agents.receive_actions(actions.get(agents.encoder.behavior_name))

    def _reset(self) -> None:
        seed = self._channels.take_seed()
        if seed is None and not self._had_first_reset:
            seed = self._seed
        self._had_first_reset = True
        self._step_count = 0
        self._episode_steps[:] = 0
        self._roster.reset(seed)
        self._scene.new_frame()
        for agents in self._agents:
            agents.on_reset()
        self._log.write(f"Reset of {len(self._episode_steps)} areas" + (f", seed {seed}" if seed is not None else ""))

    def _act(self) -> None:
        for agents in self._agents:
            agents.act()
        self._roster.step()
        self._scene.new_frame()
        group_rewards = self._group_rewards()
        for agents in self._agents:
            agents.on_step(group_rewards)
        self._episode_steps += 1
        for area in np.flatnonzero(self._roster.arrays.episode_over).tolist():
            self._report_episode(area)

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

    def _report_episode(self, area: int) -> None:
        """Send the figures of an ended episode with its terminals, and log them."""
        values = self._roster.arrays.metrics[area].tolist()
        figures = dict(zip(self._roster.spec.metric_names, values, strict=True))
        for name, value in figures.items():
            self._channels.send_statistic(f"episode/{area}/{name}", value)
        text = ", ".join(f"{name} {value:.6g}" for name, value in figures.items())
        self._log.write(f"Area {area}: episode ended after {self._episode_steps[area]} steps: {text}")
        self._episode_steps[area] = 0

    def _play_fault(self, fault: Fault) -> int:
        if fault.kind == "hang":
            self._log.write(f"Hanging on request at exchange {fault.step}.")
            time.sleep(HANG_LIMIT_S)
        elif fault.kind == "quit":
            self._log.write(f"Quitting on request at exchange {fault.step}.")
            self._communicator.say_goodbye()
            return 0
        elif fault.kind == "crash":
            self._log.exception(RuntimeError(f"crash on request at exchange {fault.step}"))
        return fault.exit_code


def _news(sent: list[RoleAgents]) -> Any | None:
    """The announcement of behaviors that speak for the first time, or None."""
    new = [agents for agents in sent if not agents.announced]
    if not new:
        return None
    for agents in new:
        agents.announced = True
    return InitializationOutput(brain_parameters=[agents.encoder.brain_parameters() for agents in new])
