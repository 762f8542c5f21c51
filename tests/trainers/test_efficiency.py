"""Deliveries beside their bound, in tables, files and pictures of an evaluation."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bridge.planners.bound import ThroughputBound
from bridge.registry import open_world
from bridge.scenario import Scenario, load_scenario
from trainers import train, train_config
from trainers.cli import app
from trainers.comparison import compare_run
from trainers.efficiency import bound_of, bound_text, efficiency_of, with_efficiency
from trainers.evaluation import Estimate, EvaluationRow

BOUND = ThroughputBound(400.0, 1200.5, math.inf, 12_000.0, 0.5, 20.0)
TINY: dict[str, Any] = {
    "num_envs": 2, "rollout_steps": 8, "updates": 1, "hidden_sizes": [8], "torch_threads": 1, "eval_episodes": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short training in a small warehouse."""
    folder = tmp_path_factory.mktemp("efficiency")
    train(scenario := _scenario(folder, ""), train_config(scenario, TINY), folder / "run")
    return folder / "run"


def _scenario(folder: Path, tasks: str) -> Scenario:
    file = folder / "hall.yaml"
    floor = "  layout:\n    grid: |\n      P.P.P.P.\n      ........\n      E.##.##S\n      E......S\n"
    body = f"  fleet: [{{role: carrier, count: 3}}]\n  episode_steps: 60\n{tasks}"
    file.write_text(f"schema: 1\nworld: warehouse\nwarehouse:\n{floor}{body}")
    return load_scenario(file)


def test_efficiency_is_throughput_over_the_bound_and_comes_first() -> None:
    row = EvaluationRow("pibt", 8, {"return_sum": Estimate(3.0, 1.0), "deliveries_per_h": Estimate(300.0, 20.0)})
    reached = with_efficiency(row, BOUND).figures
    assert list(reached) == ["efficiency", "return_sum", "deliveries_per_h"]
    assert reached["efficiency"] == Estimate(0.75, 0.05)
    assert with_efficiency(row, None) is row
    assert efficiency_of({"return_sum": Estimate(3.0, 1.0)}, BOUND) is None


def test_efficiency_is_unknown_where_nothing_can_be_delivered(tmp_path: Path) -> None:
    tasks = "  tasks: {arrival: list, transports: [{pickups: [[2, 7]], delivery: [2, 0], release_s: 900}]}\n"
    bound = bound_of(open_world(_scenario(tmp_path, tasks)))
    assert bound is not None
    assert bound.deliveries_per_h == 0.0
    assert efficiency_of({"deliveries_per_h": Estimate(0.0, 0.0)}, bound) is None


def test_bound_text_lists_the_finite_limits_from_the_smallest() -> None:
    assert bound_text(BOUND) == "bound 400 deliveries/h: fleet 400, stations 1200, arrivals 12000"


def test_evaluation_of_one_scenario_reports_bound_and_efficiency(run: Path) -> None:
    comparison = compare_run(run)
    assert comparison.bound is not None
    lines = list(csv.DictReader(comparison.csv_file.read_text().splitlines()))
    assert [line["policy"] for line in lines][:3] == ["random", "trained", "pibt"]
    for line in lines:
        assert float(line["bound_per_h"]) == comparison.bound.deliveries_per_h
        assert float(line["bound_mean_transport_s"]) == comparison.bound.mean_transport_s
        assert float(line["efficiency"]) == pytest.approx(float(line["deliveries_per_h"]) / float(line["bound_per_h"]))
    pibt = comparison.rows[2].figures
    assert 0.3 < pibt["efficiency"].mean <= 1.0
    result = CliRunner().invoke(app, ["evaluate", str(run), "--episodes", "1"], terminal_width=80)
    assert result.exit_code == 0
    assert bound_text(comparison.bound) in result.output
    assert "efficiency" in result.output
