"""From what a player says about its agents to the arrays of one role.

The rules of an agent's life, with the C# package's behaviour in mind:

- An entry that asks for a decision starts a life, or goes on with one. A
  terminal entry ends it; after that the same id may start the next life, even
  in the same exchange. Entries are taken in the player's order.
- An agent without an entry lives on: it keeps its observation, is not asked,
  and its reward arrives with its next entry.
- A terminal of an agent that does not live here is of no consequence: it never
  asked for a decision, or its life was cut by a reset.
- The reward in the entry that starts a life came before anything was asked; it
  is added to the life's next reward, or dropped after a reset, when it is left
  over from the life before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge.roster import RoleArrays
from bridge.specs import RoleSpec
from bridge.unity.decode import AgentBatch
from bridge.unity.encode import BehaviorActions
from bridge.unity.slots import Place, SlotTable

__all__ = ["RoleLives"]


@dataclass(frozen=True)
class _Asked:
    """Entries of one behavior that asked for a decision, in the player's order.

    Attributes:
        agent_id: (n,) int32.
        envs: (n,) intp.
        slots: (n,) intp.
        is_owed: (n,) bool, False where the agent ended after it had asked: an action is due, but nobody chooses it.
    """

    agent_id: NDArray[np.int32]
    envs: NDArray[np.intp]
    slots: NDArray[np.intp]
    is_owed: NDArray[np.bool_]


class RoleLives:
    """Keeps the arrays of one role.

    Args:
        role: The role.
        arrays: Its arrays; E environments.
    """

    def __init__(self, role: RoleSpec, arrays: RoleArrays) -> None:
        self._arrays = arrays
        self._table = SlotTable(role, len(arrays.agent_mask))
        self._asked: dict[str, _Asked] = {}
        # Who asked last, as long as no life has begun or ended since.
        self._steady: dict[str, _Asked] = {}
        self._early_rewards: NDArray[np.float32] = np.zeros_like(arrays.rewards)
        self._lived_before: NDArray[np.bool_] = np.zeros_like(arrays.agent_mask)
        self._cut_ids: set[int] = set()
        self._in_reset = False

    def begin_step(self) -> None:
        """Clear what belongs to one step; read :meth:`actions` before."""
        arrays = self._arrays
        arrays.rewards[:] = 0.0
        arrays.terminated[:] = False
        arrays.truncated[:] = False
        arrays.decision_mask[:] = False
        arrays.action_mask[:] = True
        self._lived_before[:] = self._table.living
        self._asked.clear()
        self._in_reset = False

    def begin_reset(self, *, forget_slots: bool) -> None:
        """Cut all lives without a trace in the arrays.

        Args:
            forget_slots: Give out the slots anew, in the order in which agents appear.
        """
        self._cut_ids = self._table.known_ids()
        self._table.end_all(forget=forget_slots)
        self._steady.clear()
        self.begin_step()
        self._early_rewards[:] = 0.0
        self._arrays.agent_mask[:] = False
        self._arrays.observations[:] = 0.0
        self._in_reset = True

    def truncate_all(self) -> None:
        """Cut all lives, because the world has died."""
        self.begin_step()
        arrays, living = self._arrays, self._table.living
        arrays.truncated[:] = living
        arrays.rewards[living] = self._early_rewards[living]
        arrays.final_observations[living] = arrays.observations[living]
        arrays.observations[:] = 0.0
        arrays.agent_mask[:] = False
        self._early_rewards[:] = 0.0
        self._steady.clear()
        self._table.end_all(forget=True)

    def actions(self, behavior: str) -> BehaviorActions | None:
        """What the policy chose for the entries of a behavior that asked, in their order; None if none asked."""
        asked = self._asked.get(behavior)
        if asked is None:
            return None
        continuous = self._arrays.continuous_actions[asked.envs, asked.slots]
        discrete = self._arrays.discrete_actions[asked.envs, asked.slots]
        continuous[~asked.is_owed] = 0.0
        discrete[~asked.is_owed] = 0
        return BehaviorActions(continuous, discrete)

    @property
    def lived_before(self) -> NDArray[np.bool_]:
        """(E,) bool, somebody lived before this step."""
        lived: NDArray[np.bool_] = np.logical_or.reduce(self._lived_before, axis=1)
        return lived

    @property
    def lives_on(self) -> NDArray[np.bool_]:
        """(E,) bool, a life that ran before this step has not ended in it."""
        ended = self._arrays.terminated | self._arrays.truncated
        running: NDArray[np.bool_] = np.logical_or.reduce(self._lived_before & ~ended, axis=1)
        return running

    def take(self, behavior: str, batch: AgentBatch, envs: NDArray[np.intp]) -> None:
        """Take in the entries of one behavior.

        Args:
            behavior: Its name on the wire.
            batch: Its entries.
            envs: (N,) intp, environment of each entry.

        Raises:
            SpecMismatchError: There are more agents than slots.
        """
        steady = self._steady.get(behavior)
        if steady is not None and not batch.done.any() and np.array_equal(batch.agent_id, steady.agent_id):
            self._take_steady(batch, steady)
            self._asked[behavior] = steady
            return
        asked = self._take_entries(batch, envs)
        if len(asked.agent_id):
            self._asked[behavior] = asked
        self._steady.clear()
        if asked.is_owed.all() and len(np.unique(batch.agent_id)) == len(batch):
            self._steady[behavior] = asked

    def _take_steady(self, batch: AgentBatch, asked: _Asked) -> None:
        """The same agents ask as last time, and all of them live: no loop over agents."""
        arrays, places = self._arrays, (asked.envs, asked.slots)
        arrays.rewards[places] += self._early_rewards[places] + batch.reward + batch.group_reward
        self._early_rewards[places] = 0.0
        arrays.observations[places] = batch.observations
        arrays.action_mask[places] = batch.action_mask
        arrays.decision_mask[places] = True

    def _take_entries(self, batch: AgentBatch, envs: NDArray[np.intp]) -> _Asked:
        ids, done = batch.agent_id.tolist(), batch.done.tolist()
        asking = {agent_id for agent_id, ended in zip(ids, done, strict=True) if not ended}
        places: list[Place] = []
        owed: list[bool] = []
        latest: dict[Place, int] = {}
        for row, (agent_id, ended, env) in enumerate(zip(ids, done, envs.tolist(), strict=True)):
            if not ended:
                place = self._ask(batch, row, agent_id, env)
                latest[place] = len(places)
                places.append(place)
                owed.append(True)
                continue
            self._cut_ids.discard(agent_id)
            ended_place = self._table.living_place(agent_id)
            if ended_place is not None:
                self._end(batch, row, ended_place, comes_back=agent_id in asking)
                if ended_place in latest:
                    owed[latest.pop(ended_place)] = False
        where = np.array(places, np.intp).reshape(-1, 2)
        return _Asked(batch.agent_id[~batch.done], where[:, 0], where[:, 1], np.array(owed, np.bool_))

    def _ask(self, batch: AgentBatch, row: int, agent_id: int, env: int) -> Place:
        arrays = self._arrays
        reward = batch.reward[row] + batch.group_reward[row]
        place = self._table.living_place(agent_id)
        if place is None:
            place = self._table.settle(agent_id, env)
            left_over = self._in_reset or agent_id in self._cut_ids
            self._cut_ids.discard(agent_id)
            self._early_rewards[place] = 0.0 if left_over else reward
        elif self._ran_before(place):
            arrays.rewards[place] += self._early_rewards[place] + reward
            self._early_rewards[place] = 0.0
        else:
            self._early_rewards[place] += reward
        arrays.agent_mask[place] = True
        arrays.decision_mask[place] = True
        arrays.observations[place] = batch.observations[row]
        arrays.action_mask[place] = batch.action_mask[row]
        return place

    def _end(self, batch: AgentBatch, row: int, place: Place, *, comes_back: bool) -> None:
        arrays = self._arrays
        if self._ran_before(place):
            reward = batch.reward[row] + batch.group_reward[row]
            arrays.rewards[place] += self._early_rewards[place] + reward
            arrays.final_observations[place] = batch.observations[row]
            (arrays.truncated if batch.interrupted[row] else arrays.terminated)[place] = True
        # Else the life began in this very exchange: it had no step, and there is nothing to learn from it.
        self._early_rewards[place] = 0.0
        arrays.observations[place] = 0.0
        arrays.agent_mask[place] = False
        arrays.decision_mask[place] = False
        arrays.action_mask[place] = True
        self._table.end(place, comes_back=comes_back)

    def _ran_before(self, place: Place) -> bool:
        """Whether the life in a slot is the one that ran before this step."""
        ended = self._arrays.terminated[place] or self._arrays.truncated[place]
        return bool(self._lived_before[place] and not ended)
