from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.advantages import Advantages, LifeHistory, estimate_advantages, normalise_advantages


@dataclass
class Life:
    """One robot's life as a list of events, for the oracle."""

    decisions: list[int] = field(default_factory=list)
    wages: list[float] = field(default_factory=list)  # one per decision: all rewards until the next one
    end: str = "open"  # "terminated", "truncated", "asked again" or "open"
    future: float = 0.0  # value of what comes after the last decision


def lives_of(history: LifeHistory, env: int, slot: int) -> list[Life]:
    """Cut one slot's history into lives, walking forwards."""
    lives, life = [], None
    steps = len(history.rewards)
    for step in range(steps):
        if not history.agent_mask[step, env, slot]:
            continue
        life = life or Life()
        if history.decision_mask[step, env, slot]:
            life.decisions.append(step)
            life.wages.append(0.0)
        if life.decisions:
            life.wages[-1] += float(history.rewards[step, env, slot])
        if history.terminated[step, env, slot]:
            life.end = "terminated"
        elif history.truncated[step, env, slot]:
            life.end, life.future = "truncated", float(history.final_values[step, env, slot])
        if life.end != "open":
            lives.append(life)
            life = None
    if life is not None:
        if history.agent_mask[steps, env, slot] and history.decision_mask[steps, env, slot]:
            life.end, life.future = "asked again", float(history.values[steps, env, slot])
        lives.append(life)
    return lives


def oracle(history: LifeHistory, gamma: float, gae_lambda: float) -> dict[tuple[int, int, int], float]:
    """Advantage of each valid decision, straight from the definition: a sum of discounted TD errors of its life."""
    advantages = {}
    _, envs, slots = history.rewards.shape
    for env in range(envs):
        for slot in range(slots):
            for life in lives_of(history, env, slot):
                values = [float(history.values[step, env, slot]) for step in life.decisions]
                count = len(values) - (1 if life.end == "open" else 0)
                successors = [*values[1:], life.future]
                errors = [life.wages[i] + gamma * successors[i] - values[i] for i in range(max(count, 0))]
                for first in range(max(count, 0)):
                    total = sum((gamma * gae_lambda) ** (i - first) * errors[i] for i in range(first, count))
                    advantages[life.decisions[first], env, slot] = total
    return advantages


