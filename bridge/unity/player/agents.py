"""The agents of one role in all training areas: their lives, ids, rewards and actions.

Ids follow the C# package. An id belongs to an agent from when it is enabled
until it is disabled: a despawned robot that comes back has a new one, while a
robot whose episode is cut by the time limit, or by a reset, keeps its own. Ids
come from one growing counter and never return. Where despawning only ends the
episode (``--despawn-as end-episode``), a robot keeps its id for good.

All agents of an area are one group. A member is an agent that is enabled: one
that was disabled gets no group reward any more, one whose episode has ended
gets it with its next info.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.roster import RoleArrays
from bridge.specs import RoleSpec
from bridge.unity.player.encoding import AgentInfos, RoleEncoder
from bridge.unity.player.requests import DecisionRequests
from bridge.unity.player.sensors import SensorRows

__all__ = ["AgentRules", "RoleAgents"]

_NO_ID = -1


@dataclass(frozen=True)
class AgentRules:
    """How agents live.

    Attributes:
        group_share: Share of the reward that goes to the group, in [0, 1].
        disables: A robot that leaves the floor is disabled and comes back with a new id.
    """

    group_share: float = 0.0
    disables: bool = True


class RoleAgents:
    """Turns the arrays of a role into agent infos and actions into the arrays.

    Args:
        role: The role.
        arrays: Its arrays in the roster; area ``e`` is environment ``e``.
        encoder: Writes its messages.
        requests: When its agents ask.
        rules: How they live.
        counter: Where new ids come from, shared by all roles.
    """

    def __init__(
        self,
        role: RoleSpec,
        arrays: RoleArrays,
        encoder: RoleEncoder,
        requests: DecisionRequests,
        rules: AgentRules,
        counter: Iterator[int],
    ) -> None:
        self.name = role.name
        self.encoder = encoder
        self.present = False
        self._role = role
        self._arrays = arrays
        self._requests = requests
        self._rules = rules
        self._counter = counter
        slots = arrays.agent_mask.shape
        self._ids = np.full(slots, _NO_ID, np.int32)
        # (E,) -> (E, A): groups are counted from 1, 0 means none.
        self._group_ids = np.repeat(np.arange(1, slots[0] + 1, dtype=np.int32)[:, None], slots[1], axis=1)
        self._rewards = np.zeros(slots, np.float32)
        self._group_rewards = np.zeros(slots, np.float32)
        self._continuous = np.zeros_like(arrays.continuous_actions)
        self._discrete = np.zeros_like(arrays.discrete_actions)
        self._sent_mask = np.ones_like(arrays.action_mask)
        self._masks_in_use = False
        self._asked = np.zeros(slots, np.bool_)
        self._answered = np.zeros(slots, np.bool_)
        self._terminals: AgentInfos | None = None
        self._newcomers: list[tuple[int, int, int]] = []

    @property
    def members(self) -> NDArray[np.bool_]:
        """(E, A) bool, agents that are enabled and so belong to their area's group."""
        members: NDArray[np.bool_] = self._ids != _NO_ID
        return members

    def newcomers(self) -> list[tuple[int, int, int]]:
        """Id, area and slot of the agents that were enabled since the last call."""
        newcomers, self._newcomers = self._newcomers, []
        return newcomers

    def appear(self) -> None:
        """Enable the agents; before, the role's robots stand still and nobody hears of them."""
        self.present = True
        self._begin_lives()

    def on_reset(self) -> None:
        """Start the lives of a full reset: no terminal infos, living agents keep their ids.

        As in the C# package, an agent that was not asked in the exchange that brought the reset keeps the
        reward that it has not sent yet, and its old action; both show in its first info afterwards.
        """
        self._clear_actions(self._asked)
        self._requests.restart(np.ones_like(self._asked))
        self._begin_lives()

    def on_step(self, group_rewards: NDArray[np.float64]) -> None:
        """Take in a simulation step: collect rewards, end lives, begin new ones.

        Args:
            group_rewards: (E,) float64, what each member of an area's group gets for this step.
        """
        self._answered[:] = False
        if not self.present:
            return
        arrays = self._arrays
        self._rewards += arrays.rewards * np.float32(1.0 - self._rules.group_share)
        self._group_rewards += np.where(self.members, group_rewards[:, None], 0.0).astype(np.float32)
        ended = arrays.terminated | arrays.truncated
        if ended.any():
            self._terminals = self._infos(ended, arrays.final_observations, final=True)
            self._clear_actions(ended)
            self._requests.restart(ended)
            if self._rules.disables:
                # A robot that left the floor is disabled; one that was cut goes on as the same agent.
                self._ids[arrays.terminated] = _NO_ID
        self._begin_lives()

    def send_state(self, output: Any, step: int) -> bool:
        """Add this step's infos to a ``UnityRLOutputProto``: terminals first, then decisions.

        Args:
            output: The message, an envelope's.
            step: Steps since the last reset.

        Returns:
            Whether there was anything to send.
        """
        arrays = self._arrays
        can_ask = arrays.decision_mask & arrays.agent_mask & self.present
        self._asked = self._requests.due(step, can_ask)
        has_decisions = bool(self._asked.any())
        if self._terminals is None and not has_decisions:
            return False
        infos = b""
        if self._terminals is not None:
            infos = self.encoder.agents(self._terminals)
            self._terminals = None
        if has_decisions:
            self._masks_in_use |= not bool(arrays.action_mask[self._asked].all())
            self._sent_mask[self._asked] = arrays.action_mask[self._asked]
            infos += self.encoder.agents(self._infos(self._asked, arrays.observations, final=False))
        output.agentInfos[self.encoder.behavior_name] = infos
        return True

    def receive_actions(self, actions: bytes | None) -> None:
        """Keep the answers of the agents that were asked, a ``ListAgentActionProto``.

        None (the behavior is missing) means zeros.
        """
        if actions is None:
            self._clear_actions(self._asked)
            return
        num_asked = int(self._asked.sum())
        self._continuous[self._asked], self._discrete[self._asked] = self.encoder.decode_actions(actions, num_asked)
        self._answered[:] = self._asked

    def act(self) -> None:
        """Write every agent's latest action into the arrays.

        An action that is repeated between decisions may have become forbidden; its branch then takes
        the first choice that is allowed. A fresh action is passed on as it came.
        """
        self._arrays.continuous_actions[:] = self._continuous
        self._arrays.discrete_actions[:] = self._discrete
        repeated = self._arrays.decision_mask & ~self._answered
        if not repeated.any():
            return
        start = 0
        for branch, size in enumerate(self._role.action.discrete_branches):
            allowed = self._arrays.action_mask[..., start : start + size]  # (E, A, choices)
            choice = self._arrays.discrete_actions[..., branch]  # (E, A)
            is_allowed = np.take_along_axis(allowed, choice.clip(0, size - 1)[..., None], axis=-1)[..., 0]
            stale = repeated & ~is_allowed
            choice[stale] = allowed[stale].argmax(axis=-1)
            start += size

    def _begin_lives(self) -> None:
        if not self.present:
            return
        alive = self._arrays.agent_mask
        if self._rules.disables:
            self._ids[~alive] = _NO_ID
        born = alive & (self._ids == _NO_ID)
        if not born.any():
            return
        self._ids[born] = [next(self._counter) for _ in range(int(born.sum()))]
        self._newcomers += zip(self._ids[born].tolist(), *(axis.tolist() for axis in np.nonzero(born)), strict=True)
        self._rewards[born] = 0.0
        self._group_rewards[born] = 0.0
        self._clear_actions(born)
        self._requests.restart(born)

    def _clear_actions(self, agents: NDArray[np.bool_]) -> None:
        self._continuous[agents] = 0.0
        self._discrete[agents] = 0

    def _infos(self, agents: NDArray[np.bool_], observations: NDArray[np.float32], *, final: bool) -> AgentInfos:
        """Reports of the agents, whose rewards start from 0 again."""
        limit = self._arrays.truncated[agents]
        areas, slots = np.nonzero(agents)
        infos = AgentInfos(
            ids=self._ids[agents],
            group_ids=self._group_ids[agents],
            rewards=self._rewards[agents],
            group_rewards=self._group_rewards[agents],
            rows=SensorRows(areas, slots, observations[agents], final),
            max_step_reached=limit if final else np.zeros_like(limit),
            # A terminal info repeats the mask of the last decision, as in the C# package.
            action_mask=self._sent_mask[agents] if self._masks_in_use else None,
        )
        self._rewards[agents] = 0.0
        self._group_rewards[agents] = 0.0
        return infos
