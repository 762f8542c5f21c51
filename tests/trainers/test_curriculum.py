"""When a curriculum changes its stage, and what a training on several scenarios says and keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.errors import CheckpointError, ScenarioError, SpecMismatchError
from bridge.registry import open_world
from bridge.scenario import Scenario, load_scenario
from bridge.scenario_mix import ScenarioMix
from trainers import RunFolder, load_policy, train, train_config
from trainers.checkpoint import load_checkpoint
from trainers.config import TrainConfig
from trainers.curriculum import Curriculum
from trainers.metrics_log import read_metrics
from trainers.progress import SilentProgress
from trainers.scenario_config import CurriculumStage, find_member, training_scenarios

HEADER = "schema: 1\nworld: warehouse\nwarehouse:\n  layout: {file: maps/tiny.map}\n"
MAP = "type octile\nheight 3\nwidth 5\nmap\nP.P.P\n.....\nE...S\n"
TINY: dict[str, Any] = {
    "num_envs": 3,
    "rollout_steps": 8,
    "updates": 6,
    "checkpoint_every": 3,
    "hidden_sizes": [8],
    "torch_threads": 1,
    "agent_id": False,
    "debug": True,
}
# One of the world's figures that are known beforehand: robots that are refused what would touch never collide.
ALWAYS = {"metric": "collisions", "episodes": 3}


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """A tiny warehouse with two robots for four steps; beside it one with three robots for five."""
    folder = tmp_path / "scenario"
    (folder / "maps").mkdir(parents=True)
    (folder / "maps" / "tiny.map").write_text(MAP)
    for name, count, steps in (("two", 2, 4), ("three", 3, 5)):
        text = f"{HEADER}  fleet: [{{role: carrier, count: {count}}}]\n  episode_steps: {steps}\n"
        (folder / f"{name}.yaml").write_text(text)
    return load_scenario(folder / "two.yaml")


def stages(*entries: dict[str, Any]) -> tuple[CurriculumStage, ...]:
    return tuple(CurriculumStage(**entry) for entry in entries)


THREE = stages(
    {"scenario": "a", "metric": "deliveries", "advance_above": 2.0, "episodes": 2},
    {"scenario": "b", "metric": "return_mean", "advance_above": 5.0, "fall_back_below": 1.0, "episodes": 3},
    {"scenario": "c", "metric": "deliveries", "fall_back_below": 4.0, "episodes": 1},
)
FEWER = stages(
    {"scenario": "a", "metric": "deadlocks", "advance_below": 0.5, "episodes": 2},
    {"scenario": "b", "metric": "deadlocks", "fall_back_above": 3.0, "episodes": 1},
)


@pytest.fixture
def curriculum(scenario: Scenario) -> Curriculum:
    return Curriculum(THREE, open_world(scenario).spec)


def record(curriculum: Curriculum, stage: int, *values: float) -> str | None:
    for value in values:
        curriculum.record(stage, {"deliveries": value, "return_mean": value})
    return curriculum.advance()


def test_curriculum_goes_on_when_the_mean_of_enough_episodes_is_above(curriculum: Curriculum) -> None:
    assert curriculum.weights == (1.0, 0.0, 0.0)
    assert record(curriculum, 0, 9.0) is None
    assert record(curriculum, 0, 2.0, 2.0) is None, "only the last two count, and equal is not above"
    message = record(curriculum, 0, 3.0)
    assert message == (
        "curriculum: deliveries was 2.5 over 2 episodes of a, above 2; new episodes are played on stage 2 of 3, b."
    )
    assert (curriculum.stage, curriculum.weights) == (1, (0.0, 1.0, 0.0))


def test_curriculum_falls_back_and_counts_anew_when_the_mean_is_below(curriculum: Curriculum) -> None:
    record(curriculum, 0, 3.0, 3.0)
    assert record(curriculum, 0, 0.0, 0.0, 0.0) is None, "episodes of the stage before do not count"
    assert record(curriculum, 1, 1.0, 1.0, 1.0) is None
    assert record(curriculum, 1, 0.5) is not None
    assert (curriculum.stage, curriculum.highest, curriculum.is_highest) == (0, 1, False)
    assert record(curriculum, 0, 3.0) is None, "what was counted before was forgotten"
    assert record(curriculum, 0, 3.0) is not None
    record(curriculum, 1, 6.0, 6.0, 6.0)
    assert curriculum.stage == 2
    assert record(curriculum, 2, 100.0) is None


def test_curriculum_goes_on_where_it_was_when_its_state_is_loaded(scenario: Scenario, curriculum: Curriculum) -> None:
    record(curriculum, 0, 3.0, 3.0)
    record(curriculum, 1, 6.0, 6.0)
    other = Curriculum(THREE, open_world(scenario).spec)
    other.load_state(curriculum.state())
    assert other.stage == 1
    assert record(other, 1, 6.0) is not None


def test_curriculum_goes_on_below_and_falls_back_above_where_less_is_better(scenario: Scenario) -> None:
    curriculum = Curriculum(FEWER, open_world(scenario).spec)
    for stage, values, goes_to, words in (
        (0, (1.0, 0.0), 0, None),
        (0, (0.0,), 1, "deadlocks was 0 over 2 episodes of a, below 0.5; new"),
        (1, (3.0,), 1, None),
        (1, (4.0,), 0, "deadlocks was 4 over 1 episodes of b, above 3; new"),
    ):
        for value in values:
            curriculum.record(stage, {"deadlocks": value})
        message = curriculum.advance()
        assert (message is None) if words is None else (message is not None and words in message)
        assert curriculum.stage == goes_to


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"metric": "throughput"},
            r"train\.curriculum\[0\]\.metric: expected one of return_sum, .*, got 'throughput'\.$",
        ),
        ({"metric": "colisions"}, r"got 'colisions'\. Did you mean 'collisions'\?"),
        ({"metric": "delivery_gini"}, r"got 'delivery_gini', of which neither more nor less is better\."),
        (
            {"metric": "collisions", "advance_above": 1.5},
            r"curriculum\[0\]\.advance_above: expected advance_below, because less is better of 'collisions', "
            r"got advance_above=1\.5\.",
        ),
        (
            {"metric": "deliveries", "fall_back_above": 9},
            r"fall_back_above: expected fall_back_below, because more is better of 'deliveries'",
        ),
        ({"advance_below": 9}, r"expected advance_above, because more is better of 'return_mean'"),
    ],
)
def test_curriculum_refuses_figures_that_cannot_decide_and_thresholds_the_wrong_way_round(
    scenario: Scenario, entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecMismatchError, match=message):
        Curriculum(stages({"scenario": "a", **entry}), open_world(scenario).spec)


@pytest.mark.parametrize(
    ("train_section", "message"),
    [
        (
            {"curriculum": [{"scenario": "self"}, {"scenario": "self"}]},
            r"expected advance_above or advance_below, got neither in curr",
        ),
        ({"curriculum": [{"scenario": "self", "advance_above": 1.0}]}, r"expected no advance_above on the last stage"),
        (
            {"curriculum": [{"scenario": "self", "fall_back_below": 1.0}]},
            r"expected no fall_back_below on the first stage, got 1\.0",
        ),
        (
            {"curriculum": [{"scenario": "self", "advance_above": 1.0, "fall_back_below": 2.0}]},
            r"fall_back_below=2\.0 >= advance_above=1\.0",
        ),
        (
            {"curriculum": [{"scenario": "self", "advance_below": 2.0, "fall_back_above": 1.0}]},
            r"fall_back_above=1\.0 <= advance_below=2\.0",
        ),
        (
            {"curriculum": [{"scenario": "self", "advance_below": 2.0, "fall_back_below": 1.0}]},
            r"where less is, got advance_below and fall_back_below\.",
        ),
        ({"curriculum": [{"scenario": "self", "advance_below": 1.0}]}, r"expected no advance_below on the last stage"),
        (
            {"curriculum": [{"scenario": "self"}], "scenarios": [{"scenario": "self"}]},
            r"expected either scenarios or curriculum, got both",
        ),
        ({"scenarios": [{"scenario": "self", "weight": 0}]}, r"train\.scenarios\[0\]\.weight: .*greater than 0|> 0"),
        ({"scenarios": [{"scenaro": "self"}]}, r"Did you mean 'scenario'\?"),
    ],
)
def test_config_refuses_lists_that_make_no_sense(
    scenario: Scenario, train_section: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        train_config(replace(scenario, train=train_section))


def test_find_member_looks_beside_the_file_before_the_shipped_ones(scenario: Scenario) -> None:
    assert find_member(scenario, "self", "here") is scenario
    assert find_member(scenario, "three.yaml", "here").name == "three"
    assert find_member(scenario, "warehouse_small", "here").name == "warehouse_small"
    (scenario.folder / "warehouse_small").mkdir()
    (scenario.folder / "warehouse_small" / "scenario.yaml").write_bytes((scenario.folder / "three.yaml").read_bytes())
    assert find_member(scenario, "warehouse_small", "here").path.parent.parent == scenario.folder
    with pytest.raises(ScenarioError, match=r"here: expected 'self', a file in .*got 'warehouse_smal'.*Did you mean"):
        find_member(scenario, "warehouse_smal", "here")
    with pytest.raises(ScenarioError, match=r"here: expected 'self'"):
        find_member(scenario, "../scenario/three.yaml", "here")


def test_training_scenarios_is_the_scenario_alone_without_a_list(scenario: Scenario) -> None:
    assert training_scenarios(scenario, (), ()) is scenario
    mix = training_scenarios(scenario, (), stages({"scenario": "three.yaml", "advance_above": 1}, {"scenario": "self"}))
    assert isinstance(mix, ScenarioMix)
    assert (mix.names, mix.weights) == (("three", "two"), (1.0, 0.0))


class Remember(SilentProgress):
    """Keeps what training said."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_message(self, text: str) -> None:
        self.messages.append(text)


