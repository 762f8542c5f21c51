from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bridge.errors import ActionError, TrainingError
from bridge.specs import ActionSpec
from trainers.algorithms.mappo import MappoLearner
from trainers.algorithms.mappo_config import MappoConfig
from trainers.episode_statistics import EpisodeStatistics
from trainers.rollout import RolloutCollector


def collector(world: Any, steps: int) -> tuple[RolloutCollector, EpisodeStatistics]:
    learner = MappoLearner(world.spec, MappoConfig(num_envs=world.arrays.num_envs))
    statistics = EpisodeStatistics(world.spec, world.arrays.num_envs)
    return RolloutCollector(world, learner.policy, steps, statistics, debug=True), statistics


def test_rollout_leaves_no_poison_where_somebody_lived(tiny_world: Callable[..., Any]) -> None:
    rollout = collector(tiny_world(4, action=ActionSpec(2, (3,)), kill_on_miss=True), 15)[0].collect()
    assert rollout is not None
    data = rollout.roles["robot"]
    for array in (data.rewards, data.log_probs, data.continuous_actions):
        assert np.isfinite(array).all()
    assert (data.discrete_actions >= 0).all()
    assert np.isfinite(data.observations).all()


def test_rollouts_follow_each_other_without_a_gap(tiny_world: Callable[..., Any]) -> None:
    source = collector(tiny_world(4), 7)[0]
    first = source.collect()
    assert first is not None
    last_seen = first.roles["robot"].observations[-1].copy()
    second = source.collect()
    assert second is not None
    np.testing.assert_array_equal(second.roles["robot"].observations[0], last_seen)


def test_final_views_hold_the_last_observation_of_truncated_lives_not_the_next_ones(
    tiny_world: Callable[..., Any],
) -> None:
    rollout = collector(tiny_world(3, episode_steps=5), 12)[0].collect()
    assert rollout is not None
    assert rollout.final.steps.tolist() == [4] * 3 + [9] * 3
    assert rollout.final.envs.tolist() == [0, 1, 2] * 2
    clock = rollout.final.observations["robot"][..., -1]
    np.testing.assert_array_equal(clock, np.ones_like(clock))  # the end of the episode
    np.testing.assert_array_equal(rollout.roles["robot"].observations[5, ..., -1], 0.0)  # already the next one
    np.testing.assert_array_equal(rollout.final.state, rollout.final.observations["robot"].reshape(6, -1))


def test_final_views_are_empty_when_no_life_was_truncated(tiny_world: Callable[..., Any]) -> None:
    rollout = collector(tiny_world(3, episode_steps=50), 12)[0].collect()
    assert rollout is not None
    assert len(rollout.final.steps) == 0


def test_final_views_mask_slots_that_nobody_lived_in(tiny_world: Callable[..., Any]) -> None:
    rollout = collector(tiny_world(8, episode_steps=5, kill_on_miss=True, respawn_after=9), 5)[0].collect()
    assert rollout is not None
    data, final = rollout.roles["robot"], rollout.final
    expected = (data.truncated & ~data.terminated)[final.steps, final.envs]
    np.testing.assert_array_equal(final.agent_mask["robot"], expected)
    assert not final.observations["robot"][~expected].any()


def test_statistics_take_in_whole_episodes(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(3, episode_steps=5)
    source, statistics = collector(world, 12)
    rollout = source.collect()
    assert rollout is not None
    summary = statistics.summary()
    rewards = rollout.roles["robot"].rewards[:10]
    assert summary.num_episodes == 6
    assert summary.length == 5.0
    assert summary.return_sum == pytest.approx(rewards.sum() / 6)
    assert summary.return_mean == pytest.approx(rewards.sum() / 6 / 2)
    assert summary.metrics["hits_per_step"] == pytest.approx(rewards.sum() / 6 / 5)


def test_statistics_go_through_a_checkpoint(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(3, episode_steps=5)
    source, statistics = collector(world, 12)
    source.collect()
    copy = EpisodeStatistics(world.spec, 3)
    copy.load_state(statistics.state())
    assert copy.summary() == statistics.summary()


def test_collection_ends_at_a_stop_request(tiny_world: Callable[..., Any]) -> None:
    answers = iter([False, False, True])
    assert collector(tiny_world(3), 12)[0].collect(lambda: next(answers)) is None


def test_collection_raises_when_the_world_gives_nan(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(3)
    step_wait = world.step_wait

    def spoil() -> None:
        step_wait()
        world.arrays.roles["robot"].observations[1, 0, 2] = np.nan

    world.step_wait = spoil
    with pytest.raises(TrainingError, match=r"step 1, environment 1, agent 'robot_0': expected finite observations"):
        collector(world, 4)[0].collect()


def test_collection_raises_when_a_robot_may_choose_nothing(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(3)
    world.arrays.roles["robot"].action_mask[2, 1] = False
    with pytest.raises(ActionError, match=r"agent 'robot_1' of environment 2: expected at least one allowed choice"):
        collector(world, 4)[0].collect()
