"""The whole way in one call: train, evaluate, export, drive the fleet over the ML-Agents protocol.

Everything is written into one run folder, next to what training itself writes:

RUN/evaluation.csv, .png    random, trained, planners and exported on the same held-out episodes
RUN/learning_curves.png     what training logged
RUN/export/                 the ONNX files
RUN/fleet.gif               the exported policy at work
RUN/demo.json               the figures of the closing table
"""

from __future__ import annotations

import json
import math
import shutil
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bridge.adapters.unity import headless_twin
from bridge.errors import CheckpointError, ScenarioError
from bridge.export import OnnxFleetPolicy
from bridge.policy import PolicyFactory
from bridge.registry import open_world
from bridge.scenario import Scenario, load_scenario
from bridge.warehouse.recording import record_gif
from trainers.comparison import compare_run
from trainers.config import TrainConfig, train_config
from trainers.efficiency import with_efficiency
from trainers.evaluation import EvaluationRow, evaluate
from trainers.exporting import export_run
from trainers.loading import load_policy
from trainers.progress import console_progress
from trainers.report import plot_comparison, plot_learning_curves, write_evaluation_csv
from trainers.runs import RunFolder
from trainers.training import train

__all__ = ["run_demo"]

_MARKER = "demo.json"
_EXPORTED = "exported"
_ORDER = ("random", "trained", _EXPORTED)
_SHOWN = ("deliveries_per_h", "collisions", "blocked_moves")


def run_demo(scenario_name: str, run_dir: Path, updates: int | None = None) -> None:
    """Run the demo and print its table.

    Args:
        scenario_name: Name of a shipped scenario, or a scenario file or folder; a warehouse.
        run_dir: Where everything goes; an older demo in it is replaced.
        updates: Length of the training; the scenario's own by default.

    Raises:
        CheckpointError: The folder holds something else than an older demo.
    """
    console = Console()
    started = time.monotonic()
    scenario = load_scenario(scenario_name)
    config = train_config(scenario, {} if updates is None else {"updates": updates})
    _require_warehouse(scenario)
    _make_room(run_dir)
    _say(console, f"1/4 training {scenario.name} in {config.num_workers} workers and one learner")
    result = train(scenario, config, run_dir, listener=console_progress(console))
    if result.interrupted:
        raise KeyboardInterrupt
    plot_learning_curves(RunFolder(run_dir), run_dir / "learning_curves.png")
    _say(console, f"2/4 playing {config.eval_episodes} episodes per policy on seeds never trained on, greedily")
    comparison = compare_run(run_dir)
    _say(console, "3/4 exporting, checking against Unity's loader rules and comparing with the checkpoint")
    export_dir = run_dir / "export"
    for path in export_run(run_dir, export_dir):
        console.print(f"    {path}", highlight=False)
    decisions, different = _compare_actions(scenario, run_dir, export_dir, config)
    console.print(
        f"    {decisions - different:,} of {decisions:,} decisions equal to the checkpoint's", highlight=False
    )
    _say(console, "4/4 driving the headless player over the ML-Agents protocol, each robot from its own observation")
    driven = [with_efficiency(row, comparison.bound) for row in _drive_player(scenario, export_dir, config)]
    rows = _in_order([*comparison.rows, *driven])
    write_evaluation_csv(rows, comparison.csv_file, comparison.bound)
    plot_comparison(rows, open_world(scenario).spec.metrics, comparison.plot_file, comparison.bound)
    _record(scenario, export_dir, run_dir / "fleet.gif", config)
    (run_dir / _MARKER).write_text(json.dumps(_summary(rows, decisions, different, started), indent=2) + "\n")
    console.print(_closing_table(rows))
    console.print(f"{time.monotonic() - started:.0f} s in all; everything is in {run_dir}", highlight=False)


def _say(console: Console, text: str) -> None:
    console.print(f"[bold]{text}[/bold]", highlight=False)


