"""Rules of an agent's life that go beyond one exchange: vanished agents, empty starts, reloads, groups, teams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bridge.errors import UnityTimeoutError
from bridge.roster import RoleArrays
from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.unity.roster import RosterOptions, UnityRoster
from bridge.unity.session import SessionOptions

LAYOUT = ObservationLayout((ObservationBlock("value", 1),))
AGV = {"continuous": 1, "branches": [3]}
LIFT = {"branches": [2]}


def world(**slots: int) -> WorldSpec:
    actions = {"AGV": ActionSpec(1, (3,)), "Lift": ActionSpec(0, (2,))}
    return WorldSpec(
        tuple(
            RoleSpec(name, tuple(f"{name}_{slot}" for slot in range(count)), LAYOUT, actions[name])
            for name, count in slots.items()
        )
    )


def agent(agent_id: int, value: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"id": agent_id, "obs": [[value]], **more}


def exchange(*agents: dict[str, Any], behavior: str = "AGV?team=0", **more: Any) -> dict[str, Any]:
    return {"agents": {behavior: list(agents)}, **more}


def first(*agents: dict[str, Any], **more: Any) -> dict[str, Any]:
    return exchange(*agents, behaviors={"AGV?team=0": AGV}, **more)


@contextmanager
def opened(
    port: int, spec: WorldSpec, areas: int = 1, timeout_s: float = 20.0, **options: Any
) -> Iterator[tuple[UnityRoster, RoleArrays]]:
    session = SessionOptions(num_areas=areas, timeout_s=timeout_s, port=port)
    roster = UnityRoster(None, spec, session, RosterOptions(**options))
    try:
        roster.reset(seed=1)
        yield roster, roster.arrays.roles["AGV"]
    finally:
        roster.close()


def test_agent_is_truncated_and_its_slot_free_when_it_gave_no_sign_of_life_for_long(
    live_player: Callable[..., int],
) -> None:
    port = live_player(
        [
            first(agent(1), agent(2, 7.0, reward=0.5)),
            *(exchange(agent(1)) for _ in range(3)),
            exchange(agent(1), agent(9, 3.0)),
            exchange(agent(1), agent(9, 3.0), agent(2, 8.0, reward=4.0)),
        ]
    )
    with opened(port, world(AGV=3), silence_limit=3) as (roster, values):
        for _ in range(2):
            roster.step()
            assert values.agent_mask[0].tolist() == [True, True, False]
            assert not values.truncated.any()
        roster.step()
        assert values.truncated[0].tolist() == [False, True, False]
        assert values.agent_mask[0].tolist() == [True, False, False]
        # Its last observation, and the reward that was held back for it.
        assert values.final_observations[0, 1].tolist() == [7.0]
        assert values.rewards[0].tolist() == [0.0, 0.5, 0.0]
        assert not roster.arrays.episode_over[0]
        roster.step()
        assert values.observations[0, 1].tolist() == [3.0]
        roster.step()
        # It was not gone after all: a new life, in a slot that is free.
        assert values.observations[0, 2].tolist() == [8.0]
        assert not values.truncated.any()


def test_reset_goes_on_until_somebody_asks_when_a_scene_starts_empty(live_player: Callable[..., int]) -> None:
    port = live_player(
        [
            first(agent(1, done=True, reward=2.0)),  # enabled and disabled before it asked
            exchange(agent(2, done=True, reward=1.0)),
            exchange(agent(3, 5.0)),
            exchange(agent(3, 6.0)),
        ]
    )
    with opened(port, world(AGV=1)) as (roster, values):
        assert values.observations[0, 0].tolist() == [5.0]
        assert values.decision_mask[0, 0]
        assert roster.unclaimed_rewards == 3.0
        roster.step()
        assert values.rewards[0, 0] == 0.0


def test_reset_says_what_is_wrong_when_nobody_ever_asks(live_player: Callable[..., int]) -> None:
    port = live_player(lambda _: (first(agent(1, done=True)) if not i else exchange(agent(1, done=True))
                                  for i in range(10_000_000)))  # fmt: skip
    with (
        pytest.raises(UnityTimeoutError, match=r"reset: expected an agent that asks for a decision within 1 s"),
        opened(port, world(AGV=1), timeout_s=1.0),
    ):
        pass


def test_step_goes_on_to_the_next_episode_when_all_agents_ended_and_ask_later(live_player: Callable[..., int]) -> None:
    port = live_player(
        [
            first(agent(1), agent(2)),
            exchange(agent(1, 4.0, done=True, interrupted=True, reward=1.0), agent(2, done=True, reward=-1.0)),
            exchange(agent(2, 8.0, reward=0.25)),
            exchange(agent(1, 9.0), agent(2)),
        ]
    )
    with opened(port, world(AGV=2)) as (roster, values):
        roster.step()
        assert roster.arrays.episode_over[0]
        assert roster.arrays.episode[0] == 1
        assert values.truncated[0].tolist() == [True, False]
        assert values.terminated[0].tolist() == [False, True]
        assert values.rewards[0].tolist() == [1.0, -1.0]
        # The exchange in which nobody asked took no step of its own.
        assert values.decision_mask[0].tolist() == [False, True]
        assert values.observations[0].tolist() == [[0.0], [8.0]]
        roster.step()
        assert values.rewards[0].tolist() == [0.0, 0.25]
        assert values.agent_mask[0].tolist() == [True, True]


def test_areas_keep_their_environments_when_a_scene_is_loaded_anew(live_player: Callable[..., int]) -> None:
    def fleet(first_id: int, group: int, **more: Any) -> list[dict[str, Any]]:
        return [agent(first_id + i, float(first_id + i), group=group + i // 2, **more) for i in range(4)]

    port = live_player(
        [
            first(*fleet(1, 1)),
            # Unloading disables all agents; those of the new scene have new ids and new groups.
            exchange(*fleet(1, 1, done=True, reward=-1.0), *fleet(11, 5)),
            exchange(*fleet(11, 5, reward=1.0)),
            exchange(*fleet(11, 5, done=True), *fleet(21, 7)),
            exchange(*fleet(21, 7)),
        ]
    )
    with opened(port, world(AGV=2), areas=2) as (roster, values):
        roster.step()
        assert roster.arrays.episode_over.all()
        assert values.terminated.all()
        assert (values.rewards == -1.0).all()
        assert values.observations[..., 0].tolist() == [[11.0, 12.0], [13.0, 14.0]]
        roster.step()
        assert (values.rewards == 1.0).all()
        roster.step()
        assert values.observations[..., 0].tolist() == [[21.0, 22.0], [23.0, 24.0]]


def test_respawn_keeps_its_slot_and_disable_changes_the_id(live_player: Callable[..., int]) -> None:
    port = live_player(
        [
            first(agent(1), agent(2)),
            # EndEpisode: the same id goes on. Disable and enable: a new one.
            exchange(agent(1, done=True), agent(2, done=True), agent(1, 5.0), agent(3, 6.0)),
            exchange(agent(1, 7.0), agent(3, 8.0)),
        ]
    )
    with opened(port, world(AGV=2)) as (roster, values):
        roster.step()
        assert values.terminated.all()
        assert values.observations[0, :, 0].tolist() == [5.0, 6.0]
        roster.step()
        assert values.observations[0, :, 0].tolist() == [7.0, 8.0]
        assert not values.terminated.any()


@pytest.mark.parametrize(
    ("rule", "rewards", "apart"),
    [("add", [2.0, 1.5], [0.0, 0.0]), ("ignore", [1.0, 0.5], [0.0, 0.0]), ("separate", [1.0, 0.5], [1.0, 1.0])],
)
def test_group_reward_goes_where_the_rule_says(
    live_player: Callable[..., int], rule: str, rewards: list[float], apart: list[float]
) -> None:
    port = live_player(
        [
            first(agent(1, group=1, reward=0.5, group_reward=0.5), agent(2, group=1)),
            exchange(
                agent(1, group=1, reward=0.5, group_reward=0.5),
                agent(2, group=1, done=True, reward=0.5, group_reward=1.0),
            ),
            exchange(agent(1, group=1, group_reward=3.0)),
        ]
    )
    with opened(port, world(AGV=2), group_reward=rule) as (roster, values):
        roster.step()
        assert values.rewards[0].tolist() == rewards
        assert roster.group_rewards["AGV"][0].tolist() == apart
        roster.step()
        # Whoever died before the group's end gets nothing of what the group earns later.
        assert values.rewards[0, 1] == roster.group_rewards["AGV"][0, 1] == 0.0
        assert values.rewards[0, 0] + roster.group_rewards["AGV"][0, 0] == (0.0 if rule == "ignore" else 3.0)


def test_episode_goes_on_when_a_group_member_dies_before_the_group_ends(live_player: Callable[..., int]) -> None:
    port = live_player(
        [
            first(agent(1, group=1), agent(2, group=1)),
            exchange(agent(1, group=1), agent(2, group=1, done=True)),
            exchange(agent(1, group=1, done=True, interrupted=True, group_reward=2.0), agent(1, 3.0, group=1)),
        ]
    )
    with opened(port, world(AGV=2)) as (roster, values):
        roster.step()
        assert (values.terminated[0].tolist(), roster.arrays.episode_over[0]) == ([False, True], False)
        roster.step()
        assert (values.truncated[0].tolist(), roster.arrays.episode_over[0]) == ([True, False], True)
        assert values.rewards[0].tolist() == [2.0, 0.0]


def test_behaviors_fill_their_slots_when_they_appear_late_or_in_teams(live_player: Callable[..., int]) -> None:
    late = {"AGV?team=1": AGV, "Lift?team=0": LIFT}

    def both(value: float) -> dict[str, Any]:
        return {
            "agents": {
                "AGV?team=0": [agent(1, value)],
                "AGV?team=1": [agent(2, value + 1)],
                "Lift?team=0": [agent(3, value + 2)],
            }
        }

    replies: list[Any] = []

    def play(player: Any) -> Iterator[dict[str, Any]]:
        yield first(agent(1))
        yield {**both(10.0), "behaviors": late}
        yield both(20.0)
        replies.append(player.reply.unity_input.rl_input.agent_actions)

    with opened(live_player(play), world(AGV=2, Lift=1)) as (roster, values):
        lift = roster.arrays.roles["Lift"]
        assert not lift.agent_mask.any()
        roster.step()
        assert (values.agent_mask.all(), lift.agent_mask.all()) == (True, True)
        values.discrete_actions[0] = [[1], [2]]
        lift.discrete_actions[0] = [[1]]
        roster.step()
        assert values.observations[0, :, 0].tolist() == [20.0, 21.0]
        values.discrete_actions[0] = [[0], [2]]
        with pytest.raises(Exception, match="the player quit"):
            roster.step()
    chosen = {name: [list(a.discrete_actions) for a in given.value] for name, given in replies[0].items()}
    assert chosen == {"AGV?team=0": [[0]], "AGV?team=1": [[2]], "Lift?team=0": [[1]]}


def test_agent_goes_on_under_another_behavior_when_its_model_is_set(live_player: Callable[..., int]) -> None:
    moved = {
        "agents": {"AGV?team=0": [agent(1, done=True, reward=1.0)], "AGV?team=1": [agent(1, 5.0)]},
        "behaviors": {"AGV?team=1": AGV},
    }
    port = live_player([first(agent(1)), moved, exchange(agent(1, 6.0, reward=2.0), behavior="AGV?team=1")])
    with opened(port, world(AGV=1)) as (roster, values):
        roster.step()
        assert (values.terminated[0, 0], values.rewards[0, 0]) == (True, 1.0)
        assert values.observations[0, 0].tolist() == [5.0]
        roster.step()
        assert (values.terminated[0, 0], values.rewards[0, 0]) == (False, 2.0)


def test_agents_with_different_periods_collect_their_rewards_when_they_ask(live_player: Callable[..., int]) -> None:
    port = live_player(
        [
            first(agent(1), agent(2)),
            exchange(agent(1, reward=1.0)),
            exchange(agent(1, reward=1.0), agent(2, 4.0, reward=2.0)),
            exchange(agent(1, reward=1.0)),
            exchange(agent(2, 5.0, done=True, reward=-2.0)),
            exchange(agent(1, reward=2.0)),
        ]
    )
    with opened(port, world(AGV=2)) as (roster, values):
        asked, rewards = [], []
        for _ in range(5):
            roster.step()
            asked.append(values.decision_mask[0].tolist())
            rewards.append(values.rewards[0].tolist())
    assert asked == [[True, False], [True, True], [True, False], [False, False], [True, False]]
    assert rewards == [[1.0, 0.0], [1.0, 2.0], [1.0, 0.0], [0.0, -2.0], [2.0, 0.0]]
