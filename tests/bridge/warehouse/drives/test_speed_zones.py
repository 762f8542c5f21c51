"""Zones of lower speed on the grid, and the observation block that tells of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.errors import ScenarioError
from bridge.planners.bound import throughput_bound
from bridge.planners.pibt import PibtPolicy
from bridge.planners.token_passing import TokenPassingPolicy
from bridge.warehouse.config import LayoutConfig
from bridge.warehouse.drives.speed_zones import steps_per_cell
from bridge.warehouse.loading import load_layout
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.work.tasks import look_up_routes

TRACK = "P........\nS.......E\n........."
ZONE = {"first": (0, 3), "last": (2, 5), "limit_mps": 0.4}


def _zoned(make_warehouse: Any, count: int = 1, zones: tuple[dict[str, Any], ...] = (ZONE,), **section: Any) -> Any:
    config, _ = make_warehouse(TRACK, count, **section)
    layout = LayoutConfig.model_validate({"grid": TRACK, "speed_zones": zones})
    config = config.model_copy(update={"layout": layout})
    return config, load_layout(config, Path())


def test_steps_per_cell_are_rounded_up_to_whole_steps(make_warehouse: Any) -> None:
    _, layout = make_warehouse(TRACK)
    limits = np.full(27, np.nan, np.float32)
    limits[:5] = [0.1, 0.3, 0.5, 1.0, 7.0]
    steps = steps_per_cell(replace(layout, speed_limit_mps=limits), 1.0)
    assert steps[:6].tolist() == [10, 4, 2, 1, 1, 1]
    assert (steps_per_cell(layout, 1.0) == 1).all()


def test_layout_takes_the_lower_of_the_limits_of_zones_that_overlap(make_warehouse: Any) -> None:
    slower = {"first": (1, 5), "last": (1, 7), "limit_mps": 0.25}
    _, layout = _zoned(make_warehouse, zones=(ZONE, slower))
    limits = layout.speed_limit_mps.reshape(3, 9)
    assert np.isnan(limits[:, :3]).all()
    assert limits[1, 3:8] == pytest.approx([0.4, 0.4, 0.25, 0.25, 0.25])
    assert limits[0, 5] == pytest.approx(0.4)
    with pytest.raises(ScenarioError, match=r"speed_zones\[0\].last: expected a cell of the 3 x 9 floor, got \[3, 0\]"):
        _zoned(make_warehouse, zones=({"first": (0, 0), "last": (3, 0), "limit_mps": 1.0},))
    with pytest.raises(ValidationError, match="expected 'first' above and to the left of 'last'"):
        _zoned(make_warehouse, zones=({"first": (1, 0), "last": (0, 5), "limit_mps": 1.0},))


@pytest.mark.parametrize("kind", ["grid", "grid_heading"])
def test_robot_takes_several_steps_per_cell_in_a_zone_and_one_elsewhere(make_warehouse: Any, kind: str) -> None:
    config, layout = _zoned(make_warehouse, drive={"kind": kind}, episode_steps=60)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(3)
    simulator._pose.cos[:], simulator._pose.sin[:] = 1.0, 0.0
    columns, held = [], []
    for _ in range(14):
        simulator.arrays.roles["carrier"].discrete_actions[:] = 2 if kind == "grid" else 1
        simulator.step()
        columns.append(int(simulator.cells[0, 0]) % 9)
        held.append(not simulator.movable[0, 0])
    # 0.4 m/s at a cell of 1 m per step: three steps for each of the three cells.
    assert columns == [1, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 7, 8]
    assert held == [step in (2, 3, 5, 6, 8, 9) for step in range(14)]


def test_robots_are_free_again_in_the_next_episode(make_warehouse: Any) -> None:
    config, layout = _zoned(make_warehouse, episode_steps=4)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(3)
    for _ in range(4):
        simulator.arrays.roles["carrier"].discrete_actions[:] = 2
        simulator.step()
    assert simulator.movable.all()


def test_pibt_flows_through_a_zone_without_refused_moves_and_below_the_bound(make_warehouse: Any) -> None:
    config, layout = _zoned(make_warehouse, 6, episode_steps=300)
    figures = {}
    for name, floor in (("slow", layout), ("fast", replace(layout, speed_limit_mps=None))):
        simulator = WarehouseSimulator(config, floor, 4)
        simulator.reset(1)
        policy = PibtPolicy(simulator)
        while not simulator.arrays.episode_over.any():
            policy.act(simulator.arrays)
            simulator.step()
        metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics.mean(axis=0), strict=True))
        assert metrics["blocked_moves"] == metrics["collisions"] == 0
        assert 0 < metrics["deliveries_per_h"] <= throughput_bound(config, floor).deliveries_per_h
        figures[name] = metrics["deliveries_per_h"]
    assert figures["slow"] < 0.8 * figures["fast"]


@pytest.mark.parametrize("planner", [PibtPolicy, TokenPassingPolicy])
def test_planners_go_round_a_zone_that_takes_longer(make_warehouse: Any, planner: Any) -> None:
    around = {"first": (1, 2), "last": (1, 6), "limit_mps": 0.4}
    config, layout = _zoned(make_warehouse, zones=(around,), episode_steps=500)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(1)
    policy = planner(simulator)
    served = []
    while not simulator.arrays.episode_over[0]:
        policy.act(simulator.arrays)
        simulator.step()
        assert not 11 <= simulator.cells[0, 0] <= 15
        served += [int(simulator.steps[0])] if simulator.outcome.served[0, 0] else []
    # Eight cells, and two for the way around; straight through it would be 18 steps.
    assert (np.diff(served[:-1]) == 10).all()


def test_dispatch_gives_the_task_that_is_nearest_in_time(make_warehouse: Any) -> None:
    drawing = "S.P...S\n......E"
    config, _ = make_warehouse(drawing, 1, tasks={"open": 60})
    limit = {"first": (0, 1), "last": (1, 1), "limit_mps": 0.2}
    layout = LayoutConfig.model_validate({"grid": drawing, "speed_zones": (limit,)})
    slow = config.model_copy(update={"layout": layout})
    for scenario, nearest in ((config, 0), (slow, 6)):
        simulator = WarehouseSimulator(scenario, load_layout(scenario, Path()), 1)
        simulator.reset(3)
        assert simulator.goal_cells[0, 0] == nearest


@pytest.mark.parametrize("drive", [{"kind": "grid"}, {"kind": "grid_heading"}, {"kind": "differential"}])
def test_path_block_shows_the_way_at_full_speed_for_as_long(make_warehouse: Any, drive: dict[str, Any]) -> None:
    blocks = ({"block": "path", "range_m": 100.0},)
    wall = {"first": (0, 3), "last": (2, 5), "limit_mps": 0.25}
    config, layout = _zoned(make_warehouse, zones=(wall,), drive=drive, observation=blocks)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(3)
    fleet, pose = simulator._fleet, simulator._pose
    fleet.cell[0, 0], fleet.goal[0, 0] = 9, np.searchsorted(simulator._floor.goal_cell, 17)
    pose.x[0, 0], pose.y[0, 0], pose.cos[0, 0], pose.sin[0, 0] = 0.5, 1.5, 1.0, 0.0
    look_up_routes(simulator._floor, fleet, pose, np.ones((1, 1), np.bool_))
    simulator._show_some(simulator._all)
    way = simulator.arrays.roles["carrier"].observations[0, 0, -1] * 100.0
    # Three cells at a quarter of a cell per step, or at a sixth of the largest speed; five others.
    assert way == pytest.approx(5 + 3 * (6 if drive["kind"] == "differential" else 4))


@pytest.mark.parametrize("drive", [{"kind": "grid"}, {"kind": "differential"}])
def test_speed_limit_block_shows_the_limit_where_the_robot_is(make_warehouse: Any, drive: dict[str, Any]) -> None:
    blocks = ({"block": "self"}, {"block": "speed_limit"})
    config, layout = _zoned(make_warehouse, 2, drive=drive, observation=blocks)
    fastest = 1.0 if drive["kind"] == "grid" else 1.5
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(3)
    place = simulator.spec.roles[0].observation.slice_of("speed_limit")
    simulator._fleet.cell[0] = [2, 4]
    simulator._show_some(simulator._all)
    shown = simulator.arrays.roles["carrier"].observations[0, :, place]
    assert shown[:, 0] == pytest.approx([1.0, 0.4 / fastest])
    plain = WarehouseSimulator(config, replace(layout, speed_limit_mps=None), 1)
    plain.reset(3)
    assert (plain.arrays.roles["carrier"].observations[0, :, place] == 1.0).all()
