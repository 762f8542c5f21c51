"""Stations are thinned out where their route tables would be too large."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.maps import Imported, StationRules
from bridge.maps.route_room import fit_route_tables
from bridge.warehouse.floor import MAX_ROUTE_BYTES, max_goals, route_table_bytes
from bridge.warehouse.layout import Layout

LAYOUT = Layout.from_drawing(["SSSSSS..", "EEEE....", "PPPPPPPP", "C......."], 1.0, "test")


def _counts(imported: Imported) -> list[int]:
    layout = imported.layout
    return [len(cells) for cells in (layout.pickups, layout.deliveries, layout.parking, layout.chargers)]


@pytest.mark.parametrize(
    ("room", "stated", "counts", "kept"),
    [
        (19, {}, [6, 4, 8, 1], None),
        (15, {}, [6, 4, 4, 1], "4 of 8 parking places"),
        (9, {}, [4, 4, 0, 1], "0 of 8 parking places, 4 of 6 pick-ups"),
        (4, {}, [1, 2, 0, 1], "0 of 8 parking places, 1 of 6 pick-ups, 2 of 4 deliveries"),
        (9, {"num_pickups": 6}, [6, 2, 0, 1], "0 of 8 parking places, 2 of 4 deliveries"),
        (9, {"num_pickups": 6, "num_deliveries": 4}, [6, 4, 0, 1], "0 of 8 parking places"),
    ],
)
def test_fit_route_tables_thins_out_what_nobody_stated(
    room: int, stated: dict[str, int], counts: list[int], kept: str | None
) -> None:
    fitted = fit_route_tables(Imported(LAYOUT, "test", 3, (), ("before",)), StationRules(**stated), room)
    assert _counts(fitted) == counts
    assert fitted.warnings[0] == "before"
    assert [line.split("kept were ")[1].split(". ")[0] for line in fitted.warnings[1:]] == ([kept] if kept else [])


def test_fit_route_tables_spreads_what_it_keeps() -> None:
    fitted = fit_route_tables(Imported(LAYOUT, "test", 3, (), ()), StationRules(), 15)
    assert fitted.layout.parking.tolist() == [17, 19, 21, 23]


def test_max_goals_are_those_that_fit() -> None:
    size = route_table_bytes(LAYOUT) // 19
    assert max_goals(LAYOUT) * size <= MAX_ROUTE_BYTES < (max_goals(LAYOUT) + 1) * size


def test_max_goals_are_twice_as_many_where_ways_are_short() -> None:
    blocked = np.ones((1024, 1024), np.bool_)
    blocked[:, :1000] = False
    corner, none = np.zeros(1, np.int32), np.empty(0, np.int32)
    layout = Layout(blocked, corner, corner + 1, none, none, 1.0)
    assert max_goals(layout) == 512
    # A wall with a gap at one end: ways lead there and back.
    blocked[:1023, 500] = True
    assert max_goals(Layout(blocked, corner, corner + 1, none, none, 1.0)) == 256
