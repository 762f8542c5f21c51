"""Every shipped scenario, and a real map, go the way from file to trained policy with the same calls."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from bridge.errors import MissingExtraError
from bridge.maps import import_map
from bridge.scenario import load_scenario, shipped_scenarios
from trainers import compare_run, export_run, train, train_config

SHORT = {
    "updates": 1,
    "num_envs": 2,
    "num_workers": 0,
    "rollout_steps": 8,
    "minibatches": 1,
    "epochs": 1,
    "torch_threads": 1,
}


@pytest.mark.parametrize("name", shipped_scenarios())
def test_shipped_scenario_trains_and_exports(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(name)
    run = tmp_path / "run"
    try:
        result = train(scenario, train_config(scenario, SHORT), run)
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert result.env_steps == 16
    files = export_run(run, tmp_path / "export", num_samples=200)
    assert files
    assert all(file.is_file() for file in files)


def test_imported_map_trains_and_is_compared_with_pibt(public_maps: Path, tmp_path: Path) -> None:
    file = import_map(
        public_maps / "movingai" / "warehouse-10-20-10-2-1.map", robots=64, out_folder=tmp_path / "warehouse"
    )
    file.write_text(re.sub(r"episode_steps: \d+", "episode_steps: 200", file.read_text()))
    scenario = load_scenario(file)
    run = tmp_path / "run"
    train(scenario, train_config(scenario, SHORT), run)
    rows = {row.policy: row.figures for row in compare_run(run, num_episodes=1).rows}
    assert rows["pibt"]["deliveries"].mean > 10
    assert all(figures["collisions"].mean == 0 for figures in rows.values())
    assert math.isfinite(rows["trained"]["deliveries"].mean)
