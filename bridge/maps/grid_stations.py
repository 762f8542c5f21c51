"""Stations for grid files that say where robots start and which cells they are sent to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError
from bridge.maps.import_warnings import ImportWarnings
from bridge.maps.stations import StationRules
from bridge.warehouse.layout import Layout

__all__ = ["place_stations", "reachable_cells", "wanted_numbers"]

Cells = NDArray[np.int32]

_MOST_PICKUPS: Final = 256
_MOST_DELIVERIES: Final = 64


def wanted_numbers(rules: StationRules, num_robots: int) -> tuple[int, int]:
    """Pick-ups and deliveries: as the rules say, or two per robot up to 256 and one per four, from 2 to 64."""
    pickups = rules.num_pickups or min(2 * num_robots, _MOST_PICKUPS)
    deliveries = rules.num_deliveries or min(max(2, num_robots // 4), _MOST_DELIVERIES)
    return pickups, deliveries


def reachable_cells(floor: NDArray[np.bool_], cells: Sequence[int], kind: str, warnings: ImportWarnings) -> list[int]:
    """The distinct cells that lie on the floor, in order; the others are warned about.

    Args:
        floor: (H, W) bool, the largest connected part of the free cells.
        cells: Cells, possibly repeated.
        kind: What they are, in the plural.
        warnings: Receives a sentence on cells that lie elsewhere.
    """
    distinct = list(dict.fromkeys(cells))
    reachable = [cell for cell in distinct if floor.flat[cell]]
    if len(reachable) < len(distinct):
        warnings.add(
            f"{len(distinct) - len(reachable)} of {len(distinct)} {kind} lie outside the largest connected part of the "
            "floor and were left out."
        )
    return reachable


def place_stations(
    layout: Layout, pickups: Sequence[int], deliveries: Sequence[int], parking: Sequence[int], where: str
) -> Layout:
    """The layout with these stations instead of those that the map marks.

    Parking places on stations are dropped: a robot that waits there would block the station.

    Raises:
        LayoutError: There is no pick-up or no delivery.
    """
    if not pickups or not deliveries:
        raise LayoutError(
            f"{where}: expected at least one pick-up and one delivery that robots can reach, got {len(pickups)} and "
            f"{len(deliveries)}. Import the map itself to derive stations from its shape."
        )
    stations = {*pickups, *deliveries}
    chargers = np.array([cell for cell in layout.chargers.tolist() if cell not in stations], np.int32)
    waiting = [cell for cell in parking if cell not in stations]
    return replace(
        layout, pickups=_sorted(pickups), deliveries=_sorted(deliveries), parking=_sorted(waiting), chargers=chargers
    )


def _sorted(cells: Sequence[int]) -> Cells:
    return np.array(sorted(cells), np.int32)
