from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from bridge.errors import TrainingError
from bridge.specs import ActionSpec
from trainers.algorithms.mappo import MappoLearner
from trainers.algorithms.mappo_config import MappoConfig
from trainers.episode_statistics import EpisodeStatistics
from trainers.rollout import RoleRollout, Rollout, RolloutCollector


def collect(world: Any, learner: MappoLearner, steps: int = 12) -> Rollout:
    statistics = EpisodeStatistics(world.spec, world.arrays.num_envs)
    rollout = RolloutCollector(world, learner.policy, steps, statistics, debug=True).collect()
    assert rollout is not None
    return rollout


def flat(tree: Any, name: str = "") -> dict[str, Any]:
    if isinstance(tree, dict):
        return {key: leaf for part in tree for key, leaf in flat(tree[part], f"{name}/{part}").items()}
    if isinstance(tree, list):
        return {key: leaf for i, part in enumerate(tree) for key, leaf in flat(part, f"{name}/{i}").items()}
    return {name: np.asarray(tree)}


def require_equal_states(first: MappoLearner, second: MappoLearner) -> None:
    mine, its = flat(first.state()), flat(second.state())
    assert mine.keys() == its.keys()
    for name, value in mine.items():
        np.testing.assert_array_equal(value, its[name], err_msg=name)


def spoilt(data: RoleRollout) -> RoleRollout:
    """The same data with garbage wherever nobody lived or nobody was asked."""
    copy = RoleRollout(**{field.name: getattr(data, field.name).copy() for field in fields(data)})
    dead, idle = ~data.agent_mask, ~data.decision_mask[:-1]
    copy.observations[dead] = np.nan
    copy.rewards[dead[:-1]] = np.nan
    copy.terminated[dead[:-1]] = True
    copy.truncated[dead[:-1]] = True
    copy.action_mask[idle] = False
    copy.continuous_actions[idle] = np.nan
    copy.discrete_actions[idle] = -7
    copy.log_probs[idle] = np.nan
    return copy


@pytest.mark.parametrize("sharing", ["shared", "per_agent"])
@pytest.mark.parametrize("has_state", [True, False])
@pytest.mark.parametrize("action", [ActionSpec(0, (4,)), ActionSpec(2, (3,))])
def test_update_is_bit_identical_when_masked_entries_are_garbage(
    tiny_world: Callable[..., Any], sharing: str, has_state: bool, action: ActionSpec
) -> None:
    world = tiny_world(6, action=action, kill_on_miss=True, ask_every=2, has_state=has_state, num_slots=3)
    config = MappoConfig(
        num_envs=6, epochs=2, policy_sharing=sharing, normalise_observations=True, value_normalisation="popart"
    )
    learner, other = MappoLearner(world.spec, config), MappoLearner(world.spec, config)
    for _ in range(2):  # the second round has normalisers that are not empty
        rollout = collect(world, learner)
        other.load_state(learner.state())
        data = rollout.roles["robot"]
        assert not data.agent_mask.all()
        assert not data.decision_mask[data.agent_mask].all()
        dirty = replace(rollout, roles={"robot": spoilt(data)})
        assert learner.update(rollout) == other.update(dirty)
        require_equal_states(learner, other)


