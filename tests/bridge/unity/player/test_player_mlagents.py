"""Unity's own Python client plays full episodes on a written build, checked against the simulator in this process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.registry import open_world
from bridge.roster import RoleArrays, Roster
from bridge.scenario import load_scenario
from bridge.unity.compat import import_mlagents_envs
from bridge.unity.player import write_build

import_mlagents_envs()

from mlagents_envs.base_env import ActionTuple  # noqa: E402
from mlagents_envs.environment import UnityEnvironment  # noqa: E402
from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel  # noqa: E402
from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel  # noqa: E402

DRIVE = """
schema: 1
world: warehouse
warehouse:
  layout:
    cell_size_m: 2.0
    grid: |
      ........
      .S.##.E.
      P..##..P
      .S.##.E.
      ........
  fleet:
    - {role: carrier, count: 2}
    - {role: tugger, count: 1, radius_m: 0.45}
  drive: {kind: differential}
  tasks: {open: 2}
  observation: [{block: self}, {block: target}, {block: lidar, beams: 12}]
  reward: {delivery: 1.0, progress: 0.1, collision: -0.05}
  episode_steps: 25
"""


@pytest.fixture
def drive_scenario(tmp_path: Path) -> Path:
    path = tmp_path / "drive.yaml"
    path.write_text(DRIVE)
    return path


@pytest.fixture
def open_build(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts builds with Unity's client."""
    opened: list[Any] = []

    def start(scenario: Path, arguments: tuple[str, ...] = (), **options: Any) -> Any:
        write_build(tmp_path / "agv", scenario, arguments=arguments)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        file_name = str(tmp_path / "agv")
        # The player may have to compile kernels, and the machine may be busy.
        given = {"base_port": port, "no_graphics": True, "log_folder": str(tmp_path), "timeout_wait": 180, **options}
        env = UnityEnvironment(file_name, **given)
        opened.append(env)
        return env

    yield start
    for env in opened:
        env.close()


def random_actions(roster: Roster, rng: np.random.Generator) -> None:
    """Write random allowed actions for every robot."""
    for role in roster.spec.roles:
        values = roster.arrays.roles[role.name]
        values.continuous_actions[:] = rng.uniform(-1, 1, values.continuous_actions.shape)
        if role.action.discrete_branches:
            keys = np.where(values.action_mask, rng.random(values.action_mask.shape), -1.0)
            values.discrete_actions[..., 0] = keys.argmax(axis=-1)


def send_actions(env: Any, roster: Roster) -> None:
    for role in roster.spec.roles:
        values = roster.arrays.roles[role.name]
        asked = values.decision_mask & values.agent_mask
        action = ActionTuple(continuous=values.continuous_actions[asked], discrete=values.discrete_actions[asked])
        env.set_actions(f"{role.name}?team=0", action)


def require_same_decisions(decisions: Any, values: RoleArrays, rewards: np.ndarray) -> None:
    asked = values.decision_mask & values.agent_mask
    np.testing.assert_array_equal(decisions.obs[0], values.observations[asked])
    np.testing.assert_array_equal(decisions.reward, rewards[asked])
    if values.action_mask.shape[-1] and asked.any():
        np.testing.assert_array_equal(decisions.action_mask[0], ~values.action_mask[asked])


def require_same_terminals(terminals: Any, values: RoleArrays) -> None:
    ended = values.terminated | values.truncated
    np.testing.assert_array_equal(terminals.obs[0], values.final_observations[ended])
    np.testing.assert_array_equal(terminals.reward, values.rewards[ended])
    np.testing.assert_array_equal(terminals.interrupted, values.truncated[ended])


def is_silent(roster: Roster) -> bool:
    """Nobody asks and no life has ended."""
    flags = [(v.agent_mask & v.decision_mask) | v.terminated | v.truncated for v in roster.arrays.roles.values()]
    return not any(flag.any() for flag in flags)


def play_along(env: Any, roster: Roster, num_steps: int) -> tuple[int, float]:
    """Play both with equal actions, compare everything, and count ended lives and reward."""
    rng = np.random.default_rng(5)
    num_ended, total = 0, 0.0
    for _ in range(num_steps):
        random_actions(roster, rng)
        send_actions(env, roster)
        env.step()
        roster.step()
        while is_silent(roster):  # the floor is empty: the player steps on without an exchange
            roster.step()
        for role in roster.spec.roles:
            values = roster.arrays.roles[role.name]
            decisions, terminals = env.get_steps(f"{role.name}?team=0")
            ended = values.terminated | values.truncated
            require_same_decisions(decisions, values, np.where(ended, np.float32(0), values.rewards))
            require_same_terminals(terminals, values)
            num_ended += len(terminals)
            total += float(decisions.reward.sum() + terminals.reward.sum())
    return num_ended, total


