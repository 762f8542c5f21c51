"""A trained policy across scenarios, fleets and seeds, beside planners and the bound."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import ScenarioError, SpecMismatchError
from bridge.planners.bound import ThroughputBound
from bridge.scenario import Scenario, load_scenario
from trainers import train, train_config
from trainers.cross_evaluation import evaluate_across
from trainers.cross_report import CrossRow
from trainers.cross_table import cross_lines
from trainers.evaluation import Estimate, EvaluationRow, evaluate

FLOOR = "  layout:\n    grid: |\n      P.P.P.P.\n      ........\n      E.##.##S\n      ..##.##.\n      E......S\n"
TINY: dict[str, Any] = {
    "num_envs": 2, "rollout_steps": 8, "updates": 1, "hidden_sizes": [8], "torch_threads": 1, "agent_id": False,
    "eval_episodes": 3,
}  # fmt: skip


def write(folder: Path, name: str, body: str) -> Scenario:
    file = folder / f"{name}.yaml"
    file.write_text(f"schema: 1\nworld: warehouse\nwarehouse:\n{FLOOR}{body}")
    return load_scenario(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short training and a second scenario."""
    path = tmp_path_factory.mktemp("across")
    trained = write(path, "trained", "  fleet: [{role: carrier, count: 3}]\n  episode_steps: 60\n")
    write(path, "poisson", "  fleet: [{role: carrier, count: 2}]\n  episode_steps: 60\n  tasks: {arrival: poisson}\n")
    train(trained, train_config(trained, TINY), path / "run")
    return path


def select(rows: Sequence[CrossRow], **wanted: Any) -> list[CrossRow]:
    return [
        row
        for row in rows
        if all((row.result.policy if key == "policy" else getattr(row, key)) == value for key, value in wanted.items())
    ]


def test_evaluate_across_plays_every_scenario_fleet_seed_and_policy(folder: Path) -> None:
    scenarios = [load_scenario(folder / f"{name}.yaml") for name in ("trained", "poisson")]
    across = evaluate_across(folder / "run", scenarios, seeds=(11, 12), fleets=(2, 4))
    assert [(row.scenario, row.num_robots, row.result.policy) for row in across.rows] == [
        (scenario, robots, policy)
        for scenario in ("trained", "poisson")
        for robots in (2, 4)
        for policy in dict.fromkeys(row.result.policy for row in across.rows)
    ]
    assert {"random", "trained", "pibt"} <= {row.result.policy for row in across.rows}
    assert all(row.result.num_episodes == 6 for row in across.rows)
    for row in select(across.rows, policy="pibt"):
        assert row.efficiency is not None
        assert 0.3 < row.efficiency.mean <= 1.0
    few, many = (select(across.rows, scenario="trained", policy="pibt", num_robots=n)[0] for n in (2, 4))
    assert few.bound is not None
    assert many.bound is not None
    assert few.bound.fleet_per_h < many.bound.fleet_per_h
    assert few.throughput is not None
    assert many.throughput is not None
    assert few.throughput.mean < many.throughput.mean
    lines = _lines(across.csv_file)
    means = [row.throughput.mean for row in across.rows if row.throughput is not None]
    assert [float(line["deliveries_per_h"]) for line in lines] == means
    assert float(lines[0]["bound_per_h"]) == min(float(lines[0][f"bound_{p}_per_h"]) for p in ("fleet", "cut"))
    assert {line["seeds"] for line in lines} == {"11 12"}
    assert across.plot_file.read_bytes().startswith(b"\x89PNG")


def test_evaluate_across_takes_the_means_over_the_episodes_of_all_seeds(folder: Path) -> None:
    from bridge.policy import RandomPolicy

    scenario = load_scenario(folder / "trained.yaml")
    across = evaluate_across(folder / "run", seeds=(11, 12), num_episodes=2)
    single = [
        evaluate(scenario, {"random": lambda roster: RandomPolicy(roster.spec, 1_000_000)}, seed=seed, num_episodes=2)
        for seed in (11, 12)
    ]
    mean = sum(rows[0].figures["return_sum"].mean for rows in single) / 2
    row = select(across.rows, policy="random")[0]
    of_seeds = [float(line["return_sum"]) for line in _lines(across.seeds_file) if line["policy"] == "random"]
    assert of_seeds == [rows[0].figures["return_sum"].mean for rows in single]
    assert [line["seeds"] for line in _lines(across.seeds_file)] == ["11"] * 4 + ["12"] * 4
    assert row.num_robots == 3
    assert row.result.figures["return_sum"].mean == pytest.approx(mean)


