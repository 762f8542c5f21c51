"""One-way borders and speed zones: found, drawn as text, and drawn in pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import ALL_EXITS, EXIT_LEFT, EXIT_RIGHT, EXIT_UP, Layout
from bridge.warehouse.render import render_rgb
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.traffic_plan import draw_borders, draw_speed_limits, special_borders, speed_zones

FLOOR, ZONE, INK = (247, 247, 244), (217, 233, 243), (45, 50, 58)


def one_way_layout() -> Layout:
    """To the right above, to the left below, down in the middle column, nobody between column 2 and 3 of row 1."""
    layout = Layout.from_drawing(["P..S", ".#..", "P..E"], 1.0, "test")
    exits = np.full((3, 4), ALL_EXITS, np.uint8)
    exits[0] &= ~np.uint8(EXIT_LEFT)
    exits[2] &= ~np.uint8(EXIT_RIGHT)
    exits[1:, 2] &= ~np.uint8(EXIT_UP)
    exits[1, 2] &= ~np.uint8(EXIT_RIGHT)
    exits[1, 3] &= ~np.uint8(EXIT_LEFT)
    exits[1, 1] = 0
    limits = np.full((3, 4), np.nan, np.float32)
    limits[0, :2], limits[1:, 3], limits[1, 1] = 0.5, 0.5, 0.1
    limits[2, 2] = 1.25
    return replace(layout, exits=exits.ravel(), speed_limit_mps=limits.ravel())


def test_special_borders_are_those_that_moves_cannot_cross_both_ways() -> None:
    rng = np.random.default_rng(4)
    layout = Layout.from_drawing(["".join(row) for row in np.where(rng.random((8, 9)) < 0.2, "#", ".")], 1.0, "test")
    layout = replace(layout, exits=np.where(layout.blocked, 0, rng.integers(0, 16, (8, 9))).ravel().astype(np.uint8))
    moves, borders = make_moves(layout), special_borders(layout)
    free, width = ~layout.blocked.ravel(), layout.width
    one_way, closed = set(map(tuple, borders.one_way.tolist())), set(map(tuple, borders.closed.tolist()))
    for cell in np.flatnonzero(free).tolist():
        for other in [cell + 1] * (cell % width < width - 1) + [cell + width] * (cell + width < len(free)):
            if free[other]:
                there, back = other in moves[cell], cell in moves[other]
                assert ((cell, other) in one_way) == (there and not back)
                assert ((other, cell) in one_way) == (back and not there)
                assert ((cell, other) in closed) == (not there and not back)
    assert len(one_way) > 10
    assert len(closed) > 10


def test_draw_borders_shows_every_border_between_its_cells() -> None:
    layout = one_way_layout()
    assert draw_borders(layout, special_borders(layout)) == [
        "P>.>.>S",
        "    v  ",
        ". # .|.",
        "    v  ",
        "P<.<.<E",
    ]
    open_both_ways = replace(layout, exits=None)
    assert [len(pairs) for pairs in special_borders(open_both_ways)] == [0, 0]


def test_speed_zones_are_parted_by_limit_and_place_and_leave_racks_out() -> None:
    layout = one_way_layout()
    zones = speed_zones(layout)
    assert [(zone.limit_mps, zone.cells.tolist()) for zone in zones] == [(0.5, [0, 1]), (0.5, [7, 11]), (1.25, [10])]
    assert draw_speed_limits(layout, zones) == (["aa..", ".#.a", "..ba"], {"a": [0.5], "b": [1.25]})
    assert speed_zones(replace(layout, speed_limit_mps=None)) == []


def test_draw_speed_limits_shares_a_sign_beyond_the_alphabet() -> None:
    layout = replace(
        Layout.from_drawing(["." * 30], 1.0, "test"), speed_limit_mps=np.arange(1, 31, dtype=np.float32) / 10
    )
    rows, letters = draw_speed_limits(layout, speed_zones(layout))
    assert rows == ["abcdefghijklmnopqrstuvwxyz++++"]
    assert letters["+"] == pytest.approx([2.7, 2.8, 2.9, 3.0])


def test_render_rgb_draws_one_way_borders_closed_ones_and_zones(make_warehouse: Any) -> None:
    config = make_warehouse("P..S\n.#..\nP..E", count=1)[0]
    simulator = WarehouseSimulator(config, one_way_layout(), 1)
    simulator.reset(1)
    simulator.alive[:] = False
    picture = render_rgb(simulator, cell_px=40)
    simulator.close()

    def colours(row: float, column: float) -> set[tuple[int, ...]]:
        y, x = round(row * 40), round(column * 40)
        return {tuple(colour) for colour in picture[y - 3 : y + 4, x - 3 : x + 4].reshape(-1, 3).tolist()}

    assert INK in colours(0.5, 1.0)
    assert INK in colours(1.0, 2.5)
    assert INK in colours(1.2, 3.0)
    assert INK not in colours(1.0, 3.5)
    assert INK not in colours(1.0, 0.5)
    assert ZONE in colours(0.7, 1.7)
    assert ZONE not in colours(0.7, 2.3)
    assert FLOOR in colours(0.7, 2.3)
    # The triangle points right: it is thin at its right end.
    ink = (picture[10:30, 30:50].astype(int).sum(axis=2) < 250).sum(axis=0)
    assert ink[:10].max() > 2 * ink[14:].max()
