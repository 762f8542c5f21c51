"""The unit of length of VDMA LIF files, which count in metres by the standard and in millimetres by habit."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.maps.documents import Item
from bridge.maps.import_options import LengthUnit
from bridge.maps.lif_document import LifGroup

__all__ = ["metres_per_unit"]

_METRES: Final[dict[LengthUnit, float]] = {"m": 1.0, "cm": 0.01, "mm": 0.001}
# Nodes stand where robots stop or turn. No hall has every second edge longer than this, nor is a level of this extent.
_LONGEST_EDGE_M: Final = 200.0
_LARGEST_LEVEL_M: Final = 10_000.0


def metres_per_unit(
    group: LifGroup, index: dict[str, int], places: NDArray[np.float64], stated: LengthUnit | None, document: Item
) -> float:
    """What a unit of the coordinates is in m.

    Args:
        group: The level.
        index: Number of its nodes by their ids.
        places: (N, 2) float64, where they are, in the unit in question.
        stated: The unit that a person states; None: metres, or millimetres with a warning if the level would be
            implausibly large in metres.
        document: The file.
    """
    if stated is not None:
        return _METRES[stated]
    lengths = []
    for edge in group.entries("edges"):
        start, end = (index.get(edge.require(key).text()) for key in ("startNodeId", "endNodeId"))
        if start is not None and end is not None and start != end:
            lengths.append(float(np.hypot(*(places[end] - places[start]))))
    extent = float(np.ptp(places, axis=0).max()) if len(places) else 0.0
    median = float(np.median(lengths)) if lengths else 0.0
    if median < _LONGEST_EDGE_M and extent < _LARGEST_LEVEL_M:
        return 1.0
    document.warnings.add(
        f"In metres, as the standard has it, the level would be {extent:,.0f} m large and every second edge longer "
        f"than {median:,.0f} m; its lengths were taken for millimetres. --unit m, cm or mm says what they are."
    )
    return _METRES["mm"]