def arrays_of(run: Path) -> dict[str, Any]:
    with np.load(run / "checkpoints" / "latest.npz") as archive:
        return {name: archive[name] for name in archive.files if name != "header.json"}


def require_equal_runs(one: Path, other: Path) -> None:
    mine, its = arrays_of(one), arrays_of(other)
    assert mine.keys() == its.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(its[name], array, err_msg=name)


def test_training_on_a_weighted_list_shows_each_scenario_and_stands_alone(scenario: Scenario, tmp_path: Path) -> None:
    shares = [{"scenario": "three.yaml", "weight": 2}, {"scenario": "self"}, {"scenario": "warehouse_small"}]
    settings = {**TINY, "scenarios": shares, "updates": 8}
    # warehouse_small has other blocks.
    with pytest.raises(SpecMismatchError, match=r"scenario 'warehouse_small' beside 'three': .*observation block"):
        train(scenario, train_config(scenario, settings), tmp_path / "refused")
    settings["scenarios"] = shares[:2]
    config = train_config(scenario, settings)
    result = train(scenario, config, tmp_path / "run")
    assert set(result.episodes.scenarios) == {"three", "two"}
    assert sum(part.num_episodes for part in result.episodes.scenarios.values()) == result.episodes.num_episodes
    assert result.episodes.scenarios["three"].length == 5.0
    last = read_metrics(RunFolder(tmp_path / "run"))[-1]
    assert last["scenario/three/deliveries"] == result.episodes.scenarios["three"].metrics["deliveries"]
    # The scenario that only the settings name was copied too, with its map, and the run goes on from the copy alone.
    run = RunFolder(tmp_path / "run")
    assert (run.scenario_folder / "three.yaml").is_file()
    longer = run.config({"updates": 9})
    assert train(run.scenario(), longer, run.path, resume=True).update == 9
    # The same policy drives each of them.
    for name in ("two", "three"):
        load_policy(run.path, open_world(load_scenario(scenario.folder / f"{name}.yaml")).spec)


