"""The narrowest line between pick-ups and deliveries for robots that drive freely."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bridge.planners.lane_cut import border_rates, crossings_per_s, lane_rate, open_rate
from bridge.warehouse.config import DifferentialDriveConfig
from bridge.warehouse.layout import Layout

DRIVE = DifferentialDriveConfig()
RADIUS_M = 0.35
LANE = ["S..........E"]


def _layout(rows: list[str]) -> Layout:
    return Layout.from_drawing(rows, 1.0, "test")


def test_lane_rate_is_the_largest_speed_over_the_smallest_gap_between_robots_in_a_long_lane() -> None:
    # In a lane of 1 m two discs of 0.7 m stand side by side with 0.3 m between their middles across.
    gap = math.sqrt(0.7**2 - 0.3**2)
    rate = lane_rate(300.0, 0.15, RADIUS_M, DRIVE)
    assert 1.5 / gap <= rate < 1.02 * 1.5 / gap
    # In a short one at least one robot per window.
    assert lane_rate(0.4, 0.15, RADIUS_M, DRIVE) == pytest.approx(1 / 0.2)


def test_lane_rate_is_infinite_where_robots_can_pass_each_other_or_the_lane_is_too_short() -> None:
    assert lane_rate(5.0, 0.40, RADIUS_M, DRIVE) == math.inf
    assert lane_rate(0.0, 0.15, RADIUS_M, DRIVE) == math.inf


def test_open_rate_is_at_least_what_a_front_of_robots_reaches() -> None:
    # Robots side by side in rows behind each other, all going the same way at the largest speed.
    for length in (1.0, 3.0, 10.0):
        front = (1 + math.floor(length / (2 * RADIUS_M))) * DRIVE.max_speed_mps / (2 * RADIUS_M)
        assert open_rate(length, RADIUS_M, DRIVE) > front


def test_border_rates_are_those_of_lanes_between_racks_and_of_open_floor_elsewhere() -> None:
    layout = _layout(["......", ".####.", "......", ".####.", "......"])
    rates = border_rates(layout, DRIVE, RADIUS_M, np.zeros(layout.blocked.size, np.bool_))
    anywhere = open_rate(1.0, RADIUS_M, DRIVE)
    middle, outside = 2 * 6 + 2, 0
    assert rates[middle, 2] == rates[middle + 1, 4] < anywhere
    assert rates[outside, 2] == anywhere
    assert rates[middle, 1] == rates[middle, 3] == 0.0
    # Where robots are served they may turn round.
    busy = np.zeros(layout.blocked.size, np.bool_)
    busy[middle + 1] = True
    assert border_rates(layout, DRIVE, RADIUS_M, busy)[middle, 2] == anywhere


def test_crossings_per_s_add_up_over_lanes_side_by_side() -> None:
    one = crossings_per_s(_layout(LANE), DRIVE, RADIUS_M)
    two = crossings_per_s(_layout([*LANE, "############", *LANE]), DRIVE, RADIUS_M)
    assert two == pytest.approx(2 * one)
    assert one < open_rate(1.0, RADIUS_M, DRIVE)


def test_crossings_per_s_is_infinite_where_a_robot_is_at_both_stations_at_once() -> None:
    assert crossings_per_s(_layout(["SE"]), DRIVE, RADIUS_M) == math.inf


@pytest.mark.parametrize("seed", range(10))
def test_crossings_per_s_equals_the_smallest_cut_found_by_trying_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.choice(list("...#"), (4, 4))
    cells[0, 0], cells[3, 3] = "S", "E"
    layout = _layout(["".join(row) for row in cells])
    drive = DifferentialDriveConfig(station_radius_m=0.3)
    busy = np.zeros(16, np.bool_)
    busy[[0, 15]] = True
    rates = border_rates(layout, drive, RADIUS_M, busy)
    free = np.flatnonzero(~layout.blocked.ravel())
    others = [int(cell) for cell in free if cell not in (0, 15)]
    neighbours = {1: -4, 2: 1, 3: 4, 4: -1}
    smallest = math.inf
    for chosen in range(2 ** len(others)):
        inside = {0} | {cell for place, cell in enumerate(others) if chosen >> place & 1}
        crossing = sum(
            rates[cell, move]
            for cell in inside
            for move, step in neighbours.items()
            if rates[cell, move] > 0 and cell + step not in inside
        )
        smallest = min(smallest, crossing)
    assert crossings_per_s(layout, drive, RADIUS_M) == pytest.approx(smallest)
