"""Slots and areas that a scene announces on the roster channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bridge.errors import SpecMismatchError
from bridge.roster import RoleArrays
from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.unity.messages import ROSTER_CHANNEL
from bridge.unity.mlagents_types import OutgoingMessage
from bridge.unity.roster import RosterOptions, UnityRoster
from bridge.unity.session import SessionOptions
from bridge.unity.side_channels import pack_frames

BEHAVIORS = {"AGV?team=0": {"continuous": 1}}


def world(slots: int) -> WorldSpec:
    layout = ObservationLayout((ObservationBlock("value", 1),))
    return WorldSpec((RoleSpec("AGV", tuple(f"AGV_{i}" for i in range(slots)), layout, ActionSpec(1)),))


def agent(agent_id: int, **more: Any) -> dict[str, Any]:
    return {"id": agent_id, "obs": [[float(agent_id)]], **more}


def exchange(
    *agents: dict[str, Any], announced: dict[int, tuple[int, int]] | None = None, role: str = "AGV", **more: Any
) -> dict[str, Any]:
    entry: dict[str, Any] = {"agents": {"AGV?team=0": list(agents)}, **more}
    if announced is not None:
        message = OutgoingMessage()
        message.write_int32(1)
        message.write_int32(len(announced))
        for agent_id, (area, slot) in announced.items():
            message.write_int32(agent_id)
            message.write_int32(area)
            message.write_string(role)
            message.write_int32(slot)
        entry["side_channel"] = pack_frames([(ROSTER_CHANNEL, bytes(message.buffer))]).hex()
    return entry


@contextmanager
def opened(port: int, slots: int, areas: int = 1) -> Iterator[tuple[UnityRoster, RoleArrays]]:
    session = SessionOptions(num_areas=areas, timeout_s=20, port=port)
    roster = UnityRoster(None, world(slots), session, RosterOptions())
    try:
        roster.reset(seed=1)
        yield roster, roster.arrays.roles["AGV"]
    finally:
        roster.close()


def test_robot_keeps_its_slot_when_it_respawns_under_a_new_id(live_player: Callable[..., int]) -> None:
    port = live_player(
        [
            exchange(agent(1), agent(2), agent(3), announced={1: (0, 2), 2: (0, 0), 3: (0, 1)}, behaviors=BEHAVIORS),
            exchange(agent(1, done=True), agent(2, done=True), agent(3)),
            # Without the channel agent 8 would get the lowest free slot.
            exchange(agent(3), agent(8), announced={8: (0, 2)}),
            exchange(agent(3), agent(8), agent(9), announced={9: (0, 0)}),
        ]
    )
    with opened(port, 3) as (roster, values):
        assert values.observations[0, :, 0].tolist() == [2.0, 3.0, 1.0]
        roster.step()
        assert values.terminated[0].tolist() == [True, False, True]
        roster.step()
        assert values.observations[0, :, 0].tolist() == [0.0, 3.0, 8.0]
        roster.step()
        assert values.observations[0, :, 0].tolist() == [9.0, 3.0, 8.0]


def test_areas_need_no_groups_when_the_scene_announces_them(live_player: Callable[..., int]) -> None:
    port = live_player(
        [
            exchange(agent(1), agent(2), agent(3), announced={1: (1, 0), 2: (0, 1), 3: (1, 1)}, behaviors=BEHAVIORS),
            exchange(agent(1, reward=1.0), agent(2, reward=2.0), agent(3, reward=3.0)),
        ]
    )
    with opened(port, 2, areas=2) as (roster, values):
        assert values.observations[..., 0].tolist() == [[0.0, 2.0], [1.0, 3.0]]
        roster.step()
        assert values.rewards.tolist() == [[0.0, 2.0], [1.0, 3.0]]


def test_life_is_truncated_when_its_robot_comes_back_without_a_word(live_player: Callable[..., int]) -> None:
    port = live_player(
        [
            exchange(agent(1, reward=0.5), agent(2), announced={1: (0, 0), 2: (0, 1)}, behaviors=BEHAVIORS),
            exchange(agent(7), agent(2), announced={7: (0, 0)}),
            exchange(agent(7, reward=1.0), agent(2)),
        ]
    )
    with opened(port, 2) as (roster, values):
        roster.step()
        assert values.truncated[0].tolist() == [True, False]
        assert values.rewards[0].tolist() == [0.5, 0.0]
        assert values.final_observations[0, 0].tolist() == [1.0]
        assert values.observations[0, :, 0].tolist() == [7.0, 2.0]
        roster.step()
        assert not values.truncated.any()
        assert values.rewards[0].tolist() == [1.0, 0.0]


def test_agents_share_the_slots_when_only_some_are_announced(live_player: Callable[..., int]) -> None:
    port = live_player([exchange(agent(5), agent(1), agent(2), announced={1: (0, 1)}, behaviors=BEHAVIORS)])
    with opened(port, 3) as (_, values):
        assert values.observations[0, :, 0].tolist() == [5.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("announced", "role", "message"),
    [
        ({1: (0, 2)}, "AGV", r"slot 0 to 1, got area 0 and slot 2 for agent 1\. Raise the role's number of slots"),
        ({1: (1, 0)}, "AGV", r"area 0 to 0 .* got area 1 and slot 0 for agent 1"),
        ({1: (0, 0)}, "Lift", r"agent 1: expected to be announced as 'AGV', got 'Lift'"),
    ],
)
def test_reset_says_what_does_not_fit_when_a_scene_announces_nonsense(
    live_player: Callable[..., int], announced: dict[int, tuple[int, int]], role: str, message: str
) -> None:
    port = live_player([exchange(agent(1), announced=announced, role=role, behaviors=BEHAVIORS)])
    with pytest.raises(SpecMismatchError, match=message), opened(port, 2):
        pass
