"""Slots that agents keep."""

from __future__ import annotations

import pytest

from bridge.errors import SpecMismatchError
from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, RoleSpec
from bridge.unity.slots import SlotTable


def table(num_envs: int = 1, num_slots: int = 3) -> SlotTable:
    layout = ObservationLayout((ObservationBlock("value", 1),))
    ids = tuple(f"carrier_{slot}" for slot in range(num_slots))
    return SlotTable(RoleSpec("carrier", ids, layout, ActionSpec(1)), num_envs)


def test_settle_gives_slots_in_order_when_agents_appear() -> None:
    slots = table(num_envs=2)
    assert [slots.settle(agent_id, env) for agent_id, env in ((40, 0), (7, 1), (9, 0), (3, 1))] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]
    assert slots.living.tolist() == [[True, True, False], [True, True, False]]


def test_settle_gives_the_freed_slot_when_a_new_agent_takes_a_dead_ones_place() -> None:
    slots = table()
    places = [slots.settle(agent_id, 0) for agent_id in (1, 2, 3)]
    slots.end(places[1], comes_back=False)
    assert slots.living_place(2) is None
    assert slots.settle(4, 0) == (0, 1)
    # The old one comes back after all, and finds its slot taken.
    slots.end(places[0], comes_back=False)
    assert slots.settle(2, 0) == (0, 0)
    assert slots.living_place(4) == (0, 1)


def test_settle_keeps_a_slot_free_when_its_agent_is_about_to_come_back() -> None:
    slots = table()
    places = [slots.settle(agent_id, 0) for agent_id in (1, 2, 3)]
    for place, comes_back in zip(places, (True, True, False), strict=True):
        slots.end(place, comes_back=comes_back)
    assert slots.settle(9, 0) == (0, 2)
    assert slots.settle(2, 0) == (0, 1)
    assert slots.settle(1, 0) == (0, 0)


def test_settle_gives_old_slots_when_agents_return_after_an_unseeded_reset() -> None:
    slots = table()
    for agent_id in (1, 2, 3):
        slots.settle(agent_id, 0)
    slots.end_all(forget=False)
    assert [slots.settle(agent_id, 0)[1] for agent_id in (3, 1, 2)] == [2, 0, 1]
    slots.end_all(forget=True)
    assert [slots.settle(agent_id, 0)[1] for agent_id in (3, 1, 2)] == [0, 1, 2]


def test_settle_raises_when_all_slots_are_taken() -> None:
    slots = table(num_slots=1)
    slots.settle(1, 0)
    with pytest.raises(SpecMismatchError, match=r"role 'carrier', environment 0: expected at most 1 .* got agent 2"):
        slots.settle(2, 0)
