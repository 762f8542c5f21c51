"""Multi-agent MuJoCo."""

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from bridge.adapters.mamujoco import MamujocoConfig, MamujocoWorld
from bridge.errors import MissingExtraError, ScenarioError
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.seeding import episode_seed

pytest.importorskip("gymnasium_robotics")
pytest.importorskip("mujoco")


def open_body(tmp_path, **section):
    return MamujocoWorld(MamujocoConfig(**section), tmp_path)


def test_halfcheetah_becomes_two_roles_when_observations_have_eight_and_nine_values(tmp_path):
    spec = open_body(tmp_path, scenario="HalfCheetah", partition="6x1").spec
    found = [(r.name, r.agent_ids, r.observation.size, r.action.num_continuous) for r in spec.roles]
    assert found == [
        ("agent_obs9", ("agent_0", "agent_1", "agent_3", "agent_4"), 9, 1),
        ("agent_obs8", ("agent_2", "agent_5"), 8, 1),
    ]
    assert spec.state_size == 17
    assert spec.step_s == pytest.approx(0.05)


def test_halfcheetah_becomes_one_role_when_padded(tmp_path):
    world = open_body(tmp_path, scenario="HalfCheetah", partition="6x1", roles="padded", episode_steps=2)
    (role,) = world.spec.roles
    assert role.agent_ids == tuple(f"agent_{i}" for i in range(6))
    assert [(block.name, block.size) for block in role.observation.blocks] == [("observation", 8), ("padding", 1)]
    roster = world.roster(1)
    roster.reset(1)
    observations = roster.arrays.roles["agent"].observations[0]
    assert (observations[[2, 5], 8] == 0).all()
    assert (observations[[0, 1, 3, 4], 8] != 0).all()


def test_roster_plays_the_environments_own_episode_when_given_its_seed(tmp_path):
    from gymnasium_robotics import mamujoco_v1

    roster = open_body(tmp_path, scenario="Ant", partition="4x2", episode_steps=6).roster(1)
    env = mamujoco_v1.parallel_env("Ant", "4x2", agent_obsk=1, max_episode_steps=6)
    roster.reset(11)
    observations, _ = env.reset(seed=episode_seed(11, 0, 0))
    values = roster.arrays.roles["agent"]
    rng = np.random.default_rng(0)
    for step in range(6):
        np.testing.assert_array_equal(values.observations[0], np.float32(list(observations.values())), f"step {step}")
        values.continuous_actions[:] = rng.uniform(-1, 1, (1, 4, 2))
        actions = {agent: values.continuous_actions[0, slot] for slot, agent in enumerate(env.possible_agents)}
        observations, rewards, *_ = env.step(actions)
        roster.step()
        np.testing.assert_array_equal(values.rewards[0], np.float32(list(rewards.values())))
    assert values.truncated.all()
    assert not values.terminated.any()
    np.testing.assert_array_equal(values.final_observations[0], np.float32(list(observations.values())))
    np.testing.assert_array_equal(roster.arrays.final_state[0], np.float32(env.state()))
    env.close()
    roster.close()


def test_opening_logs_what_mujoco_says_about_its_models_and_writes_no_file(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO, "bridge.adapters.mamujoco")
    open_body(tmp_path, scenario="HalfCheetah", partition="6x1").roster(1).close()
    assert list(Path(tmp_path).iterdir()) == []
    assert all(record.message.startswith("MuJoCo: ") for record in caplog.records)


def test_world_names_body_and_partition_when_it_cannot_be_split(tmp_path):
    with pytest.raises(ScenarioError, match=r"mamujoco: expected a partition of Ant, got 'Ant 5x7': .*5x7"):
        open_body(tmp_path, scenario="Ant", partition="5x7")


def test_scenario_is_refused_with_the_bodies_that_there_are_when_it_names_another(tmp_path):
    path = tmp_path / "cat.yaml"
    path.write_text("schema: 1\nworld: mamujoco\nmamujoco: {scenario: Cat, partition: 4x2}\n")
    with pytest.raises(
        ScenarioError, match=r"mamujoco.scenario: expected one of Ant, HalfCheetah, .*Walker2d, got 'Cat'"
    ):
        load_scenario(path)


@pytest.mark.parametrize("package", ["gymnasium_robotics", "mujoco"])
def test_opening_names_the_extra_when_a_package_is_missing(tmp_path, monkeypatch, package):
    path = tmp_path / "ant.yaml"
    path.write_text("schema: 1\nworld: mamujoco\nmamujoco: {scenario: Ant, partition: 4x2}\n")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"expected the package '{package}' .*agv-bridge\[mamujoco\]"):
        open_world(load_scenario(path))
