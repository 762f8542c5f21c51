"""The unity world: the headless player must play what the simulator plays, and builds what they announce."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bridge.errors import ScenarioError, SpecMismatchError
from bridge.registry import open_world
from bridge.roster import RosterArrays
from bridge.scenario import load_scenario
from bridge.testing import check_world
from bridge.unity.player.build import write_build
from bridge.unity.scenario_document import scenario_document

_DRAWING = """
      PPPP.E
      .##.#.
      S....S
      .##.#.
      E.....
"""


def write_scenario(folder: Path, name: str, fleet: str = "[{role: carrier, count: 4}]", more: str = "") -> str:
    grid = "\n".join("      " + row.strip() for row in _DRAWING.strip().splitlines())
    path = folder / f"{name}.yaml"
    path.write_text(
        "schema: 1\nworld: warehouse\nwarehouse:\n  layout:\n    grid: |\n"
        f"{grid}\n  fleet: {fleet}\n  episode_steps: 15\n"
        f"  reward: {{delivery: 1.0, pickup: 0.5, progress: 0.1, collision: -1.0}}\n{more}"
    )
    linked = folder / f"{name}_unity.yaml"
    linked.write_text(f"schema: 1\nworld: unity\nunity: {{scenario: {name}.yaml, timeout_s: 120}}\n")
    return name


def world(folder: Path, name: str) -> Any:
    return open_world(load_scenario(folder / f"{name}.yaml"))


def act_on_observations(arrays: RosterArrays) -> None:
    """Actions that depend on nothing but what each robot sees, so that the order of the slots does not matter."""
    for values in arrays.roles.values():
        keys = np.abs(values.observations).sum(axis=-1)
        wanted = (keys * 997).astype(np.int64)
        allowed = values.action_mask
        if allowed.shape[-1]:
            # The n-th allowed choice.
            rank = wanted % np.maximum(allowed.sum(axis=-1), 1)
            values.discrete_actions[..., 0] = (allowed.cumsum(axis=-1) > rank[..., None]).argmax(axis=-1)
        values.continuous_actions[:] = np.sin(keys)[..., None]


def rows(arrays: RosterArrays) -> dict[str, NDArray[Any]]:
    """(E, A, columns) arrays: all that a step says about lives that ran and that run."""
    result = {}
    for name, values in arrays.roles.items():
        ended = (values.terminated | values.truncated)[..., None]
        asked = values.decision_mask[..., None]
        ran = [values.final_observations * ended, values.rewards[..., None], ended, values.terminated[..., None]]
        runs = [values.observations, values.agent_mask[..., None], asked, values.action_mask | ~asked]
        for part, columns in (("ran", ran), ("runs", runs)):
            result[f"{name} {part}"] = np.concatenate(columns, axis=-1).astype(np.float64)
    return result


@pytest.mark.parametrize(
    ("fleet", "more"),
    [
        ("[{role: carrier, count: 4}]", "  mask_blocked_moves: true\n"),
        ("[{role: carrier, count: 2}, {role: lifter, count: 1}]", ""),
        ("[{role: carrier, count: 3}]", "  drive: {kind: differential}\n"),
        ("[{role: carrier, count: 4}]", "  contact: {rule: despawn}\n"),
        # Robots that come back in another order than they left: the roster channel keeps them in their slots.
        ("[{role: carrier, count: 4}]", "  contact: {rule: despawn, respawn_after_s: 3}\n"),
    ],
)
def test_headless_player_plays_the_simulators_episodes_when_seeds_are_equal(
    tmp_path: Path, fleet: str, more: str
) -> None:
    name = write_scenario(tmp_path, "hall", fleet, more)
    direct = world(tmp_path, name).roster(2, first_env=3)
    linked = world(tmp_path, name + "_unity").roster(2, first_env=3)
    try:
        ends = 0
        for call in ["seed", *["step"] * 40, "reset", *["step"] * 10, "seed", *["step"] * 20]:
            for roster in (direct, linked):
                if call == "step":
                    act_on_observations(roster.arrays)
                    roster.step()
                else:
                    roster.reset(2**40 + 17 if call == "seed" else None)
            mine, its = (rows(roster.arrays) for roster in (linked, direct))
            for part, table in its.items():
                np.testing.assert_allclose(mine[part], table, atol=1e-6, err_msg=part)
            over = direct.arrays.episode_over
            np.testing.assert_array_equal(linked.arrays.episode_over, over)
            np.testing.assert_allclose(linked.arrays.state, direct.arrays.state, atol=1e-6)
            np.testing.assert_allclose(linked.arrays.final_state[over], direct.arrays.final_state[over], atol=1e-6)
            np.testing.assert_array_equal(linked.arrays.episode, direct.arrays.episode)
            np.testing.assert_allclose(linked.arrays.metrics[over], direct.arrays.metrics[over], rtol=1e-6)
            ends += int(over.sum())
        assert ends >= 6
        assert linked.spec.state_size == direct.spec.state_size > 0
    finally:
        linked.close()
        direct.close()


def test_headless_player_swaps_its_warehouse_when_a_scenario_is_sent(tmp_path: Path) -> None:
    name = write_scenario(tmp_path, "hall")
    write_scenario(tmp_path, "other", more="  contact: {rule: despawn}\n")
    write_scenario(tmp_path, "lifters", fleet="[{role: lifter, count: 4}]")
    direct = world(tmp_path, "other").roster(1)
    linked = world(tmp_path, name + "_unity").roster(1)
    try:
        linked.reset(7)
        linked.set_scenario(scenario_document(load_scenario(tmp_path / "other.yaml")))
        for roster in (direct, linked):
            roster.reset(11)
        for _ in range(20):
            for roster in (direct, linked):
                act_on_observations(roster.arrays)
                roster.step()
            for part, table in rows(direct.arrays).items():
                np.testing.assert_allclose(rows(linked.arrays)[part], table, atol=1e-6, err_msg=part)
        linked.set_scenario(scenario_document(load_scenario(tmp_path / "lifters.yaml")))
        with pytest.raises(ScenarioError, match=r"to take the scenario, got: .*expected the roles carrier, got lifter"):
            linked.reset()
    finally:
        linked.close()
        direct.close()


def test_parallel_env_steps_a_player_when_it_is_headless(tmp_path: Path) -> None:
    env = world(tmp_path, write_scenario(tmp_path, "hall") + "_unity").parallel_env()
    try:
        observations, _ = env.reset(seed=4)
        assert list(observations) == [f"carrier_{slot}" for slot in range(4)]
        length = 0
        while env.agents:
            _, _, terminations, truncations, infos = env.step(dict.fromkeys(env.agents, 0))
            length += 1
        assert length == 15
        assert all(truncations.values())
        assert not any(terminations.values())
        assert np.isfinite(list(infos["carrier_0"]["metrics"].values())).all()
        again, _ = env.reset(seed=4)
        np.testing.assert_array_equal(again["carrier_2"], observations["carrier_2"])
    finally:
        env.close()


@pytest.mark.slow
def test_unity_world_conforms_when_the_headless_player_has_cameras(tmp_path: Path) -> None:
    """Vectors, pictures as they are, and stacked ones as PNG; robots that leave and come back."""
    write_scenario(tmp_path, "hall", more="  contact: {rule: despawn, respawn_after_s: 3}\n")
    section = {"scenario": "hall.yaml", "timeout_s": 120, "arguments": ["--visual", "6x5:raw,6x5:png:x2"]}
    opened = open_world(load_scenario(unity_scenario(tmp_path, section)))
    shapes = [block.shape for block in opened.spec.roles[0].observation.blocks if len(block.shape) == 3]
    assert shapes == [(3, 5, 6), (6, 5, 6)]
    check_world(opened, num_steps=20)


def unity_scenario(folder: Path, section: dict[str, Any]) -> Path:
    path = folder / "unity.yaml"
    path.write_text(json.dumps({"schema": 1, "world": "unity", "unity": section}))
    return path


def test_world_of_a_build_is_what_the_build_announces(tmp_path: Path) -> None:
    name = write_scenario(tmp_path, "hall")
    write_build(tmp_path / "build" / "hall", tmp_path / f"{name}.yaml")
    opened = open_world(load_scenario(unity_scenario(tmp_path, {"player": "build/hall", "timeout_s": 120})))
    layout = world(tmp_path, name).spec.roles[0].observation
    (role,) = opened.spec.roles
    assert role.agent_ids == tuple(f"carrier_{slot}" for slot in range(4))
    assert [(block.name, block.size) for block in role.observation.blocks] == [(f"agv_{layout.digest}", layout.size)]
    assert role.action.discrete_branches == (5,)
    roster = opened.roster(1)
    try:
        roster.reset(seed=1)
        roster.step()
        assert roster.arrays.roles["carrier"].agent_mask.all()
    finally:
        roster.close()


def test_reset_raises_when_the_build_runs_another_scenario(tmp_path: Path) -> None:
    write_scenario(tmp_path, "old", more="  observation: [{block: self}]\n")
    write_scenario(tmp_path, "new", more="  observation: [{block: target}]\n")
    write_build(tmp_path / "hall", tmp_path / "old.yaml")
    section = {"player": "hall", "scenario": "new.yaml", "timeout_s": 120}
    roster = open_world(load_scenario(unity_scenario(tmp_path, section))).roster(1)
    try:
        with pytest.raises(SpecMismatchError, match=r"behavior 'carrier\?team=0': expected the observation layout"):
            roster.reset(seed=1)
    finally:
        roster.close()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, r"expected a scenario with player 'headless', got none"),
        ({"scenario": "hall.yaml", "slots": {"carrier": 3}}, r"expected no slots with player 'headless'"),
        ({"scenario": "gone.yaml"}, r"unity.scenario: expected a file in .*, got 'gone.yaml'"),
        ({"scenario": "../hall.yaml"}, r"unity.scenario: expected a path inside the scenario's folder"),
        ({"scenario": "unity.yaml"}, r"unity.scenario: expected a scenario of another kind of world, got 'unity.yaml'"),
        ({"player": "../build"}, r"unity.player: expected a path inside the scenario's folder, got '../build'"),
        ({"player": "build"}, r"unity.player: .*expected a Unity build, got '.*build'"),
        ({"player": "build", "slots": {"carrier": 0}}, r"unity.slots.carrier: expected a value >= 1, got 0"),
        ({"scenario": "hall.yaml", "timescale": 3}, r"unity.timescale: .* Did you mean 'time_scale'\?"),
    ],
)
def test_scenario_is_refused_when_its_section_is_wrong(tmp_path: Path, section: dict[str, Any], message: str) -> None:
    write_scenario(tmp_path, "hall")
    with pytest.raises(ScenarioError, match=message):
        open_world(load_scenario(unity_scenario(tmp_path, section)))


def test_adapter_does_not_import_the_link_before_a_player_is_needed() -> None:
    code = "import sys, bridge.adapters.unity; sys.exit('grpc' in sys.modules or 'mlagents_envs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
