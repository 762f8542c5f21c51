"""Taking in lives that go on at once gives what taking in entries one by one gives."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from bridge.roster import RosterArrays
from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.unity.decode import AgentBatch
from bridge.unity.lives import RoleLives

NUM_ENVS, NUM_SLOTS, NUM_VALUES, NUM_CHOICES = 2, 12, 3, 4
ROLE = RoleSpec(
    "carrier",
    tuple(f"carrier_{slot}" for slot in range(NUM_SLOTS)),
    ObservationLayout((ObservationBlock("values", NUM_VALUES),)),
    ActionSpec(1, (NUM_CHOICES,)),
)


class OneByOne(RoleLives):
    """The same without ways around the loop over entries: the oracle."""

    def _take_ordinary(self, batch: AgentBatch, *_: Any) -> Any:
        return np.zeros(len(batch), np.bool_)

    def _take_births(self, *_: Any) -> bool:
        return False

    def _end_all(self, batch: AgentBatch, rows: Any, comes_back: Any) -> None:
        for row, back in zip(rows.tolist(), comes_back.tolist(), strict=True):
            self._end(batch, row, comes_back=back)


def make(kind: type[RoleLives]) -> tuple[RoleLives, RosterArrays]:
    arrays = RosterArrays.allocate(WorldSpec((ROLE,)), NUM_ENVS)
    return kind(ROLE, arrays.roles["carrier"], "separate", 4), arrays


def random_batch(rng: np.random.Generator, population: np.ndarray) -> AgentBatch:
    """Entries of agents that ask, end, end and ask, or ask and end."""
    ids: list[int] = []
    done: list[bool] = []
    for agent_id in rng.permutation(population)[: rng.integers(0, len(population) + 1)].tolist():
        kind = rng.choice(["ask", "end", "end, ask", "ask, end"], p=[0.85, 0.07, 0.05, 0.03])
        for what in str(kind).split(", "):
            ids.append(agent_id)
            done.append(what == "end")
    count = len(ids)
    return AgentBatch(
        agent_id=np.array(ids, np.int32),
        done=np.array(done, np.bool_),
        interrupted=rng.random(count) < 0.3,
        reward=rng.normal(size=count).astype(np.float32),
        group_id=np.ones(count, np.int32),
        group_reward=rng.normal(size=count).astype(np.float32),
        observations=rng.normal(size=(count, NUM_VALUES)).astype(np.float32),
        action_mask=rng.random((count, NUM_CHOICES)) < 0.7,
    )


def play(lives: RoleLives, batch: AgentBatch, announced: dict[int, int], is_reset: bool) -> Any:
    if is_reset:
        lives.begin_reset(int(batch.agent_id.max(initial=0)), forget_slots=False)
    else:
        lives.begin_step()
    if not lives.take_steady("carrier", batch):
        asking = batch.agent_id[~batch.done]
        slots = np.array([announced.get(agent_id, -1) for agent_id in batch.agent_id.tolist()], np.intp)
        envs = (batch.agent_id % NUM_ENVS).astype(np.intp)
        lives.take("carrier", batch, lives.take_ends(batch, asking), envs, slots)
    lives.truncate_silent()
    return lives.actions("carrier")


@pytest.mark.parametrize("seed", range(8))
def test_arrays_are_those_of_one_by_one_when_scenes_are_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (fast, fast_arrays), (slow, slow_arrays) = make(RoleLives), make(OneByOne)
    population = np.arange(NUM_SLOTS)
    newest = len(population)
    for step in range(150):
        batch = random_batch(rng, population)
        # Some agents are replaced by new ones, with a slot that the scene announces or without.
        slots = {}
        for index in np.flatnonzero(rng.random(len(population)) < 0.04).tolist():
            population[index], newest = newest + population[index] % 2, newest + 2  # in the same environment
            if seed % 2:
                slots[int(population[index])] = int(rng.integers(NUM_SLOTS))
        actions = rng.integers(0, NUM_CHOICES, (NUM_ENVS, NUM_SLOTS, 1))
        outcomes = []
        for lives, arrays in ((fast, fast_arrays), (slow, slow_arrays)):
            arrays.roles["carrier"].discrete_actions[:] = actions
            outcomes.append(play(lives, batch, slots, is_reset=step % 40 == 0))
        for field in fields(fast_arrays.roles["carrier"]):
            mine, others = (getattr(a.roles["carrier"], field.name) for a in (fast_arrays, slow_arrays))
            np.testing.assert_array_equal(mine, others, f"step {step}: {field.name}")
        np.testing.assert_array_equal(fast.account.group_rewards, slow.account.group_rewards)
        assert fast.account.unclaimed == pytest.approx(slow.account.unclaimed, rel=1e-6)
        assert (outcomes[0] is None) == (outcomes[1] is None)
        if outcomes[0] is not None:
            np.testing.assert_array_equal(outcomes[0].discrete, outcomes[1].discrete)


def test_entries_are_taken_one_by_one_only_where_their_order_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    lives, arrays = make(RoleLives)
    rng = np.random.default_rng(0)
    population = np.arange(2 * NUM_SLOTS)
    everyone = AgentBatch(
        agent_id=population.astype(np.int32),
        done=np.zeros(len(population), np.bool_),
        interrupted=np.zeros(len(population), np.bool_),
        reward=np.ones(len(population), np.float32),
        group_id=np.ones(len(population), np.int32),
        group_reward=np.zeros(len(population), np.float32),
        observations=rng.normal(size=(len(population), NUM_VALUES)).astype(np.float32),
        action_mask=np.ones((len(population), NUM_CHOICES), np.bool_),
    )
    play(lives, everyone, {}, is_reset=True)
    taken = []
    original = RoleLives._ask
    monkeypatch.setattr(
        RoleLives, "_ask", lambda self, batch, row, *a: taken.append(row) or original(self, batch, row, *a)
    )
    everyone.done[5:9] = True
    play(lives, everyone, {}, is_reset=False)
    everyone.done[5:9] = False
    play(lives, everyone, {}, is_reset=False)
    everyone.agent_id[5:9] += 100  # new agents in the place of those, which said goodbye
    goodbye = everyone.rows(np.arange(5, 9))
    goodbye.agent_id[:] -= 100
    goodbye.done[:] = True
    play(lives, goodbye, {}, is_reset=False)
    play(lives, everyone, {}, is_reset=False)
    assert taken == []
    new = everyone.rows(np.arange(len(population)) != 8)
    new.agent_id[6] = 206  # and one that is announced for the slot of a robot that says nothing
    play(lives, new, {206: 4}, is_reset=False)
    assert taken == list(range(len(new)))
    assert arrays.roles["carrier"].truncated[0, 4]
    assert arrays.roles["carrier"].agent_mask.all(), "the one in whose place nobody came lives on"
