"""The whole loop on a real scenario."""

from __future__ import annotations

import csv
import json
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from bridge.episodes import EpisodeResult
from bridge.errors import (
    AgvBridgeError,
    CheckpointError,
    ScenarioError,
    SpecMismatchError,
    TrainingError,
    WorldDiedError,
)
from bridge.policy import RandomPolicy
from bridge.registry import open_world
from bridge.scenario import Scenario, load_scenario
from trainers import RunFolder, compare_run, evaluate, load_policy, train, train_config
from trainers.checkpoint import load_checkpoint
from trainers.evaluation import Estimate, EvaluationRow
from trainers.interrupt import StopRequest
from trainers.metrics_log import read_metrics
from trainers.progress import LiveProgress, PlainProgress, SilentProgress, TrainProgress, console_progress
from trainers.report import (
    evaluation_table,
    plot_comparison,
    plot_learning_curves,
    write_evaluation_csv,
    write_robots_csv,
)

TINY: dict[str, Any] = {
    "num_envs": 2,
    "rollout_steps": 8,
    "updates": 4,
    "checkpoint_every": 2,
    "hidden_sizes": [16],
    "torch_threads": 1,
    "debug": True,
}


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """The small warehouse with short episodes, as a file of its own."""
    shipped = load_scenario("warehouse_small")
    folder = tmp_path / "scenario"
    (folder / "maps").mkdir(parents=True)
    text = shipped.path.read_text().partition("\ntrain:")[0] + "\n"
    text = text.replace("episode_steps: 400", "episode_steps: 6")
    assert "episode_steps: 6" in text
    (folder / "warehouse_short.yaml").write_text(text)
    (folder / "maps" / "small.map").write_bytes((shipped.folder / "maps" / "small.map").read_bytes())
    return load_scenario(folder / "warehouse_short.yaml")


class Remember(SilentProgress):
    """Keeps what training said."""

    def __init__(self) -> None:
        self.updates: list[TrainProgress] = []
        self.messages: list[str] = []

    def on_update(self, progress: TrainProgress) -> None:
        self.updates.append(progress)

    def on_message(self, text: str) -> None:
        self.messages.append(text)


class InterruptAfter(Remember):
    """Presses Ctrl-C after an update."""

    def __init__(self, update: int) -> None:
        super().__init__()
        self._update = update

    def on_update(self, progress: TrainProgress) -> None:
        super().on_update(progress)
        if progress.update == self._update:
            os.kill(os.getpid(), signal.SIGINT)


def arrays_of(run: Path) -> dict[str, Any]:
    with np.load(run / "checkpoints" / "latest.npz") as archive:
        return {name: archive[name] for name in archive.files if name != "header.json"}


def test_training_writes_a_run_folder_that_stands_alone(scenario: Scenario, tmp_path: Path) -> None:
    listener = Remember()
    result = train(scenario, train_config(scenario, TINY), tmp_path / "run", listener=listener)
    assert (result.update, result.env_steps, result.interrupted) == (4, 64, False)
    assert [progress.update for progress in listener.updates] == [1, 2, 3, 4]
    assert result.episodes.num_episodes == 10
    run = RunFolder(tmp_path / "run")
    assert run.checkpoint("best").is_file()
    assert list(run.tensorboard_folder.iterdir())
    lines = read_metrics(run)
    assert [line["update"] for line in lines] == [1, 2, 3, 4]
    assert all(math.isfinite(value) for line in lines for value in line.values())
    assert {"world/deliveries_per_h", "carrier/policy_loss", "episodes/return_sum"} <= lines[-1].keys()
    # The copy is the same world, under the same name, without the original.
    copy = run.scenario()
    assert (copy.name, copy.config) == (scenario.name, scenario.config)
    assert copy.folder != scenario.folder
    assert open_world(copy).spec == open_world(scenario).spec
    assert run.config() == train_config(scenario, TINY)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_training_repeats_bit_for_bit_whatever_the_number_of_workers(
    scenario: Scenario, tmp_path: Path, num_workers: int
) -> None:
    train(scenario, train_config(scenario, TINY), tmp_path / "first")
    train(scenario, train_config(scenario, {**TINY, "num_workers": num_workers}), tmp_path / "second")
    first, second = arrays_of(tmp_path / "first"), arrays_of(tmp_path / "second")
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def test_resumed_training_equals_uninterrupted_training_bit_for_bit(scenario: Scenario, tmp_path: Path) -> None:
    settings = {
        **TINY,
        "restart_episodes_at_checkpoints": True,
        "normalise_observations": True,
        "anneal_learning_rate": True,
    }
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(scenario, train_config(scenario, settings), whole)
    train(scenario, train_config(scenario, settings), parts, listener=InterruptAfter(2))
    train(scenario, train_config(scenario, settings), parts, resume=True)
    first, second = arrays_of(whole), arrays_of(parts)
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    mine, its = (load_checkpoint(run / "checkpoints" / "latest.npz") for run in (whole, parts))
    assert (mine.update, mine.env_steps, mine.decisions) == (its.update, its.env_steps, its.decisions)
    assert mine.best_return == its.best_return
    timeless = [
        [{k: v for k, v in line.items() if not k.startswith("speed/") and k != "seconds"} for line in lines]
        for lines in (read_metrics(RunFolder(whole)), read_metrics(RunFolder(parts)))
    ]
    assert timeless[0] == timeless[1]


