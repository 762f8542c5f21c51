"""Environments that swap scenarios between episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridge.errors import CallOrderError, SpecMismatchError
from bridge.policy import RandomPolicy
from bridge.registry import open_world
from bridge.roster import RosterArrays
from bridge.scenario import Scenario, load_scenario
from bridge.scenario_mix import ScenarioMix
from bridge.vector import AsyncVectorEnv, SerialVectorEnv, VectorEnv
from bridge.warehouse.config import WarehouseConfig

Snapshot = dict[str, np.ndarray]


def variant(name: str, **changes: Any) -> Scenario:
    """``warehouse_small_despawn`` with another name, fleet or length of episodes."""
    scenario = load_scenario("warehouse_small_despawn")
    data = scenario.config.model_dump(by_alias=True) | changes
    return replace(scenario, name=name, config=WarehouseConfig.model_validate(data))


def fleet(count: int) -> tuple[dict[str, Any], ...]:
    return ({"role": "carrier", "count": count},)


SHORT = variant("short", episode_steps=7)
FEW = variant("few", episode_steps=5, fleet=fleet(3))
MIX = ScenarioMix((SHORT, FEW), (1.0, 2.0))


def snapshot(arrays: RosterArrays) -> Snapshot:
    flat = {f"{name}/{key}": value.copy() for name, role in arrays.roles.items() for key, value in vars(role).items()}
    return flat | {key: value.copy() for key, value in vars(arrays).items() if key != "roles"}


def play(env: VectorEnv, num_steps: int, weights: Sequence[float] | None = None) -> list[Snapshot]:
    """Every array after every step; half-way other weights, and a reset of every other environment."""
    policy = RandomPolicy(env.spec, 7)
    env.reset(11)
    history = [snapshot(env.arrays)]
    for step in range(num_steps):
        if step == num_steps // 2 and weights is not None:
            env.set_scenario_weights(weights)
            env.reset(env_mask=np.arange(env.num_envs) % 2 == 0)
        policy.act(env.arrays)
        env.step()
        history.append(snapshot(env.arrays))
    return history


def test_mix_equals_serial_bit_for_bit_for_any_number_of_workers() -> None:
    with SerialVectorEnv(MIX, 5) as serial:
        expected = play(serial, 40, (2.0, 1.0))
    ended = np.concatenate([step["final_scenario"][step["episode_over"]] for step in expected])
    assert set(ended) == {0, 1}
    for num_workers in (1, 2):
        with AsyncVectorEnv(MIX, 5, num_workers) as env:
            got = play(env, 40, (2.0, 1.0))
        for step, (mine, its) in enumerate(zip(expected, got, strict=True)):
            for key in mine:
                np.testing.assert_array_equal(its[key], mine[key], err_msg=f"{key}, step {step}, {num_workers} workers")


def test_mix_of_which_one_scenario_is_played_equals_that_scenario_alone() -> None:
    with SerialVectorEnv(FEW, 3) as alone, SerialVectorEnv(ScenarioMix((SHORT, FEW), (0.0, 1.0)), 3) as mixed:
        policy = RandomPolicy(mixed.spec, 3)
        alone.reset(5)
        mixed.reset(5)
        for _ in range(30):
            policy.act(mixed.arrays)
            mine, its = alone.arrays.roles["carrier"], mixed.arrays.roles["carrier"]
            mine.discrete_actions[:] = its.discrete_actions[:, :3]
            alone.step()
            mixed.step()
            ended = mine.terminated | mine.truncated
            for name, value in vars(mine).items():
                if "actions" in name:
                    continue
                shown = ended if name == "final_observations" else np.ones_like(ended)
                np.testing.assert_array_equal(getattr(its, name)[:, :3][shown], value[shown], err_msg=name)
            np.testing.assert_array_equal(mixed.arrays.state[:, : alone.spec.state_size], alone.arrays.state)
            np.testing.assert_array_equal(mixed.arrays.episode, alone.arrays.episode)
        assert (alone.arrays.episode >= 5).all()


def test_mix_leaves_slots_empty_where_the_fleet_is_smaller() -> None:
    with SerialVectorEnv(ScenarioMix((FEW, SHORT), (1.0, 1.0)), 8) as env:
        assert env.spec.role("carrier").num_slots == 8
        assert env.spec.state_size == open_world(SHORT).spec.state_size
        policy = RandomPolicy(env.spec, 3)
        env.reset(5)
        seen = set()
        for _ in range(40):
            values = env.arrays.roles["carrier"]
            small = ~values.agent_mask[:, 3:].any(axis=1)
            seen.add(int(small.sum()))
            assert not values.observations[small, 3:].any()
            assert not values.decision_mask[small, 3:].any()
            assert values.action_mask[small, 3:].all()
            policy.act(env.arrays)
            env.step()
            # A robot of the larger fleet is cut when its episode ends, though its slot is empty afterwards.
            ended = env.arrays.episode_over & (env.arrays.final_scenario == 1)
            flags = values.truncated | values.terminated
            assert not ended.any() or flags[ended, 3:].any()
            few_ended = env.arrays.episode_over & (env.arrays.final_scenario == 0)
            assert not flags[few_ended, 3:].any()
            assert not values.rewards[few_ended, 3:].any()
        assert len(seen) > 1


def test_mix_draws_scenarios_by_their_weights() -> None:
    quick = [variant(name, episode_steps=1, fleet=fleet(2)) for name in ("a", "b", "c")]
    with SerialVectorEnv(ScenarioMix(tuple(quick), (1.0, 0.0, 3.0)), 40) as env:
        policy = RandomPolicy(env.spec, 3)
        env.reset(5)
        drawn = []
        for _ in range(50):
            policy.act(env.arrays)
            env.step()
            drawn.append(env.arrays.final_scenario.copy())
    shares = np.bincount(np.concatenate(drawn), minlength=3) / 2000
    assert shares[1] == 0.0
    # Four standard deviations of 2,000 draws.
    assert shares[2] == pytest.approx(0.75, abs=0.04)


def test_mix_swaps_at_the_end_of_an_episode_when_the_weights_change() -> None:
    with SerialVectorEnv(ScenarioMix((SHORT, FEW), (1.0, 0.0)), 2) as env:
        policy = RandomPolicy(env.spec, 3)
        env.reset(5)
        for step in range(12):
            if step == 3:
                env.set_scenario_weights((0.0, 1.0))
            policy.act(env.arrays)
            env.step()
            if env.arrays.episode_over.any():
                # The first episode is played to its end on the first scenario; the next one is on the second.
                assert (step, env.arrays.final_scenario.tolist()) in [(6, [0, 0]), (11, [1, 1])]
        assert env.arrays.episode.tolist() == [2, 2]


def test_mix_refuses_scenarios_that_no_policy_could_share() -> None:
    blocks = ({"block": "self"}, {"block": "path"}, {"block": "neighbours"})
    other = variant("other", observation=blocks)
    with pytest.raises(
        SpecMismatchError,
        match=r"scenario 'other' beside 'short': role 'carrier': observation block 1: expected 'target' \(6 values.*"
        r"got 'path' .*One policy drives all of them: give them drives of one kind and equal 'observation' sections\.",
    ):
        SerialVectorEnv(ScenarioMix((SHORT, other), (1.0, 1.0)), 1)
    tugger = variant("tugger", fleet=({"role": "tugger", "count": 3},))
    with pytest.raises(SpecMismatchError, match=r"expected the roles \['carrier'\], got \['tugger'\]"):
        SerialVectorEnv(ScenarioMix((SHORT, tugger), (1.0, 1.0)), 1)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, -1.0), (0.0, 0.0), (1.0, float("nan"))])
def test_mix_refuses_weights_that_mean_nothing(weights: tuple[float, ...]) -> None:
    with pytest.raises(SpecMismatchError, match=r"scenario mix: expected (one weight for each|weights >= 0)"):
        ScenarioMix((SHORT, FEW), weights)


def test_mix_refuses_equal_names() -> None:
    with pytest.raises(SpecMismatchError, match=r"got short, short\. List each scenario once, and give each file"):
        ScenarioMix((SHORT, SHORT), (1.0, 1.0))


def test_set_scenario_weights_is_refused_when_it_makes_no_sense() -> None:
    single = pytest.raises(SpecMismatchError, match=r"expected an environment made with a ScenarioMix, got .*'short'")
    with SerialVectorEnv(SHORT, 1) as env, single:
        env.set_scenario_weights((1.0,))
    with SerialVectorEnv(MIX, 1) as env:
        with pytest.raises(CallOrderError, match=r"expected a reset before|expected the first reset"):
            env.reset()
        with pytest.raises(SpecMismatchError, match=r"one weight for each of the scenarios short, few, got \[1\.0\]"):
            env.set_scenario_weights((1.0,))
        env.reset(1)
        env.step_async()
        with pytest.raises(CallOrderError, match=r"got 'waiting for step_wait'\. Wait for the step first\."):
            env.set_scenario_weights((1.0, 1.0))
