from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bridge.export.reference import ActorReference
from bridge.specs import ActionSpec
from trainers.algorithms.mappo import MappoLearner
from trainers.algorithms.mappo_config import MappoConfig
from trainers.episode_statistics import EpisodeStatistics
from trainers.policy import TorchPolicy
from trainers.rollout import RolloutCollector


def trained(world: Any, **settings: Any) -> MappoLearner:
    learner = MappoLearner(world.spec, MappoConfig(num_envs=8, learning_rate=1e-2, **settings))
    collector = RolloutCollector(world, learner.policy, 20, EpisodeStatistics(world.spec, 8))
    for _ in range(3):
        rollout = collector.collect()
        assert rollout is not None
        learner.update(rollout)
    return learner


@pytest.mark.parametrize(
    "settings",
    [
        {"policy_sharing": "shared", "normalise_observations": True},
        {"policy_sharing": "per_agent", "normalise_observations": True},
        {"agent_id": False, "layer_norm": False, "activation": "relu"},
    ],
)
def test_actor_parameters_give_the_policys_actions_in_plain_numpy(
    tiny_world: Callable[..., Any], settings: dict[str, Any]
) -> None:
    world = tiny_world(8, action=ActionSpec(2, (3, 4)), num_slots=3)
    learner = trained(world, **settings)
    policy = TorchPolicy(world.spec, learner.policy.actors, deterministic=True)
    role, values = world.spec.roles[0], world.arrays.roles["robot"]
    values.action_mask[:] = np.random.default_rng(0).random(values.action_mask.shape) < 0.5
    values.action_mask[..., [0, 3]] = True
    policy.act(world.arrays)
    covered: list[str] = []
    for parameters in policy.actor_parameters("robot"):
        reference = ActorReference(parameters)
        for agent_id in parameters.agent_ids:
            slot = role.agent_ids.index(agent_id)
            observations = values.observations[:, slot]
            if parameters.observation.blocks[-1].name == "agent_id":
                one_hot = np.broadcast_to(np.eye(3, dtype=np.float32)[slot], (8, 3))
                observations = np.concatenate([observations, one_hot], axis=1)
            expected = reference(observations, values.action_mask[:, slot])
            np.testing.assert_allclose(values.continuous_actions[:, slot], expected.continuous, atol=1e-5)
            np.testing.assert_array_equal(values.discrete_actions[:, slot], expected.discrete)
            covered.append(agent_id)
    assert tuple(covered) == role.agent_ids
    assert len(policy.actor_parameters("robot")) == (3 if settings.get("policy_sharing") == "per_agent" else 1)


def test_policy_repeats_its_random_actions_when_the_seed_is_equal(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(8)
    chosen = []
    for _ in range(2):
        learner = MappoLearner(world.spec, MappoConfig(num_envs=8, seed=4))
        learner.policy.act(world.arrays)
        chosen.append(world.arrays.roles["robot"].discrete_actions.copy())
    np.testing.assert_array_equal(chosen[0], chosen[1])