def test_resume_drops_what_was_logged_after_the_checkpoint(scenario: Scenario, tmp_path: Path) -> None:
    train(scenario, train_config(scenario, {**TINY, "updates": 2}), tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    with run.metrics_file.open("a") as file:
        file.write(json.dumps({"update": 3, "env_steps": 48}) + '\n{"update": 4, "env_st')
    train(scenario, train_config(scenario, TINY), tmp_path / "run", resume=True)
    lines = read_metrics(run)
    assert [line["update"] for line in lines] == [1, 2, 3, 4]
    assert "carrier/policy_loss" in lines[2]


def test_training_raises_when_the_folder_holds_a_run(scenario: Scenario, tmp_path: Path) -> None:
    train(scenario, train_config(scenario, {**TINY, "updates": 1}), tmp_path / "run")
    with pytest.raises(CheckpointError, match="expected a new or empty folder, got one with a run"):
        train(scenario, train_config(scenario, TINY), tmp_path / "run")


def test_training_begins_anew_in_the_folder_of_a_run_that_ended_before_its_first_update(
    scenario: Scenario, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "run")
    run.create(scenario, train_config(scenario, TINY))
    run.metrics_file.touch()
    with pytest.raises(CheckpointError, match=r"got one that ended before its first\. Remove the folder and train"):
        train(scenario, train_config(scenario, TINY), run.path, resume=True)
    assert train(scenario, train_config(scenario, {**TINY, "updates": 1}), run.path).update == 1


def test_training_raises_when_the_folder_holds_figures_of_a_run_without_a_checkpoint(
    scenario: Scenario, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "run")
    run.create(scenario, train_config(scenario, TINY))
    run.metrics_file.write_text('{"update": 1, "env_steps": 1}\n')
    with pytest.raises(CheckpointError, match=r"ended before its first checkpoint and cannot be resumed\. Remove it"):
        train(scenario, train_config(scenario, TINY), run.path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"config\.yaml: expected settings by key, got an empty file"),
        ("- 1\n", r"config\.yaml: expected settings by key, got a list"),
        ("x: [\n", r"config\.yaml: expected YAML, got .*line 2"),
        ("seed: one\n", r"config\.yaml: train\.seed: expected an integer, got 'one'"),
    ],
)
def test_resume_raises_when_the_configuration_of_the_run_is_damaged(
    scenario: Scenario, tmp_path: Path, text: str, message: str
) -> None:
    run = RunFolder(tmp_path / "run")
    run.create(scenario, train_config(scenario, TINY))
    run.config_file.write_text(text)
    with pytest.raises(AgvBridgeError, match=message):
        run.config()