def test_first_epoch_starts_at_ratio_1_when_observations_are_normalised(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(6, action=ActionSpec(2, (3,)))
    config = MappoConfig(num_envs=6, epochs=1, minibatches=1, normalise_observations=True)
    learner = MappoLearner(world.spec, config)
    for _ in range(3):
        metrics = learner.update(collect(world, learner))
        assert metrics["robot/approx_kl"] == pytest.approx(0.0, abs=1e-6)
        assert metrics["robot/clip_fraction"] == 0.0


@pytest.mark.parametrize("normalisation", ["running", "popart", "none"])
def test_values_are_denormalised_before_gae(tiny_world: Callable[..., Any], normalisation: str) -> None:
    """With returns around -1000 an advantage from normalised values would be far off."""
    world = tiny_world(8)
    config = MappoConfig(
        num_envs=8, gamma=0.0, epochs=10, learning_rate=2e-2, value_normalisation=normalisation, value_decay=0.5
    )
    learner = MappoLearner(world.spec, config)
    explained = []
    for _ in range(12):
        rollout = collect(world, learner, steps=20)
        # Rewards that depend on what was seen alone, so that a critic can explain them whole.
        seen = rollout.roles["robot"].observations[:-1, ..., :4].argmax(axis=-1)
        rollout.roles["robot"].rewards[:] = -1000.0 + 10.0 * seen
        explained.append(learner.update(rollout)["robot/explained_variance"])
    if normalisation == "none":
        assert explained[-1] < 0.5  # plain returns of this size cannot be learnt in so few steps
    else:
        assert explained[-1] > 0.95


def test_actor_and_critic_gradients_are_clipped_apart_and_logged(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(6)
    config = MappoConfig(num_envs=6, epochs=1, minibatches=1, max_grad_norm_critic=1e-12, max_grad_norm_actor=0.5)
    learner = MappoLearner(world.spec, config)
    before = flat(learner.state())
    metrics = learner.update(collect(world, learner))
    after = flat(learner.state())
    assert metrics["robot/actor_grad_norm"] > 0
    assert metrics["robot/critic_grad_norm"] > 1e-3  # as it was before the clip
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert any(name.startswith("/roles/robot/actor/") for name in moved)
    # Adam's epsilon hides a gradient of 1e-12: the critic stands still.
    critic = [name for name in before if name.startswith("/roles/robot/critic/")]
    for name in critic:
        np.testing.assert_allclose(after[name], before[name], atol=1e-8)


def test_update_stops_early_when_the_policy_moves_too_far(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(6)
    config = MappoConfig(num_envs=6, epochs=50, minibatches=1, learning_rate=1e-2, target_kl=0.01)
    learner = MappoLearner(world.spec, config)
    assert learner.update(collect(world, learner))["robot/gradient_steps"] < 50


def test_learning_rate_falls_linearly_to_0(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(6)
    learner = MappoLearner(
        world.spec, MappoConfig(num_envs=6, updates=4, learning_rate=1e-3, anneal_learning_rate=True)
    )
    rates = [learner.update(collect(world, learner))["learning_rate"] for _ in range(5)]
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3, 0.0])


def test_update_raises_when_the_loss_is_not_finite(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(6)
    learner = MappoLearner(world.spec, MappoConfig(num_envs=6))
    rollout = collect(world, learner)
    with torch.no_grad():
        learner.policy.actors["robot"].network.layers[0].bias.fill_(torch.nan)
    with pytest.raises(TrainingError, match=r"role 'robot', update 0, epoch 0, minibatch 0: policy loss: .* got nan"):
        learner.update(rollout)


def test_update_raises_when_nobody_was_asked(tiny_world: Callable[..., Any]) -> None:
    world = tiny_world(6)
    learner = MappoLearner(world.spec, MappoConfig(num_envs=6))
    rollout = replace(collect(world, learner), num_decisions=0)
    with pytest.raises(TrainingError, match="expected a rollout in which some robot is asked"):
        learner.update(rollout)


def test_state_goes_on_bit_for_bit_when_it_is_loaded_elsewhere(tiny_world: Callable[..., Any]) -> None:
    config = MappoConfig(num_envs=6, normalise_observations=True)
    world = tiny_world(6, action=ActionSpec(1, (3,)))
    first, second = MappoLearner(world.spec, config), MappoLearner(world.spec, config)
    first.update(collect(world, first))
    second.load_state(first.state())
    twins = [tiny_world(6, seed=9, action=ActionSpec(1, (3,))) for _ in range(2)]
    for learner, twin in zip((first, second), twins, strict=True):
        learner.update(collect(twin, learner))
    require_equal_states(first, second)