@st.composite
def histories(draw: st.DrawFn) -> LifeHistory:
    """Random lives: dead gaps, same-step respawn, pauses, all kinds of ends."""
    steps, envs, slots = draw(st.integers(1, 12)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (steps, envs, slots)
    alive = np.zeros((steps + 1, envs, slots), np.bool_)
    terminated, truncated = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    end_rate, birth_rate = draw(st.sampled_from([0.0, 0.2, 0.6])), draw(st.sampled_from([0.3, 1.0]))
    alive[0] = rng.random((envs, slots)) < 0.8
    for step in range(steps):
        ends = alive[step] & (rng.random((envs, slots)) < end_rate)
        kind = rng.integers(3, size=(envs, slots))
        terminated[step], truncated[step] = ends & (kind != 1), ends & (kind != 0)  # 2: both flags at once
        born = rng.random((envs, slots)) < birth_rate
        alive[step + 1] = np.where(alive[step] & ~ends, True, born)
    ask_rate = draw(st.sampled_from([0.3, 1.0]))
    asked = alive & (rng.random(alive.shape) < ask_rate)
    return LifeHistory(
        rewards=rng.normal(size=shape).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        agent_mask=alive,
        decision_mask=asked,
        values=rng.normal(size=alive.shape).astype(np.float32),
        final_values=rng.normal(size=shape).astype(np.float32),
    )


@settings(max_examples=300, deadline=None)
@given(histories(), st.sampled_from([0.0, 0.9, 1.0]), st.sampled_from([0.0, 0.95, 1.0]))
def test_advantages_equal_the_sum_of_td_errors_of_each_life_when_lives_are_random(
    history: LifeHistory, gamma: float, gae_lambda: float
) -> None:
    result = estimate_advantages(history, gamma, gae_lambda)
    expected = oracle(history, gamma, gae_lambda)
    assert {tuple(index) for index in np.argwhere(result.valid).tolist()} == expected.keys()
    for index, value in expected.items():
        assert result.advantages[index] == pytest.approx(value, rel=1e-4, abs=1e-4)
        assert result.returns[index] == pytest.approx(value + history.values[index], rel=1e-4, abs=1e-4)
    assert not result.advantages[~result.valid].any()


@settings(max_examples=100, deadline=None)
@given(histories())
def test_advantages_do_not_change_when_masked_entries_are_garbage(history: LifeHistory) -> None:
    def spoil(array: np.ndarray, used: np.ndarray) -> np.ndarray:
        return np.where(used, array, np.float32(np.nan))

    ended_by_limit = history.truncated & ~history.terminated
    spoilt = LifeHistory(
        rewards=spoil(history.rewards, history.agent_mask[:-1]),
        terminated=history.terminated | ~history.agent_mask[:-1],
        truncated=history.truncated | ~history.agent_mask[:-1],
        agent_mask=history.agent_mask,
        decision_mask=history.decision_mask | ~history.agent_mask,
        values=spoil(history.values, history.decision_mask),
        final_values=spoil(history.final_values, ended_by_limit),
    )
    clean, dirty = estimate_advantages(history, 0.9, 0.95), estimate_advantages(spoilt, 0.9, 0.95)
    np.testing.assert_array_equal(clean.valid, dirty.valid)
    np.testing.assert_array_equal(clean.advantages, dirty.advantages)
    np.testing.assert_array_equal(clean.returns, dirty.returns)


def one_life(**changes: object) -> LifeHistory:
    """Three steps of one robot, asked at each, reward 1 each, values 10; nothing ends."""
    parts: dict[str, np.ndarray] = {
        "rewards": np.ones((3, 1, 1), np.float32),
        "terminated": np.zeros((3, 1, 1), np.bool_),
        "truncated": np.zeros((3, 1, 1), np.bool_),
        "agent_mask": np.ones((4, 1, 1), np.bool_),
        "decision_mask": np.ones((4, 1, 1), np.bool_),
        "values": np.full((4, 1, 1), 10.0, np.float32),
        "final_values": np.full((3, 1, 1), 50.0, np.float32),
    }
    for name, entries in changes.items():
        parts[name] = np.array(entries, parts[name].dtype).reshape(parts[name].shape)
    return LifeHistory(**parts)


def test_advantages_have_no_future_when_a_life_was_terminated() -> None:
    result = estimate_advantages(one_life(terminated=[0, 1, 0]), gamma=0.5, gae_lambda=0.0)
    assert result.returns[:, 0, 0].tolist() == [1 + 0.5 * 10, 1, 1 + 0.5 * 10]


def test_advantages_bootstrap_from_the_final_observation_when_a_life_was_truncated() -> None:
    result = estimate_advantages(one_life(truncated=[0, 1, 0]), gamma=0.5, gae_lambda=0.0)
    assert result.returns[:, 0, 0].tolist() == [1 + 0.5 * 10, 1 + 0.5 * 50, 1 + 0.5 * 10]


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_advantages_do_not_flow_across_the_end_of_a_life(end: str) -> None:
    calm = estimate_advantages(one_life(**{end: [1, 0, 0]}), 1.0, 1.0)
    rich = estimate_advantages(one_life(**{end: [1, 0, 0]}, rewards=[1, 99, 99]), 1.0, 1.0)
    assert calm.advantages[0, 0, 0] == rich.advantages[0, 0, 0]


def test_advantages_add_up_rewards_without_discount_when_a_robot_is_not_asked() -> None:
    result = estimate_advantages(one_life(decision_mask=[1, 0, 0, 1], rewards=[1, 2, 4]), 0.5, 1.0)
    assert result.valid[:, 0, 0].tolist() == [True, False, False]
    assert result.returns[0, 0, 0] == 1 + 2 + 4 + 0.5 * 10


def test_advantages_leave_out_the_last_decision_when_its_outcome_is_not_known() -> None:
    result = estimate_advantages(one_life(decision_mask=[1, 1, 0, 0]), 0.5, 1.0)
    assert result.valid[:, 0, 0].tolist() == [True, False, False]
    assert result.returns[0, 0, 0] == 1 + 0.5 * 10


def parts() -> dict[str, Advantages]:
    rng = np.random.default_rng(0)

    def make(scale: float) -> Advantages:
        values = rng.normal(3.0, scale, (5, 4, 2)).astype(np.float32)
        valid = rng.random((5, 4, 2)) < 0.7
        return Advantages(np.where(valid, values, 0.0).astype(np.float32), values, valid)

    return {"carrier": make(1.0), "picker": make(10.0)}


def test_normalised_advantages_have_mean_0_and_std_1_over_the_valid_samples_of_each_role() -> None:
    data = parts()
    for name, normalised in normalise_advantages(data, "role").items():
        samples = normalised[data[name].valid]
        assert samples.mean() == pytest.approx(0.0, abs=1e-5)
        assert samples.std() == pytest.approx(1.0, abs=1e-5)
        assert not normalised[~data[name].valid].any()


def test_normalised_advantages_keep_the_ratio_of_roles_when_they_are_normalised_together() -> None:
    data = parts()
    result = normalise_advantages(data, "all")
    samples = np.concatenate([result[name][data[name].valid] for name in data])
    assert samples.mean() == pytest.approx(0.0, abs=1e-5)
    assert samples.std() == pytest.approx(1.0, abs=1e-5)
    assert result["picker"][data["picker"].valid].std() > 5 * result["carrier"][data["carrier"].valid].std()


def test_normalised_advantages_have_mean_0_per_slot_when_they_are_normalised_per_agent() -> None:
    data = parts()
    for name, normalised in normalise_advantages(data, "agent").items():
        for slot in range(2):
            samples = normalised[..., slot][data[name].valid[..., slot]]
            assert samples.mean() == pytest.approx(0.0, abs=1e-5)
            assert samples.std() == pytest.approx(1.0, abs=1e-5)


def test_normalised_advantages_are_unchanged_without_normalisation() -> None:
    data = parts()
    for name, values in normalise_advantages(data, "none").items():
        np.testing.assert_array_equal(values, data[name].advantages)


def test_normalised_advantages_are_finite_when_there_are_no_samples() -> None:
    empty = Advantages(np.zeros((2, 1, 1), np.float32), np.zeros((2, 1, 1), np.float32), np.zeros((2, 1, 1), np.bool_))
    for over in ("role", "agent", "all"):
        assert not normalise_advantages({"carrier": empty}, over)["carrier"].any()