def test_evaluate_across_refuses_the_training_seed_twice_the_same_and_fleets_without_room(folder: Path) -> None:
    with pytest.raises(ScenarioError, match=r"expected a seed that was never trained on, got 1"):
        evaluate_across(folder / "run", seeds=(1,), num_episodes=1)
    with pytest.raises(ScenarioError, match=r"seeds: expected distinct seeds, got 5, 5\."):
        evaluate_across(folder / "run", seeds=(5, 5))
    with pytest.raises(ScenarioError, match=r"fleets: expected distinct numbers of robots, got 4, 8, 4\."):
        evaluate_across(folder / "run", fleets=(4, 8, 4))
    with pytest.raises(ScenarioError, match=r"scenarios: expected scenarios of distinct names, got trained, trained\."):
        evaluate_across(folder / "run", [load_scenario(folder / "trained.yaml")] * 2)
    with pytest.raises(ScenarioError, match=r"fleet: expected at most 28 robots .*got 29"):
        evaluate_across(folder / "run", fleets=(29,))


def test_evaluate_across_names_the_block_when_a_scenario_looks_different(folder: Path) -> None:
    other = write(folder, "other", "  fleet: [{role: carrier, count: 3}]\n  observation: [{block: self}]\n")
    with pytest.raises(SpecMismatchError, match=r"observation block 1: expected 'target'.*got no block"):
        evaluate_across(folder / "run", [other])


def test_evaluate_across_plays_on_other_variants_of_the_floor_plan_when_asked(folder: Path) -> None:
    body = "  fleet: [{role: carrier, count: 3}]\n  episode_steps: 60\n  randomisation:\n"
    varied = write(folder, "varied", body + "    layout: {variants: 2, max_missing_racks: 1.0}\n")
    rows = evaluate_across(folder / "run", [varied], layout_seed=5, num_episodes=2).rows
    assert {row.scenario for row in rows} == {"varied_layouts_5"}
    pibt = select(rows, policy="pibt")[0]
    assert pibt.efficiency is not None
    assert 0.3 < pibt.efficiency.mean <= 1.0
    with pytest.raises(
        ScenarioError, match=r"scenario.yaml: layout seed: expected a warehouse with randomisation.layout"
    ):
        evaluate_across(folder / "run", layout_seed=5)


def test_cross_lines_say_why_a_planner_is_missing(folder: Path) -> None:
    across = evaluate_across(folder / "run", fleets=(3, 5), num_episodes=1)
    assert [(entry.num_robots, entry.planner) for entry in across.left_out] == [(5, "token_passing")]
    lines = cross_lines(across.rows, across.left_out, 80)
    text = "\n".join(lines)
    few, many = text.index("3 robots, bound"), text.index("5 robots, bound")
    assert "token_passing" in text[few:many]
    assert "no token_passing: expected a parking place for each of 5 robots, got 4." in text[many:]
    for row in across.rows:
        assert row.efficiency is not None
        assert math.isnan(row.efficiency.half_width)
        assert f"{row.efficiency.mean:.4g}" in text


def made_up(policy: str, scale: float) -> CrossRow:
    """A row whose figures are as long as figures get."""
    names = ("deliveries_per_h", "collisions", "blocked_moves", "deadlocks", "waiting_share", "return_mean", "length")
    figures = {name: Estimate(scale * 12345.678, scale * 234.5) for name in names}
    figures["waiting_share"] = Estimate(0.123456, 0.0123)
    bound = ThroughputBound(20_000.0 * scale, math.inf, math.inf, math.inf, 1.0, 20.0)
    return CrossRow("warehouse_one_lane", 64, (1, 2), EvaluationRow(policy, 8, figures), bound)


@pytest.mark.parametrize("width", [80, 120])
def test_cross_lines_fit_and_cut_no_number(width: int) -> None:
    lines = cross_lines(
        [made_up(name, scale) for name, scale in (("token_passing", 1.0), ("trained", 0.01))], [], width
    )
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    head, tokens, trained = lines[1].split(), lines[3], lines[4]
    assert head[:4] == ["efficiency", "deliveries/h", "collisions", "deadlocks"]
    assert ("blocked" in head) == (width == 120)
    assert "12346 ± 234" in tokens
    assert "0.617 ± 0.012" in trained
    assert "123.5 ± 2.3" in trained


def test_cross_lines_show_returns_in_a_world_without_deliveries() -> None:
    figures = {"return_sum": Estimate(4.0, 0.5), "return_mean": Estimate(2.0, 0.25), "length": Estimate(25.0, 0.0)}
    lines = cross_lines([CrossRow("spread", 2, (0,), EvaluationRow("trained", 8, figures), None)], [], 80)
    assert lines[1].split() == ["return/robot", "steps"]
    assert lines[3].split() == ["trained", "2.00", "±", "0.25", "25"]
    assert "efficiency" not in "".join(lines)


def _lines(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))
