"""Lives of agents, exchange by exchange: what a scripted player says and what the arrays show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from bridge.errors import ActionError, CallOrderError, SpecMismatchError, UnityPlayerDiedError
from bridge.roster import RoleArrays, Roster
from bridge.specs import ActionSpec, MetricSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.unity.messages import ENVIRONMENT_PARAMETERS_CHANNEL, STATS_CHANNEL
from bridge.unity.mlagents_types import IncomingMessage, OutgoingMessage
from bridge.unity.roster import RosterOptions, UnityRoster
from bridge.unity.session import SessionOptions
from bridge.unity.side_channels import pack_frames, unpack_frames

LAYOUT = ObservationLayout((ObservationBlock("value", 2),))
BEHAVIORS = {"AGV?team=0": {"continuous": 1, "branches": [3]}}


def spec(slots: int = 2) -> WorldSpec:
    ids = tuple(f"AGV_{slot}" for slot in range(slots))
    role = RoleSpec("AGV", ids, LAYOUT, ActionSpec(1, (3,)))
    return WorldSpec((role,), metrics=(MetricSpec("deliveries"), MetricSpec("collisions")))


def agent(agent_id: int, value: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"id": agent_id, "obs": [[value, -value]], **more}


def exchange(*agents: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"agents": {"AGV?team=0": list(agents)} if agents else {}, **more}


def first(*agents: dict[str, Any], **more: Any) -> dict[str, Any]:
    return exchange(*agents, behaviors=BEHAVIORS, **more)


@contextmanager
def opened(player: Any, world: WorldSpec, areas: int = 1, **options: Any) -> Iterator[tuple[UnityRoster, RoleArrays]]:
    session = SessionOptions(num_areas=areas, timeout_s=20)
    roster = UnityRoster(player.command, world, session, RosterOptions(**options))
    try:
        roster.reset(seed=1)
        yield roster, roster.arrays.roles["AGV"]
    finally:
        roster.close()


def flags(values: RoleArrays) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    masks = (values.agent_mask, values.decision_mask, values.terminated, values.truncated)
    alive, asked, terminated, truncated = (mask[0].tolist() for mask in masks)
    return alive, asked, terminated, truncated


def test_reset_fills_the_slots_in_order_when_agents_ask(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[first(agent(5, 1.0, mask=[False, True, False]), agent(3, 2.0))])
    with opened(player, spec(3)) as (roster, values):
        assert isinstance(roster, Roster)
        assert flags(values) == ([True, True, False], [True, True, False], [False] * 3, [False] * 3)
        np.testing.assert_array_equal(values.observations[0], np.array([[1, -1], [2, -2], [0, 0]], np.float32))
        assert values.action_mask[0].tolist() == [[True, False, True], [True] * 3, [True] * 3]


def test_step_sends_actions_in_the_players_order_when_it_changes(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(
        exchanges=[first(agent(1), agent(2)), exchange(agent(2), agent(1)), exchange(agent(2)), exchange(agent(2))]
    )
    with opened(player, spec()) as (roster, values):
        for _ in range(3):
            values.continuous_actions[0] = [[0.25], [0.75]]
            values.discrete_actions[0] = [[1], [2]]
            roster.step()
        replies = player.wait_for_replies(5)
    one, two = [[0.25], [1]], [[0.75], [2]]
    assert [reply["actions"].get("AGV?team=0") for reply in replies[2:]] == [[one, two], [two, one], [two]]


def test_step_flags_one_end_when_an_id_ends_and_starts_again_in_one_exchange(
    scripted_player: Callable[..., Any],
) -> None:
    ended = agent(1, 5.0, done=True, interrupted=True, reward=-10.0)
    player = scripted_player(
        exchanges=[
            first(agent(1), agent(2)),
            exchange(ended, agent(1, 6.0, reward=0.5), agent(2, reward=1.0)),
            exchange(agent(1, 7.0, reward=0.25), agent(2)),
        ]
    )
    with opened(player, spec()) as (roster, values):
        roster.step()
        assert flags(values) == ([True, True], [True, True], [False, False], [True, False])
        assert values.rewards[0].tolist() == [-10.0, 1.0]
        assert values.final_observations[0, 0].tolist() == [5.0, -5.0]
        assert values.observations[0, 0].tolist() == [6.0, -6.0]
        assert not roster.arrays.episode_over[0]
        roster.step()
        # The reward that came with the first decision of the new life is not lost.
        assert values.rewards[0].tolist() == [0.75, 0.0]
        assert not values.truncated.any()


def test_step_keeps_an_agent_alive_when_it_is_absent(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(
        exchanges=[
            first(agent(1, 1.0), agent(2, 2.0)),
            exchange(agent(1, 3.0, reward=1.0)),
            exchange(agent(1, 4.0), agent(2, 5.0, reward=2.0, group_reward=0.5)),
        ]
    )
    with opened(player, spec()) as (roster, values):
        roster.step()
        assert flags(values) == ([True, True], [True, False], [False, False], [False, False])
        assert values.rewards[0].tolist() == [1.0, 0.0]
        assert values.observations[0, 1].tolist() == [2.0, -2.0]
        roster.step()
        assert values.rewards[0].tolist() == [0.0, 2.5]
        assert values.decision_mask[0].tolist() == [True, True]


def test_step_despawns_and_respawns_when_a_new_id_takes_a_freed_slot(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(
        exchanges=[
            first(agent(1, 1.0), agent(2, 2.0)),
            exchange(agent(1, 3.0, done=True, reward=-1.0)),  # nobody asks: terminals come alone
            exchange(agent(2, 4.0, reward=0.5)),
            exchange(agent(2, 5.0), agent(9, 6.0)),
        ]
    )
    with opened(player, spec()) as (roster, values):
        roster.step()
        assert flags(values) == ([False, True], [False, False], [True, False], [False, False])
        assert values.rewards[0].tolist() == [-1.0, 0.0]
        assert values.observations[0].tolist() == [[0.0, 0.0], [2.0, -2.0]]
        assert values.final_observations[0, 0].tolist() == [3.0, -3.0]
        roster.step()
        assert flags(values) == ([False, True], [False, True], [False, False], [False, False])
        roster.step()
        assert flags(values) == ([True, True], [True, True], [False, False], [False, False])
        assert values.observations[0, 0].tolist() == [6.0, -6.0]
        replies = player.wait_for_replies(5)
    assert [len(reply["actions"].get("AGV?team=0", [])) for reply in replies[1:]] == [0, 2, 0, 1]


def test_step_owes_an_action_when_an_agent_ends_after_it_asked(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(
        exchanges=[
            first(agent(1), agent(2)),
            exchange(agent(1, reward=1.0), agent(2), agent(1, done=True, reward=2.0)),
            exchange(agent(2)),
        ]
    )
    with opened(player, spec()) as (roster, values):
        roster.step()
        assert flags(values) == ([False, True], [False, True], [True, False], [False, False])
        assert values.rewards[0].tolist() == [3.0, 0.0]
        values.discrete_actions[0] = [[2], [1]]
        values.continuous_actions[0] = 0.5
        roster.step()
        assert player.wait_for_replies(4)[3]["actions"]["AGV?team=0"] == [[[0.0], [0]], [[0.5], [1]]]


def test_step_ignores_a_terminal_when_the_id_never_asked(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[first(agent(1)), exchange(agent(8, done=True, reward=5.0), agent(1))])
    with opened(player, spec()) as (roster, values):
        roster.step()
        assert flags(values) == ([True, False], [True, False], [False, False], [False, False])
        assert values.rewards[0].tolist() == [0.0, 0.0]


def test_reset_drops_left_over_rewards_and_old_terminals_when_lives_are_cut(
    scripted_player: Callable[..., Any],
) -> None:
    player = scripted_player(
        exchanges=[
            first(agent(1), agent(2), agent(3)),
            exchange(agent(1, reward=7.0), agent(2, done=True, reward=-7.0), agent(4)),
            exchange(agent(3, reward=9.0), agent(1, reward=1.0), agent(4)),
            exchange(agent(3, reward=2.0), agent(1), agent(4)),
        ]
    )
    with opened(player, spec(4)) as (roster, values):
        roster.reset()
        assert roster.arrays.episode.tolist() == [1]
        assert flags(values) == ([True, False, False, True], [True, False, False, True], [False] * 4, [False] * 4)
        assert not values.rewards.any()
        roster.step()
        # Agent 3 lived before the reset and shows up only now, in its old slot.
        assert flags(values)[0] == [True, False, True, True]
        assert values.rewards[0].tolist() == [1.0, 0.0, 0.0, 0.0]
        roster.step()
        assert values.rewards[0].tolist() == [0.0, 0.0, 2.0, 0.0]
    assert [reply["command"] for reply in player.replies()[1:5]] == [1, 1, 0, 0]


def test_reset_sends_the_whole_seed_when_it_has_48_bits(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[first(agent(1)), exchange(agent(1))])
    seed = (1 << 48) - 12345
    with opened(player, spec()) as (roster, _):
        roster.reset(seed)
        with pytest.raises(SpecMismatchError, match=r"expected a seed in \[0, 2\*\*48\), got -1"):
            roster.reset(-1)
        sent = unpack_frames(bytes.fromhex(player.wait_for_replies(3)[2]["side_channel"]))
    parameters = {}
    for channel, payload in sent:
        assert channel == ENVIRONMENT_PARAMETERS_CHANNEL
        message = IncomingMessage(payload)
        key, _ = message.read_string(), message.read_int32()
        parameters[key] = int(message.read_float32())
    assert (parameters["agv_seed_high"] << 24) + parameters["agv_seed_low"] == seed


def figures(**values: float) -> str:
    frames = []
    for key, value in values.items():
        message = OutgoingMessage()
        message.write_string("episode/" + key.replace("__", "/"))
        message.write_float32(value)
        message.write_int32(1)
        frames.append((STATS_CHANNEL, bytes(message.buffer)))
    return pack_frames(frames).hex()


def two_areas(*, done: bool = False, **more: Any) -> list[dict[str, Any]]:
    return [agent(number, group=10 * (1 + number // 2), done=done, **more) for number in range(4)]


def test_areas_are_environments_when_agents_have_groups(scripted_player: Callable[..., Any]) -> None:
    ends = [agent(2, group=20, done=True, interrupted=True), agent(3, group=20, done=True)]
    second = exchange(*ends, *two_areas(), side_channel=figures(**{"1__deliveries": 4.0, "1__other": 1.0}))
    player = scripted_player(exchanges=[first(*reversed(two_areas())), second, exchange(*two_areas())])
    with opened(player, spec(), areas=2) as (roster, values):
        assert values.agent_mask.all()
        roster.step()
        assert roster.arrays.episode_over.tolist() == [False, True]
        assert roster.arrays.episode.tolist() == [0, 1]
        # Agents of an area stand in the order in which they appeared: 3 before 2.
        assert values.truncated.tolist() == [[False, False], [False, True]]
        assert values.terminated.tolist() == [[False, False], [True, False]]
        np.testing.assert_array_equal(roster.arrays.metrics[1], [4.0, np.nan])
        roster.step()
        assert not roster.arrays.episode_over.any()


def test_episode_goes_on_when_the_last_robot_despawns_and_the_player_reports_episodes(
    scripted_player: Callable[..., Any],
) -> None:
    reported = exchange(agent(3), side_channel=figures(**{"0__deliveries": 2.0}))
    player = scripted_player(exchanges=[first(agent(1)), exchange(agent(1, done=True)), reported])
    with opened(player, spec(), reports_episodes=True) as (roster, values):
        roster.step()
        assert values.terminated[0, 0]
        assert not roster.arrays.episode_over[0]
        roster.step()
        assert roster.arrays.episode_over[0]
        assert roster.arrays.metrics[0, 0] == 2.0


def test_step_raises_when_there_are_more_areas_or_agents_than_slots(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[first(agent(1, group=1), agent(2, group=2), agent(3, group=3))])
    with (
        pytest.raises(SpecMismatchError, match=r"expected 2 groups of agents.* got the groups \[1, 2\] and 3"),
        opened(player, spec(), areas=2),
    ):
        pass
    player = scripted_player(exchanges=[first(agent(1), agent(2, group=1))])
    with (
        pytest.raises(SpecMismatchError, match=r"every agent to be in a group when there are 2 areas, got one without"),
        opened(player, spec(), areas=2),
    ):
        pass
    player = scripted_player(exchanges=[first(agent(1), agent(2), agent(3))])
    with pytest.raises(SpecMismatchError, match=r"at most 2 living agents, got agent 3"), opened(player, spec()):
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"behaviors": {"AGV?team=0": {"continuous": 2}}}, r"expected 1 continuous values and branches \(3,\), got 2"),
        ({"agents": {"AGV?team=0": [{"id": 1, "obs": [[0.0] * 3]}]}}, r"expected 2 observed values, got 3"),
        (
            {"agents": {"AGV?team=0": [{"id": 1, "obs": [[0.0] * 2], "names": ["agv_0123456789abcdef"]}]}},
            rf"expected the observation layout {LAYOUT.digest} .*, got 0123456789abcdef",
        ),
        (
            {"agents": {"Lift": [agent(1)]}, "behaviors": {"Lift": {"continuous": 1}}},
            r"expected one of the roles \['AGV'\], got 'Lift'",
        ),
    ],
)
def test_reset_says_what_differs_when_the_player_is_another_one(
    scripted_player: Callable[..., Any], change: dict[str, Any], message: str
) -> None:
    player = scripted_player(exchanges=[{**first(agent(1)), **change}])
    with pytest.raises(SpecMismatchError, match=message), opened(player, spec()):
        pass


def test_step_names_the_agent_when_its_action_is_masked(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[first(agent(1), agent(2, mask=[False, False, True]))])
    with opened(player, spec()) as (roster, values):
        values.discrete_actions[0, 1] = 2
        with pytest.raises(ActionError, match=r"agent 'AGV_1': expected branch 0 .* \[0, 1\], got the masked 2"):
            roster.step()


def test_step_truncates_open_lives_when_the_player_crashes(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(
        exchanges=[first(agent(1, 1.0)), exchange(agent(1, 2.0), agent(2)), {"fault": {"crash": 9}}]
    )
    with opened(player, spec()) as (roster, values):
        roster.step()
        with pytest.raises(UnityPlayerDiedError, match=r"exit code 9"):
            roster.step()
        assert flags(values) == ([False, False], [False, False], [False, False], [True, True])
        assert values.final_observations[0, 0].tolist() == [2.0, -2.0]
        assert not values.observations.any()
        with pytest.raises(CallOrderError, match=r"expected an open session, got a closed one"):
            roster.reset(seed=2)


def test_calls_raise_when_they_are_out_of_order(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[first(agent(1))])
    session = SessionOptions(num_areas=2, timeout_s=20)
    roster = UnityRoster(player.command, spec(), session, RosterOptions())
    with pytest.raises(CallOrderError, match=r"UnityRoster.step: expected a reset first"):
        roster.step()
    with pytest.raises(CallOrderError, match=r"expected a seed at the first reset, got none"):
        roster.reset()
    with pytest.raises(
        CallOrderError, match=r"expected all 2 environments to be reset, got a mask that leaves some out"
    ):
        roster.reset(seed=1, env_mask=np.array([True, False]))
    roster.close()
    roster.close()
