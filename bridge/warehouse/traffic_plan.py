"""Where robots may drive one way only, and where they have to be slow, as people read it off a floor plan."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import Layout

__all__ = ["Borders", "Zone", "draw_borders", "draw_speed_limits", "special_borders", "speed_zones"]

Int32 = NDArray[np.int32]

_NO_LIMIT: Final = "."
_BLOCKED: Final = "#"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_MORE: Final = "+"


class Borders(NamedTuple):
    """Borders between two free cells beside each other that not every robot may cross.

    Attributes:
        one_way: (n, 2) int32, the cell that is left and the cell that is entered.
        closed: (m, 2) int32, upper or left cell and the other one; nobody may cross.
    """

    one_way: Int32
    closed: Int32


class Zone(NamedTuple):
    """Cells of one speed limit that hang together.

    Attributes:
        limit_mps: The limit.
        cells: (n,) int32, in ascending order: the first one is the leftmost of the top row.
    """

    limit_mps: float
    cells: Int32


def special_borders(layout: Layout) -> Borders:
    """All borders of a floor that are not open both ways."""
    if layout.exits is None:
        nothing = np.zeros((0, 2), np.int32)
        return Borders(nothing, nothing)
    free = ~layout.blocked
    cells = np.arange(layout.blocked.size, dtype=np.int32).reshape(layout.blocked.shape)
    beside, below = free[:, :-1] & free[:, 1:], free[:-1] & free[1:]
    first = np.concatenate([cells[:, :-1][beside], cells[:-1][below]])
    second = np.concatenate([cells[:, 1:][beside], cells[1:][below]])
    moves = make_moves(layout)[:, 1:]
    on, back = (moves[first] == second[:, None]).any(axis=1), (moves[second] == first[:, None]).any(axis=1)
    forwards, backwards, neither = on & ~back, back & ~on, ~on & ~back
    one_way = np.concatenate([
        np.stack([first[forwards], second[forwards]], axis=1),
        np.stack([second[backwards], first[backwards]], axis=1),
    ])  # fmt: skip
    return Borders(one_way, np.stack([first[neither], second[neither]], axis=1))


def speed_zones(layout: Layout) -> list[Zone]:
    """The free cells with a speed limit, parted into zones, by their first cell."""
    if layout.speed_limit_mps is None:
        return []
    limits = np.where(layout.blocked.ravel(), np.nan, layout.speed_limit_mps)
    width, seen, zones = layout.width, np.isnan(limits), []
    for start in np.flatnonzero(~seen).tolist():
        if seen[start]:
            continue
        seen[start], zone, waiting = True, [], [start]
        while waiting:
            cell = waiting.pop()
            zone.append(cell)
            row, column = divmod(cell, width)
            for other, inside in (
                (cell - width, row > 0),
                (cell + width, row + 1 < layout.height),
                (cell - 1, column > 0),
                (cell + 1, column + 1 < width),
            ):
                if inside and not seen[other] and limits[other] == limits[start]:
                    seen[other] = True
                    waiting.append(other)
        zones.append(Zone(float(limits[start]), np.array(sorted(zone), np.int32)))
    return zones


def draw_borders(layout: Layout, borders: Borders) -> list[str]:
    """The drawing of a layout with a sign between cells: ``>``, ``<``, ``v``, ``^`` one way, ``|`` and ``-`` closed.

    Returns:
        2 * height - 1 rows of 2 * width - 1 characters.
    """
    picture = np.full((2 * layout.height - 1, 2 * layout.width - 1), " ")
    picture[::2, ::2] = np.array([list(row) for row in layout.to_drawing()])
    for pairs, signs in ((borders.one_way, "<>^v"), (borders.closed, "||--")):
        for first, second in pairs.tolist():
            (row, column), (other_row, other_column) = divmod(first, layout.width), divmod(second, layout.width)
            upright = 2 if row != other_row else 0
            picture[row + other_row, column + other_column] = signs[upright + (second > first)]
    return ["".join(row) for row in picture]


def draw_speed_limits(layout: Layout, zones: list[Zone]) -> tuple[list[str], dict[str, list[float]]]:
    """A drawing with a letter in every cell that has a limit, and what the letters stand for in m/s.

    The letters go from the lowest limit on; those beyond the 26th share ``+``.

    Returns:
        Rows of the drawing, and the limits of each letter.
    """
    limits = sorted({zone.limit_mps for zone in zones})
    letters = {limit: _LETTERS[rank] if rank < len(_LETTERS) else _MORE for rank, limit in enumerate(limits)}
    picture = np.where(layout.blocked.ravel(), _BLOCKED, _NO_LIMIT)
    meaning: dict[str, list[float]] = {}
    for zone in zones:
        picture[zone.cells] = letters[zone.limit_mps]
    for limit, letter in letters.items():
        meaning.setdefault(letter, []).append(limit)
    return ["".join(row) for row in picture.reshape(layout.blocked.shape)], meaning