def test_training_on_a_list_repeats_bit_for_bit_whatever_the_number_of_workers(
    scenario: Scenario, tmp_path: Path
) -> None:
    settings = {**TINY, "scenarios": [{"scenario": "three.yaml"}, {"scenario": "self"}]}
    for workers in (0, 2):
        train(scenario, train_config(scenario, {**settings, "num_workers": workers}), tmp_path / f"run{workers}")
    require_equal_runs(tmp_path / "run0", tmp_path / "run2")


def _curriculum_config(scenario: Scenario, **changes: Any) -> TrainConfig:
    entries = [
        {"scenario": "self", **ALWAYS, "advance_below": 0.5},
        {"scenario": "three.yaml", **ALWAYS, "advance_below": -2.0, "fall_back_above": -1.5},
        {"scenario": "never.yaml"},
    ]
    never = (scenario.folder / "two.yaml").read_text().replace("schema: 1", "schema: 1\nname: never")
    (scenario.folder / "never.yaml").write_text(never)
    return train_config(scenario, {**TINY, "curriculum": entries, "restart_episodes_at_checkpoints": True, **changes})


def test_training_follows_the_curriculum_and_resumes_on_its_stage(scenario: Scenario, tmp_path: Path) -> None:
    listener = Remember()
    train(scenario, _curriculum_config(scenario), tmp_path / "whole", listener=listener)
    figures = read_metrics(RunFolder(tmp_path / "whole"))
    played = [line["curriculum/stage"] for line in figures]
    assert listener.messages[0].startswith("curriculum: collisions was 0 over 3 episodes of self, below 0.5;")
    assert any("of three.yaml, above -1.5; new episodes are played on stage 1" in text for text in listener.messages)
    assert {0, 1} == set(played)
    assert figures[-1]["scenario/three/episodes"] > 0
    assert not any("scenario/never/episodes" in line for line in figures)

    train(scenario, _curriculum_config(scenario, updates=3), tmp_path / "halves")
    saved = load_checkpoint(RunFolder(tmp_path / "halves").checkpoint("latest"))
    assert saved.curriculum is not None
    run = RunFolder(tmp_path / "halves")
    train(run.scenario(), run.config({"updates": 6}), run.path, resume=True)
    require_equal_runs(tmp_path / "whole", tmp_path / "halves")
    assert [line["curriculum/stage"] for line in read_metrics(run)] == played


