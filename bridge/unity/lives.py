"""From what a player says about its agents to the arrays of one role.

The rules of an agent's life, with the C# package's behaviour in mind:

- An entry that asks for a decision starts a life, or goes on with one. A
  terminal entry ends it; after that the same id may start the next life, even
  in the same exchange. Entries are taken in the player's order.
- An agent without an entry lives on: it keeps its observation, is not asked,
  and its reward arrives with its next entry. After a stated number of exchanges
  without an entry it is taken to have vanished, and its life is truncated.
- The first reward after a reset of an agent that was there before is left over
  from the life that the reset has cut (ids only grow in a player's process).
- A terminal of an agent that does not live here ends nothing: it never asked
  for a decision, or its life was cut by a reset.
- An agent that the scene announces for a slot in which another one lives
  truncates that life: the robot came back, and its old agent never said so.

Who gets which slot is :mod:`bridge.unity.slots`', which reward belongs to which
life :mod:`bridge.unity.rewards`' and :mod:`bridge.unity.left_over`'s business.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.roster import RoleArrays
from bridge.specs import RoleSpec
from bridge.unity.asked import Asked
from bridge.unity.decode import AgentBatch
from bridge.unity.encode import BehaviorActions
from bridge.unity.left_over import LeftOver
from bridge.unity.rewards import GroupReward, RewardAccount, Where
from bridge.unity.slots import Place, SlotTable

__all__ = ["RoleLives"]


class RoleLives:
    """Keeps the arrays of one role.

    Args:
        role: The role.
        arrays: Its arrays; E environments.
        group_reward: What becomes of group rewards.
        silence_limit: Exchanges without an entry after which an agent has vanished.

    Attributes:
        account: Where the rewards go.
    """

    def __init__(self, role: RoleSpec, arrays: RoleArrays, group_reward: GroupReward, silence_limit: int) -> None:
        self._arrays = arrays
        self._table = SlotTable(role, len(arrays.agent_mask))
        self.account = RewardAccount(arrays.rewards, group_reward)
        self._asked: dict[str, Asked] = {}
        # Who asked last, as long as no life has begun or ended since.
        self._steady: dict[str, Asked] = {}
        self._lived_before: NDArray[np.bool_] = np.zeros_like(arrays.agent_mask)
        self._silence: NDArray[np.int32] = np.zeros(arrays.agent_mask.shape, np.int32)
        self._silence_limit = silence_limit
        self._left_over = LeftOver()

    def begin_step(self) -> None:
        """Clear what belongs to one step; read :meth:`actions` before."""
        arrays = self._arrays
        self.account.begin_step()
        arrays.terminated[:] = False
        arrays.truncated[:] = False
        self._lived_before[:] = self._table.living
        self.begin_exchange()

    def begin_exchange(self) -> None:
        """Clear what belongs to one exchange; read :meth:`actions` before."""
        self._arrays.decision_mask[:] = False
        self._arrays.action_mask[:] = True
        self._silence += 1
        self._asked.clear()

    def begin_reset(self, newest_id: int, *, forget_slots: bool) -> None:
        """Cut all lives without a trace in the arrays.

        Args:
            newest_id: Largest agent id of the player so far; the first reward of an agent up to it is left over
                from before the reset.
            forget_slots: Give out the slots anew, in the order in which agents appear.
        """
        self._left_over.begin_reset(newest_id)
        self._table.end_all(forget=forget_slots)
        self._steady.clear()
        self.account.forfeit_all()
        self.begin_step()
        self._arrays.agent_mask[:] = False
        self._arrays.observations[:] = 0.0

    def begin_restart(self) -> None:
        """After :meth:`truncate_all`: a new player is about to begin; what ended stays in the arrays."""
        self.begin_exchange()
        self._left_over.begin_restart()

    def truncate_all(self) -> None:
        """Cut all lives, because the world has died."""
        self.begin_step()
        for env, slot in np.argwhere(self._table.living).tolist():
            self._truncate((env, slot))
        self._steady.clear()
        self._table.end_all(forget=True)

    def truncate_silent(self) -> None:
        """Cut the lives of agents that have vanished; once per exchange, after all its entries."""
        silent = self._table.living & (self._silence >= self._silence_limit)
        if silent.any():
            for env, slot in np.argwhere(silent).tolist():
                self._truncate((env, slot))
            self._steady.clear()

    def actions(self, behavior: str) -> BehaviorActions | None:
        """What the policy chose for the entries of a behavior that asked, in their order; None if none asked."""
        asked = self._asked.get(behavior)
        return None if asked is None else asked.chosen(self._arrays)

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

    def envs_without(self, ending: set[int]) -> NDArray[np.bool_]:
        """(E,) bool, environments in which nobody lives but agents with these ids."""
        return self._table.envs_without(ending)

    def take_steady(self, behavior: str, batch: AgentBatch) -> bool:
        """Take in a behavior's entries if the same living agents ask as last time, without a loop over them.

        Returns:
            Whether they were taken in.
        """
        asked = self._steady.get(behavior)
        if asked is None or batch.done.any() or not np.array_equal(batch.agent_id, asked.agent_id):
            return False
        arrays = self._arrays
        if asked.is_everyone:  # a plain copy is several times faster than one by index
            shape = arrays.agent_mask.shape
            self.account.credit_all(batch.reward.reshape(shape), batch.group_reward.reshape(shape))
            arrays.observations[:] = batch.observations.reshape(arrays.observations.shape)
            arrays.action_mask[:] = batch.action_mask.reshape(arrays.action_mask.shape)
            arrays.decision_mask[:] = True
            self._silence[:] = 0
        else:
            places = asked.envs, asked.slots
            self.account.credit(places, batch.reward, batch.group_reward)
            arrays.observations[places] = batch.observations
            arrays.action_mask[places] = batch.action_mask
            arrays.decision_mask[places] = True
            self._silence[places] = 0
        self._asked[behavior] = asked
        return True

    def take_ends(self, batch: AgentBatch, asking: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Take in the terminals of a behavior's agents that had not asked before in the same exchange.

        To be called with all behaviors of the role before :meth:`take`: the order of behaviors in a message is
        by chance, and an agent may end under one and go on under another.

        Args:
            batch: The behavior's entries.
            asking: (n,) int32, ids of all agents that ask in this exchange.

        Returns:
            (N,) bool, entries that were taken in.
        """
        taken = batch.done.copy()
        ended = np.flatnonzero(taken)
        if not len(ended):
            return taken
        asks = np.flatnonzero(~batch.done)
        ids, first = np.unique(batch.agent_id[asks], return_index=True)
        if len(ids):
            found = np.minimum(np.searchsorted(ids, batch.agent_id[ended]), len(ids) - 1)
            had_asked = (ids[found] == batch.agent_id[ended]) & (asks[first[found]] < ended)
            taken[ended[had_asked]] = False
            ended = ended[~had_asked]
        self._end_all(batch, ended, np.isin(batch.agent_id[ended], asking))
        return taken

    def take(
        self,
        behavior: str,
        batch: AgentBatch,
        taken: NDArray[np.bool_],
        envs: NDArray[np.intp],
        slots: NDArray[np.intp],
    ) -> None:
        """Take in the other entries of one behavior, in their order.

        Args:
            behavior: Its name on the wire.
            batch: Its entries.
            taken: (N,) bool, entries that :meth:`take_ends` has taken in.
            envs: (N,) intp, environment of each entry; -1 where it is not known, which only a terminal's may be.
            slots: (N,) intp, slot of each entry as the scene announced it; -1 where it did not.

        Raises:
            SpecMismatchError: There are more agents than slots.
        """
        asks = np.cumsum(~batch.done) - 1  # (N,) which of those that ask an entry is
        asked = Asked.nowhere(batch.agent_id[~batch.done])
        rest = np.flatnonzero(~taken & ~self._take_ordinary(batch, taken, asks, asked, envs, slots))
        if len(rest) and not self._take_births(batch, rest, asks, asked, envs, slots):
            self._take_in_order(batch, rest, asks, asked, envs, slots)
        if len(asked.agent_id):
            self._asked[behavior] = asked
        self._steady.clear()
        if asked.is_owed.all() and len(np.unique(batch.agent_id)) == len(batch):
            self._steady[behavior] = asked.among(self._arrays.agent_mask.shape)

    def _take_in_order(
        self,
        batch: AgentBatch,
        rows: NDArray[np.intp],
        asks: NDArray[np.intp],
        asked: Asked,
        envs: NDArray[np.intp],
        slots: NDArray[np.intp],
    ) -> None:
        """Take in entries one after the other; arguments as :meth:`_take_births`."""
        latest: dict[int, int] = {}
        for row in rows.tolist():
            agent_id = int(batch.agent_id[row])
            if batch.done[row]:
                self._end(batch, row, comes_back=False)
                asked.is_owed[latest.pop(agent_id)] = False
            else:
                latest[agent_id] = ask = int(asks[row])
                slot = None if slots[row] < 0 else int(slots[row])
                asked.envs[ask], asked.slots[ask] = self._ask(batch, row, int(envs[row]), slot)

    def _take_births(
        self,
        batch: AgentBatch,
        rows: NDArray[np.intp],
        asks: NDArray[np.intp],
        asked: Asked,
        envs: NDArray[np.intp],
        slots: NDArray[np.intp],
    ) -> bool:
        """Take in entries that all start a life, if the order does not matter, without a loop over them.

        Args:
            batch: The behavior's entries.
            rows: (n,) intp, which of them.
            asks: (N,) intp, which of the entries that ask each one is.
            asked: Filled: places of those that are taken in.
            envs: (N,) intp, environment of each entry.
            slots: (N,) intp, announced slots.

        Returns:
            Whether they were taken in; else nothing has happened.
        """
        ids = batch.agent_id[rows]
        if batch.done[rows].any() or len(np.unique(ids)) < len(ids) or self._table.living_places(ids)[2].any():
            return False
        where = self._table.places_for(ids, envs[rows], slots[rows])
        if where is None:
            return False
        self._table.settle_all(ids, where)
        old = self._left_over.takes_all(ids)
        own, group = batch.reward[rows], batch.group_reward[rows]
        self.account.leave_unclaimed(own[old], group[old])
        self.account.begin_life((where[0][~old], where[1][~old]), own[~old], group[~old])
        self._see(where, batch, rows)
        asked.envs[asks[rows]], asked.slots[asks[rows]] = where
        return True

    def _take_ordinary(
        self,
        batch: AgentBatch,
        taken: NDArray[np.bool_],
        asks: NDArray[np.intp],
        asked: Asked,
        envs: NDArray[np.intp],
        slots: NDArray[np.intp],
    ) -> NDArray[np.bool_]:
        """Take in the entries of agents whose lives simply go on, without a loop over them.

        Those are agents that ran before this step, still live, and have one entry, in which they ask.

        Args:
            batch: The behavior's entries.
            taken: (N,) bool, entries that have been taken in.
            asks: (N,) intp, which of the entries that ask each one is.
            asked: Filled: places of those that are taken in.
            envs: (N,) intp, environment of each entry.
            slots: (N,) intp, announced slots.

        Returns:
            (N,) bool, entries that were taken in.
        """
        where_env, where_slot, lives = self._table.living_places(batch.agent_id)
        announced = ~taken & ~batch.done & ~lives & (slots >= 0)
        if self._table.are_taken(envs[announced], slots[announced]).any():
            return np.zeros(len(batch), np.bool_)  # a new life will cut one that goes on: in their order then
        _, inverse, count = np.unique(batch.agent_id, return_inverse=True, return_counts=True)
        runs = self._ran_before((where_env, where_slot))
        ordinary: NDArray[np.bool_] = ~taken & ~batch.done & lives & runs & (count[inverse] == 1)
        places = where_env[ordinary], where_slot[ordinary]
        self.account.credit(places, batch.reward[ordinary], batch.group_reward[ordinary])
        self._see(places, batch, ordinary)
        asked.envs[asks[ordinary]], asked.slots[asks[ordinary]] = places
        return ordinary

    def _see(self, where: Where, batch: AgentBatch, rows: int | NDArray[np.bool_] | NDArray[np.intp]) -> None:
        """Write what agents that live and ask see."""
        arrays = self._arrays
        arrays.agent_mask[where] = True
        arrays.decision_mask[where] = True
        arrays.observations[where] = batch.observations[rows]
        arrays.action_mask[where] = batch.action_mask[rows]
        self._silence[where] = 0

    def _ask(self, batch: AgentBatch, row: int, env: int, slot: int | None) -> Place:
        agent_id, own, group = int(batch.agent_id[row]), float(batch.reward[row]), float(batch.group_reward[row])
        left_over = self._left_over.takes(agent_id)
        place = self._table.living_place(agent_id)
        if place is None:
            place = self._settle(agent_id, env, slot)
            if left_over:
                self.account.leave_unclaimed(own, group)
            else:
                self.account.begin_life(place, own, group)
        elif self._ran_before(place):
            self.account.credit(place, own, group)
        else:
            self.account.begin_life(place, own, group)
        self._see(place, batch, row)
        return place

    def _settle(self, agent_id: int, env: int, slot: int | None) -> Place:
        if slot is None:
            return self._table.settle(agent_id, env)
        place = self._table.announced_place(agent_id, env, slot)
        if self._table.living[place]:
            self._truncate(place)
        return self._table.settle(agent_id, env, place)

    def _end_all(self, batch: AgentBatch, rows: NDArray[np.intp], comes_back: NDArray[np.bool_]) -> None:
        """Take in terminals, without a loop over them unless an agent has several.

        Args:
            batch: The entries.
            rows: (n,) intp, which of them.
            comes_back: (n,) bool, the agent asks in the same exchange.
        """
        ids = batch.agent_id[rows]
        if len(np.unique(ids)) < len(ids):
            for row, back in zip(rows.tolist(), comes_back.tolist(), strict=True):
                self._end(batch, row, comes_back=back)
            return
        self._left_over.takes_all(ids)
        envs, slots, lives = self._table.living_places(ids)
        self.account.leave_unclaimed(batch.reward[rows[~lives]], batch.group_reward[rows[~lives]])
        envs, slots, rows = envs[lives], slots[lives], rows[lives]
        ran = self._ran_before((envs, slots))
        # A life that began in this very exchange had no step, and there is nothing to learn from it.
        short, its = (envs[~ran], slots[~ran]), rows[~ran]
        self.account.begin_life(short, batch.reward[its], batch.group_reward[its])
        self.account.forfeit(short)
        whole, its = (envs[ran], slots[ran]), rows[ran]
        self.account.credit(whole, batch.reward[its], batch.group_reward[its])
        self._arrays.final_observations[whole] = batch.observations[its]
        self._arrays.truncated[whole] = batch.interrupted[its]
        self._arrays.terminated[whole] = ~batch.interrupted[its]
        self._vacate((envs, slots), comes_back=comes_back[lives])

    def _end(self, batch: AgentBatch, row: int, *, comes_back: bool) -> None:
        agent_id, own, group = int(batch.agent_id[row]), float(batch.reward[row]), float(batch.group_reward[row])
        self._left_over.takes(agent_id)
        place = self._table.living_place(agent_id)
        if place is None:
            self.account.leave_unclaimed(own, group)
            return
        if self._ran_before(place):
            self.account.credit(place, own, group)
            self._arrays.final_observations[place] = batch.observations[row]
            (self._arrays.truncated if batch.interrupted[row] else self._arrays.terminated)[place] = True
        else:
            # The life began in this very exchange: it had no step, and there is nothing to learn from it.
            self.account.begin_life(place, own, group)
            self.account.forfeit(place)
        self._vacate(place, comes_back=comes_back)

    def _truncate(self, place: Place) -> None:
        """Cut a life whose agent sent no terminal: what it saw last is its last observation."""
        if self._ran_before(place):
            self.account.credit(place, 0.0, 0.0)
            self._arrays.final_observations[place] = self._arrays.observations[place]
            self._arrays.truncated[place] = True
        else:
            self.account.forfeit(place)
        self._vacate(place, comes_back=False)

    def _vacate(self, where: Where, *, comes_back: bool | NDArray[np.bool_]) -> None:
        arrays = self._arrays
        arrays.observations[where] = 0.0
        arrays.agent_mask[where] = False
        arrays.decision_mask[where] = False
        arrays.action_mask[where] = True
        self._table.end(where, comes_back=comes_back)

    def _ran_before(self, where: Where) -> NDArray[np.bool_]:
        """Whether the life in a slot is the one that ran before this step; of several slots, an array."""
        ended = self._arrays.terminated[where] | self._arrays.truncated[where]
        ran: NDArray[np.bool_] = self._lived_before[where] & ~ended
        return ran