@pytest.mark.parametrize("line", ["garbage", '{"env_steps": 3}', "[]"])
def test_reading_metrics_names_the_line_that_is_damaged(tmp_path: Path, line: str) -> None:
    run = RunFolder(tmp_path)
    run.metrics_file.write_text(f'{{"update": 1, "env_steps": 1}}\n{line}\n')
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl: line 2: expected the figures of an update, got"):
        read_metrics(run)


def test_resume_raises_when_there_is_no_run(scenario: Scenario, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"expected a run folder, got no config\.yaml"):
        train(scenario, train_config(scenario, TINY), tmp_path / "run", resume=True)


def test_resume_raises_when_a_setting_of_the_networks_changed(scenario: Scenario, tmp_path: Path) -> None:
    train(scenario, train_config(scenario, {**TINY, "updates": 1}), tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"hidden_sizes: expected \[16\] as in the saved run, got \[32\]"):
        train(scenario, train_config(scenario, {**TINY, "hidden_sizes": [32]}), tmp_path / "run", resume=True)


def test_resume_raises_when_the_fleet_changed(scenario: Scenario, tmp_path: Path) -> None:
    train(scenario, train_config(scenario, {**TINY, "updates": 1}), tmp_path / "run")
    scenario.path.write_text(scenario.path.read_text().replace("count: 8", "count: 5"))
    changed = load_scenario(scenario.path)
    with pytest.raises(SpecMismatchError, match="role 'carrier': expected 8 robots, got 5"):
        train(changed, train_config(changed, TINY), tmp_path / "run", resume=True)


def test_training_ends_with_a_checkpoint_at_ctrl_c(scenario: Scenario, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    result = train(scenario, train_config(scenario, TINY), tmp_path / "run", listener=InterruptAfter(3))
    assert (result.interrupted, result.update) == (True, 3)
    assert load_checkpoint(RunFolder(tmp_path / "run").checkpoint("latest")).update == 3
    assert signal.getsignal(signal.SIGINT) is before
    resumed = train(scenario, train_config(scenario, TINY), tmp_path / "run", resume=True)
    assert (resumed.interrupted, resumed.update) == (False, 4)


def test_training_saves_a_checkpoint_before_it_raises_when_a_worker_is_killed(
    scenario: Scenario, tmp_path: Path
) -> None:
    class Kill(Remember):
        def on_update(self, progress: TrainProgress) -> None:
            super().on_update(progress)
            if progress.update == 1:
                multiprocessing.active_children()[0].kill()

    listener = Kill()
    with pytest.raises(WorldDiedError, match=r"worker \d"):
        train(scenario, train_config(scenario, {**TINY, "num_workers": 2}), tmp_path / "run", listener=listener)
    assert load_checkpoint(RunFolder(tmp_path / "run").checkpoint("latest")).update == 1
    assert "can be resumed" in listener.messages[0]
    assert train(scenario, train_config(scenario, TINY), tmp_path / "run", resume=True).update == 4


def test_training_learns_every_role_of_a_world_with_several(tmp_path: Path) -> None:
    scenario = load_scenario("warehouse_two_roles")
    roles = [role.name for role in open_world(scenario).spec.roles]
    assert len(roles) == 2
    listener = Remember()
    config = train_config(scenario, {**TINY, "updates": 1, "advantage_normalisation": "all"})
    train(scenario, config, tmp_path / "run", listener=listener)
    for role in roles:
        assert listener.updates[0].metrics[f"{role}/gradient_steps"] > 0


def test_training_error_names_role_and_update_when_learning_diverges(scenario: Scenario, tmp_path: Path) -> None:
    config = train_config(scenario, {**TINY, "learning_rate": 1.0, "adam_eps": 1e-30, "clip_coef": 0.99})
    config = config.model_copy(update={"learning_rate": 1e38, "critic_learning_rate": 1e38})
    with pytest.raises(TrainingError, match=r"role 'carrier'"):
        train(scenario, config, tmp_path / "run")


def test_a_second_interrupt_raises_at_once() -> None:
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_stop_request_leaves_signals_alone_outside_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGINT)
    answers = []

    def work() -> None:
        with StopRequest() as stop:
            stop.request()
            answers.append(stop())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=10)
    assert answers == [True]
    assert signal.getsignal(signal.SIGINT) is before


