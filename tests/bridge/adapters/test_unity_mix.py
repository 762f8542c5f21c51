"""Several Unity scenarios in turn: one player per environment, which is sent the next warehouse."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from bridge.errors import ScenarioError
from bridge.mixed_roster import MixedWorld
from bridge.policy import RandomPolicy
from bridge.registry import open_world
from bridge.roster import RosterArrays
from bridge.scenario import Scenario, load_scenario
from bridge.scenario_logs import keep_logs
from bridge.scenario_mix import ScenarioMix
from bridge.vector import AsyncVectorEnv, SerialVectorEnv, VectorEnv

HALL = ["P.S.P.", ".#..#.", "P.E..P"]
YARD = ["S....E", "P.PP.P", "E....S"]


def write(folder: Path, name: str, drawing: list[str], count: int, steps: int) -> tuple[Scenario, Scenario]:
    """A warehouse, and the same one behind the protocol."""
    section = {
        "layout": {"grid": "\n".join(drawing)},
        "fleet": [{"role": "carrier", "count": count}],
        "reward": {"delivery": 1.0, "progress": 0.1, "collision": -1.0},
        "contact": {"rule": "despawn"},
        "episode_steps": steps,
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"schema": 1, "world": "warehouse", "warehouse": section}))
    return load_scenario(path), unity(folder, name)


def unity(folder: Path, name: str, **section: Any) -> Scenario:
    path = folder / f"{name}_unity.yaml"
    config = {"scenario": f"{name}.yaml", "timeout_s": 120, **section}
    path.write_text(json.dumps({"schema": 1, "name": name, "world": "unity", "unity": config}))
    return load_scenario(path)


@pytest.fixture
def mixes(tmp_path: Path) -> tuple[ScenarioMix, ScenarioMix]:
    """A small and a large fleet on two floors: in the simulator, and behind the protocol."""
    pairs = [write(tmp_path, "hall", HALL, 2, 5), write(tmp_path, "yard", YARD, 3, 7)]
    direct, linked = (ScenarioMix(members, (1.0, 1.0)) for members in zip(*pairs, strict=True))
    return direct, linked


def play(env: VectorEnv, num_steps: int = 40) -> list[dict[str, np.ndarray]]:
    """What every step says; half-way other weights, and a reset of every other environment."""
    policy = RandomPolicy(env.spec, 7)
    env.reset(11)
    history = [said(env)]
    for step in range(num_steps):
        if step == num_steps // 2:
            env.set_scenario_weights((1.0, 3.0))
            env.reset(env_mask=np.arange(env.num_envs) % 2 == 0)
        policy.act(env.arrays)
        env.step()
        history.append(said(env))
    return history


def said(env: VectorEnv) -> dict[str, np.ndarray]:
    """Everything but what is stale."""
    arrays = env.arrays
    over = arrays.episode_over
    result = {name: getattr(arrays, name).copy() for name in ("state", "episode", "episode_over")}
    for name in ("metrics", "final_state", "final_scenario"):
        result[name] = getattr(arrays, name)[over].copy()
    for role, values in arrays.roles.items():
        for name in ("observations", "rewards", "terminated", "truncated", "agent_mask", "decision_mask"):
            result[f"{role}/{name}"] = getattr(values, name).copy()
        result[f"{role}/final"] = values.final_observations[values.terminated | values.truncated]
        result[f"{role}/allowed"] = values.action_mask & values.decision_mask[..., None]
    return result


def test_one_player_per_environment_plays_what_the_simulators_of_all_scenarios_play(
    mixes: tuple[ScenarioMix, ScenarioMix], tmp_path: Path
) -> None:
    direct, linked = mixes
    with SerialVectorEnv(direct, 2) as env:
        expected = play(env)
    with SerialVectorEnv(keep_logs(linked, tmp_path / "logs"), 2) as env:
        players = [child for child in psutil.Process().children() if "bridge.unity.player" in child.cmdline()]
        assert len(players) == 2
        got = play(env)
        assert all(player.is_running() for player in players)
    for step, (mine, its) in enumerate(zip(got, expected, strict=True)):
        for key, values in its.items():
            np.testing.assert_allclose(mine[key], values, atol=1e-6, err_msg=f"{key}, step {step}")
    ended = np.concatenate([step["final_scenario"] for step in expected])
    assert set(ended) == {0, 1}
    swaps = [(tmp_path / "logs" / "yard" / f"Player-{env}.log").read_text().count(" taken.") for env in range(2)]
    assert min(swaps) >= 3, "each player has swapped its warehouse, back and forth"

    with AsyncVectorEnv(linked, 2, 2) as env:
        again = play(env)
    for step, (mine, its) in enumerate(zip(again, got, strict=True)):
        for key, values in its.items():
            np.testing.assert_array_equal(mine[key], values, err_msg=f"{key}, step {step}, in workers")


def test_mix_refuses_areas_that_are_reset_together(mixes: tuple[ScenarioMix, ScenarioMix]) -> None:
    first, second = mixes[1].scenarios
    shared = replace(first, config=first.config.model_copy(update={"areas": 2}))
    with pytest.raises(ScenarioError, match=r"unity\.areas: expected 1 where several scenarios are played .*, got 2\."):
        MixedWorld(ScenarioMix((shared, second), (1.0, 1.0)))


def test_scenarios_get_players_of_their_own_where_they_differ_in_more_than_the_warehouse(
    mixes: tuple[ScenarioMix, ScenarioMix], caplog: pytest.LogCaptureFixture
) -> None:
    direct, linked = mixes
    first, second = linked.scenarios
    slower = replace(second, config=second.config.model_copy(update={"time_scale": 2.0}))
    with SerialVectorEnv(direct, 1) as env:
        expected = play(env)
    with (
        caplog.at_level(logging.WARNING, "bridge"),
        SerialVectorEnv(replace(linked, scenarios=(first, slower)), 1) as env,
    ):
        got = play(env)
    assert "unity.time_scale: expected the same in all scenarios, got 20.0 and 2.0." in caplog.text
    for step, (mine, its) in enumerate(zip(got, expected, strict=True)):
        for key, values in its.items():
            np.testing.assert_allclose(mine[key], values, atol=1e-6, err_msg=f"{key}, step {step}")


def swapping(scenarios: list[Scenario]) -> Any:
    """What the first world makes of the list; nothing is started where it refuses."""
    worlds: list[Any] = [open_world(scenario) for scenario in scenarios]
    arrays = RosterArrays.allocate(worlds[0].spec, 1)
    return worlds[0].swapping_envs(worlds, 1, 0, arrays)


def test_one_player_cannot_play_warehouses_of_which_none_has_room_for_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hall, _ = write(tmp_path, "hall", HALL, 2, 5)
    for name, counts in (("first", (2, 1)), ("second", (1, 2))):
        fleet = [{"role": role, "count": count} for role, count in zip(("carrier", "tugger"), counts, strict=True)]
        section = hall.config.model_dump(mode="json", by_alias=True, exclude_none=True) | {"fleet": fleet}
        text = json.dumps({"schema": 1, "world": "warehouse", "warehouse": section})
        (tmp_path / f"{name}.yaml").write_text(text)
    assert swapping([unity(tmp_path, "first"), unity(tmp_path, "second")]) is None
    assert "expected one warehouse with the most robots of every role and the largest global state" in caplog.text
    assert swapping([unity(tmp_path, "first"), hall]) is None, "a mix with other kinds of world"
