"""Faults of warehouses: every one is found, and all of them at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.errors import ScenarioError
from bridge.warehouse.config import (
    DifferentialDriveConfig,
    GridConfig,
    HeadingGridConfig,
    LoadConfig,
    RoleConfig,
    TaskConfig,
)
from bridge.warehouse.layout import Layout
from bridge.warehouse.validation import check_warehouse, parking_warnings

GOOD = "S.P.C\n.....\n..P.E"


def _faults(make_warehouse: Any, drawing: str, count: int = 1, **section: Any) -> list[str]:
    config, layout = make_warehouse(drawing, count, **section)
    with pytest.raises(ScenarioError) as caught:
        check_warehouse(config, layout, "dock.yaml: warehouse")
    return str(caught.value).splitlines()


def test_check_warehouse_accepts_a_good_one(make_warehouse: Any) -> None:
    check_warehouse(*make_warehouse(GOOD, 12), "w")
    check_warehouse(*make_warehouse(GOOD, 12, drive=DifferentialDriveConfig()), "w")


def test_check_warehouse_finds_missing_stations(make_warehouse: Any) -> None:
    assert _faults(make_warehouse, "...\n.P.") == [
        "dock.yaml: warehouse.layout: expected at least one pick-up, got none. Mark a free cell with 'S'.",
        "dock.yaml: warehouse.layout: expected at least one delivery, got none. Mark a free cell with 'E'.",
    ]


@pytest.mark.parametrize(
    ("drawing", "kind", "place"),
    [
        ("S.E#S", "pick-up", "row 0, column 4"),
        ("S.E\n###\n.E.", "delivery", "row 2, column 1"),
        ("S.E#P", "parking place", "row 0, column 4"),
        ("S.E\n.##\n.#C", "charger", "row 2, column 2"),
    ],
)
def test_check_warehouse_finds_what_is_cut_off(make_warehouse: Any, drawing: str, kind: str, place: str) -> None:
    (fault,) = _faults(make_warehouse, drawing)
    assert f"expected every {kind} to be reachable from row 0, column 0, got one cut off at {place}." in fault


def test_check_warehouse_does_not_walk_diagonally(make_warehouse: Any) -> None:
    (fault,) = _faults(make_warehouse, "S#.\n.#E\n..#\n...")
    assert "expected every delivery to be reachable" in fault


def test_check_warehouse_lists_the_first_few_of_many_places(make_warehouse: Any) -> None:
    (fault,) = _faults(make_warehouse, "S.E....\n#######\nPPPPPPP")
    assert "row 2, column 4 and 2 more." in fault


def test_check_warehouse_finds_too_many_robots(make_warehouse: Any) -> None:
    check_warehouse(*make_warehouse("S.PE\n#.#C", 3), "w")
    (fault,) = _faults(make_warehouse, "S.PE\n#.#C", 4)
    assert (
        "fleet: expected at most 3 robots (parking places and reachable free cells without a station), got 4." in fault
    )


def test_check_warehouse_counts_robots_of_all_roles_and_no_cell_out_of_reach(make_warehouse: Any) -> None:
    fleet = (RoleConfig(role="carrier", count=2), RoleConfig(role="picker", count=2))
    (fault,) = _faults(make_warehouse, "S..E.#..", fleet=fleet)
    assert "expected at most 3 robots" in fault


def test_check_warehouse_finds_waiting_places_on_stations(make_warehouse: Any) -> None:
    config, layout = make_warehouse(GOOD, 1)
    wrong = Layout(layout.blocked, layout.pickups, layout.deliveries, layout.pickups, layout.deliveries)
    with pytest.raises(
        ScenarioError, match="expected no parking place on a station, got one at row 0, column 0"
    ) as caught:
        check_warehouse(config, wrong, "w")
    assert "expected no charger on a station, got one at row 2, column 4." in str(caught.value)


def test_check_warehouse_finds_stations_in_racks(make_warehouse: Any) -> None:
    config, layout = make_warehouse("S.#\n..E", 1)
    wrong = Layout(layout.blocked, np.array([2], np.int32), layout.deliveries, layout.parking, layout.chargers)
    with pytest.raises(
        ScenarioError, match="expected every pick-up on a free cell, got one in a rack or wall at row 0"
    ):
        check_warehouse(config, wrong, "w")


def test_check_warehouse_finds_footprints_that_do_not_fit(make_warehouse: Any) -> None:
    fleet = (RoleConfig(role="carrier", count=1), RoleConfig(role="wide", count=1, radius_m=0.5))
    drive = DifferentialDriveConfig()
    (fault,) = _faults(make_warehouse, GOOD, fleet=fleet, drive=drive)
    assert "fleet[1].radius_m: expected less than half the cell size 1 m" in fault
    assert "got 0.5." in fault


@pytest.mark.parametrize("drive", [GridConfig(), HeadingGridConfig()])
def test_check_warehouse_finds_discs_that_overlap_in_neighbouring_cells(make_warehouse: Any, drive: Any) -> None:
    fleet = (RoleConfig(role="carrier", count=1, radius_m=0.35), RoleConfig(role="wide", count=1, radius_m=0.6))
    check_warehouse(*make_warehouse(GOOD, fleet=fleet, drive=drive, cell_size_m=1.2), "w")
    (fault,) = _faults(make_warehouse, GOOD, fleet=fleet, drive=drive)
    assert fault == (
        "dock.yaml: warehouse.fleet[1].radius_m: expected at most half the cell size 1 m, so that robots in "
        "neighbouring cells do not overlap, got 0.6. Lower it, or raise layout.cell_size_m to at least 1.2."
    )


def test_check_warehouse_finds_robots_that_could_jump_over_each_other(make_warehouse: Any) -> None:
    (fault,) = _faults(make_warehouse, GOOD, drive=DifferentialDriveConfig(max_speed_mps=4.0))
    assert "fleet[0].radius_m: expected more than the way of one physics step, 0.4 m" in fault


def test_check_warehouse_finds_stations_that_reach_through_racks(make_warehouse: Any) -> None:
    (fault,) = _faults(make_warehouse, GOOD, drive=DifferentialDriveConfig(station_radius_m=1.2))
    assert "drive.station_radius_m: expected at most the cell size 1 m" in fault


def test_check_warehouse_reports_all_faults_together(make_warehouse: Any) -> None:
    faults = _faults(make_warehouse, "S.P\n###\n..P", 9, drive=DifferentialDriveConfig(station_radius_m=1.2))
    assert [fault.split(": ")[1] for fault in faults] == [
        "warehouse.layout",
        "warehouse.layout",
        "warehouse.fleet",
        "warehouse.drive.station_radius_m",
    ]


@pytest.mark.parametrize(
    ("tasks", "warned"),
    [
        (TaskConfig(), False),
        (TaskConfig(arrival="poisson"), True),
        (TaskConfig(dispatch="token"), True),
        (TaskConfig(timeout_s=60.0), True),
        (TaskConfig(load=LoadConfig(max_kg=5.0)), True),
    ],
)
def test_warehouse_warns_of_idle_robots_without_a_place_to_park(
    make_warehouse: Any, tasks: TaskConfig, warned: bool
) -> None:
    config, layout = make_warehouse("S.P.E\n.....", 2, tasks=tasks)
    warnings = parking_warnings(config, layout)
    assert [line.startswith("layout: 2 robots have 1 parking places: ") for line in warnings] == [True] * warned
    config, layout = make_warehouse("S.P.E\n..P..", 2, tasks=tasks)
    assert parking_warnings(config, layout) == ()