def test_loaded_policy_acts_like_the_one_that_was_saved(scenario: Scenario, tmp_path: Path) -> None:
    train(scenario, train_config(scenario, TINY), tmp_path / "run")
    roster = open_world(scenario).roster(4)
    roster.reset(3)
    policies = [load_policy(tmp_path / "run", roster.spec) for _ in range(2)]
    actions = []
    for policy in policies:
        policy.act(roster.arrays)
        actions.append(roster.arrays.roles["carrier"].discrete_actions.copy())
    np.testing.assert_array_equal(actions[0], actions[1])
    roster.close()


def test_loading_raises_when_the_fleet_is_larger_and_the_policy_knows_its_slot(
    scenario: Scenario, tmp_path: Path
) -> None:
    scenario.path.write_text(scenario.path.read_text().replace("count: 8", "count: 5"))
    other = open_world(load_scenario(scenario.path)).spec
    train(scenario, train_config(scenario, {**TINY, "updates": 1}), tmp_path / "knows")
    with pytest.raises(SpecMismatchError, match=r"'carrier': expected 8 robots, got 5\. Train with agent_id=false"):
        load_policy(tmp_path / "knows", other)
    train(scenario, train_config(scenario, {**TINY, "updates": 1, "agent_id": False}), tmp_path / "any")
    assert load_policy(tmp_path / "any", other).actor_parameters("carrier")


def test_loading_raises_when_the_observation_differs(scenario: Scenario, tmp_path: Path) -> None:
    train(scenario, train_config(scenario, {**TINY, "updates": 1}), tmp_path / "run")
    scenario.path.write_text(scenario.path.read_text().replace("radius: 2", "radius: 3"))
    other = open_world(load_scenario(scenario.path)).spec
    with pytest.raises(SpecMismatchError, match=r"observation block \d: expected 'window'"):
        load_policy(tmp_path / "run", other)


