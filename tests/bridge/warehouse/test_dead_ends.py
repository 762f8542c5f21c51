"""Dead ends of one lane in which robots block each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.episodes import run_episodes
from bridge.planners.pibt import PibtPolicy
from bridge.warehouse.config import DifferentialDriveConfig, RoleConfig, WarehouseConfig
from bridge.warehouse.dead_ends import DeadEnd, dead_end_warnings, dead_ends
from bridge.warehouse.layout import ALL_EXITS, EXIT_DOWN, EXIT_UP, Layout
from bridge.warehouse.simulator import WarehouseSimulator

LOOP = ["P....", ".###.", "E...."]


def _layout(rows: list[str]) -> Layout:
    return Layout.from_drawing(rows, 1.0, "test")


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (["S....", ".###.", "E...P"], []),
        # One cell, two cells, and two cells of which only the first one matters.
        (["....##", ".##.S#", "E...##"], []),
        (["....##", ".##..S", "E...##"], [DeadEnd(9, 11, 2)]),
        (["....##", ".##.S.", "E...##"], []),
        # A branched one counts once, by its deepest place.
        (["...##S", ".#....", "E..##P", "...##."], [DeadEnd(8, 5, 4)]),
        (["S####..", "......E", "P####.."], [DeadEnd(12, 0, 6)]),
        # Without a loop: wherever the middle is.
        (["S..E"], [DeadEnd(-1, 0, 2)]),
        (["S.E"], [DeadEnd(-1, 0, 1)]),
    ],
)
def test_dead_ends_are_ways_in_that_lead_nowhere_else(rows: list[str], found: list[DeadEnd]) -> None:
    assert dead_ends(_layout(rows)) == found


def test_dead_ends_heed_borders_that_are_closed() -> None:
    # Two rows side by side: a loop, until no robot may change between them but at the left end.
    layout = _layout(["P...S", "E...."])
    assert dead_ends(layout) == []
    exits = np.full(layout.blocked.size, ALL_EXITS, np.uint8)
    exits[1:5] &= ALL_EXITS - EXIT_DOWN
    exits[6:10] &= ALL_EXITS - EXIT_UP
    closed = Layout(layout.blocked, layout.pickups, layout.deliveries, layout.parking, layout.chargers, 1.0, exits)
    assert [end.mouth for end in dead_ends(closed)] == [-1]
    # One way round is a loop again.
    exits[9] |= EXIT_UP
    assert dead_ends(closed) == []


def test_dead_ends_are_found_in_every_part_of_a_floor_of_loops_and_lanes() -> None:
    rows = ["......##..", ".##.....S.", "......##..", "#####.####", "E.....####"]
    # The lane between the loops is none; the one to E is.
    assert dead_ends(_layout(rows)) == [DeadEnd(25, 40, 7)]


@pytest.mark.parametrize(
    ("rows", "count", "message"),
    [
        (["....##", ".##..S", "E...##"], 1, None),
        (
            ["....##", ".##..S", "E...##"],
            2,
            "layout: robots cannot pass each other in dead ends of one lane with stations, chargers or parking places "
            "(1): row 1, column 5 lies 2 cells inside, from row 1, column 3. A robot that leaves and one that enters",
        ),
        (["S..E"], 2, "layout: robots cannot pass each other anywhere, because the floor has no loop"),
        (LOOP, 2, None),
    ],
)
def test_dead_end_warnings_name_the_places(
    make_warehouse: Any, rows: list[str], count: int, message: str | None
) -> None:
    warnings = dead_end_warnings(*make_warehouse("\n".join(rows), count))
    assert [line[: len(message or "")] for line in warnings] == ([message] if message else [])


@pytest.mark.parametrize(
    ("rows", "carriers", "warns"), [(LOOP, 3, True), (LOOP, 2, False), (["....", "....", "...."], 3, False)]
)
def test_dead_end_warnings_come_for_pickers_on_a_ring_which_cannot_change_places(
    make_warehouse: Any, rows: list[str], carriers: int, warns: bool
) -> None:
    fleet = (RoleConfig(role="carrier", count=carriers), RoleConfig(role="picker", count=1, job="pick"))
    warnings = dead_end_warnings(*make_warehouse("\n".join(rows), fleet=fleet))
    assert [line[:46] for line in warnings] == ["layout: robots cannot change places, because t"] * warns


def test_dead_end_warnings_leave_out_lanes_in_which_robots_can_pass(make_warehouse: Any) -> None:
    def warnings(radius_m: float) -> tuple[str, ...]:
        fleet = (RoleConfig(role="carrier", count=2, radius_m=radius_m),)
        return dead_end_warnings(*make_warehouse("S..E", fleet=fleet, drive=DifferentialDriveConfig()))

    assert warnings(0.25) == ()
    assert len(warnings(0.35)) == 1


@pytest.mark.parametrize(("inside", "warns"), [(1, False), (2, True)])
def test_dead_end_warnings_come_where_the_papers_pibt_stands_still(
    make_warehouse: Any, monkeypatch: pytest.MonkeyPatch, inside: int, warns: bool
) -> None:
    rows = ["P...." + "#" * inside, "....." + "." * (inside - 1) + "S", "E..P." + "#" * inside]
    config, layout = make_warehouse("\n".join(rows), 2, episode_steps=200)
    assert bool(dead_end_warnings(config, layout)) == warns
    assert _deliveries(config, layout) > 20
    # Without our right of way out of dead ends.
    monkeypatch.setattr("bridge.planners.ways_out.ways_out", lambda layout: np.full(layout.blocked.size, -1, np.int32))
    deliveries = _deliveries(config, layout)
    assert deliveries == 0 if warns else deliveries > 20


def _deliveries(config: WarehouseConfig, layout: Layout) -> float:
    simulator = WarehouseSimulator(config, layout, 1)
    (result,) = run_episodes(simulator, PibtPolicy(simulator), seed=1, num_episodes=1)
    return result.metrics["deliveries"]
