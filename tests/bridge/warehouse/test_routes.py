"""Route tables against a plain Dijkstra, with slow cells, one-way cells and turns."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bridge.warehouse.config import DifferentialDriveConfig, DriveConfig, GridConfig, HeadingGridConfig
from bridge.warehouse.drives.speed_zones import route_costs
from bridge.warehouse.floor import goal_cells, least_units, make_floor, make_moves, nearest_unclaimed
from bridge.warehouse.layout import Layout
from bridge.warehouse.routes import CELLS, RouteCosts, longest_way, route_tables, sources_of
from bridge.warehouse.simulator import WarehouseSimulator

State = tuple[int, int]
DRIVES: dict[str, DriveConfig] = {
    "grid": GridConfig(),
    "grid_heading": HeadingGridConfig(),
    "differential": DifferentialDriveConfig(),
}


def _layout(seed: int, limits: bool = True, one_way: bool = False) -> Layout:
    rng = np.random.default_rng(seed)
    cells = rng.choice(list("....#"), (6, 7))
    cells.flat[rng.choice(42, 4, replace=False)] = list("SEPC")
    layout = Layout.from_drawing(["".join(row) for row in cells], 1.0, "test")
    if limits:
        slow = np.where(rng.random(42) < 0.4, rng.uniform(0.15, 1.2, 42), np.nan)
        layout = replace(layout, speed_limit_mps=slow.astype(np.float32))
    if one_way:
        layout = replace(layout, exits=rng.integers(0, 16, 42, dtype=np.uint8))
    return layout


def _ways_out(moves: NDArray[np.int32], costs: RouteCosts, state: State, goal: int) -> Iterator[tuple[State, int, int]]:
    """Every move from a state, with the turns before it: the next state, the move, and what both cost."""
    cell, side = state
    for move in range(1, 5):
        other = int(moves[cell, move])
        if other == cell:
            continue
        weights = costs.cells if len(costs.cells) else np.full(len(moves), costs.units)
        if costs.halves:
            cost = int(weights[cell] + weights[other] + 1) // 2
        else:
            cost = costs.units if other == goal else int(weights[other])
        quarters = min((move - 1 - side) % 4, (side - move + 1) % 4) if costs.turn else 0
        yield (other, move - 1 if costs.turn else 0), move, cost + quarters * costs.turn


def _dijkstra(moves: NDArray[np.int32], costs: RouteCosts, start: State, goal: int) -> float:
    heap, done = [(0, start)], set()
    while heap:
        distance, state = heapq.heappop(heap)
        if state[0] == goal:
            return distance
        if state not in done:
            done.add(state)
            for other, _, cost in _ways_out(moves, costs, state, goal):
                heapq.heappush(heap, (distance + cost, other))
    return np.inf


@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("kind", DRIVES)
def test_route_tables_agree_with_dijkstra(kind: str, limits: bool, one_way: bool) -> None:
    layout = _layout(seed=len(kind) + 2 * one_way, limits=limits, one_way=one_way)
    costs = route_costs(DRIVES[kind], layout)
    moves, free = make_moves(layout), np.flatnonzero(~layout.blocked.ravel())
    goals = np.sort(np.concatenate([layout.pickups, layout.deliveries, layout.parking, layout.chargers]))
    table, facing = route_tables(moves, goals, costs)
    assert table.dtype == facing.dtype == np.uint16
    sided = facing if costs.turn else table[:, :, None]
    assert sided.shape == (4, 42, 4 if costs.turn else 1)
    for row, goal in enumerate(goals.tolist()):
        for state in ((cell, side) for cell in free.tolist() for side in range(sided.shape[2])):
            entry, shortest = int(sided[row, *state]), _dijkstra(moves, costs, state, goal)
            if shortest == np.inf:
                assert entry == 0xFFFF
                continue
            assert entry >> 4 == shortest
            onwards = {
                move
                for other, move, cost in _ways_out(moves, costs, state, goal)
                if state[0] != goal and cost + _dijkstra(moves, costs, other, goal) == shortest
            }
            assert {move for move in range(1, 5) if entry >> (move - 1) & 1} == onwards
    if costs.turn:
        np.testing.assert_array_equal(table >> 4, (facing >> 4).min(axis=2))


@pytest.mark.parametrize("kind", sorted(DRIVES))
@pytest.mark.parametrize("one_way", [False, True])
def test_longest_way_is_not_exceeded(kind: str, one_way: bool) -> None:
    for seed in range(40):
        layout = _layout(seed, one_way=one_way)
        moves, goals = make_moves(layout), goal_cells(layout)
        costs = route_costs(DRIVES[kind], layout)
        if costs.turn and not len(costs.cells):
            costs = costs._replace(cells=np.full(len(moves), costs.units, np.int32))
        table, facing = route_tables(moves, goals, costs)
        for entries in (table, facing):
            ways = entries[entries != np.iinfo(entries.dtype).max] >> 4
            assert ways.max(initial=0) <= longest_way(moves, sources_of(moves), goals, costs)


def test_route_tables_of_cells_alone_are_those_of_costs_that_are_all_one() -> None:
    layout = _layout(5, limits=False)
    moves, goals = make_moves(layout), layout.pickups
    plain, none = route_tables(moves, goals)
    alike, _ = route_tables(moves, goals, CELLS._replace(cells=np.ones(42, np.int32)))
    np.testing.assert_array_equal(plain, alike)
    assert none.size == 0


def test_route_costs_are_steps_on_the_grid_and_quarters_of_the_time_of_a_cell_for_drives() -> None:
    layout = Layout.from_drawing(["S....E"], 1.0, "test")
    limits = np.array([np.nan, 0.1, 0.4, 1.0, 1.2, 9.0], np.float32)
    layout = replace(layout, speed_limit_mps=limits)
    steps = route_costs(GridConfig(), layout)
    assert steps.cells.tolist() == [1, 10, 3, 1, 1, 1]
    assert (steps.units, steps.turn, steps.halves) == (1, 0, False)
    turning = route_costs(HeadingGridConfig(), layout)
    assert (turning.cells.tolist(), turning.units, turning.turn) == (steps.cells.tolist(), 1, 1)
    driven = route_costs(DifferentialDriveConfig(), layout)
    # 1.5 m/s at most.
    assert driven.cells.tolist() == [4, 60, 15, 6, 5, 4]
    assert (driven.units, driven.halves) == (4, True)


@pytest.mark.parametrize("limit", [None, 1.5])
@pytest.mark.parametrize("kind", ["grid", "differential"])
def test_route_costs_are_cells_where_nothing_is_slow(kind: str, limit: float | None) -> None:
    layout = _layout(3, limits=False)
    if limit is not None:
        layout = replace(layout, speed_limit_mps=np.full(42, limit, np.float32))
    costs = route_costs(DRIVES[kind], layout)
    assert (costs.units, len(costs.cells), costs.turn) == (1, 0, 0)
    floor = make_floor(layout, costs)
    assert floor.cells_per_unit == 1.0
    assert floor.facing.size == floor.drive_costs.size == 0


def test_routes_take_wider_entries_where_slow_cells_make_ways_too_long() -> None:
    layout = Layout.from_drawing(["S....E"], 1.0, "test")
    limits: Any = np.full(6, 1e-9, np.float32)
    floor = make_floor(*_with_costs(replace(layout, speed_limit_mps=limits)))
    assert floor.routes.dtype == np.uint32
    # Slower than 4,096 steps per cell counts as that.
    assert floor.routes[0, 5] >> 4 == 4 * 4096 + 1
    short = make_floor(*_with_costs(replace(layout, speed_limit_mps=np.full(6, 0.01, np.float32))))
    assert short.routes.dtype == np.uint16


def _with_costs(layout: Layout) -> tuple[Layout, RouteCosts]:
    return layout, route_costs(GridConfig(), layout)


@pytest.mark.parametrize("kind", sorted(DRIVES))
def test_least_units_are_never_more_than_the_way_and_the_way_itself_where_nothing_is_in_between(kind: str) -> None:
    straight = 0
    for seed in range(12):
        layout = _layout(seed, one_way=seed % 3 == 0)
        floor = make_floor(layout, route_costs(DRIVES[kind], layout))
        for goal in range(len(floor.goal_cell)):
            for cell in range(layout.blocked.size):
                way = int(floor.routes[goal, cell]) >> 4
                least = least_units(floor, goal, cell // layout.width, cell % layout.width)
                assert least <= way
                straight += least == way > 0
    assert straight > 10


def test_nearest_unclaimed_finds_the_shortest_way_of_those_that_are_free() -> None:
    rng = np.random.default_rng(5)
    found = 0
    for seed in range(30):
        floor = make_floor(_layout(seed, limits=False))
        goals = rng.permutation(len(floor.goal_cell)).astype(np.int32)
        claimed, cell = rng.random(len(goals)) < 0.4, int(rng.integers(0, 42))
        other_cell = int(floor.goal_cell[rng.integers(0, len(goals))]) if seed % 2 else -1
        free = [goal for goal in goals if not claimed[goal] and floor.goal_cell[goal] != other_cell]
        expected = min(free, key=lambda goal: int(floor.routes[goal, cell]) >> 4, default=-1)
        assert nearest_unclaimed(floor, goals, claimed, cell, other_cell) == expected
        found += expected >= 0
    assert found > 20


@pytest.mark.parametrize("kind", ["grid", "grid_heading"])
def test_a_robot_that_follows_its_route_needs_as_many_steps_as_the_route_says(make_warehouse: Any, kind: str) -> None:
    drawing = "S......\n.##.##.\n.......\nP..P..E"
    config, layout = make_warehouse(drawing, 1, drive={"kind": kind}, episode_steps=10_000)
    limits = np.full(28, np.nan, np.float32)
    limits[[1, 2, 14, 15, 16, 24]] = 0.4
    simulator = WarehouseSimulator(config, replace(layout, speed_limit_mps=limits), 1)
    simulator.reset(4)
    legs = 0
    while legs < 20:
        # At a station, and not held any more.
        says, goal = int(simulator._fleet.route[0, 0]) >> 4, int(simulator.goal_index[0, 0])
        start = int(simulator.steps[0])
        while simulator.goal_index[0, 0] == goal:
            _follow(simulator, kind)
        if simulator.steps[0] - start > 1:
            assert simulator.steps[0] - start == says
            legs += 1
        while not simulator.movable[0, 0]:
            simulator.arrays.roles["carrier"].discrete_actions[:] = 0
            simulator.step()


def _follow(simulator: WarehouseSimulator, kind: str) -> None:
    """A step to the next way-point, or a turn towards it."""
    fleet, pose = simulator._fleet, simulator._pose
    dx, dy = fleet.way_x[0, 0] - pose.x[0, 0], fleet.way_y[0, 0] - pose.y[0, 0]
    side = (1 - round(float(np.arctan2(dy, dx)) / (np.pi / 2))) % 4
    action = side + 1 if abs(dx) + abs(dy) > 0.5 else 0
    if kind == "grid_heading" and action:
        faced = (1 - round(float(pose.heading[0, 0]) / (np.pi / 2))) % 4
        action = {0: 1, 1: 3, 2: 3, 3: 2}[(side - faced) % 4]
    simulator.arrays.roles["carrier"].discrete_actions[:] = action
    simulator.step()