def test_training_refuses_to_resume_with_another_curriculum(scenario: Scenario, tmp_path: Path) -> None:
    config = _curriculum_config(scenario, updates=1)
    train(scenario, config, tmp_path / "run")
    changed = train_config(scenario, {**TINY, "curriculum": [], "restart_episodes_at_checkpoints": True})
    with pytest.raises(CheckpointError, match=r"curriculum: expected \[\{'scenario': 'self'"):
        train(scenario, changed, tmp_path / "run", resume=True)


def test_training_swaps_the_warehouse_of_a_running_player_when_the_stage_changes(
    scenario: Scenario, tmp_path: Path
) -> None:
    for name in ("two", "three"):
        section = {"scenario": f"{name}.yaml", "timeout_s": 120, "restarts": 0}
        text = json.dumps({"schema": 1, "name": f"{name}_unity", "world": "unity", "unity": section})
        (scenario.folder / f"{name}_unity.yaml").write_text(text)
    linked = load_scenario(scenario.folder / "two_unity.yaml")
    entries = [{"scenario": "self", **ALWAYS, "advance_below": 0.5}, {"scenario": "three_unity.yaml"}]
    config = train_config(linked, {**TINY, "num_envs": 1, "updates": 4, "curriculum": entries})
    result = train(linked, config, tmp_path / "run")
    played = [line["curriculum/stage"] for line in read_metrics(RunFolder(tmp_path / "run"))]
    assert sorted(set(played)) == [0, 1]
    assert result.episodes.scenarios["three_unity"].length == 5.0
    logs = list((tmp_path / "run" / "logs").rglob("Player-0.log"))
    assert len(logs) == 1, "one player for both stages"
    assert "Scenario 2 taken." in logs[0].read_text()