def test_mlagents_client_plays_discrete_episodes_on_a_build(open_build: Any, small_scenario: Path) -> None:
    stats = StatsSideChannel()
    env = open_build(small_scenario, seed=21, num_areas=2, side_channels=[stats])
    env.reset()
    spec = env.behavior_specs["carrier?team=0"]
    roster = open_world(load_scenario(small_scenario)).roster(2)
    roster.reset(21)
    role = roster.spec.role("carrier")
    assert [o.shape for o in spec.observation_specs] == [(role.observation.size,)]
    assert spec.observation_specs[0].name == f"agv_{role.observation.digest}"
    assert spec.action_spec.discrete_branches == role.action.discrete_branches
    assert spec.action_spec.continuous_size == 0
    num_ended, total = play_along(env, roster, 65)
    assert num_ended == 2 * 2 * 3
    assert total != 0.0
    reported = {key: values[-1] for key, values in stats.get_and_reset_stats().items()}
    assert set(reported) == {f"episode/{area}/{name}" for area in range(2) for name in roster.spec.metric_names}
    roster.close()


def test_mlagents_client_plays_continuous_episodes_with_two_roles_on_a_build(
    open_build: Any, drive_scenario: Path
) -> None:
    env = open_build(drive_scenario, seed=4)
    env.reset()
    roster = open_world(load_scenario(drive_scenario)).roster(1)
    roster.reset(4)
    assert set(env.behavior_specs) == {"carrier?team=0", "tugger?team=0"}
    assert env.behavior_specs["tugger?team=0"].action_spec.continuous_size == 2
    assert env.behavior_specs["tugger?team=0"].action_spec.discrete_branches == ()
    num_ended, total = play_along(env, roster, 55)
    assert num_ended == 2 * 3
    assert total != 0.0
    roster.close()


def test_mlagents_client_sees_robots_despawn_and_come_back_on_a_build(open_build: Any, crowded_scenario: Path) -> None:
    env = open_build(crowded_scenario, seed=1)
    env.reset()
    roster = open_world(load_scenario(crowded_scenario)).roster(1)
    roster.reset(1)
    first_ids = env.get_steps("carrier?team=0")[0].agent_id.tolist()
    num_ended, _ = play_along(env, roster, 80)
    assert num_ended > 10
    assert first_ids == [0, 1, 2, 3, 4]
    assert env.get_steps("carrier?team=0")[0].agent_id.max() > 4
    roster.close()


def test_mlagents_client_reseeds_a_build_at_a_reset(open_build: Any, small_scenario: Path) -> None:
    parameters = EnvironmentParametersChannel()
    env = open_build(small_scenario, seed=21, side_channels=[parameters])
    roster = open_world(load_scenario(small_scenario)).roster(1)
    new = 2**30 + 5
    for sent, expected in ((None, 21), (new, new), (None, None), (new, new)):
        if sent is not None:
            parameters.set_float_parameter("agv_seed_high", sent >> 24)
            parameters.set_float_parameter("agv_seed_low", sent & 0xFFFFFF)
        env.reset()
        roster.reset(expected)
        observations = env.get_steps("carrier?team=0")[0].obs[0]
        np.testing.assert_array_equal(observations, roster.arrays.roles["carrier"].observations[0])
        play_along(env, roster, 5)
    roster.close()


def test_mlagents_client_waits_for_decisions_of_a_build(open_build: Any, small_scenario: Path) -> None:
    env = open_build(small_scenario, arguments=("--decision-period", "4"), seed=2)
    env.reset()
    roster = open_world(load_scenario(small_scenario)).roster(1)
    roster.reset(2)
    values = roster.arrays.roles["carrier"]
    decisions, _ = env.get_steps("carrier?team=0")
    for period in range(8):  # 4 * 8 steps of 30: the time limit falls between two decisions
        assert len(decisions) == 3
        values.discrete_actions[:] = 0
        send_actions(env, roster)
        rewards = np.zeros_like(values.rewards)
        env.step()
        for step in range(4):
            roster.step()
            rewards += values.rewards
            if roster.arrays.episode_over[0]:
                assert (period, step) == (7, 1)
                decisions, terminals = env.get_steps("carrier?team=0")
                assert len(decisions) == 0
                np.testing.assert_array_equal(terminals.reward, rewards[0])
                assert terminals.interrupted.all()
                rewards[:] = 0.0
                env.step()
        decisions, _ = env.get_steps("carrier?team=0")
        require_same_decisions(decisions, values, rewards)
    roster.close()
