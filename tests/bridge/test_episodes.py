"""Whole episodes with fixed shares per environment."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

from bridge.episodes import run_episodes
from bridge.errors import WorldTimeoutError
from bridge.policy import RandomPolicy
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.vector import AsyncVectorEnv, SerialVectorEnv

WORLDS = Path(__file__).parent / "worlds"


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(WORLDS))
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "schema: 1\nworld: pettingzoo\npettingzoo: {factory: 'tiny_fleet:TinyFleet', kwargs: {death: 0.2, limit: 9}}\n"
    )
    return load_scenario(path)


def play(env, num_episodes, **kwargs):
    return run_episodes(env, RandomPolicy(env.spec, 1), seed=5, num_episodes=num_episodes, **kwargs)


def test_every_environment_plays_its_share_when_episodes_differ_in_length(scenario):
    with SerialVectorEnv(scenario, 3) as env:
        results = play(env, 11)
    assert [(r.env, r.episode) for r in results] == [(e, i) for e, n in enumerate((4, 4, 3)) for i in range(n)]
    assert len({r.steps for r in results}) > 1


def test_returns_are_the_sums_of_the_rewards_when_lives_end_early(scenario):
    class Bookkeeper(RandomPolicy):
        """Sums the porters' rewards of environment 1, step by step."""

        def __init__(self, spec):
            super().__init__(spec, 1)
            self.sums, self.lengths, self.running, self.steps = [], [], 0.0, -1

        def act(self, arrays):
            self.steps += 1
            self.running += float(arrays.roles["porter"].rewards[1].astype(np.float64).sum())
            if arrays.episode_over[1]:
                self.sums.append(self.running)
                self.lengths.append(self.steps)
                self.running, self.steps = 0.0, 0
            super().act(arrays)

    with SerialVectorEnv(scenario, 2) as env:
        keeper = Bookkeeper(env.spec)
        results = [r for r in run_episodes(env, keeper, seed=5, num_episodes=8) if r.env == 1]
    known = len(keeper.sums)
    assert known >= 3
    assert [r.returns["porter"].total for r in results[:known]] == pytest.approx(keeper.sums[:4])
    assert [r.steps for r in results[:known]] == keeper.lengths[:4]
    assert results[0].returns["porter"].per_agent == pytest.approx(results[0].returns["porter"].total / 3)
    assert set(results[0].returns) == {"porter", "scout"}


def test_results_are_the_same_when_workers_play_them(scenario):
    with SerialVectorEnv(scenario, 3) as serial, AsyncVectorEnv(scenario, 3, 2) as workers:
        assert play(serial, 6) == play(workers, 6)


def test_running_gives_up_when_an_environment_does_not_finish(scenario):
    with (
        SerialVectorEnv(scenario, 2) as env,
        pytest.raises(WorldTimeoutError, match=r"expected 2 episodes within 1 steps, got 0; environments \[0, 1\]"),
    ):
        play(env, 2, max_steps=1)


def test_decisions_are_timed_and_make_no_results_differ(scenario):
    class Slow(RandomPolicy):
        """Takes 2 ms per step, and a second for the first one, as if it compiled."""

        first = True

        def act(self, arrays):
            end = perf_counter() + (1.0 if self.first else 2e-3)
            self.first = False
            while perf_counter() < end:
                pass
            super().act(arrays)

    with SerialVectorEnv(scenario, 1) as env:
        results = run_episodes(env, Slow(env.spec, 1), seed=5, num_episodes=4)
        slots = sum(role.num_slots for role in env.spec.roles)
    assert len({result.decision_ms for result in results}) == 1
    # All robots or some of them decide in a step; without the first one.
    assert 2.0 / slots <= results[0].decision_ms < 100.0
    assert results == [replace(result, decision_ms=0.0) for result in results]


def test_figures_of_each_robot_are_kept_where_the_roster_has_them(scenario):
    roster = open_world(load_scenario("warehouse_small")).roster(2)
    results = run_episodes(roster, RandomPolicy(roster.spec, 1), seed=5, num_episodes=3)
    for result in results:
        assert list(result.robots) == [agent for role in roster.spec.roles for agent in role.agent_ids]
        for name in ("pickups", "distance_m", "blocked_moves"):
            assert sum(own[name] for own in result.robots.values()) == pytest.approx(result.metrics[name])
    assert results[0].robots != results[1].robots
    with SerialVectorEnv(scenario, 1) as env:
        assert play(env, 1)[0].robots == {}
