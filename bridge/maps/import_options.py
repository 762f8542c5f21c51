"""What a person may say about an import, and which of it has a meaning for which format."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from bridge.errors import LayoutError
from bridge.maps.stations import StationRules
from bridge.warehouse.config_fleet import MAX_ROBOTS
from bridge.warehouse.config_randomisation import ExecutionDelayConfig
from bridge.warehouse.layout import Layout

__all__ = ["FORMATS", "ImportOptions", "Imported", "LengthUnit", "MapFormat", "fleet_size"]

LengthUnit = Literal["m", "cm", "mm"]


@dataclass(frozen=True)
class ImportOptions:
    """Choices of an import. Everything has a default; a choice that a format has no use for is refused.

    Attributes:
        cell_size_m: Edge length of a cell in m; None: 1.0, or the rule for roads (:mod:`bridge.maps.cell_size`).
        stations: How many stations there shall be, and where.
        map_file: The map of a ``.scen`` file; None: the one that it names, beside it.
        rescale: Stretch the coordinates of a ``.scen`` file to a map of another size.
        level: Level (storey, layout) to import; None: the one with the most lanes.
        unit: Unit of the lengths of a LIF file; None: metres, or millimetres where metres make no sense.
        vehicle_type: Vehicle type whose lanes are imported; None: the one with the most lanes.
        graph_index: Open-RMF graph whose lanes are imported; None: the one with the most lanes.
        vehicle_width_m: Width of a vehicle in m; None: 0.7.
        lane_width_m: Width of a lane in m; None: the vehicle and a margin of 0.3.
        two_way: Drive one-way lanes in both directions; None: only those without a way back, where most places would
            be lost otherwise, with a warning.
        derive_stations: Make pick-ups or deliveries where the file names none, with a warning; else refuse it.
    """

    cell_size_m: float | None = None
    stations: StationRules = field(default_factory=StationRules)
    map_file: Path | None = None
    rescale: bool = False
    level: str | None = None
    unit: LengthUnit | None = None
    vehicle_type: str | None = None
    graph_index: int | None = None
    vehicle_width_m: float | None = None
    lane_width_m: float | None = None
    two_way: bool | None = None
    derive_stations: bool = True

    def __post_init__(self) -> None:
        for name, low, high in (("cell_size_m", 0.01, 100.0), ("vehicle_width_m", 0.05, 20.0)):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                raise LayoutError(f"import: {name}: expected a length from {low:g} to {high:g} m, got {value}.")
        if self.unit is not None and self.unit not in get_args(LengthUnit):
            raise LayoutError(f"import: unit: expected one of {', '.join(get_args(LengthUnit))}, got {self.unit!r}.")
        if self.lane_width_m is not None and not self.vehicle_m <= self.lane_width_m <= 100.0:
            raise LayoutError(
                f"import: lane_width_m: expected a width from {self.vehicle_m:g} m, the vehicle's, to 100 m, "
                f"got {self.lane_width_m}."
            )

    @property
    def vehicle_m(self) -> float:
        """Width of a vehicle in m: as stated, or that of the default footprint, twice 0.35 m."""
        return 0.7 if self.vehicle_width_m is None else self.vehicle_width_m

    @property
    def lane_m(self) -> float:
        """Width of a lane in m: as stated, or the vehicle and a margin."""
        return round(self.vehicle_m + 0.3, 6) if self.lane_width_m is None else self.lane_width_m

    def given(self) -> dict[str, Any]:
        """The choices that differ from the defaults, those of the station rules among them."""
        chosen: dict[str, Any] = {}
        for part, default in ((self.stations, StationRules()), (self, None)):
            for entry in fields(part):
                value = getattr(part, entry.name)
                usual = getattr(default, entry.name) if default is not None else entry.default
                if entry.name != "stations" and value != usual:
                    chosen[entry.name] = value
        return chosen


class MapFormat(NamedTuple):
    """A format that can be imported: its name, and the choices that mean something for it."""

    name: str
    takes: frozenset[str]

    def check(self, options: ImportOptions, where: str) -> None:
        """Refuse choices that the format has no use for.

        Raises:
            LayoutError: Names the choice and the formats that take it.
        """
        for name, value in options.given().items():
            if name not in self.takes:
                users = ", ".join(other.name for other in FORMATS.values() if name in other.takes)
                raise LayoutError(
                    f"{where}: {name}: expected no such option with {self.name}, got {value!r}. It is for {users}."
                )


_COUNTS: Final = frozenset({"cell_size_m", "num_pickups", "num_deliveries"})
_ROADS: Final = _COUNTS | {"level", "vehicle_width_m", "lane_width_m", "two_way", "derive_stations"}

FORMATS: Final = {
    "map": MapFormat("MovingAI .map", _COUNTS | {"deliveries_side", "keep_marks"}),
    "scen": MapFormat("MovingAI .scen", _COUNTS | {"map_file", "rescale"}),
    "lorr": MapFormat("League of Robot Runners problem", _COUNTS),
    "lif": MapFormat("VDMA LIF", _ROADS | {"unit", "vehicle_type"}),
    "building": MapFormat("Open-RMF building", _ROADS | {"graph_index"}),
    "nav_graph": MapFormat("Open-RMF navigation graph", _ROADS),
}


@dataclass(frozen=True, eq=False)
class Imported:
    """A map file as a layout with stations.

    Attributes:
        layout: Cells, stations, parking places, chargers, exits and speed limits.
        source: What was read, in a few words.
        num_robots: Size of the fleet.
        notes: A sentence per choice that the importer made, for whoever edits the scenario.
        warnings: Sentences on what is loose about the file.
        vehicle_width_m: Width of the vehicles that the lanes are for; None: the format does not know vehicles.
        delays: Execution delays that the file states; None: none.
    """

    layout: Layout
    source: str
    num_robots: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    vehicle_width_m: float | None = None
    delays: ExecutionDelayConfig | None = None


def fleet_size(wanted: int | None, stated: int | None, where: str) -> int:
    """The number of robots that a person wants, or else that the file states.

    Raises:
        LayoutError: Neither says anything, or it is no number of robots.
    """
    number = wanted if wanted is not None else stated
    if number is None:
        raise LayoutError(f"{where}: expected the number of robots, got none; the file states none. Add --robots N.")
    if not 1 <= number <= MAX_ROBOTS:
        raise LayoutError(f"{where}: expected from 1 to {MAX_ROBOTS} robots, got {number}.")
    return number
