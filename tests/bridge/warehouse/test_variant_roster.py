"""Episodes on variants of a floor plan: who plays where, streams, splits over rosters, planners, pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.adapters.warehouse import WarehouseWorld
from bridge.episodes import run_episodes
from bridge.errors import CallOrderError
from bridge.planners import throughput_bound
from bridge.policy import RandomPolicy
from bridge.replay import record_episode
from bridge.roster import RosterArrays
from bridge.warehouse.config import ContactConfig, RoleConfig, WarehouseConfig
from bridge.warehouse.config_randomisation import LayoutVariationConfig, RandomisationConfig
from bridge.warehouse.layout_variation import layout_variants
from bridge.warehouse.recording import record_gif
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.variant_roster import VariantRoster, simulator_of

HALL = """
P.P.P.P.P.P
...........
..##.##.##.
S.........E
..##.##.##.
...........
S.##.##.##E
...........
"""
VARIATION = LayoutVariationConfig(variants=3, max_missing_racks=0.6, max_rack_offset_cells=1, max_blocked_cells=2)


def _config(make_warehouse: Any, **section: Any) -> WarehouseConfig:
    section.setdefault("randomisation", RandomisationConfig(layout=VARIATION))
    section.setdefault("fleet", (RoleConfig(role="carrier", count=3), RoleConfig(role="tugger", count=2)))
    section.setdefault("episode_steps", 12)
    config: WarehouseConfig
    config, _ = make_warehouse(HALL, **section)
    return config


def _world(make_warehouse: Any, **section: Any) -> WarehouseWorld:
    return WarehouseWorld(_config(make_warehouse, **section), Path())


def _act(arrays: RosterArrays, first_env: int, step: int) -> None:
    for values in arrays.roles.values():
        for env in range(arrays.num_envs):
            rng = np.random.default_rng([step, first_env + env])
            values.discrete_actions[env] = rng.integers(0, 5, values.discrete_actions[env].shape)


def _everything(arrays: RosterArrays) -> dict[str, Any]:
    over = arrays.episode_over
    shown = {"state": arrays.state, "over": over, "episode": arrays.episode, "metrics": arrays.metrics[over]}
    shown["final_state"] = arrays.final_state[over]
    for role, values in arrays.roles.items():
        for name in ("observations", "rewards", "terminated", "truncated", "agent_mask", "decision_mask"):
            shown[f"{role}/{name}"] = getattr(values, name)
        shown[f"{role}/final"] = values.final_observations[values.terminated | values.truncated]
    return shown


@pytest.mark.parametrize("rule", ["block", "despawn"])
def test_episodes_are_equal_however_environments_are_split(make_warehouse: Any, rule: str) -> None:
    contact = ContactConfig(rule=rule, respawn_after_s=3.0 if rule == "despawn" else None)  # type: ignore[arg-type]
    world = _world(make_warehouse, contact=contact)
    whole, parts = world.roster(5), [(world.roster(2), 0), (world.roster(3, first_env=2), 2)]
    for roster in (whole, *(part for part, _ in parts)):
        roster.reset(seed=4)
    for step in range(40):
        _act(whole.arrays, 0, step)
        whole.step()
        for part, first in parts:
            _act(part.arrays, first, step)
            part.step()
        pieces = [_everything(part.arrays) for part, _ in parts]
        for name, values in _everything(whole.arrays).items():
            joined = np.concatenate([piece[name] for piece in pieces])
            np.testing.assert_array_equal(values, joined, err_msg=f"{name}, step {step}")


def test_every_episode_is_the_one_that_a_simulator_of_its_variant_plays(make_warehouse: Any) -> None:
    """The oracle: environment by environment, an ordinary simulator that is set to the right episode."""
    config = _config(make_warehouse)
    world = WarehouseWorld(config, Path())
    roster = world.roster(4)
    assert isinstance(roster, VariantRoster)
    roster.reset(seed=9)
    variants = set()
    for step in range(36):
        if step % 12 == 0:
            variants |= set(roster.playing.tolist())
            oracles = [_oracle(config, world, number, env, step // 12) for env, number in enumerate(roster.playing)]
        _act(roster.arrays, 0, step)
        for env, oracle in enumerate(oracles):
            _act(oracle.arrays, env, step)
            oracle.step()
        roster.step()
        for env, oracle in enumerate(oracles):
            for role, values in oracle.arrays.roles.items():
                mine = roster.arrays.roles[role]
                np.testing.assert_array_equal(mine.rewards[env], values.rewards[0])
                if step % 12 < 11:
                    np.testing.assert_array_equal(mine.observations[env], values.observations[0])
            if step % 12 == 11:
                np.testing.assert_array_equal(roster.arrays.metrics[env], oracle.arrays.metrics[0])
    assert variants == {0, 1, 2}


def _oracle(config: WarehouseConfig, world: WarehouseWorld, variant: int, env: int, episode: int) -> WarehouseSimulator:
    """One environment on one variant, at the start of an episode."""
    oracle = WarehouseSimulator(config, world.variants[variant].layout, 1, first_env=env)
    oracle.reset(seed=9)
    for _ in range(episode):
        oracle.reset()
    return oracle


def test_other_floors_are_empty_and_nobody_is_asked_there(make_warehouse: Any) -> None:
    roster = _world(make_warehouse, contact=ContactConfig(rule="despawn")).roster(6)
    assert isinstance(roster, VariantRoster)
    roster.reset(seed=1)
    for step in range(30):
        for number, simulator in enumerate(roster.simulators):
            idle = roster.playing != number
            assert not simulator.alive[idle].any()
            assert not any(values.decision_mask[idle].any() for values in simulator.arrays.roles.values())
        assert all(simulator_of(roster, env).alive[env].any() for env in range(6))
        _act(roster.arrays, 0, step)
        roster.step()


def test_tasks_and_starts_keep_their_streams_when_the_plan_varies(make_warehouse: Any) -> None:
    random = RandomisationConfig(layout=LayoutVariationConfig(variants=1, max_missing_racks=1e-9))
    varied = _world(make_warehouse, randomisation=random).roster(2)
    plain = _world(make_warehouse, randomisation=None).roster(2)
    varied.reset(seed=3)
    plain.reset(seed=3)
    for step in range(25):
        for name, values in _everything(plain.arrays).items():
            np.testing.assert_array_equal(values, _everything(varied.arrays)[name], err_msg=f"{name}, step {step}")
        for roster in (varied, plain):
            _act(roster.arrays, 0, step)
            roster.step()


def test_variants_are_drawn_about_equally_often(make_warehouse: Any) -> None:
    roster = _world(make_warehouse).roster(100)
    assert isinstance(roster, VariantRoster)
    roster.reset(seed=0)
    counts = np.bincount(roster.playing, minlength=3)
    roster.reset()
    counts += np.bincount(roster.playing, minlength=3)
    assert counts.min() > 45


def test_reset_of_some_environments_leaves_the_others_alone(make_warehouse: Any) -> None:
    roster = _world(make_warehouse).roster(4)
    roster.reset(seed=5)
    _act(roster.arrays, 0, 0)
    roster.step()
    before = {name: np.copy(values) for name, values in _everything(roster.arrays).items()}
    roster.reset(env_mask=np.array([False, True, False, True]))
    assert roster.arrays.episode.tolist() == [0, 1, 0, 1]
    np.testing.assert_array_equal(roster.arrays.state[[0, 2]], before["state"][[0, 2]])
    assert (roster.arrays.state[[1, 3]] != before["state"][[1, 3]]).any()


def test_calls_in_the_wrong_order_are_refused(make_warehouse: Any) -> None:
    roster = _world(make_warehouse).roster(2)
    with pytest.raises(CallOrderError, match=r"VariantRoster\.reset: expected a seed at the first reset"):
        roster.reset()
    with pytest.raises(CallOrderError, match=r"VariantRoster\.step: expected a reset before the first step"):
        roster.step()
    roster.reset(seed=1)
    roster.close()
    roster.close()
    with pytest.raises(CallOrderError, match="expected an open simulator, got a closed one"):
        roster.step()


@pytest.mark.parametrize("planner", ["pibt", "token_passing"])
def test_planners_deliver_on_every_variant_without_contact(make_warehouse: Any, planner: str) -> None:
    world = _world(make_warehouse, episode_steps=80)
    roster = world.roster(6)
    results = run_episodes(roster, world.planners[planner](roster), seed=2, num_episodes=12)
    assert all(result.metrics["deliveries"] > 0 for result in results)
    assert sum(result.metrics["collisions"] for result in results) == 0
    for result in results:
        assert sum(own["deliveries"] for own in result.robots.values()) == result.metrics["deliveries"]
        assert sum(own["distance_m"] for own in result.robots.values()) == pytest.approx(result.metrics["distance_m"])


def test_the_bound_is_the_largest_of_the_variants_and_above_what_a_planner_reaches(make_warehouse: Any) -> None:
    config = _config(make_warehouse, episode_steps=200)
    world = WarehouseWorld(config, Path())
    bounds = [
        throughput_bound(config, v.layout).deliveries_per_h for v in layout_variants(config, world.layout, "test")
    ]
    assert world.throughput_bound().deliveries_per_h == max(bounds) > min(bounds)
    roster = world.roster(6)
    results = run_episodes(roster, world.planners["pibt"](roster), seed=2, num_episodes=12)
    assert 0 < np.mean([result.metrics["deliveries_per_h"] for result in results]) < min(bounds)


def test_recordings_show_the_variant_that_was_played(make_warehouse: Any, tmp_path: Path) -> None:
    world = _world(make_warehouse)
    layouts = []
    for seed in range(4):
        roster = world.roster(2)
        assert isinstance(roster, VariantRoster)
        policy = RandomPolicy(roster.spec, seed)
        recording = record_episode(roster, policy, seed=seed, env=1, scenario_name="varied")
        roster.reset(seed)
        played = simulator_of(roster, 1)
        assert recording.layout is played.layout
        assert recording.num_steps == 12
        # Robots stand on free cells of that variant throughout, to the last frame.
        column, row = recording.positions_m[..., 0].astype(int), 7 - recording.positions_m[..., 1].astype(int)
        assert not played.layout.blocked[row, column].any()
        assert {name: value for name, _, value in recording.figures}["collisions"] == 0
        layouts.append(tuple(recording.layout.to_drawing()))
    assert len(set(layouts)) > 1
    record_gif(world.roster(1), policy, tmp_path / "fleet.gif", seed=0, max_steps=3)
    assert (tmp_path / "fleet.gif").read_bytes()[:4] == b"GIF8"


def test_parallel_env_draws_the_variant_of_each_episode(make_warehouse: Any) -> None:
    env = _world(make_warehouse).parallel_env(render_mode="rgb_array")
    pictures = set()
    for seed in range(6):
        env.reset(seed=seed)
        picture = env.render()
        assert isinstance(picture, np.ndarray)
        # Racks alone have this colour.
        pictures.add((picture == (92, 101, 115)).all(axis=2).tobytes())
    assert len(pictures) > 1
    env.close()
