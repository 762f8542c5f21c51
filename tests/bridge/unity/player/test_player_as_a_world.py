"""The project's own roster plays the player, checked against the simulator in this process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from bridge.errors import ScenarioError
from bridge.registry import World, open_world
from bridge.roster import Roster
from bridge.scenario import load_scenario
from bridge.specs import WorldSpec
from bridge.unity.launch import PlayerCommand
from bridge.unity.roster import RosterOptions, UnityRoster
from bridge.unity.session import SessionOptions


def player(scenario: Path, spec: WorldSpec, *arguments: str, areas: int = 2) -> UnityRoster:
    prefix = (sys.executable, "-P", "-m", "bridge.unity.player", "--scenario", str(scenario))
    command = PlayerCommand(prefix=prefix, no_graphics=True, additional=arguments, log_folder=None, worker_id=0)
    session = SessionOptions(num_areas=areas, timeout_s=180)
    return UnityRoster(command, spec, session, RosterOptions(reports_episodes=True))


def act(unity: Roster, simulator: Roster, rng: np.random.Generator) -> None:
    """The same random allowed actions for both, and one step."""
    mine, its = unity.arrays.roles["carrier"], simulator.arrays.roles["carrier"]
    keys = np.where(its.action_mask, rng.random(its.action_mask.shape), -1.0)
    mine.discrete_actions[..., 0] = its.discrete_actions[..., 0] = keys.argmax(axis=-1)
    unity.step()
    simulator.step()


def require_equal(unity: Roster, simulator: Roster) -> None:
    mine, its = unity.arrays.roles["carrier"], simulator.arrays.roles["carrier"]
    np.testing.assert_array_equal(mine.agent_mask, its.agent_mask)
    np.testing.assert_array_equal(mine.observations, its.observations)
    np.testing.assert_array_equal(unity.arrays.state, simulator.arrays.state)


def test_roster_sees_slots_and_states_that_the_player_announces(crowded_scenario: Path) -> None:
    # Despawned robots come back while others are gone: without announcements slots would be mixed up.
    crowded = yaml.safe_load(crowded_scenario.read_text())
    # A larger floor: while nobody at all is on it, no steps are exchanged.
    crowded["warehouse"]["layout"] = {"grid": "\n".join(["S......E", *["........"] * 3, "P......P"])}
    crowded_scenario.write_text(json.dumps(crowded))
    world = open_world(load_scenario(crowded_scenario))
    simulator = world.roster(2)
    unity = player(crowded_scenario, world.spec, "--announce", "roster,state")
    rng = np.random.default_rng(4)
    num_ended = 0
    try:
        unity.reset(5)
        simulator.reset(5)
        require_equal(unity, simulator)
        for _ in range(90):
            act(unity, simulator, rng)
            mine, its = unity.arrays.roles["carrier"], simulator.arrays.roles["carrier"]
            require_equal(unity, simulator)
            np.testing.assert_array_equal(mine.rewards, its.rewards)
            np.testing.assert_array_equal(mine.terminated, its.terminated)
            np.testing.assert_array_equal(mine.truncated, its.truncated)
            over = simulator.arrays.episode_over
            np.testing.assert_array_equal(unity.arrays.final_state[over], simulator.arrays.final_state[over])
            num_ended += int(its.terminated.sum())
        assert num_ended > 5
    finally:
        unity.close()
        simulator.close()


def test_roster_swaps_the_scenario_of_the_player(small_scenario: Path, tmp_path: Path) -> None:
    other = yaml.safe_load(small_scenario.read_text())
    other["warehouse"]["layout"] = {"grid": "S..E\n....\nP.PP\n"}
    (tmp_path / "other.yaml").write_text(json.dumps(other))
    world = open_world(load_scenario(small_scenario))
    simulator = open_world(load_scenario(tmp_path / "other.yaml")).roster(2)
    unity = player(small_scenario, world.spec, "--announce", "roster,state")
    rng = np.random.default_rng(4)
    try:
        unity.reset(5)
        unity.set_scenario(other)
        unity.reset(6)
        simulator.reset(6)
        for _ in range(10):
            require_equal(unity, simulator)
            act(unity, simulator, rng)
        other["warehouse"]["layout"] = {"grid": "S..\n"}
        unity.set_scenario(other)
        with pytest.raises(ScenarioError, match=r"expected the scene to take the scenario, got: .*warehouse"):
            unity.reset()
    finally:
        unity.close()
        simulator.close()


def sensing_world(folder: Path, scenario: Path, *arguments: str) -> World:
    path = folder / "sensing.yaml"
    section = {"player": "headless", "scenario": scenario.name, "timeout_s": 120, "arguments": arguments}
    path.write_text(json.dumps({"schema": 1, "world": "unity", "unity": section}))
    return open_world(load_scenario(path))


def final_observations(world: World) -> list[np.ndarray]:
    """What all robots see in two episodes, and when they end, without a move."""
    unity, seen = world.roster(2), []
    arrays = unity.arrays.roles["carrier"]
    try:
        unity.reset(5)
        for _ in range(60):
            arrays.discrete_actions[:] = 0
            unity.step()
            seen.append(arrays.observations.copy())
            if unity.arrays.episode_over.any():
                seen.append(arrays.final_observations.copy())
        assert len(seen) == 62
        return seen
    finally:
        unity.close()


def test_world_of_the_headless_player_has_the_sensors_that_its_arguments_ask_for(
    small_scenario: Path, tmp_path: Path
) -> None:
    """Stacked pictures as several PNGs with a mapping of their channels are those that travel as plain values."""
    further = ("--buffer-neighbours", "2", "--goal-signal", "target")
    compressed = sensing_world(tmp_path, small_scenario, "--visual", "14x10,12x12:grey:x3", *further)
    plain = sensing_world(tmp_path, small_scenario, "--visual", "14x10:raw,12x12:grey:x3:raw", *further)
    layout = compressed.spec.role("carrier").observation
    own = open_world(load_scenario(small_scenario)).spec.role("carrier").observation
    names = ["buffer_neighbours", "camera_top", "goal_target", "StackingSensor_size3_camera_top_2"]
    assert layout.blocks[: len(own.blocks)] == own.blocks
    assert [(block.name, block.sensor) for block in layout.blocks[len(own.blocks) :]] == [
        (name, 1 + index) for index, name in enumerate(names)
    ]
    assert [layout.blocks[-index].shape for index in (4, 3, 1)] == [(2, 8), (3, 10, 14), (3, 12, 12)]
    assert plain.spec.role("carrier").observation.digest == layout.digest
    pictures = [layout.slice_of(names[1]), layout.slice_of(names[3])]
    for mine, its in zip(final_observations(compressed), final_observations(plain), strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-6)
        for place in pictures:
            assert 0.0 <= mine[..., place].min() < mine[..., place].max() <= 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--visual", "0x8"], r"unity.arguments: player: --visual: expected WIDTHxHEIGHT"),
        (["--buffer-neighbours", "9"], r"unity.arguments: player: --buffer-neighbours: expected at most the 4 robots"),
        (["--goal-signal", "aim"], r"unity.arguments: player: --goal-signal: expected .* the block 'aim', got"),
    ],
)
def test_world_of_the_headless_player_refuses_arguments_that_do_not_fit(
    small_scenario: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        sensing_world(tmp_path, small_scenario, *arguments)
