"""Which agent lives in which slot.

Unity numbers agents as they are enabled and never uses a number twice;
trainers want the same slots in every step. A :class:`SlotTable` gives each
agent of a role a slot in its environment and finds it again by its id:

- An agent whose slot the scene announces (the roster side channel) gets that one.
- An agent that comes back under its id gets its slot back, if nobody has taken it.
- A new agent gets the lowest slot that is free; slots whose agents are about to
  come back (in the same exchange, or after a reset) are taken last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.specs import RoleSpec

__all__ = ["Place", "Places", "SlotTable"]

Place = tuple[int, int]
"""Environment and slot."""

Places = tuple[NDArray[np.intp], NDArray[np.intp]]
"""(n,) environments and (n,) slots."""

_NOWHERE: Place = (-1, 0)

_NOBODY = np.iinfo(np.int64).min
"""Owner of a slot that nobody has had; no agent has this id, which has 32 bits."""


class SlotTable:
    """The slots of one role.

    Args:
        role: The role.
        num_envs: Number of environments E.

    Attributes:
        living: (E, A) bool, an agent lives in the slot.
    """

    def __init__(self, role: RoleSpec, num_envs: int) -> None:
        self._role = role
        self.living: NDArray[np.bool_] = np.zeros((num_envs, role.num_slots), np.bool_)
        self._expected: NDArray[np.bool_] = np.zeros_like(self.living)
        self._places: dict[int, Place] = {}
        self._owners: dict[Place, int] = {}
        self._owner_ids: NDArray[np.int64] = np.full(self.living.shape, _NOBODY, np.int64)
        # Owners and their flat places in ascending order, as long as no owner changes.
        self._sorted_owners: tuple[NDArray[np.int64], NDArray[np.intp]] | None = None

    def living_place(self, agent_id: int) -> Place | None:
        """Where an agent lives; None if it does not."""
        place = self._places.get(agent_id)
        return place if place is not None and self.living[place] else None

    def living_places(
        self, agent_ids: NDArray[np.int32]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
        """Where agents live, without a loop over them.

        Args:
            agent_ids: (n,) int32.

        Returns:
            (n,) environments and (n,) slots, of no meaning where an agent does not live; (n,) whether it lives.
        """
        if self._sorted_owners is None:
            order = self._owner_ids.ravel().argsort()
            self._sorted_owners = self._owner_ids.ravel()[order], order
        owners, order = self._sorted_owners
        rank = np.minimum(np.searchsorted(owners, agent_ids), len(owners) - 1)
        found = order[rank]
        lives = (owners[rank] == agent_ids) & self.living.ravel()[found]
        envs, slots = np.divmod(found, self.living.shape[1])
        return envs, slots, lives

    def are_taken(self, envs: NDArray[np.intp], slots: NDArray[np.intp]) -> NDArray[np.bool_]:
        """(n,) bool, whether somebody lives in slots; False where there is no such slot."""
        num_envs, num_slots = self.living.shape
        taken: NDArray[np.bool_] = (envs >= 0) & (envs < num_envs) & (slots >= 0) & (slots < num_slots)
        taken[taken] = self.living[envs[taken], slots[taken]]
        return taken

    def announced_place(self, agent_id: int, env: int, slot: int) -> Place:
        """The place of an agent whose slot the scene announced; somebody else may live there.

        Raises:
            SpecMismatchError: There is no such environment or slot.
        """
        num_envs, num_slots = self.living.shape
        if not (0 <= env < num_envs and 0 <= slot < num_slots):
            raise SpecMismatchError(
                f"role {self._role.name!r}: expected the scene to announce area 0 to {num_envs - 1} and slot 0 to "
                f"{num_slots - 1}, got area {env} and slot {slot} for agent {agent_id}. "
                "Raise the role's number of slots, or correct what the scene sends on the roster channel."
            )
        return env, slot

    def settle(self, agent_id: int, env: int, place: Place | None = None) -> Place:
        """Give an agent a slot and let it live there.

        Args:
            agent_id: The agent, which does not live here.
            env: Its environment.
            place: The slot that it must have, which must be free; None takes one.

        Raises:
            SpecMismatchError: All slots of the environment are taken.
        """
        if place is None:
            place = self._places.get(agent_id)
            if place is None or place[0] != env or self.living[place]:
                place = (env, self._free_slot(agent_id, env))
        self._sorted_owners = None
        before = self._places.get(agent_id)
        if before is not None and before != place:
            del self._owners[before]
            self._owner_ids[before] = _NOBODY
        previous = self._owners.get(place)
        if previous is not None and previous != agent_id:
            del self._places[previous]
        self._places[agent_id] = place
        self._owners[place] = agent_id
        self._owner_ids[place] = agent_id
        self.living[place] = True
        self._expected[place] = False
        return place

    def places_for(
        self, agent_ids: NDArray[np.int32], envs: NDArray[np.intp], slots: NDArray[np.intp]
    ) -> Places | None:
        """Where :meth:`settle` would put agents one after the other, if none of them gets in the way of another.

        Args:
            agent_ids: (n,) int32, distinct agents that do not live here.
            envs: (n,) intp, their environments.
            slots: (n,) intp, the slots that they must have; -1 takes one.

        Returns:
            (n,) environments and slots; None where it depends on the order, or where it would not work.
        """
        num_envs, num_slots = self.living.shape
        if not len(agent_ids) or envs.min() < 0 or envs.max() >= num_envs or slots.max() >= num_slots:
            return None
        chosen = slots.copy()
        places = self._places
        before = [places.get(agent_id, _NOWHERE) for agent_id in agent_ids.tolist()]
        old_envs, old_slots = np.array(before, np.intp).T
        free = chosen < 0
        returns = free & (old_envs == envs)
        chosen[returns] = old_slots[returns]
        new = np.flatnonzero(free & ~returns)
        if len(new):
            if not free.all() or not self._expected[envs[returns], old_slots[returns]].all():
                return None  # one may take another's slot before its turn
            unclaimed = ~self.living & ~self._expected
            order = new[envs[new].argsort(kind="stable")]
            first = np.searchsorted(envs[order], envs[order])
            rank = np.arange(len(order)) - first
            if (rank >= unclaimed.sum(axis=1)[envs[order]]).any():
                return None
            # (E, A) -> the n-th unclaimed slot of each environment.
            chosen[order] = (~unclaimed).argsort(axis=1, kind="stable")[envs[order], rank]
        taken = self.living[envs, chosen]
        if taken.any() or len(np.unique(envs * num_slots + chosen)) < len(chosen):
            return None
        return envs, chosen

    def settle_all(self, agent_ids: NDArray[np.int32], where: Places) -> None:
        """Let agents live in places that :meth:`places_for` gave."""
        self._sorted_owners = None
        ids, targets = agent_ids.tolist(), list(zip(where[0].tolist(), where[1].tolist(), strict=True))
        left = [self._places.pop(agent_id, None) for agent_id in ids]
        for place in left:
            if place is not None:
                del self._owners[place]
                self._owner_ids[place] = _NOBODY
        previous = [self._owners.pop(place, None) for place in targets]
        for owner in previous:
            if owner is not None:
                del self._places[owner]
        self._places.update(zip(ids, targets, strict=True))
        self._owners.update(zip(targets, ids, strict=True))
        self._owner_ids[where] = agent_ids
        self.living[where] = True
        self._expected[where] = False

    def end(self, place: Place | Places, *, comes_back: bool | NDArray[np.bool_]) -> None:
        """End the lives in slots; ``comes_back`` keeps a slot for its agent while there are others."""
        self.living[place] = False
        self._expected[place] = comes_back

    def end_all(self, *, forget: bool) -> None:
        """End all lives; with ``forget``, slots are given anew, else agents that lived get theirs back."""
        self._expected[:] = self.living & (not forget)
        self.living[:] = False
        if forget:
            self._places.clear()
            self._owners.clear()
            self._owner_ids[:] = _NOBODY
            self._sorted_owners = None

    def envs_without(self, ending: set[int]) -> NDArray[np.bool_]:
        """(E,) bool, environments in which nobody lives but agents with these ids."""
        vacant = np.ones(len(self.living), np.bool_)
        for place, agent_id in self._owners.items():
            if self.living[place] and agent_id not in ending:
                vacant[place[0]] = False
        return vacant

    def _free_slot(self, agent_id: int, env: int) -> int:
        free = ~self.living[env]
        if not free.any():
            raise SpecMismatchError(
                f"role {self._role.name!r}, environment {env}: expected at most {self._role.num_slots} living agents, "
                f"got agent {agent_id} as one more. Raise the role's number of slots."
            )
        unclaimed = free & ~self._expected[env]
        return int((unclaimed if unclaimed.any() else free).argmax())
