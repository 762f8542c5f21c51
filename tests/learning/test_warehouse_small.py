"""The shipped warehouse is learnt: a shortened training reaches what the full one promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.scenario import load_scenario
from trainers import compare_run, train, train_config


@pytest.mark.slow
def test_warehouse_small_reaches_most_of_pibt_after_a_short_training(tmp_path: Path) -> None:
    scenario = load_scenario("warehouse_small")
    config = train_config(scenario, {"updates": 120, "num_workers": 0, "torch_threads": 1})
    train(scenario, config, tmp_path / "run")
    rows = {row.policy: row.figures for row in compare_run(tmp_path / "run", num_episodes=8).rows}
    assert rows["trained"]["deliveries"].mean >= 0.7 * rows["pibt"]["deliveries"].mean
    assert rows["trained"]["collisions"].mean == 0
    assert rows["random"]["deliveries"].mean < 0.1 * rows["pibt"]["deliveries"].mean
