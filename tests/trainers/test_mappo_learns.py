"""MAPPO reaches the known optimum of tiny worlds: one per kind of action and of life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bridge.specs import ActionSpec
from trainers.algorithms.mappo import MappoLearner
from trainers.algorithms.mappo_config import MappoConfig
from trainers.episode_statistics import EpisodeStatistics
from trainers.policy import TorchPolicy
from trainers.rollout import RolloutCollector

SETTINGS: dict[str, Any] = {
    "num_envs": 16,
    "rollout_steps": 20,
    "learning_rate": 3e-3,
    "debug": True,
    "hidden_sizes": (32, 32),
}


def learn(world: Any, updates: int, **settings: Any) -> float:
    """Train, then play greedily; reward per robot and step."""
    config = MappoConfig(**{**SETTINGS, **settings})
    learner = MappoLearner(world.spec, config)
    statistics = EpisodeStatistics(world.spec, config.num_envs)
    collector = RolloutCollector(world, learner.policy, config.rollout_steps, statistics, debug=True)
    for _ in range(updates):
        rollout = collector.collect()
        assert rollout is not None
        learner.update(rollout)
    policy = TorchPolicy(world.spec, learner.policy.actors, deterministic=True)
    rewards = []
    for _ in range(50):
        policy.act(world.arrays)
        world.step()
        rewards.append(world.arrays.roles["robot"].rewards.mean())
    return float(np.mean(rewards))


def test_mappo_learns_discrete_actions(tiny_world: Callable[..., Any]) -> None:
    assert learn(tiny_world(16), updates=30) > 0.98  # uniform: 0.25, optimum: 1


def test_mappo_learns_multi_discrete_actions(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(16, action=ActionSpec(discrete_branches=(3, 4)))
    assert learn(world, updates=30) > 0.98  # uniform: 0.29, optimum: 1


def test_mappo_learns_continuous_actions(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(16, action=ActionSpec(num_continuous=2))
    assert learn(world, updates=40, ent_coef=0.0) > -0.03  # zeros: -0.43, optimum: 0


def test_mappo_learns_hybrid_actions(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(16, action=ActionSpec(num_continuous=1, discrete_branches=(3,)))
    assert learn(world, updates=40, ent_coef=0.0) > 0.95  # optimum: 1


def test_mappo_learns_under_action_masks(tiny_world: Callable[..., Any]) -> None:
    # The world raises if a forbidden action arrives.
    world = tiny_world(16, action=ActionSpec(discrete_branches=(6,)), forbid_others=True)
    assert learn(world, updates=30) > 0.98  # uniform over the allowed: 0.5, optimum: 1


def test_mappo_learns_when_robots_die_and_respawn(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(16, kill_on_miss=True)
    assert learn(world, updates=40) > 0.95  # a slot that misses is empty for two steps


def test_mappo_learns_when_robots_are_not_asked_and_wages_come_late(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(16, ask_every=3, episode_steps=12)
    assert learn(world, updates=60) > 0.32  # one decision in three steps: optimum 1/3, uniform 1/12


@pytest.mark.parametrize("settings", [{"policy_sharing": "per_agent"}, {"agent_id": True}])
def test_mappo_gives_every_robot_its_own_job_when_it_can_tell_them_apart(
    tiny_world: Callable[..., Any], settings: dict[str, Any]
) -> None:
    world = tiny_world(16, num_slots=3, own_target=True, action=ActionSpec(discrete_branches=(3,)))
    assert learn(world, updates=30, **settings) > 0.98  # one common action: 1/3


def test_mappo_cannot_give_robots_different_jobs_when_it_cannot_tell_them_apart(
    tiny_world: Callable[..., Any],
) -> None:
    world = tiny_world(16, num_slots=3, own_target=True, action=ActionSpec(discrete_branches=(3,)))
    assert learn(world, updates=5, agent_id=False) == pytest.approx(1 / 3)


@pytest.mark.parametrize("critic_input", ["state", "observation", "state_and_observation"])
@pytest.mark.parametrize("has_state", [True, False])
def test_mappo_learns_with_every_critic_input(
    tiny_world: Callable[..., Any], critic_input: str, has_state: bool
) -> None:
    world = tiny_world(16, has_state=has_state)
    assert learn(world, updates=30, critic_input=critic_input) > 0.98


@pytest.mark.parametrize(
    "settings",
    [
        {"value_normalisation": "none", "layer_norm": False, "activation": "relu"},
        {"value_normalisation": "popart", "normalise_observations": True},
        {"advantage_normalisation": "agent", "minibatches": 1, "anneal_learning_rate": True, "total_env_steps": 9600},
        {"advantage_normalisation": "all", "clip_value_loss": False, "target_kl": 0.05},
    ],
)
def test_mappo_learns_with_every_option(tiny_world: Callable[..., Any], settings: dict[str, Any]) -> None:
    assert learn(tiny_world(16), updates=30, **settings) > 0.95
