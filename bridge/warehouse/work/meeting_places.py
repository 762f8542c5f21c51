"""Where pickers stand: a cell beside every pick-up, no two of them the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError
from bridge.warehouse.layout import Layout

__all__ = ["with_meeting_places"]


def with_meeting_places(layout: Layout, where: str) -> Layout:
    """The same floor plan with a meeting place for every pick-up.

    It is a free cell without a mark that shares a side with the pick-up: of several the one with the most free cells
    around it (a picker in a narrow aisle is in the way), and the first of up, right, down and left among equals, as
    far as that leaves one for every pick-up.

    Raises:
        LayoutError: There is no such cell for some pick-up.
    """
    marked = layout.blocked.ravel().copy()
    for cells in (layout.pickups, layout.deliveries, layout.parking, layout.chargers, layout.traps):
        if cells is not None:
            marked[cells] = True
    choices = [_choices(layout, marked, int(cell)) for cell in layout.pickups]
    taken: dict[int, int] = {}
    for index, cell in enumerate(layout.pickups):
        if not _seat(index, choices, taken, set()):
            row, column = divmod(int(cell), layout.width)
            raise LayoutError(
                f"{where}: expected a free cell without a mark beside every pick-up, another one for each, for its "
                f"picker to stand on; got none for row {row}, column {column}. Leave a cell beside it free."
            )
    places = np.zeros(len(layout.pickups), np.int32)
    for cell, index in taken.items():
        places[index] = cell
    return replace(layout, meeting=places)


def _choices(layout: Layout, marked: NDArray[np.bool_], cell: int) -> list[int]:
    """Cells beside a pick-up that may be its meeting place, the best first."""
    around = [other for other in _sides(layout, cell) if not marked[other]]
    free = ~layout.blocked.ravel()
    return sorted(around, key=lambda other: -sum(bool(free[side]) for side in _sides(layout, other)))


def _sides(layout: Layout, cell: int) -> list[int]:
    row, column = divmod(cell, layout.width)
    sides = ((row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1))
    return [v * layout.width + u for v, u in sides if 0 <= v < layout.height and 0 <= u < layout.width]


def _seat(index: int, choices: list[list[int]], taken: dict[int, int], tried: set[int]) -> bool:
    """Give pick-up ``index`` a cell, if others can be moved out of the way (augmenting paths; Kuhn 1955)."""
    for cell in choices[index]:
        if cell not in tried:
            tried.add(cell)
            if cell not in taken or _seat(taken[cell], choices, taken, tried):
                taken[cell] = index
                return True
    return False