def test_evaluation_compares_policies_on_equal_episodes_and_reports_them(scenario: Scenario, tmp_path: Path) -> None:
    train(scenario, train_config(scenario, TINY), tmp_path / "run")
    policies = {
        "random": lambda roster: RandomPolicy(roster.spec, seed=0),
        "again": lambda roster: RandomPolicy(roster.spec, seed=0),
        "trained": lambda roster: load_policy(tmp_path / "run", roster.spec),
    }
    rows = evaluate(scenario, policies, seed=77, num_episodes=6, training_seed=1)
    assert [(row.policy, row.num_episodes) for row in rows] == [("random", 6), ("again", 6), ("trained", 6)]
    assert rows[0].figures == rows[1].figures
    assert rows[0].figures["length"].mean == 6.0
    assert rows[0].figures["length"].half_width == 0.0
    assert "deliveries_per_h" in rows[0].figures
    metrics = open_world(scenario).spec.metrics
    write_evaluation_csv(rows, tmp_path / "evaluation.csv")
    lines = (tmp_path / "evaluation.csv").read_text().splitlines()
    assert lines[0].startswith("policy,episodes,return_sum,return_sum_ci95")
    assert len(lines) == 4
    console = Console(width=200, file=None, record=True, quiet=False)
    with console.capture() as capture:
        console.print(evaluation_table(rows))
    assert "trained" in capture.get()
    plot_comparison(rows, metrics, tmp_path / "comparison.png")
    plot_learning_curves(RunFolder(tmp_path / "run"), tmp_path / "curves.png")
    for name in ("comparison.png", "curves.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_comparison_also_draws_actions_when_asked(scenario: Scenario, tmp_path: Path) -> None:
    train(scenario, train_config(scenario, TINY), tmp_path / "run")
    plain = compare_run(tmp_path / "run", num_episodes=2).rows
    robots_file = tmp_path / "robots.csv"
    rows, again = (
        compare_run(tmp_path / "run", num_episodes=2, sampled=True, robots_file=file).rows
        for file in (None, robots_file)
    )
    assert [row for row in rows if row.policy != "sampled"] == plain
    assert rows == again
    by_name = {row.policy: row.figures for row in rows}
    assert by_name["sampled"] != by_name["trained"]
    assert all(row.decision_ms > 0.0 for row in rows)
    table = (tmp_path / "run" / "evaluation.csv").read_text().splitlines()
    assert table[0].endswith(",decision_ms")
    assert float(table[1].rpartition(",")[2]) == again[0].decision_ms
    lines = list(csv.DictReader(robots_file.read_text().splitlines()))
    spec = open_world(scenario).spec
    assert len(lines) == len(rows) * 2 * sum(role.num_slots for role in spec.roles)
    for row in rows:
        driven = [float(line["distance_m"]) for line in lines if line["policy"] == row.policy]
        assert sum(driven) / 2 == pytest.approx(row.figures["distance_m"].mean)


def test_figures_of_each_robot_are_refused_for_a_world_without_them(tmp_path: Path) -> None:
    result = EpisodeResult(0, 0, 5, {}, {})
    with pytest.raises(ScenarioError, match=r"robots\.csv: expected a world that has figures of each robot, got one"):
        write_robots_csv({"random": [result]}, tmp_path / "robots.csv")


def test_evaluation_table_fits_into_80_columns_with_many_figures() -> None:
    figures = {f"figure_number_{index}": Estimate(1184.6, 51.2) for index in range(13)}
    rows = [EvaluationRow(policy, 20, figures) for policy in ("random", "trained", "pibt")]
    console = Console(width=80)
    with console.capture() as capture:
        console.print(evaluation_table(rows))
    text = capture.get()
    assert all(name in text for name in (*figures, "random", "trained", "pibt"))
    assert text.count("1185 ± 51") == 39


def test_evaluation_table_cuts_nothing_where_there_is_no_room() -> None:
    figures = {"robot_collisions_per_h": Estimate(213.4, 240.0)}
    console = Console(width=60)
    with console.capture() as capture:
        console.print(evaluation_table([EvaluationRow(p, 20, figures) for p in ("random", "trained", "token_passing")]))
    body = capture.get().rpartition("─")[2].splitlines()
    # A column of text, and three of numbers.
    starts = [0, *(place.start() for place in re.finditer(r"\S+ ± \S+", next(line for line in body if "±" in line)))]
    assert len(starts) == 4
    assert "".join(line[: starts[1]].strip() for line in body).startswith("robot_collisions_per_h")
    assert sum(line.count("213 ± 240") for line in body) == 3


def test_evaluation_raises_when_the_seed_was_trained_on(scenario: Scenario) -> None:
    with pytest.raises(ValueError, match="expected a seed that was never trained on, got 5"):
        evaluate(scenario, {}, seed=5, num_episodes=1, training_seed=5)


@pytest.mark.parametrize("kind", [PlainProgress, LiveProgress])
def test_progress_shows_updates_speed_return_and_the_worlds_metrics(
    scenario: Scenario, tmp_path: Path, kind: type[Any]
) -> None:
    with (tmp_path / "out.txt").open("w") as out:
        console = Console(file=out, width=160, force_terminal=kind is LiveProgress)
        train(scenario, train_config(scenario, TINY), tmp_path / "run", listener=kind(console))
    text = (tmp_path / "out.txt").read_text()
    for part in ("8 carrier", "4 updates", "return", "deliveries_per_h", "env-steps/s", "time left", "done after 4"):
        assert part in text


def test_progress_is_plain_when_the_console_is_not_a_terminal(tmp_path: Path) -> None:
    with (tmp_path / "out.txt").open("w") as out:
        assert isinstance(console_progress(Console(file=out)), PlainProgress)
        assert isinstance(console_progress(Console(file=out, force_terminal=True)), LiveProgress)


def test_package_names_the_extra_when_torch_is_missing() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import trainers\n"
        "from bridge.errors import MissingExtraError\n"
        "try:\n    trainers.train\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)
    assert "expected the package 'torch' to be installed, got none. Run: pip install 'agv-bridge[train]'" in done.stdout
