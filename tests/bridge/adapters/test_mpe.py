"""Particle environments."""

import sys

import numpy as np
import pytest

from bridge.adapters.mpe import MpeConfig, MpeWorld
from bridge.errors import MissingExtraError, ScenarioError
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.testing import check_world

pytest.importorskip("mpe2")


def open_mpe(tmp_path, **section):
    return MpeWorld(MpeConfig(**section), tmp_path)


@pytest.mark.parametrize(
    ("section", "roles"),
    [
        (
            {"env": "simple_spread_v3", "kwargs": {"continuous_actions": True}},
            {"agent": (3, 18, 5, ())},
        ),
        (
            {"env": "simple_speaker_listener_v4"},
            {"speaker": (1, 3, 0, (3,)), "listener": (1, 11, 0, (5,))},
        ),
    ],
)
def test_world_has_the_environments_agents_when_opened(tmp_path, section, roles):
    world = open_mpe(tmp_path, **section)
    found = {
        r.name: (r.num_slots, r.observation.size, r.action.num_continuous, r.action.discrete_branches)
        for r in world.spec.roles
    }
    assert found == roles
    assert world.spec.state_size == sum(slots * size for slots, size, *_ in roles.values())


def test_roster_plays_the_environments_own_episode_when_given_its_seed(tmp_path):
    from mpe2 import simple_spread_v3

    from bridge.seeding import episode_seed

    roster = open_mpe(tmp_path, env="simple_spread_v3", kwargs={"max_cycles": 5}).roster(1)
    env = simple_spread_v3.parallel_env(max_cycles=5)
    roster.reset(3)
    observations, _ = env.reset(seed=episode_seed(3, 0, 0))
    values = roster.arrays.roles["agent"]
    rng = np.random.default_rng(0)
    while True:
        np.testing.assert_array_equal(values.observations[0], [observations[a] for a in env.possible_agents])
        np.testing.assert_array_equal(roster.arrays.state[0], env.state())
        values.discrete_actions[0, :, 0] = rng.integers(5, size=3)
        observations, rewards, *_ = env.step(
            dict(zip(env.agents, values.discrete_actions[0, :, 0].tolist(), strict=True))
        )
        roster.step()
        np.testing.assert_array_equal(values.rewards[0], np.float32([rewards[a] for a in env.possible_agents]))
        if not env.agents:
            break
    assert roster.arrays.episode_over[0]
    assert values.truncated.all()
    np.testing.assert_array_equal(values.final_observations[0], [observations[a] for a in env.possible_agents])
    np.testing.assert_array_equal(roster.arrays.final_state[0], env.state())


def test_world_conforms_when_it_has_several_roles(tmp_path):
    check_world(open_mpe(tmp_path, env="simple_speaker_listener_v4", kwargs={"max_cycles": 10}), num_steps=60)


def test_world_refuses_an_environment_when_there_is_none_of_the_name(tmp_path):
    with pytest.raises(ScenarioError, match=r"mpe.env: expected one of .*simple_spread_v3.*, got 'simple_tennis_v1'"):
        open_mpe(tmp_path, env="simple_tennis_v1")


def test_world_refuses_arguments_when_the_environment_does_not_take_them(tmp_path):
    with pytest.raises(ScenarioError, match=r"mpe.kwargs: expected arguments of simple_spread_v3, got: .*robots"):
        open_mpe(tmp_path, env="simple_spread_v3", kwargs={"robots": 3})


def test_opening_names_the_extra_when_the_package_is_missing(tmp_path, monkeypatch):
    path = tmp_path / "spread.yaml"
    path.write_text("schema: 1\nworld: mpe\nmpe: {env: simple_spread_v3}\n")
    monkeypatch.setitem(sys.modules, "mpe2", None)
    with pytest.raises(MissingExtraError, match=r"expected the package 'mpe2' .*pip install 'agv-bridge\[mpe\]'"):
        open_world(load_scenario(path))
