"""The floor of a warehouse: free and blocked cells, stations, parking places and chargers.

Every importer (``bridge/maps``) and every inline drawing ends in a
:class:`Layout`; the simulator, the planners and the renderer start from one.
Cells are numbered ``row * width + column``; row 0 is the top of a drawing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError

__all__ = [
    "ALL_EXITS",
    "EXIT_DOWN",
    "EXIT_LEFT",
    "EXIT_RIGHT",
    "EXIT_UP",
    "MAX_CELLS",
    "Layout",
    "distances_from",
    "distances_to",
]

# 2,048 x 2,048; the arrays of a floor take some 50 bytes a cell, beside its route tables.
MAX_CELLS = 1 << 22

# Bits of Layout.exits, in the order of the moves of the grid drive.
EXIT_UP, EXIT_RIGHT, EXIT_DOWN, EXIT_LEFT = 1, 2, 4, 8
ALL_EXITS = EXIT_UP | EXIT_RIGHT | EXIT_DOWN | EXIT_LEFT

_BLOCKED = "#@TOW"
_FREE = ".GSEPC"


@dataclass(frozen=True, eq=False)
class Layout:
    """A grid of square cells.

    Attributes:
        blocked: (H, W) bool, racks and walls.
        pickups: (n,) int32, cells where loads are fetched.
        deliveries: (n,) int32, cells where loads are brought.
        parking: (n,) int32, cells where robots start and wait for work.
        chargers: (n,) int32, cells where robots charge.
        cell_size_m: Edge length of a cell.
        exits: (H*W,) uint8, the sides through which a robot may leave each cell: ``EXIT_UP`` (to
            row - 1), ``EXIT_RIGHT``, ``EXIT_DOWN`` and ``EXIT_LEFT``, combined with ``|``. A step
            from a cell to a free neighbour is allowed if the bit of that side is set in the cell
            that the robot leaves; one-way traffic is a pair of cells with the bit in one of them
            only. Bits towards a blocked cell or the edge mean nothing; blocked cells have 0.
            None: every side of every free cell.
        speed_limit_mps: (H*W,) float32, largest speed of a robot in each cell; NaN where there is
            no limit. None: no limit anywhere.
        meeting: (n,) int32, for each pick-up the cell beside it where its picker stands
            (``meeting_places``). None: there are no pickers.
        traps: (n,) int32, cells that robots are kept out of, because no station could be reached from
            them (``traps``). None: nobody has looked, or there are no one-way cells.
    """

    blocked: NDArray[np.bool_]
    pickups: NDArray[np.int32]
    deliveries: NDArray[np.int32]
    parking: NDArray[np.int32]
    chargers: NDArray[np.int32]
    cell_size_m: float = 1.0
    exits: NDArray[np.uint8] | None = None
    speed_limit_mps: NDArray[np.float32] | None = None
    meeting: NDArray[np.int32] | None = None
    traps: NDArray[np.int32] | None = None

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.blocked.shape[0])

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.blocked.shape[1])

    @property
    def num_free(self) -> int:
        """Number of cells that a robot may enter."""
        return int((~self.blocked).sum())

    @classmethod
    def from_drawing(cls, rows: list[str], cell_size_m: float, where: str) -> Layout:
        """A layout from rows of characters of equal length.

        ``#`` ``@`` ``T`` ``O`` ``W`` are blocked, ``.`` ``G`` free, ``S`` a pick-up, ``E`` a
        delivery, ``P`` a parking place and ``C`` a charger. The letters are those of the
        MovingAI format and of the League of Robot Runners' extension of it.

        Raises:
            LayoutError: Unequal rows, an unknown character, no free cell, or too many cells.
        """
        if not rows or not rows[0]:
            raise LayoutError(f"{where}: expected at least one row of cells, got none.")
        width = len(rows[0])
        if len(rows) * width > MAX_CELLS:
            raise LayoutError(f"{where}: expected at most {MAX_CELLS} cells, got {len(rows)} x {width}.")
        for index, row in enumerate(rows):
            if len(row) != width:
                raise LayoutError(f"{where}: row {index}: expected {width} characters as in row 0, got {len(row)}.")
            for column, cell in enumerate(row):
                if cell not in _BLOCKED and cell not in _FREE:
                    raise LayoutError(
                        f"{where}: row {index}, column {column}: expected one of {_BLOCKED + _FREE}, got {cell!r}."
                    )
        cells = np.array([list(row) for row in rows])
        blocked = np.isin(cells, list(_BLOCKED))
        if blocked.all():
            raise LayoutError(f"{where}: expected at least one free cell, got none.")
        found = {mark: np.flatnonzero(cells == mark).astype(np.int32) for mark in "SEPC"}
        return cls(blocked, found["S"], found["E"], found["P"], found["C"], cell_size_m)

    def to_drawing(self) -> list[str]:
        """The inverse of :meth:`from_drawing`, with ``#`` for every blocked cell.

        Exits and speed limits are not drawn; files keep them (``bridge/maps``). A cell with two
        marks is drawn with the later one of P, C, S, E.
        """
        cells = np.where(self.blocked, "#", ".").ravel()
        for mark, places in (("P", self.parking), ("C", self.chargers), ("S", self.pickups), ("E", self.deliveries)):
            cells[places] = mark
        return ["".join(row) for row in cells.reshape(self.blocked.shape)]


def distances_from(layout: Layout, source: int) -> NDArray[np.int32]:
    """Length in cells of the shortest path from ``source`` to every cell, through the exits of the layout.

    Returns:
        (H*W,) int32; -1 where there is no path.
    """
    return _search(layout, source, forwards=True)


def distances_to(layout: Layout, target: int) -> NDArray[np.int32]:
    """Length in cells of the shortest path from every cell to ``target``, through the exits of the layout.

    Returns:
        (H*W,) int32; -1 where there is no path.
    """
    return _search(layout, target, forwards=False)


def _search(layout: Layout, start: int, forwards: bool) -> NDArray[np.int32]:
    """Breadth-first search, all cells of one distance at once: commands that simulate nothing load no compiled code."""
    width = layout.width + 2
    # In a frame of blocked cells no step leads off the grid.
    still_open = np.pad(~layout.blocked, 1).ravel()
    exits = None if layout.exits is None else np.pad(layout.exits.reshape(layout.blocked.shape), 1).ravel()
    distance = np.full(still_open.size, -1, np.int32)
    row, column = divmod(start, layout.width)
    frontier = np.array([(row + 1) * width + column + 1])
    reached = 0
    while frontier.size:
        distance[frontier] = reached
        still_open[frontier] = False
        reached += 1
        found = []
        # Up, right, down, left: the bits of the exits, in their order.
        for side, step in enumerate((-width, 1, width, -1)):
            others = frontier + step
            is_way = still_open[others]
            if exits is not None:
                is_way &= (exits[frontier] >> side if forwards else exits[others] >> (side + 2) % 4) & 1 == 1
            others = others[is_way]
            # Not twice: two cells of the frontier may have the same neighbour, on different sides of it.
            still_open[others] = False
            found.append(others)
        frontier = np.concatenate(found)
    return np.ascontiguousarray(distance.reshape(-1, width)[1:-1, 1:-1]).ravel()
