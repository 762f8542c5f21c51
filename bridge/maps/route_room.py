"""Fewer stations where their route tables would be too large.

Every cell that robots can be sent to has a row with an entry per cell of the floor in the route tables
(``bridge/warehouse/routes.py``), which opening the scenario refuses beyond a limit. A street map of a million
cells has room for 256 such cells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bridge.maps.import_options import Imported
from bridge.maps.stations import StationRules

__all__ = ["fit_route_tables"]

Cells = NDArray[np.int32]


def fit_route_tables(imported: Imported, rules: StationRules, max_goals: int) -> Imported:
    """The import with parking places, and then stations, thinned out to a number of cells to be sent to.

    Args:
        imported: What was read.
        rules: Numbers of stations that a person stated; those stay.
        max_goals: How many cells the route tables have room for.

    Returns:
        The same if it fits, else with a warning; it may still not fit because of what was stated.
    """
    layout = imported.layout
    over = sum(map(len, (layout.pickups, layout.deliveries, layout.parking, layout.chargers))) - max_goals
    if over <= 0:
        return imported
    parking = _evenly(layout.parking, len(layout.parking) - over)
    over -= len(layout.parking) - len(parking)
    pickups, deliveries = layout.pickups, layout.deliveries
    if over > 0 and rules.num_pickups is None:
        pickups = _evenly(pickups, max(1, len(pickups) - over))
        over -= len(layout.pickups) - len(pickups)
    if over > 0 and rules.num_deliveries is None:
        deliveries = _evenly(deliveries, max(1, len(deliveries) - over))
    kinds = (
        ("parking places", layout.parking, parking),
        ("pick-ups", layout.pickups, pickups),
        ("deliveries", layout.deliveries, deliveries),
    )
    thinned = ", ".join(f"{len(kept)} of {len(all_)} {kind}" for kind, all_, kept in kinds if len(kept) < len(all_))
    sentence = (
        f"The route tables of a floor of {layout.blocked.size} cells have room for {max_goals} stations, chargers and "
        f"parking places; kept were {thinned or 'all, because their numbers were stated'}. Robots without a parking "
        "place start on free cells."
    )
    layout = replace(layout, parking=parking, pickups=pickups, deliveries=deliveries)
    return replace(imported, layout=layout, warnings=(*imported.warnings, sentence))


def _evenly(cells: Cells, wanted: int) -> Cells:
    """So many of the cells, evenly spread over them."""
    places = ((np.arange(max(0, wanted)) + 0.5) * len(cells) / max(1, wanted)).astype(np.int64)
    return cells[places]
