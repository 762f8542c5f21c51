"""One role's agents as protocol messages, and the trainer's actions as arrays; without a loop over agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError
from bridge.specs import RoleSpec
from bridge.unity.messages import ActionSpecProto, BrainParameters, ListAgentAction
from bridge.unity.player.action_bytes import BAD_CONTINUOUS, FEWER_AGENTS, MALFORMED, read_actions
from bridge.unity.player.agent_bytes import AgentColumns, agents_to_bytes
from bridge.unity.player.sensors import Sensor, SensorRows, sensor_order

__all__ = ["AgentInfos", "RoleEncoder"]


@dataclass(frozen=True)
class AgentInfos:
    """What n agents of one role report.

    Attributes:
        ids: (n,) int32.
        group_ids: (n,) int32, training area, from 1.
        rewards: (n,) float32, reward since the agent's last info.
        group_rewards: (n,) float32, reward of its team since then.
        rows: What its sensors are read of; final rows make terminal infos.
        max_step_reached: (n,) bool, ended by a limit; only where the rows are final.
        action_mask: (n, M) bool, True = allowed; None where nothing is said about masks.
    """

    ids: NDArray[np.int32]
    group_ids: NDArray[np.int32]
    rewards: NDArray[np.float32]
    group_rewards: NDArray[np.float32]
    rows: SensorRows
    max_step_reached: NDArray[np.bool_]
    action_mask: NDArray[np.bool_] | None


class RoleEncoder:
    """Writes a role's messages.

    Args:
        role: The role, which becomes one behavior.
        sensors: Its agents' sensors, in any order.
    """

    def __init__(self, role: RoleSpec, sensors: Sequence[Sensor]) -> None:
        self.behavior_name = f"{role.name}?team=0"
        self._sensors = sorted(sensors, key=lambda sensor: sensor_order(sensor.name))
        self._action = role.action

    def brain_parameters(self) -> Any:
        """The message that announces the behavior."""
        return BrainParameters(
            brain_name=self.behavior_name,
            is_training=True,
            action_spec=ActionSpecProto(
                num_continuous_actions=self._action.num_continuous,
                num_discrete_actions=self._action.num_branches,
                discrete_branch_sizes=self._action.discrete_branches,
            ),
        )

    def agents(self, infos: AgentInfos) -> bytes:
        """One message per agent, as the bytes of a ``ListAgentInfoProto``."""
        count = len(infos.ids)
        columns = AgentColumns(
            numbers=np.stack([infos.ids, infos.group_ids]),
            rewards=np.stack([infos.rewards, infos.group_rewards]),
            limits=infos.max_step_reached,
            # The wire says True = forbidden.
            forbidden=np.zeros((count, 0), np.bool_) if infos.action_mask is None else ~infos.action_mask,
            done=infos.rows.final,
        )
        return agents_to_bytes(columns, [sensor.encode(infos.rows) for sensor in self._sensors])

    def decode_actions(self, actions: bytes, num_asked: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """The actions of the agents that were asked, in the order in which they asked; more are ignored.

        Args:
            actions: A ``ListAgentActionProto``.
            num_asked: Number n of agents.

        Returns:
            (n, C) float32 and (n, B) int32.

        Raises:
            UnityProtocolError: Too few actions, actions of another size, or bytes that are no message.
        """
        continuous = np.empty((num_asked, 4 * self._action.num_continuous), np.uint8)
        discrete = np.empty((num_asked, self._action.num_branches), np.int32)
        wrong, count = read_actions(np.frombuffer(actions, np.uint8), continuous, discrete)
        if wrong == MALFORMED:
            plain = self._canonical(actions)
            wrong, count = read_actions(np.frombuffer(plain, np.uint8), continuous, discrete)
        if wrong:
            raise self._misfit(wrong, count, num_asked)
        values: NDArray[np.float32] = continuous.view("<f4").astype(np.float32, copy=False)
        return values, discrete

    def _canonical(self, actions: bytes) -> bytes:
        """The same actions as protobuf writes them."""
        try:
            message = ListAgentAction.FromString(actions)
        except DecodeError as error:
            raise UnityProtocolError(
                f"player: behavior {self.behavior_name!r}: expected actions, got {len(actions)} bytes that are none."
            ) from error
        message.DiscardUnknownFields()
        return bytes(message.SerializeToString())

    def _misfit(self, wrong: int, count: int, num_asked: int) -> UnityProtocolError:
        where = f"player: behavior {self.behavior_name!r}: expected"
        if wrong == FEWER_AGENTS:
            return UnityProtocolError(f"{where} actions for {num_asked} agents, got {count}.")
        is_continuous = wrong == BAD_CONTINUOUS
        kind = "continuous" if is_continuous else "discrete"
        size = self._action.num_continuous if is_continuous else self._action.num_branches
        return UnityProtocolError(f"{where} {size} {kind} actions for an agent, got {count}.")
