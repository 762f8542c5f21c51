"""Worlds from a factory function."""

from pathlib import Path

import pytest

from bridge.errors import ScenarioError, SpecMismatchError
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.testing import check_world

WORLDS = Path(__file__).parents[1] / "worlds"


@pytest.fixture
def open_factory(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(WORLDS))
    monkeypatch.syspath_prepend(str(tmp_path))

    def open_it(factory, **section):
        path = tmp_path / "world.yaml"
        lines = [f"  {key}: {value}" for key, value in section.items()]
        path.write_text(f"schema: 1\nworld: pettingzoo\npettingzoo:\n  factory: '{factory}'\n" + "\n".join(lines))
        return open_world(load_scenario(path))

    return open_it


def test_world_conforms_when_its_agents_come_and_go(open_factory):
    check_world(open_factory("tiny_fleet:TinyFleet"), num_steps=150)


def test_world_conforms_when_its_agents_return_in_the_same_episode(open_factory):
    check_world(open_factory("tiny_fleet:TinyFleet", kwargs="{respawn: true, limit: 30}"), num_steps=150)


def test_world_has_roles_state_and_limit_of_the_section(open_factory):
    world = open_factory("tiny_fleet:TinyFleet", kwargs="{num_porters: 2, death: 0}", episode_steps=4)
    assert [(role.name, role.agent_ids) for role in world.spec.roles] == [
        ("porter", ("porter_0", "porter_1")),
        ("scout", ("scout_0",)),
    ]
    assert world.spec.state_size == 3
    roster = world.roster(1)
    roster.reset(1)
    for role in roster.arrays.roles.values():
        role.discrete_actions[:] = 1
    over = []
    for _ in range(8):
        roster.step()
        over.append(bool(roster.arrays.episode_over[0]))
    assert over == [False, False, False, True] * 2


def test_parallel_env_draws_when_the_environment_can(open_factory):
    env = open_factory("tiny_fleet:TinyFleet").parallel_env("rgb_array")
    env.reset(seed=1)
    assert env.render().shape == (4, 4, 3)
    env.close()
    with pytest.raises(SpecMismatchError, match=r"expected render_mode to be one of .*got 'human'"):
        open_factory("tiny_fleet:TinyFleet").parallel_env("human")


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("no_such_module:make", r"pettingzoo.factory: expected an importable module, got 'no_such_module'"),
        ("tiny_fleet:Missing", r"pettingzoo.factory: expected a function of the module 'tiny_fleet', got 'Missing'"),
        ("tiny_fleet:RAISE", r"pettingzoo.factory: expected a function of the module 'tiny_fleet', got 'RAISE'"),
        ("collections:OrderedDict", r"expected .*OrderedDict' to make a pettingzoo.ParallelEnv, got OrderedDict"),
        ("os.path", r"pettingzoo.factory: expected text that matches .* got 'os.path'"),
    ],
)
def test_world_refuses_a_factory_when_it_makes_no_environment(open_factory, factory, message):
    with pytest.raises(ScenarioError, match=message):
        open_factory(factory)


def test_world_names_agent_and_space_when_a_roster_cannot_carry_it(open_factory, tmp_path):
    (tmp_path / "unbounded_world.py").write_text(
        "from gymnasium import spaces\nfrom tiny_fleet import TinyFleet\n"
        "class Unbounded(TinyFleet):\n"
        "    def action_space(self, agent):\n        return spaces.Box(-float('inf'), 1, (1,))\n"
    )
    with pytest.raises(
        ScenarioError, match=r"pettingzoo.factory: .*agent 'porter_0': expected an action Box with finite"
    ):
        open_factory("unbounded_world:Unbounded")
