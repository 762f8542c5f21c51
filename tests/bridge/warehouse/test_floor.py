"""Moves, goals and the route table, against breadth-first search."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from bridge.warehouse.floor import make_floor, make_moves, route_table_bytes
from bridge.warehouse.layout import EXIT_DOWN, EXIT_LEFT, EXIT_RIGHT, EXIT_UP, Layout, distances_from, distances_to
from bridge.warehouse.routes import CELLS, RouteCosts, route_tables
from bridge.warehouse.view import DOWN, LEFT, RIGHT, STAY, UP

DRAWING = ["S..#...E", ".#.#.#..", "....P..C", "##.....P"]


@pytest.fixture
def layout() -> Layout:
    return Layout.from_drawing(DRAWING, 1.5, "test")


def test_make_moves_leads_to_the_neighbours_and_stops_at_racks_and_walls(layout: Layout) -> None:
    moves = make_moves(layout)
    # Row 2, column 2: free on all sides; row 0 is the top.
    assert moves[18, [STAY, UP, RIGHT, DOWN, LEFT]].tolist() == [18, 10, 19, 26, 17]
    # The corner at row 0, column 0: walls above and on the left.
    assert moves[0, [STAY, UP, RIGHT, DOWN, LEFT]].tolist() == [0, 0, 1, 8, 0]
    # Row 0, column 2: a rack on the right.
    assert moves[2, RIGHT] == 2


def test_make_floor_routes_agree_with_breadth_first_search(layout: Layout) -> None:
    floor = make_floor(layout)
    assert floor.routes.dtype == np.uint16
    free = ~layout.blocked.ravel()
    for row, goal in enumerate(floor.goal_cell):
        expected = distances_from(layout, int(goal))
        np.testing.assert_array_equal(floor.routes[row, free] >> 4, expected[free])
        for cell in np.flatnonzero(free):
            for move in range(1, 5):
                nearer = expected[floor.moves[cell, move]] == expected[cell] - 1
                assert bool(floor.routes[row, cell] >> (move - 1) & 1) == nearer


def test_make_floor_marks_cells_without_a_path_by_all_bits(layout: Layout) -> None:
    floor = make_floor(layout)
    assert (floor.routes[:, layout.blocked.ravel()] == 0xFFFF).all()


def test_make_floor_finds_every_goal_of_every_kind(layout: Layout) -> None:
    floor = make_floor(layout)
    assert floor.goal_cell[floor.pickups].tolist() == [0]
    assert floor.goal_cell[floor.deliveries].tolist() == [7]
    assert floor.goal_cell[floor.parking].tolist() == [20, 31]
    assert len(floor.goal_cell) == 5


def test_make_floor_starts_robots_on_parking_places_then_on_free_cells_without_a_station(layout: Layout) -> None:
    floor = make_floor(layout)
    assert floor.num_parking == 2
    assert floor.start_cells[:2].tolist() == [20, 31]
    others = set(floor.start_cells[2:].tolist())
    assert others == set(np.flatnonzero(~layout.blocked.ravel()).tolist()) - {0, 7, 20, 23, 31}


def test_make_floor_bounds_the_longest_remaining_way(layout: Layout) -> None:
    floor = make_floor(layout)
    free = ~layout.blocked.ravel()
    to_pickup = (floor.routes[floor.pickups][:, free] >> 4).max()
    to_delivery = (floor.routes[floor.deliveries][:, layout.pickups] >> 4).max()
    assert floor.bound_cells == to_pickup + to_delivery + 1


def test_make_floor_takes_wider_entries_when_paths_are_very_long() -> None:
    # A serpentine: one long corridor folded into many rows.
    width = 80
    rows = []
    for index in range(120):
        if index % 2 == 0:
            rows.append("." * width)
        else:
            rows.append("#" * (width - 1) + "." if index % 4 == 1 else "." + "#" * (width - 1))
    rows[0] = "S" + rows[0][1:]
    rows[118] = rows[118][:-1] + "E"
    layout = Layout.from_drawing(rows, 1.0, "test")
    floor = make_floor(layout)
    assert floor.routes.dtype == np.uint32
    expected = distances_from(layout, int(layout.pickups[0]))
    assert expected.max() > 4095
    free = ~layout.blocked.ravel()
    np.testing.assert_array_equal(floor.routes[0, free] >> 4, expected[free])


@pytest.mark.parametrize("turn", [0, 1])
def test_route_table_bytes_are_those_of_the_tables_where_ways_are_short(layout: Layout, turn: int) -> None:
    floor = make_floor(layout, CELLS._replace(turn=turn))
    assert route_table_bytes(layout, turns=turn > 0) == floor.routes.nbytes + floor.facing.nbytes


@pytest.mark.parametrize("width", [500, 1022, 2045, 2047, 4093, 4095])
@pytest.mark.parametrize("turn", [0, 1])
def test_route_table_bytes_are_at_least_those_of_the_tables(width: int, turn: int) -> None:
    layout = Layout.from_drawing(["S" + "." * (width - 2) + "E"], 1.0, "test")
    floor = make_floor(layout, CELLS._replace(turn=turn))
    size = floor.routes.nbytes + floor.facing.nbytes
    assert route_table_bytes(layout, turns=turn > 0) in (size, 2 * size)


def _one_way_hall(stations: str) -> Layout:
    """70 x 70 cells in which robots go round, out by even rows and back by odd ones."""
    cells = np.full((70, 70), ".")
    cells[10, [3, 30, 60]] = list(stations)
    exits = np.full((70, 70), EXIT_UP | EXIT_DOWN, np.uint8)
    exits[::2] |= EXIT_RIGHT
    exits[1::2] |= EXIT_LEFT
    return replace(Layout.from_drawing(["".join(row) for row in cells], 1.0, "test"), exits=exits.ravel())


def test_make_floor_takes_short_entries_on_large_floors_with_short_one_way_lanes() -> None:
    layout = _one_way_hall("SPE")
    floor = make_floor(layout)
    assert floor.routes.dtype == np.uint16
    assert route_table_bytes(layout) == floor.routes.nbytes == 3 * 4900 * 2
    for row, goal in enumerate(floor.goal_cell.tolist()):
        np.testing.assert_array_equal(floor.routes[row] >> 4, distances_to(layout, goal))


def test_route_tables_take_long_entries_where_the_first_goal_is_cut_off_from_a_long_way() -> None:
    layout = Layout.from_drawing(["S#" + "." * 5000 + "E"], 1.0, "test")
    table, _ = route_tables(make_moves(layout), np.array([0, 5002], np.int32))
    assert table[1, 2] >> 4 == 5000


def test_make_floor_takes_little_more_memory_than_its_tables() -> None:
    floor = Layout.from_drawing(["S" + "." * 58 + "E", *["P" * 60] * 10, *["." * 60] * 49], 1.0, "test")
    make_floor(floor)
    tracemalloc.start()
    routes = make_floor(floor).routes
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert routes.nbytes > 4_000_000
    assert most < 1.5 * routes.nbytes


def test_make_floor_bounds_ways_with_turns_and_slow_cells(layout: Layout) -> None:
    rng = np.random.default_rng(0)
    costs = RouteCosts(1, rng.integers(1, 9, layout.blocked.size).astype(np.int32), turn=1)
    floor = make_floor(layout, costs)
    free = ~layout.blocked.ravel()
    beyond = (floor.routes[floor.deliveries][:, layout.pickups] >> 4).max()
    for goals, further in ((floor.pickups, beyond), (floor.deliveries, 0), (floor.parking, 0)):
        assert (floor.facing[goals][:, free] >> 4).max() + further <= floor.bound_cells
