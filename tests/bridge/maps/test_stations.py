"""Stations derived for maps that have none, and the shape questions behind them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from bridge.errors import LayoutError
from bridge.maps import StationRules, derive_stations, load_layout_file
from bridge.maps.floor import (
    components,
    is_one_lane,
    keeps_neighbours_connected,
    largest_component,
    without_dead_ends,
)
from bridge.warehouse.layout import Layout

RACKS = [
    "##################",
    "#................#",
    "#................#",
    "#..####.####.##..#",
    "#..####.####.##..#",
    "#................#",
    "#..####.####.##..#",
    "#..####.####.##..#",
    "#................#",
    "#................#",
    "##################",
]


def _layout(rows: list[str]) -> Layout:
    return Layout.from_drawing(rows, 1.0, "test")


def _free(rows: list[str]) -> np.ndarray:
    return ~_layout(rows).blocked


def test_largest_component_is_the_one_with_the_most_cells() -> None:
    free = _free(["..#..", "..#..", "###..", "#.###"])
    assert components(free).max() == 2
    assert np.argwhere(largest_component(free)).tolist() == [[0, 3], [0, 4], [1, 3], [1, 4], [2, 3], [2, 4]]


def test_without_dead_ends_cuts_a_branch_back_to_the_loop() -> None:
    free = _free(["...###", ".#....", "...###"])
    assert np.argwhere(free & ~without_dead_ends(free)).tolist() == [[1, 3], [1, 4], [1, 5]]


def test_is_one_lane_finds_aisles_in_which_two_robots_cannot_pass() -> None:
    free = _free(["#.#...", "#.#...", "......"])
    # The last row is two cells wide on the right only.
    assert np.argwhere(is_one_lane(free)).tolist() == [[0, 1], [1, 1], [2, 0], [2, 2]]


@given(arrays(np.bool_, (5, 6)))
def test_keeps_neighbours_connected_never_lets_a_standing_robot_split_the_floor(free: np.ndarray) -> None:
    for cell in np.flatnonzero(free).tolist():
        if keeps_neighbours_connected(free, cell):
            rest = free.copy()
            rest.ravel()[cell] = False
            assert components(rest).max() == components(free).max()


@pytest.mark.parametrize("side", ["left", "right", "top", "bottom", "left-right", "top-bottom", "all"])
def test_derive_stations_leaves_a_connected_floor_with_robots_on_all_deliveries_and_parking_places(side: str) -> None:
    rules = StationRules(num_deliveries=4, deliveries_side=side)  # type: ignore[arg-type]
    layout, notes = derive_stations(_layout(RACKS), 8, rules)
    assert (len(layout.pickups), len(layout.deliveries), len(layout.parking)) == (16, 4, 8)
    assert len(np.unique(np.concatenate([layout.pickups, layout.deliveries, layout.parking]))) == 28
    rest = ~layout.blocked
    rest.ravel()[np.concatenate([layout.deliveries, layout.parking])] = False
    assert components(rest).max() == 0
    assert [note.split(":")[0] for note in notes] == ["deliveries", "pick-ups", "parking places"]


def test_derive_stations_puts_pickups_at_rack_faces_and_deliveries_at_the_border_asked_for() -> None:
    layout, _ = derive_stations(_layout(RACKS), 4, StationRules(num_deliveries=3, deliveries_side="right"))
    rows, columns = np.divmod(layout.pickups, layout.width)
    racks = layout.blocked[3:8, 3:15]
    assert racks.any()
    assert ((rows >= 3) & (rows <= 7) & (columns >= 3) & (columns <= 14)).all()
    for row, column in zip(rows, columns, strict=True):
        assert layout.blocked[[row - 1, row + 1, row, row], [column, column, column - 1, column + 1]].any()
    assert (layout.deliveries % layout.width == 16).all()


def test_derive_stations_is_the_same_when_it_is_repeated() -> None:
    first, again = (derive_stations(_layout(RACKS), 8).layout.to_drawing() for _ in range(2))
    assert first == again


def test_derive_stations_uses_only_the_largest_connected_part_of_the_floor() -> None:
    layout, _ = derive_stations(
        _layout(["...##......", "...##..##..", "...##..##..", "####......."]), 2, StationRules(num_deliveries=2)
    )
    stations = np.concatenate([layout.pickups, layout.deliveries, layout.parking])
    assert len(stations) > 0
    assert (stations % layout.width >= 4).all()


def test_derive_stations_keeps_what_the_map_marks() -> None:
    rows = ["S....E", ".####.", "P.##.P", "......"]
    layout, notes = derive_stations(_layout(rows), 2)
    assert layout.to_drawing() == rows
    assert "pick-ups: 1 of the 1 that the map marks." in notes


def test_derive_stations_derives_only_what_the_map_lacks() -> None:
    rows = [*RACKS[:5], "#...............E#", *RACKS[6:]]
    layout, notes = derive_stations(_layout(rows), 2)
    assert layout.deliveries.tolist() == [5 * 18 + 16]
    assert (len(layout.pickups), len(layout.parking)) == (4, 2)
    assert notes[0] == "deliveries: 1 of the 1 that the map marks."


def test_derive_stations_replaces_marks_when_it_is_told_to() -> None:
    swamp = _layout([row.replace("..", "SS") for row in RACKS])
    layout, _ = derive_stations(swamp, 2, StationRules(num_pickups=2, keep_marks=False))
    assert (len(layout.pickups), len(layout.deliveries), len(layout.parking)) == (2, 2, 2)


def test_derive_stations_thins_marks_out_and_drops_those_that_nobody_can_reach() -> None:
    layout, notes = derive_stations(_layout(["S#....", "##.S..", ".S..SE", ".....P"]), 1, StationRules(num_pickups=2))
    assert layout.pickups.tolist() == [9, 16]
    assert "pick-ups: 2 of the 4 that the map marks (1 lie outside the largest connected part of the floor)." in notes


def test_derive_stations_takes_the_middle_of_a_floor_without_racks_for_pickups() -> None:
    layout, notes = derive_stations(_layout(["........"] * 8), 2)
    assert all(2 <= value < 6 for cell in layout.pickups.tolist() for value in divmod(cell, 8))
    assert any("floor without racks" in note for note in notes)


@pytest.mark.parametrize(
    ("num_robots", "rules", "message"),
    [
        (
            200,
            StationRules(),
            r"test\.map: expected room for 200 robots and two stations .*got 104 free cells\. Use fewer",
        ),
        (60, StationRules(), r"test\.map: expected room for 60 parking places outside aisles of one lane, got \d+\."),
        (0, StationRules(), r"test\.map: expected at least 1 robot, got 0\."),
        (4, StationRules(num_pickups=99), r"expected room for 99 pick-ups, got \d+ cells beside racks .*Ask for fewer"),
        (
            4,
            StationRules(num_deliveries=40),
            r"expected room for 40 deliveries along the border \(left-right\), got \d",
        ),
    ],
)
def test_derive_stations_says_what_has_no_room(num_robots: int, rules: StationRules, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        derive_stations(_layout(RACKS), num_robots, rules, "test.map")


def test_station_rules_name_the_rule_that_is_wrong() -> None:
    with pytest.raises(LayoutError, match=r"station rules: num_pickups: expected a number >= 1, got 0\."):
        StationRules(num_pickups=0)
    with pytest.raises(LayoutError, match=r"deliveries_side: expected one of left, right, .*got 'north'\."):
        StationRules(deliveries_side="north")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["warehouse-10-20-10-2-1.map", "random-32-32-10.map"])
def test_derive_stations_serves_64_robots_on_real_maps(public_maps: Path, name: str) -> None:
    layout, _ = derive_stations(load_layout_file(public_maps / "movingai" / name, 1.0), 64)
    assert (len(layout.pickups), len(layout.deliveries), len(layout.parking)) == (128, 16, 64)
    floor = largest_component(~layout.blocked)
    rest = floor.copy()
    rest.ravel()[np.concatenate([layout.deliveries, layout.parking])] = False
    assert components(rest).max() == 0
    assert floor.ravel()[np.concatenate([layout.pickups, layout.deliveries, layout.parking])].all()
    assert not is_one_lane(floor).ravel()[layout.parking].any()
