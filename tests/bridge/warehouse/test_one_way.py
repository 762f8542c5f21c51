"""One-way cells, speed limits and closed aisles: moves, routes, driving, planning, validation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.errors import ScenarioError
from bridge.maps import write_layout_file
from bridge.planners.pibt import PibtPolicy
from bridge.warehouse.config import DifferentialDriveConfig, LayoutConfig, OneWayConfig
from bridge.warehouse.floor import make_floor, make_moves
from bridge.warehouse.layout import (
    ALL_EXITS,
    EXIT_DOWN,
    EXIT_LEFT,
    EXIT_RIGHT,
    EXIT_UP,
    Layout,
    distances_from,
    distances_to,
)
from bridge.warehouse.loading import load_layout
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.validation import check_warehouse

LOOP = "P.S.P\n.###.\nP.E.P"


def _one_way_loop(layout: Layout) -> Layout:
    """Clockwise traffic only."""
    exits = np.zeros((layout.height, layout.width), np.uint8)
    exits[0, :], exits[:, -1], exits[-1, :], exits[:, 0] = EXIT_RIGHT, EXIT_DOWN, EXIT_LEFT, EXIT_UP
    exits[0, 0], exits[0, -1], exits[-1, -1] = EXIT_RIGHT, EXIT_DOWN, EXIT_LEFT
    exits[-1, 0] = EXIT_UP
    exits[layout.blocked] = 0
    return replace(layout, exits=exits.ravel())


def test_routes_through_random_exits_agree_with_plain_relaxation() -> None:
    rng = np.random.default_rng(0)
    cells = np.where(rng.random((9, 11)) < 0.2, "#", ".")
    cells[0, 0], cells[8, 10], cells[4, 5] = "S", "E", "P"
    layout = Layout.from_drawing(["".join(row) for row in cells], 1.0, "test")
    exits = rng.integers(0, 16, layout.blocked.size).astype(np.uint8)
    exits[rng.random(exits.size) < 0.6] = ALL_EXITS
    layout = replace(layout, exits=np.where(layout.blocked.ravel(), 0, exits).astype(np.uint8))
    moves, floor = make_moves(layout), make_floor(layout)
    for cell in range(layout.blocked.size):
        row, column = divmod(cell, layout.width)
        for move, (down, right) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1)), start=1):
            inside = 0 <= row + down < layout.height and 0 <= column + right < layout.width
            allowed = inside and not layout.blocked[row, column] and not layout.blocked[row + down, column + right]
            allowed = allowed and bool(exits[cell] >> (move - 1) & 1)
            assert moves[cell, move] == (cell + down * layout.width + right if allowed else cell)
    for index, goal in enumerate(floor.goal_cell):
        expected = np.full(layout.blocked.size, 1e9)
        expected[goal] = 0
        for _ in range(layout.blocked.size):
            expected = np.minimum(expected, 1 + expected[moves].min(axis=1))
        expected = np.where(expected > 1e8, -1, expected).astype(int)
        np.testing.assert_array_equal(distances_to(layout, int(goal)), expected)
        found = floor.routes[index] != np.iinfo(floor.routes.dtype).max
        np.testing.assert_array_equal(found, expected >= 0)
        np.testing.assert_array_equal(floor.routes[index][found] >> 4, expected[found])
        for cell in np.flatnonzero(found):
            for move in range(1, 5):
                nearer = expected[moves[cell, move]] == expected[cell] - 1 and expected[moves[cell, move]] >= 0
                assert bool(floor.routes[index, cell] >> (move - 1) & 1) == nearer
        source = distances_from(layout, int(goal))
        for cell in np.flatnonzero(source > 0):
            assert distances_to(layout, int(cell))[goal] == source[cell]


def test_pibt_drives_a_one_way_loop_in_its_direction(make_warehouse: Any) -> None:
    config, layout = make_warehouse(LOOP, 3, mask_blocked_moves=True, episode_steps=150)
    layout = _one_way_loop(layout)
    check_warehouse(config, layout, "test")
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    policy = PibtPolicy(simulator)
    allowed = {(cell, int(other)) for cell, row in enumerate(make_moves(layout)) for other in row}
    deliveries = 0
    for _ in range(149):
        before = simulator.cells[0].copy()
        policy.act(simulator.arrays)
        simulator.step()
        assert not simulator.outcome.refused.any()
        assert {(int(a), int(b)) for a, b in zip(before, simulator.cells[0], strict=True)} <= allowed
        deliveries += int((simulator.outcome.served == 2).sum())
    assert deliveries > 10


def test_mask_forbids_moves_against_the_traffic(make_warehouse: Any) -> None:
    config, layout = make_warehouse(LOOP, 3, mask_blocked_moves=True)
    simulator = WarehouseSimulator(config, _one_way_loop(layout), 1)
    simulator.reset(seed=0)
    mask = simulator.arrays.roles["carrier"].action_mask[0]
    assert mask.sum(axis=1).tolist() == [2, 2, 2]


def test_check_warehouse_finds_stations_that_trap_robots(make_warehouse: Any) -> None:
    config, layout = make_warehouse("S.P.E", 1)
    trap = np.full(5, EXIT_LEFT | EXIT_RIGHT, np.uint8)
    trap[4] = 0
    with pytest.raises(ScenarioError, match="a way from every delivery to row 0, column 0, got none from row 0"):
        check_warehouse(config, replace(layout, exits=trap), "warehouse")
    trap[4], trap[3] = EXIT_LEFT, EXIT_LEFT
    with pytest.raises(ScenarioError, match="every delivery to be reachable from row 0, column 0, got one cut"):
        check_warehouse(config, replace(layout, exits=trap), "warehouse")


def _drive(make_warehouse: Any, change: Any, heading: float, steps: int) -> WarehouseSimulator:
    config, layout = make_warehouse("S..P..E", 1, cell_size_m=2.0, drive=DifferentialDriveConfig())
    simulator = WarehouseSimulator(config, change(layout), 1)
    simulator.reset(seed=0)
    pose = simulator._pose
    pose.heading[:], pose.cos[:], pose.sin[:] = heading, np.cos(heading), np.sin(heading)
    for _ in range(steps):
        simulator.arrays.roles["carrier"].continuous_actions[:] = [1.0, 0.0]
        simulator.step()
    return simulator


def test_differential_drive_stops_at_the_border_of_a_one_way_cell(make_warehouse: Any) -> None:
    exits = np.full(7, EXIT_LEFT | EXIT_RIGHT, np.uint8)
    exits[4] = EXIT_LEFT

    def change(layout: Layout) -> Layout:
        return replace(layout, exits=exits)

    # From cell 3 (centre at 7 m) to the right: into cell 4, and not out of it at 10 m.
    simulator = _drive(make_warehouse, change, 0.0, 40)
    assert 9.7 < simulator.positions_m[0, 0, 0] < 10.0
    assert simulator.outcome.refused[0, 0]
    assert simulator.outcome.rack_contacts[0, 0] == 0
    # To the left nothing is in the way.
    assert _drive(make_warehouse, change, np.pi, 40).positions_m[0, 0, 0] < 3.0


def test_differential_drive_keeps_to_the_speed_limit_of_its_cell(make_warehouse: Any) -> None:
    limits = np.full(7, np.nan, np.float32)
    limits[3:5] = 0.5
    simulator = _drive(make_warehouse, lambda layout: replace(layout, speed_limit_mps=limits), 0.0, 10)
    assert simulator._pose.speed[0, 0] == pytest.approx(0.5)
    # Beyond the zone it is faster.
    for _ in range(32):
        simulator.arrays.roles["carrier"].continuous_actions[:] = [1.0, 0.0]
        simulator.step()
        cell = simulator.cells[0, 0]
        assert simulator._pose.speed[0, 0] <= (0.5 if cell < 5 else 1.5) + 0.2
    assert simulator._pose.speed[0, 0] > 0.6 or simulator.cells[0, 0] < 5


def test_load_layout_closes_cells(make_warehouse: Any) -> None:
    config, layout = make_warehouse(LOOP, 1)
    grid = config.layout.grid
    closed = config.model_copy(update={"layout": LayoutConfig(grid=grid, closed=((0, 1),))})
    loaded = load_layout(closed, Path())
    assert loaded.blocked[0, 1]
    assert loaded.blocked.sum() == layout.blocked.sum() + 1
    outside = config.model_copy(update={"layout": LayoutConfig(grid=grid, closed=((3, 1),))})
    with pytest.raises(ScenarioError, match=r"layout.closed\[0\]: expected a cell of the 3 x 5 floor, got \[3, 1\]"):
        load_layout(outside, Path())


# Clockwise round the racks of LOOP; the corners are in two rectangles each.
CLOCKWISE = (
    OneWayConfig(first=(0, 0), last=(0, 4), exits=("right",)),
    OneWayConfig(first=(0, 4), last=(2, 4), exits=("down",)),
    OneWayConfig(first=(2, 0), last=(2, 4), exits=("left",)),
    OneWayConfig(first=(0, 0), last=(2, 0), exits=("up",)),
)


def test_load_layout_directs_the_traffic(make_warehouse: Any) -> None:
    config, layout = make_warehouse(LOOP, 1)
    section = LayoutConfig(grid=config.layout.grid, one_way=CLOCKWISE)
    loaded = load_layout(config.model_copy(update={"layout": section}), Path())
    assert np.array_equal(make_moves(loaded), make_moves(_one_way_loop(layout)))
    assert not loaded.exits[loaded.blocked.ravel()].any()
    assert load_layout(config, Path()).exits is None


def test_load_layout_keeps_one_way_cells_of_the_plan(make_warehouse: Any, tmp_path: Path) -> None:
    config, layout = make_warehouse(LOOP, 1)
    write_layout_file(_one_way_loop(layout), tmp_path / "loop.map")
    lane = OneWayConfig(first=(0, 1), last=(0, 2), exits=("right", "left", "down"))
    section = LayoutConfig(file="loop.map", one_way=(lane,))
    loaded = load_layout(config.model_copy(update={"layout": section}), tmp_path)
    assert np.array_equal(make_moves(loaded), make_moves(_one_way_loop(layout)))


def test_check_warehouse_finds_what_one_way_cells_of_the_scenario_cut_off(make_warehouse: Any) -> None:
    config, _ = make_warehouse(LOOP, 1)
    against = OneWayConfig(first=(2, 0), last=(2, 4), exits=("right",))
    section = LayoutConfig(grid=config.layout.grid, one_way=(*CLOCKWISE[:2], against, CLOCKWISE[3]))
    loaded = load_layout(config.model_copy(update={"layout": section}), Path())
    message = "every delivery to be reachable from row 0, column 2, got one cut off at row 2, column 2"
    with pytest.raises(ScenarioError, match=message):
        check_warehouse(config, loaded, "warehouse")


def test_one_way_cells_that_are_none_are_refused(make_warehouse: Any) -> None:
    config, _ = make_warehouse(LOOP, 1)
    lane = OneWayConfig(first=(0, 4), last=(3, 4), exits=("down",))
    outside = config.model_copy(update={"layout": LayoutConfig(grid=config.layout.grid, one_way=(lane,))})
    with pytest.raises(
        ScenarioError, match=r"layout.one_way\[0\].last: expected a cell of the 3 x 5 floor, got \[3, 4\]"
    ):
        load_layout(outside, Path())
    with pytest.raises(ValidationError, match="'first' above and to the left of 'last'"):
        OneWayConfig(first=(1, 1), last=(0, 1), exits=("up",))
    with pytest.raises(ValidationError, match="exits"):
        OneWayConfig(first=(0, 0), last=(0, 0), exits=())
