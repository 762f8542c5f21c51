"""The agents of one role in all training areas: their lives, ids, rewards and actions.

Ids follow the C# package. An id belongs to an agent from when it is enabled
until it is disabled: a despawned robot that comes back has a new one, while a
robot whose episode is cut by the time limit, or by a reset, keeps its own. Ids
come from one growing counter and never return.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.roster import RoleArrays
from bridge.specs import RoleSpec
from bridge.unity.player.encoding import AgentInfos, RoleEncoder

__all__ = ["RoleAgents"]

_NO_ID = -1


class RoleAgents:
    """Turns the arrays of a role into agent infos and actions into the arrays.

    Args:
        role: The role.
        arrays: Its arrays in the roster; area ``e`` is environment ``e``.
        counter: Where new ids come from, shared by all roles.
    """

    def __init__(self, role: RoleSpec, arrays: RoleArrays, counter: Iterator[int]) -> None:
        self.encoder = RoleEncoder(role)
        self.announced = False
        self._role = role
        self._arrays = arrays
        self._counter = counter
        slots = arrays.agent_mask.shape
        self._ids = np.full(slots, _NO_ID, np.int32)
        # (E,) -> (E, A): groups are counted from 1, 0 means none.
        self._group_ids = np.repeat(np.arange(1, slots[0] + 1, dtype=np.int32)[:, None], slots[1], axis=1)
        self._rewards = np.zeros(slots, np.float32)
        self._continuous = np.zeros_like(arrays.continuous_actions)
        self._discrete = np.zeros_like(arrays.discrete_actions)
        self._sent_mask = np.ones_like(arrays.action_mask)
        self._masks_in_use = False
        self._asked = np.zeros(slots, np.bool_)
        self._answered = np.zeros(slots, np.bool_)
        self._terminals: AgentInfos | None = None

    def on_reset(self) -> None:
        """Start the lives of a full reset: no terminal infos, living agents keep their ids.

        As in the C# package, an agent that was not asked in the exchange that brought the reset keeps the
        reward that it has not sent yet, and its old action; both show in its first info afterwards.
        """
        self._clear_actions(self._asked)
        self._begin_lives()

    def on_step(self) -> None:
        """Take in a simulation step: collect rewards, end lives, begin new ones."""
        arrays = self._arrays
        self._answered[:] = False
        self._rewards += arrays.rewards
        ended = arrays.terminated | arrays.truncated
        if ended.any():
            self._terminals = self._infos(ended, arrays.final_observations, done=True)
            self._rewards[ended] = 0.0
            self._clear_actions(ended)
            # A robot that left the floor is disabled; one that was cut goes on as the same agent.
            self._ids[arrays.terminated] = _NO_ID
        self._begin_lives()

    def send_state(self, output: Any, ask: bool) -> bool:
        """Add this step's infos to an ``UnityRLOutputProto``: terminals first, then decisions.

        Args:
            output: The message.
            ask: Agents ask for decisions in this step.

        Returns:
            Whether there was anything to send.
        """
        arrays = self._arrays
        self._asked = arrays.decision_mask & arrays.agent_mask if ask else np.zeros_like(arrays.agent_mask)
        has_decisions = bool(self._asked.any())
        if self._terminals is None and not has_decisions:
            return False
        target = output.agentInfos[self.encoder.behavior_name]
        if self._terminals is not None:
            self.encoder.append(target, self._terminals)
            self._terminals = None
        if has_decisions:
            self._masks_in_use |= not bool(arrays.action_mask[self._asked].all())
            self._sent_mask[self._asked] = arrays.action_mask[self._asked]
            self.encoder.append(target, self._infos(self._asked, arrays.observations, done=False))
            self._rewards[self._asked] = 0.0
        return True

    def receive_actions(self, actions: Any | None) -> None:
        """Keep the answers of the agents that were asked; None (the behavior is missing) means zeros."""
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
        alive = self._arrays.agent_mask
        self._ids[~alive] = _NO_ID
        born = alive & (self._ids == _NO_ID)
        if not born.any():
            return
        self._ids[born] = [next(self._counter) for _ in range(int(born.sum()))]
        self._rewards[born] = 0.0
        self._clear_actions(born)

    def _clear_actions(self, rows: NDArray[np.bool_]) -> None:
        self._continuous[rows] = 0.0
        self._discrete[rows] = 0

    def _infos(self, rows: NDArray[np.bool_], observations: NDArray[np.float32], *, done: bool) -> AgentInfos:
        limit = self._arrays.truncated[rows]
        return AgentInfos(
            ids=self._ids[rows],
            group_ids=self._group_ids[rows],
            rewards=self._rewards[rows],
            observations=observations[rows],
            done=done,
            max_step_reached=limit if done else np.zeros_like(limit),
            # A terminal info repeats the mask of the last decision, as in the C# package.
            action_mask=self._sent_mask[rows] if self._masks_in_use else None,
        )