def _require_warehouse(scenario: Scenario) -> None:
    missing = [name for name in _SHOWN if name not in open_world(scenario).spec.metric_names]
    if scenario.world == "unity" or missing:
        raise ScenarioError(
            f"{scenario.path}: demo: expected a scenario with `world: warehouse`, got {scenario.world!r}. "
            "Use the commands train, evaluate, export and play for other worlds."
        )


def _make_room(run_dir: Path) -> None:
    """Remove an older demo, and nothing else."""
    marker = run_dir / _MARKER
    if run_dir.exists() and any(run_dir.iterdir()):
        if not marker.is_file():
            raise CheckpointError(
                f"{run_dir}: expected a new folder or an older demo, got other files. Choose another."
            )
        shutil.rmtree(run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    marker.write_text("{}\n")


def _compare_actions(scenario: Scenario, run_dir: Path, export_dir: Path, config: TrainConfig) -> tuple[int, int]:
    """Ask checkpoint and export for every decision of one held-out episode: how many there were, how many differ."""
    roster = open_world(scenario).roster(1)
    decisions = different = 0
    try:
        trained = load_policy(run_dir, roster.spec)
        exported = OnnxFleetPolicy(export_dir, roster.spec)
        roster.reset(config.eval_seed)
        while not roster.arrays.episode_over[0]:
            trained.act(roster.arrays)
            chosen = {
                name: (values.continuous_actions.copy(), values.discrete_actions.copy(), values.decision_mask.copy())
                for name, values in roster.arrays.roles.items()
            }
            exported.act(roster.arrays)
            for name, (continuous, discrete, asked) in chosen.items():
                values = roster.arrays.roles[name]
                # The same number up to rounding, the same choice exactly.
                apart = np.abs(values.continuous_actions - continuous).max(axis=-1, initial=0.0) > 1e-5
                apart |= (values.discrete_actions != discrete).any(axis=-1)
                decisions += int(asked.sum())
                different += int((apart & asked).sum())
            roster.step()
    finally:
        roster.close()
    return decisions, different


def _drive_player(scenario: Scenario, export_dir: Path, config: TrainConfig) -> list[EvaluationRow]:
    policies: dict[str, PolicyFactory] = {_EXPORTED: lambda roster: OnnxFleetPolicy(export_dir, roster.spec)}
    return evaluate(
        headless_twin(scenario),
        policies,
        seed=config.eval_seed,
        num_episodes=config.eval_episodes,
        training_seed=config.seed,
    )


def _record(scenario: Scenario, export_dir: Path, path: Path, config: TrainConfig) -> None:
    roster = open_world(scenario).roster(1)
    try:
        record_gif(roster, OnnxFleetPolicy(export_dir, roster.spec), path, seed=config.eval_seed)
    finally:
        roster.close()


def _summary(rows: list[EvaluationRow], decisions: int, different: int, started: float) -> dict[str, object]:
    return {
        "seconds": round(time.monotonic() - started, 1),
        "decisions_compared": decisions,
        "decisions_different": different,
        "policies": {row.policy: {name: asdict(value) for name, value in row.figures.items()} for row in rows},
    }


def _in_order(rows: list[EvaluationRow]) -> list[EvaluationRow]:
    """Random, trained, exported, then the planners."""
    return sorted(rows, key=lambda row: _ORDER.index(row.policy) if row.policy in _ORDER else len(_ORDER))


def _closing_table(rows: list[EvaluationRow]) -> Table:
    """One line per policy."""
    planners = [row for row in rows if row.policy not in _ORDER]
    best = planners[0].figures["deliveries_per_h"].mean if planners else math.nan
    table = Table(title="held-out episodes, greedy")
    table.add_column("policy")
    for name in (*_SHOWN, *([f"share of {planners[0].policy}"] if planners else [])):
        table.add_column(name, justify="right")
    for row in rows:
        cells = [str(row.figures[name]) for name in _SHOWN]
        if planners:
            share = row.figures["deliveries_per_h"].mean / best if best > 0 else math.nan
            cells.append(f"{share:.0%}" if math.isfinite(share) else "-")
        table.add_row(row.policy, *cells)
    return table
