"""Road graphs: which part of them is of use, how large their cells are, and what the cells look like."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.errors import LayoutError
from bridge.maps.cell_lines import cell_chain
from bridge.maps.cell_size import choose_cell_size, grid_offset, narrowest_separation
from bridge.maps.rasterise import RoadCells, rasterise
from bridge.maps.road_graph import Lane, RoadGraph, restrict_to_round_trips
from bridge.warehouse.layout import EXIT_DOWN, EXIT_LEFT, EXIT_RIGHT, EXIT_UP, MAX_CELLS

STEPS = {EXIT_UP: (-1, 0), EXIT_RIGHT: (0, 1), EXIT_DOWN: (1, 0), EXIT_LEFT: (0, -1)}


def _graph(
    positions: Sequence[tuple[float, float]], lanes: Sequence[tuple[int, int, bool]], **lane: float
) -> RoadGraph:
    places = np.array(positions, np.float64)
    made = [Lane(start, end, places[[start, end]], both, **lane) for start, end, both in lanes]  # type: ignore[arg-type]
    return RoadGraph([f"N{index}" for index in range(len(places))], places, made)


def _reached(roads: RoadCells, source: int, forwards: bool = True) -> set[int]:
    height, width = roads.free.shape
    free, exits = roads.free.ravel(), roads.exits
    seen, stack = {source}, [source]
    while stack:
        cell = stack.pop()
        for bit, (down, right) in STEPS.items():
            row, column = cell // width + down, cell % width + right
            if not (0 <= row < height and 0 <= column < width) or not free[other := row * width + column]:
                continue
            back = {EXIT_UP: EXIT_DOWN, EXIT_DOWN: EXIT_UP, EXIT_LEFT: EXIT_RIGHT, EXIT_RIGHT: EXIT_LEFT}[bit]
            is_open = exits is None or (exits[cell] & bit if forwards else exits[other] & back)
            if is_open and other not in seen:
                seen.add(other)
                stack.append(other)
    return seen


def test_restrict_to_round_trips_leaves_out_what_cannot_be_left_again() -> None:
    # A loop 0-1-2, a one-way spur to 3, and a way in from 4.
    graph = _graph(
        [(0, 0), (5, 0), (5, 5), (9, 9), (-9, 0)],
        [(0, 1, False), (1, 2, False), (2, 0, False), (2, 3, False), (4, 0, False)],
    )
    part, notes = restrict_to_round_trips(graph, "a.json")
    assert part.names == ["N0", "N1", "N2"]
    assert [(lane.start, lane.end) for lane in part.lanes] == [(0, 1), (1, 2), (2, 0)]
    assert notes == (
        "2 of 5 nodes on lanes were left out, because robots cannot get from the rest to them and back: N3, N4.",
    )


def test_restrict_to_round_trips_keeps_purposes_at_their_nodes() -> None:
    graph = _graph([(0, 0), (5, 0), (9, 0), (20, 20)], [(1, 0, False), (1, 2, True)])
    graph = RoadGraph(graph.names, graph.positions, graph.lanes, pickups=[2], deliveries=[0], chargers=[3, 1])
    part, notes = restrict_to_round_trips(graph, "a.json")
    assert (part.names, part.pickups, part.deliveries, part.chargers) == (["N1", "N2"], (1,), (), (0,))
    assert "1 charger lies on no lane and was left out: N3." in notes


def test_restrict_to_round_trips_refuses_roads_of_no_return() -> None:
    message = r"a\.json: expected at least two places .* got 2 nodes and 1 lanes, 1 of them one-way\. .*--two-way"
    with pytest.raises(LayoutError, match=message):
        restrict_to_round_trips(_graph([(0, 0), (5, 0)], [(0, 1, False)]), "a.json")


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 7).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=14))
    )
)
def test_restrict_to_round_trips_finds_the_largest_strongly_connected_part(
    case: tuple[int, list[tuple[int, int]]],
) -> None:
    count, edges = case
    ahead = {node: {node} for node in range(count)}
    for _ in range(count):
        for start, end in edges:
            for seen in ahead.values():
                if start in seen:
                    seen.add(end)
    parts = [
        {other for other in range(count) if other in ahead[node] and node in ahead[other]} for node in range(count)
    ]
    largest = max(map(len, parts))
    graph = _graph([(float(node), 0.0) for node in range(count)], [(*edge, False) for edge in edges])
    if largest < 2:
        with pytest.raises(LayoutError, match="expected at least two places"):
            restrict_to_round_trips(graph, "a")
    else:
        part, _ = restrict_to_round_trips(graph, "a")
        assert {int(name[1:]) for name in part.names} in [found for found in parts if len(found) == largest]


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.floats(-20, 20)] * 2), min_size=1, max_size=5))
def test_cell_chain_is_a_path_of_neighbours_that_ends_where_the_line_ends(points: list[tuple[float, float]]) -> None:
    line = np.array(points)
    rows, columns = cell_chain(line)
    assert (np.abs(np.diff(rows)) + np.abs(np.diff(columns)) == 1).all()
    assert (rows[0], columns[0]) == tuple(np.floor(line[0, ::-1]))
    assert (rows[-1], columns[-1]) == tuple(np.floor(line[-1, ::-1]))


def test_cell_chain_follows_a_line_through_the_cells_that_it_touches() -> None:
    rows, columns = cell_chain(np.array([[0.5, 0.5], [2.5, 1.5]]))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_narrowest_separation_measures_nodes_and_lanes_beside_them() -> None:
    ladder = _graph([(0, 0), (10, 0), (3, 1.5), (7, 1.6)], [(0, 1, True), (2, 3, True)])
    assert narrowest_separation(ladder, 0.5, 9.0) == pytest.approx(1.5)
    # Diagonal lanes: the larger of the two differences counts.
    diagonal = _graph([(0, 0), (10, 10), (0, 4), (6, 10)], [(0, 1, True), (2, 3, True)])
    assert narrowest_separation(diagonal, 0.5, 9.0) == pytest.approx(2.0)
    # What is nearer than a vehicle's width does not count.
    assert narrowest_separation(ladder, 1.55, 9.0) == pytest.approx(1.6)


def test_narrowest_separation_measures_large_roads_piece_by_piece() -> None:
    rng = np.random.default_rng(1)
    places = rng.uniform(0, 120, (400, 2))
    graph = _graph(
        [(float(x), float(y)) for x, y in places], [(node, (node * 7 + 1) % 400, True) for node in range(400)]
    )
    lanes = [lane for lane in graph.lanes if np.hypot(*(lane.points[1] - lane.points[0])) > 0]
    along = np.linspace(0, 1, 1001)[:, None]
    best = np.inf
    for node, place in enumerate(places):
        gaps = np.abs(places - place).max(axis=1)
        best = min(best, gaps[gaps >= 0.3].min())
        for lane in lanes:
            if node not in (lane.start, lane.end):
                gap = np.abs(lane.points[0] + along * (lane.points[1] - lane.points[0]) - place).max(axis=1).min()
                best = min(best, gap) if gap >= 0.301 else best
        if node == 15:
            break
    found = narrowest_separation(graph, 0.3, 2.0)
    assert found is not None
    assert 0.3 <= found <= best + 1e-9


def test_choose_cell_size_takes_the_lane_and_shrinks_to_the_narrowest_separation_but_not_below_the_vehicle() -> None:
    def size(gap: float) -> float:
        graph = _graph([(0, 0), (10, 0), (0, gap), (10, gap)], [(0, 1, True), (2, 3, True)])
        return choose_cell_size(graph, 0.7, 1.0)[0]

    assert size(3.0) == 1.0
    assert size(0.853) == 0.85
    assert size(0.7) == 0.7
    assert size(0.4) == 1.0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=2, max_size=8, unique=True), st.integers(0, 99)
)
def test_rasterise_gives_nodes_that_two_vehicles_can_use_cells_of_their_own(
    places: list[tuple[int, int]], shift: int
) -> None:
    positions = [(x / 4 + shift / 7, y / 4) for x, y in places]
    graph = _graph(positions, [(node, node + 1, True) for node in range(len(places) - 1)])
    size, _ = choose_cell_size(graph, 0.7, 1.0)
    assert 0.7 <= size <= 1.0
    cells = rasterise(graph, size, "a").node_cells
    for one, other in itertools.combinations(range(len(places)), 2):
        if max(abs(positions[one][0] - positions[other][0]), abs(positions[one][1] - positions[other][1])) >= 0.75:
            assert cells[one] != cells[other]


def test_grid_offset_keeps_lines_between_cells_away_from_columns_that_jitter() -> None:
    columns = np.array([1.98, 2.02, 3.0, 4.01, 0.99])
    line = grid_offset(columns, 1.0)
    assert len(np.unique(np.floor((columns - line) / 1.0))) == 4
    assert line % 1.0 == pytest.approx(0.5)


def test_rasterise_draws_a_two_way_lane_without_restriction() -> None:
    roads = rasterise(_graph([(0, 0), (3, 0)], [(0, 1, True)]), 1.0, "a")
    assert roads.free.astype(int).tolist() == [[0] * 6, [0, 1, 1, 1, 1, 0], [0] * 6]
    assert (roads.exits, roads.speed_limit_mps) == (None, None)
    assert roads.node_cells.tolist() == [7, 10]


def test_rasterise_turns_y_up_into_row_0_at_the_top() -> None:
    roads = rasterise(_graph([(0, 0), (0, 2)], [(0, 1, True)]), 1.0, "a")
    assert (roads.node_cells // roads.free.shape[1]).tolist() == [3, 1]


def test_rasterise_lets_robots_round_a_one_way_loop_in_one_direction() -> None:
    graph = _graph([(0, 0), (2, 0), (2, 2), (0, 2)], [(0, 1, False), (1, 2, False), (2, 3, False), (3, 0, False)])
    roads = rasterise(graph, 1.0, "a")
    assert roads.exits is not None
    # Counter-clockwise, seen from above: right along the bottom, up, left along the top, down.
    assert roads.exits.reshape(5, 5)[1:4, 1:4].tolist() == [[4, 8, 8], [4, 0, 1], [2, 2, 1]]


def test_rasterise_keeps_lanes_apart_that_touch() -> None:
    graph = _graph([(0, 0), (4, 0), (0, 1), (4, 1)], [(0, 1, False), (3, 2, False), (1, 3, True), (2, 0, True)])
    roads = rasterise(graph, 1.0, "a")
    assert roads.exits is not None
    assert roads.exits.reshape(4, 7)[1:3, 1:6].tolist() == [[4, 8, 8, 8, 12], [3, 2, 2, 2, 1]]


def test_rasterise_takes_the_slower_of_two_lanes_in_a_cell() -> None:
    places = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 0.0]])
    lanes = [
        Lane(0, 1, places[[0, 1]], True, 1.5),
        Lane(2, 1, places[[2, 1]], True, 0.5),
        Lane(0, 2, places[[0, 2]], True, None),
    ]
    roads = rasterise(RoadGraph("abc", places, lanes), 1.0, "a")
    assert roads.speed_limit_mps is not None
    assert roads.speed_limit_mps.reshape(3, 7)[1].tolist() == pytest.approx(
        [np.nan, 1.5, 1.5, 0.5, 0.5, 0.5, np.nan], nan_ok=True
    )


def test_rasterise_opens_a_corridor_as_wide_as_it_is_on_each_side() -> None:
    graph = _graph([(0, 0), (5, 0)], [(0, 1, True)], left_m=2.0, right_m=1.0)
    roads = rasterise(graph, 1.0, "a")
    # Driving to the right, left is up: two rows above the line, one below.
    rows = roads.free[:, 3]
    line = int(roads.node_cells[0]) // roads.free.shape[1]
    assert np.flatnonzero(rows).tolist() == [line - 2, line - 1, line, line + 1]


def test_rasterise_forbids_steps_against_a_wide_one_way_lane_but_not_sideways() -> None:
    graph = _graph(
        [(0, 0), (6, 0), (6, 8), (0, 8)],
        [(0, 1, False), (1, 2, True), (2, 3, True), (3, 0, True)],
        left_m=1.0,
        right_m=1.0,
    )
    roads = rasterise(graph, 1.0, "a")
    assert roads.exits is not None
    width = roads.free.shape[1]
    beside = int(roads.node_cells[0]) + 3 - width
    assert roads.exits[beside] == EXIT_RIGHT | EXIT_DOWN
    assert roads.exits[beside + width] == EXIT_RIGHT | EXIT_UP | EXIT_DOWN


def test_rasterise_blocks_wide_lanes_at_walls_but_never_their_middle() -> None:
    graph = _graph([(0, 0), (6, 0)], [(0, 1, True)], left_m=2.0, right_m=2.0)
    walls = np.array([[-20.0, 1.2, 30.0, 1.2], [3.0, -9.0, 3.0, 9.0], [50.0, 50.0, 60.0, 60.0]])
    roads = rasterise(RoadGraph(graph.names, graph.positions, graph.lanes, walls), 1.0, "a")
    row = int(roads.node_cells[0]) // roads.free.shape[1]
    first = int(roads.node_cells[0]) % roads.free.shape[1]
    assert roads.free[row, first : first + 7].all()
    # The row that the long wall touches, and what lies cut off behind it, are blocked.
    assert not roads.free[:row, first : first + 7].any()
    # The short wall splits the part below the middle.
    assert roads.free[row + 1, first : first + 7].tolist() == [True, True, True, False, True, True, True]


ROADS = st.integers(3, 7).flatmap(
    lambda count: st.tuples(
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=count, max_size=count, unique=True),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.booleans()), max_size=12),
        st.sampled_from([0.0, 0.6, 1.7]),
        st.lists(st.tuples(*[st.floats(-5, 25)] * 4), max_size=4),
    )
)


@settings(max_examples=80, deadline=None)
@given(ROADS)
def test_rasterise_makes_floors_on_which_every_cell_is_reached_and_left(case: tuple) -> None:
    places, edges, aside, walls = case
    ring = [(node, (node + 1) % len(places), False) for node in range(len(places))]
    graph = _graph(
        [(x / 2, y / 2) for x, y in places],
        [*ring, *(edge for edge in edges if edge[0] != edge[1])],
        left_m=aside,
        right_m=aside,
    )
    graph = RoadGraph(graph.names, graph.positions, graph.lanes, np.array(walls, np.float64).reshape(-1, 4))
    roads = rasterise(graph, 0.8, "a")
    free = set(np.flatnonzero(roads.free.ravel()).tolist())
    assert set(roads.node_cells.tolist()) <= free
    for forwards in (True, False):
        assert _reached(roads, int(roads.node_cells[0]), forwards) == free
    if roads.exits is not None:
        assert (roads.exits[~roads.free.ravel()] == 0).all()


def test_rasterise_refuses_floors_that_are_too_large() -> None:
    with pytest.raises(LayoutError, match=rf"a\.json: expected at most {MAX_CELLS} cells, got .*--cell-size-m"):
        rasterise(_graph([(0, 0), (1e8, 1e8)], [(0, 1, True)]), 1.0, "a.json")
    with pytest.raises(LayoutError, match=r"a\.json: expected lanes of at most 20000000 cells together"):
        rasterise(_graph([(0, 0), (3e4, 0)], [(0, 1, True)] * 300), 0.1, "a.json")
