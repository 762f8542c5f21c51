"""One role's agents as protocol messages, and the trainer's actions as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError
from bridge.specs import RoleSpec
from bridge.unity.messages import ActionSpecProto, BrainParameters
from bridge.unity.player.sensors import Sensor, SensorRows

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
        self._sensors = sorted(sensors, key=lambda sensor: sensor.name)
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

    def append(self, target: Any, infos: AgentInfos) -> None:
        """Add one message per agent to a ``ListAgentInfoProto``."""
        # The wire says True = forbidden.
        forbidden = None if infos.action_mask is None else (~infos.action_mask).tolist()
        observations = [sensor.encode(infos.rows) for sensor in self._sensors]
        columns = (
            infos.ids.tolist(),
            infos.group_ids.tolist(),
            infos.rewards.tolist(),
            infos.group_rewards.tolist(),
            infos.max_step_reached.tolist(),
        )
        done = infos.rows.final
        for index, (agent_id, group_id, reward, group_reward, limit) in enumerate(zip(*columns, strict=True)):
            info = target.value.add(
                id=agent_id,
                group_id=group_id,
                reward=reward,
                group_reward=group_reward,
                done=done,
                max_step_reached=limit,
            )
            if forbidden is not None:
                info.action_mask.extend(forbidden[index])
            for of_sensor in observations:
                info.observations.add().MergeFromString(of_sensor[index])

    def decode_actions(self, actions: Any, num_asked: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """The actions of the agents that were asked, in the order in which they asked; more are ignored.

        Args:
            actions: A ``ListAgentActionProto``.
            num_asked: Number n of agents.

        Returns:
            (n, C) float32 and (n, B) int32.

        Raises:
            UnityProtocolError: Too few actions, or actions of another size.
        """
        chosen = list(actions.value[:num_asked])
        if len(chosen) < num_asked:
            raise UnityProtocolError(
                f"player: behavior {self.behavior_name!r}: expected actions for {num_asked} agents, got {len(chosen)}."
            )
        continuous = [action.continuous_actions for action in chosen]
        discrete = [action.discrete_actions for action in chosen]
        return (
            self._matrix(continuous, self._action.num_continuous, "continuous", np.dtype(np.float32)),
            self._matrix(discrete, self._action.num_branches, "discrete", np.dtype(np.int32)),
        )

    def _matrix(self, rows: list[Any], width: int, kind: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Rows of equal width as an array."""
        for row in rows:
            if len(row) != width:
                raise UnityProtocolError(
                    f"player: behavior {self.behavior_name!r}: expected {width} {kind} actions for an agent, "
                    f"got {len(row)}."
                )
        # (n * width,) -> (n, width)
        return np.array([value for row in rows for value in row] if width else [], dtype).reshape(len(rows), width)
