"""The warehouse as a world: from a scenario section to rosters and PettingZoo environments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bridge.adapters.warehouse import WarehouseConfig, WarehouseWorld
from bridge.errors import ScenarioError
from bridge.warehouse.config import ContactConfig, LayoutConfig, RoleConfig

FLEET = (RoleConfig(role="carrier", count=2),)
GRID = "S..P\n.##.\nP..E"
MAP = "type octile\nheight 3\nwidth 4\nmap\nS..P\n.@@.\nP..E\n"


def _config(**layout: str) -> WarehouseConfig:
    return WarehouseConfig(layout=LayoutConfig(**layout), fleet=FLEET, episode_steps=5)


def test_warehouse_world_opens_an_inline_drawing(tmp_path: Path) -> None:
    world = WarehouseWorld(_config(grid=GRID), tmp_path)
    assert world.layout.to_drawing() == GRID.splitlines()
    roster = world.roster(3, first_env=4)
    roster.reset(seed=0)
    roster.step()
    assert roster.arrays.num_envs == 3
    assert roster.spec == world.spec


def test_warehouse_world_opens_a_map_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "floor.map").write_text(MAP)
    world = WarehouseWorld(_config(file="floor.map"), tmp_path)
    assert world.layout.to_drawing() == GRID.splitlines()


def test_warehouse_world_refuses_files_outside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "floor.map").write_text(MAP)
    (tmp_path / "scenario").mkdir()
    with pytest.raises(ScenarioError, match=r"warehouse.layout.file: expected a path inside the scenario's folder"):
        WarehouseWorld(_config(file="../floor.map"), tmp_path / "scenario")
    with pytest.raises(ScenarioError, match=r"warehouse.layout.file: expected a file.*got 'flor.map'"):
        WarehouseWorld(_config(file="flor.map"), tmp_path)


def test_warehouse_world_reports_bad_drawings_and_bad_warehouses(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"warehouse.layout.grid: row 1, column 2: expected one of .*, got 'x'"):
        WarehouseWorld(_config(grid="S.E\n..x"), tmp_path)
    with pytest.raises(ScenarioError, match=r"warehouse\.layout: expected at least one delivery, got none"):
        WarehouseWorld(_config(grid="S..\n..."), tmp_path)


def test_parallel_env_of_a_warehouse_keeps_robots_that_left_away_until_the_reset(tmp_path: Path) -> None:
    config = WarehouseConfig(
        layout=LayoutConfig(grid=GRID),
        fleet=FLEET,
        contact=ContactConfig(rule="despawn", respawn_after_s=1.0),
        episode_steps=50,
    )
    env = WarehouseWorld(config, tmp_path).parallel_env()
    env.reset(seed=0)
    seen = [len(env.agents)]
    rng = np.random.default_rng(0)
    while env.agents:
        env.step({agent: rng.integers(0, 5) for agent in env.agents})
        seen.append(len(env.agents))
    assert seen == sorted(seen, reverse=True)
    env.reset()
    assert len(env.agents) == 2
    env.close()
