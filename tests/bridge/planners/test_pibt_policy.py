"""PIBT in the built-in simulator: no move of its plan is refused, and loads are delivered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bridge.adapters.warehouse import WarehouseWorld
from bridge.errors import SpecMismatchError
from bridge.maps import import_map
from bridge.planners.bound import throughput_bound
from bridge.planners.pibt import PibtPolicy
from bridge.registry import open_world
from bridge.scenario import load_scenario, shipped_scenarios
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.simulator import WarehouseSimulator


def _world(name_or_path: str | Path) -> WarehouseWorld:
    world = open_world(load_scenario(name_or_path))
    assert isinstance(world, WarehouseWorld)
    return world


def _run_episode(simulator: WarehouseSimulator, policy: PibtPolicy) -> dict[str, np.ndarray]:
    """Step until the episodes end; fails on robots that share a cell."""
    while not simulator.arrays.episode_over.any():
        policy.act(simulator.arrays)
        simulator.step()
        for cells, alive in zip(simulator.cells, simulator.alive, strict=True):
            assert len(np.unique(cells[alive])) == alive.sum()
    return dict(zip(simulator.spec.metric_names, simulator.arrays.metrics.T, strict=True))


def _shipped_grids() -> list[str]:
    loaded = {name: load_scenario(path) for name, path in shipped_scenarios().items()}
    return [
        name
        for name, scenario in loaded.items()
        if isinstance(scenario.config, WarehouseConfig)
        and scenario.config.drive.kind == "grid"
        # PIBT takes for granted that robots do what it says, at once.
        and scenario.config.randomisation is None
    ]


@pytest.mark.parametrize("name", _shipped_grids())
def test_pibt_policy_flows_without_contact_or_refused_move_on_shipped_scenarios(name: str) -> None:
    world = _world(name)
    simulator = world.roster(4)
    simulator.reset(7)
    metrics = _run_episode(simulator, PibtPolicy(simulator))
    for figure in ("collisions", "blocked_moves", "despawns"):
        assert (metrics[figure] == 0).all(), figure
    bound = throughput_bound(world.config, world.layout).deliveries_per_h
    # Where robots may come back anywhere, the bound has no empty legs.
    at_least = 0.4 if world.config.contact.rule == "despawn" else 0.5
    assert at_least * bound <= metrics["deliveries_per_h"].mean() <= bound


@pytest.mark.parametrize(
    ("name", "num_robots", "at_least"),
    [
        ("warehouse-10-20-10-2-1.map", 64, 250),
        ("warehouse-10-20-10-2-1.map", 160, 550),
        ("random-32-32-10.map", 96, 900),
    ],
)
def test_pibt_policy_keeps_a_large_fleet_flowing_on_real_maps(
    public_maps: Path, tmp_path: Path, name: str, num_robots: int, at_least: int
) -> None:
    import_map(public_maps / "movingai" / name, robots=num_robots, out_folder=tmp_path)
    world = _world(tmp_path)
    simulator = world.roster(1)
    simulator.reset(3)
    metrics = _run_episode(simulator, PibtPolicy(simulator))
    assert metrics["collisions"][0] == metrics["blocked_moves"][0] == 0
    assert metrics["deliveries"][0] >= at_least
    assert metrics["deliveries_per_h"][0] <= throughput_bound(world.config, world.layout).deliveries_per_h


def _actions(seed: int, first_env: int, num_envs: int) -> np.ndarray:
    """Actions of the first steps: (T, E, A)."""
    simulator = _world("warehouse_small").roster(num_envs, first_env=first_env)
    simulator.reset(11)
    policy = PibtPolicy(simulator, seed, first_env=first_env)
    actions = []
    for _ in range(60):
        policy.act(simulator.arrays)
        actions.append(simulator.arrays.roles["carrier"].discrete_actions[..., 0].copy())
        simulator.step()
    return np.stack(actions)


def test_pibt_policy_plans_the_same_whatever_environments_are_stepped_together() -> None:
    together = _actions(seed=1, first_env=0, num_envs=4)
    assert np.array_equal(together[:, 2:], _actions(seed=1, first_env=2, num_envs=2))
    assert not np.array_equal(together, _actions(seed=2, first_env=0, num_envs=4))


def test_pibt_policy_refuses_robots_that_drive() -> None:
    simulator = _world("warehouse_drive").roster(1)
    with pytest.raises(SpecMismatchError, match=r"PibtPolicy: expected drive 'grid', got 'differential'\. PIBT plans"):
        PibtPolicy(simulator)
