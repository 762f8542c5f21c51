"""``agv-bridge scenarios show`` of halls whose floor plan differs between episodes, in this process."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from bridge.errors import ScenarioError
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
