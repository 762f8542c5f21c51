"""``agv-bridge scenarios show`` of halls whose floor plan differs between episodes, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.errors import ScenarioError
from bridge.scenario import find_scenario
from trainers.cli_scenarios import app


def test_show_lists_the_variants_and_draws_the_one_that_is_asked_for() -> None:
    plan, varied = (CliRunner().invoke(app, ["show", "warehouse_varied", *more]) for more in ([], ["--variant", "1"]))
    assert (plan.exit_code, varied.exit_code) == (0, 0)
    assert "variant 7: racks missing: " in plan.output
    row = "...####..####..####.."
    assert plan.output.count(row) == 5
    assert varied.output.count(row) < 5


def test_show_refuses_a_variant_that_there_is_not() -> None:
    for name, count in (("warehouse_varied", 8), ("warehouse_small", 0)):
        result = CliRunner().invoke(app, ["show", name, "--variant", "8"])
        assert isinstance(result.exception, ScenarioError)
        with pytest.raises(ScenarioError, match=rf"--variant: expected one of the scenario's {count} variants, .* 8\."):
            raise result.exception


def test_show_tells_what_a_training_plays_and_when_it_goes_on(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["show", "warehouse_curriculum"], catch_exceptions=False).stdout
    assert "training: stage 1: warehouse_small: on when deliveries_per_h is above 400, over 64 episodes\n" in shown
    assert "training: stage 3: self: back when deliveries_per_h is below 50, over 64 episodes\n" in shown
    text = find_scenario("warehouse_two_roles").read_text().split("train:")[0].replace("maps/small", "small")
    (tmp_path / "mix.yaml").write_text(
        f"{text}train:\n  scenarios: [{{scenario: self, weight: 3}}, {{scenario: warehouse_two_roles}}]\n"
    )
    (tmp_path / "small.map").write_text((find_scenario("warehouse_small").parent / "maps" / "small.map").read_text())
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "mix.yaml")], catch_exceptions=False).stdout
    assert "training: self: 75% of the episodes\ntraining: warehouse_two_roles: 25% of the episodes\n" in shown


def test_show_tells_the_footprints_of_robots(tmp_path: Path) -> None:
    fleet = "{role: forklift, count: 2, length_m: 0.8, width_m: 0.5}, {role: carrier, count: 1}"
    file = tmp_path / "yard.yaml"
    file.write_text(
        "schema: 1\nworld: warehouse\nwarehouse:\n  layout: {grid: 'S..P.PPE'}\n"
        f"  fleet: [{fleet}]\n  drive: {{kind: differential}}\n"
    )
    result = CliRunner().invoke(app, ["show", str(file)])
    assert result.exit_code == 0, result.exception
    assert "role forklift: 2 robots, footprint: rectangle, 0.8 m long, 0.5 m wide" in result.output
    assert "role carrier: 1 robots, footprint: disc of radius 0.35 m" in result.output


def test_show_draws_one_way_cells_and_speed_zones(tmp_path: Path) -> None:
    (tmp_path / "ring.map").write_text("type octile\nheight 1\nwidth 4\nmap\nSP.E\nexits\naaa8\n")
    file = tmp_path / "ring.yaml"
    zone = "{first: [0, 2], last: [0, 3], limit_mps: 0.25}"
    file.write_text(
        "schema: 1\nworld: warehouse\nwarehouse:\n"
        f"  layout: {{file: ring.map, speed_zones: [{zone}]}}\n  fleet: [{{role: carrier, count: 1}}]\n"
    )
    result = CliRunner().invoke(app, ["show", str(file)])
    assert result.exit_code == 0, result.exception
    assert "one way" not in result.output
    assert "speed limits: a 0.25 m/s\n  ..aa\n" in result.output
    # Validation would refuse a lane that nobody can come back on: a ring.
    (tmp_path / "ring.map").write_text("type octile\nheight 2\nwidth 4\nmap\nSP.E\n....\nexits\n2224\n1888\n")
    result = CliRunner().invoke(app, ["show", str(file)])
    assert result.exit_code == 0, result.exception
    assert "borders of cells: 8 one way (> < v ^), 2 closed (| -)\n  S>P>.>E\n  ^ - - v\n  .<.<.<.\n" in result.output


def test_validate_checks_what_steers_a_curriculum(tmp_path: Path) -> None:
    entries = (
        ("deliverys", "advance_above: 1", "got 'deliverys'. Did you mean 'deliveries'?"),
        ("collisions", "advance_above: 1", "expected advance_below, because less is better of 'collisions'"),
        ("collisions", "advance_below: 1", None),
    )
    for metric, threshold, message in entries:
        file = tmp_path / "yard.yaml"
        file.write_text(
            "schema: 1\nworld: warehouse\nwarehouse:\n  layout: {grid: 'S..P.PPE'}\n"
            "  fleet: [{role: carrier, count: 1}]\n  observation: [{block: self}]\n"
            "train:\n  agent_id: false\n  curriculum:\n"
            f"    - {{scenario: self, metric: {metric}, {threshold}}}\n    - {{scenario: other.yaml}}\n"
        )
        (tmp_path / "other.yaml").write_text(file.read_text().split("train:")[0])
        result = CliRunner().invoke(app, ["validate", str(file)])
        if message is None:
            assert result.exit_code == 0, result.exception
        else:
            assert isinstance(result.exception, ScenarioError)
            assert f"{file}: train.curriculum[0]." in str(result.exception)
            assert message in str(result.exception)


def test_validate_warns_about_dead_ends_in_which_robots_block_each_other(tmp_path: Path) -> None:
    file = tmp_path / "spur.yaml"
    head = "schema: 1\nworld: warehouse\nwarehouse:\n  fleet: [{role: carrier, count: 2}]\n"
    file.write_text(head + '  layout: {grid: "P...##\\nE....S"}\n')
    result = CliRunner().invoke(app, ["validate", str(file)])
    assert result.exit_code == 0, result.exception
    assert result.stdout == f"{file}: ok\n"
    assert result.stderr.startswith(f"warning: {file}: warehouse.layout: robots cannot pass each other in dead ends")
    assert "row 1, column 5 lies 2 cells inside, from row 1, column 3." in result.stderr
    file.write_text(head + '  layout: {grid: "P....\\nE...S"}\n')
    assert CliRunner().invoke(app, ["validate", str(file)]).stderr == ""
