"""What must hold for a warehouse to be worth simulating, proven before anything runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bridge.errors import ScenarioError
from bridge.warehouse.config import DifferentialDriveConfig, WarehouseConfig
from bridge.warehouse.floor import MAX_ROUTE_BYTES, goal_cells, route_table_bytes
from bridge.warehouse.layout import Layout, distances_from, distances_to

__all__ = ["check_warehouse", "parking_warnings"]

_LISTED = 5
_ROUNDING = 1e-9


def check_warehouse(config: WarehouseConfig, layout: Layout, where: str) -> None:
    """Raise unless every robot can start and every task can be done.

    Proves that every pick-up, delivery, parking place and charger can be reached from every
    other one, through the exits of one-way cells, empty and loaded (the floor is the same for both),
    that the fleet finds places to start from, and that footprint and speed fit the cells.

    Raises:
        ScenarioError: One line for every fault, each beginning with ``where`` and the dotted key.
    """
    faults = [*_station_faults(config, layout), *_reach_faults(layout), *_start_faults(config, layout)]
    faults += _charger_faults(config, layout)
    faults += _transport_faults(config, layout)
    faults += _load_faults(config)
    if isinstance(config.drive, DifferentialDriveConfig):
        faults += _drive_faults(config, config.drive, layout)
    else:
        faults += _grid_footprint_faults(config, layout)
    if faults:
        raise ScenarioError("\n".join(f"{where}.{fault}" for fault in faults))


def parking_warnings(config: WarehouseConfig, layout: Layout) -> tuple[str, ...]:
    """A sentence on robots that have nowhere to go when there is no work for them; none where all have."""
    tasks = config.tasks
    chooses = tasks.dispatch == "token" or tasks.timeout_s is not None or tasks.has_loads
    may_be_idle = tasks.arrival != "backlog" or chooses or config.has_pickers or config.charges
    if not may_be_idle or len(layout.parking) >= config.num_robots:
        return ()
    return (
        f"layout: {config.num_robots} robots have {len(layout.parking)} parking places: one without a task that finds "
        "none free stays where it is, on a station or in an aisle, too. Mark more free cells with 'P'.",
    )


def _station_faults(config: WarehouseConfig, layout: Layout) -> Iterator[str]:
    for kind, mark, cells in (("pick-up", "S", layout.pickups), ("delivery", "E", layout.deliveries)):
        if len(cells) == 0:
            yield f"layout: expected at least one {kind}, got none. Mark a free cell with {mark!r}."
    stations = np.concatenate([layout.pickups, layout.deliveries])
    for kind, cells in (("parking place", layout.parking), ("charger", layout.chargers)):
        if shared := _listed(layout, np.intersect1d(cells, stations)):
            yield f"layout: expected no {kind} on a station, got one at {shared}. Robots that wait would block it."
    size = route_table_bytes(layout, turns=config.drive.kind == "grid_heading")
    if size > MAX_ROUTE_BYTES:
        yield (
            f"layout: expected at most {MAX_ROUTE_BYTES} bytes of route tables, got {size} "
            f"({len(goal_cells(layout))} goals on {layout.blocked.size} cells). Mark fewer stations or parking places."
        )


def _reach_faults(layout: Layout) -> Iterator[str]:
    kinds = (
        ("pick-up", layout.pickups),
        ("delivery", layout.deliveries),
        ("parking place", layout.parking),
        ("charger", layout.chargers),
        ("meeting place", layout.chargers[:0] if layout.meeting is None else layout.meeting),
    )
    blocked = layout.blocked.ravel()
    for kind, cells in kinds:
        if inside := _listed(layout, cells[blocked[cells]]):
            yield f"layout: expected every {kind} on a free cell, got one in a rack or wall at {inside}."
    reference = next((int(cells[0]) for _, cells in kinds if len(cells)), None)
    if reference is None or blocked[reference]:
        return
    there, back = distances_from(layout, reference), distances_to(layout, reference)
    for kind, cells in kinds:
        free = cells[~blocked[cells]]
        if cut_off := _listed(layout, free[there[free] < 0]):
            yield (
                f"layout: expected every {kind} to be reachable from {_place(layout, reference)}, "
                f"got one cut off at {cut_off}. Open a way to it or remove it."
            )
        if trapped := _listed(layout, free[(there[free] >= 0) & (back[free] < 0)]):
            yield (
                f"layout: expected a way from every {kind} to {_place(layout, reference)}, got none from {trapped}. "
                "Look at the one-way cells around it."
            )


def _start_faults(config: WarehouseConfig, layout: Layout) -> Iterator[str]:
    goals = goal_cells(layout)
    if len(goals) == 0 or layout.blocked.ravel()[goals[0]]:
        return
    reachable = distances_to(layout, int(goals[0])) >= 0
    reachable[layout.pickups] = False
    reachable[layout.deliveries] = False
    reachable[layout.chargers] = False
    reachable[layout.parking] = True
    places = int(reachable.sum())
    if config.num_robots > places:
        yield (
            f"fleet: expected at most {places} robots (parking places and reachable free cells without a station), "
            f"got {config.num_robots}. Lower a count or enlarge the floor."
        )


def _charger_faults(config: WarehouseConfig, layout: Layout) -> Iterator[str]:
    if not config.charges:
        return
    if len(layout.chargers) == 0:
        yield "layout: expected a charger for the robots that charge, got none. Mark a free cell with 'C'."
    if shared := _listed(layout, np.intersect1d(layout.chargers, layout.parking)):
        yield f"layout: expected no charger on a parking place, got one at {shared}. Robots that wait would block it."


def _transport_faults(config: WarehouseConfig, layout: Layout) -> Iterator[str]:
    """Listed tasks start and end at stations."""
    for index, task in enumerate(config.tasks.transports):
        named = [("pickups", "pick-up", layout.pickups, place) for place in task.pickups]
        for key, kind, stations, (row, column) in [*named, ("delivery", "delivery", layout.deliveries, task.delivery)]:
            inside = row < layout.height and column < layout.width
            if not inside or row * layout.width + column not in stations:
                yield (
                    f"tasks.transports[{index}].{key}: expected the row and column of a {kind}, got "
                    f"[{row}, {column}]. The first {kind} is at {_listed(layout, stations[:1]) or 'none'}."
                )


def _load_faults(config: WarehouseConfig) -> Iterator[str]:
    """Some role can carry the heaviest load."""
    payloads = [role.payload_kg for role in config.fleet if role.job == "carry"]
    strongest = max((payload for payload in payloads if payload is not None), default=None)
    if strongest is None or None in payloads or config.tasks.heaviest_kg <= strongest:
        return
    if config.tasks.load is not None:
        yield (
            f"tasks.load.max_kg: expected at most the largest payload of the fleet, {strongest:g} kg, got "
            f"{config.tasks.load.max_kg:g}. Nobody could carry it."
        )
    for index, task in enumerate(config.tasks.transports):
        if task.load_kg > strongest:
            yield (
                f"tasks.transports[{index}].load_kg: expected at most the largest payload of the fleet, "
                f"{strongest:g} kg, got {task.load_kg:g}. Nobody could carry it."
            )


def _grid_footprint_faults(config: WarehouseConfig, layout: Layout) -> Iterator[str]:
    """Robots in neighbouring cells do not overlap; on a grid all of them are discs."""
    for index, role in enumerate(config.fleet):
        if 2 * role.radius_m > layout.cell_size_m * (1.0 + _ROUNDING):
            yield (
                f"fleet[{index}].radius_m: expected at most half the cell size {layout.cell_size_m:g} m, so that "
                f"robots in neighbouring cells do not overlap, got {role.radius_m:g}. Lower it, or raise "
                f"layout.cell_size_m to at least {2 * role.radius_m:g}."
            )


def _drive_faults(config: WarehouseConfig, drive: DifferentialDriveConfig, layout: Layout) -> Iterator[str]:
    if drive.station_radius_m > layout.cell_size_m:
        yield (
            f"drive.station_radius_m: expected at most the cell size {layout.cell_size_m:g} m, so that no robot is "
            f"served through a rack, got {drive.station_radius_m:g}."
        )
    for index, role in enumerate(config.fleet):
        its_drive = role.drive_of(drive)
        fastest = max(its_drive.max_speed_mps, its_drive.max_reverse_mps) * drive.step_s
        disc = role.length_m is None
        key = f"fleet[{index}].{'radius_m' if disc else 'length_m, width_m'}"
        if 2 * role.outer_radius_m >= layout.cell_size_m:
            yield (
                f"{key}: expected {'' if disc else 'half a diagonal of '}less than half the cell size "
                f"{layout.cell_size_m:g} m, so that a robot fits into an aisle of one cell"
                f"{'' if disc else ' and can turn there'}, got {role.outer_radius_m:g}. Lower it or raise "
                "layout.cell_size_m."
            )
        if fastest >= role.inner_radius_m:
            yield (
                f"{key}: expected {'' if disc else 'half the shorter side '}more than the way of one physics step, "
                f"{fastest:g} m, so that no contact is jumped over, got {role.inner_radius_m:g}. Lower drive.step_s or "
                "the speed."
            )


def _listed(layout: Layout, cells: NDArray[np.int32]) -> str:
    """The first few cells in words; empty if there are none."""
    words = ", ".join(_place(layout, int(cell)) for cell in cells[:_LISTED])
    return f"{words} and {len(cells) - _LISTED} more" if len(cells) > _LISTED else words


def _place(layout: Layout, cell: int) -> str:
    row, column = divmod(cell, layout.width)
    return f"row {row}, column {column}"
