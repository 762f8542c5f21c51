"""What a layout file says beyond the cells: where robots may leave a cell, and how fast they may drive.

A ``.map`` file ends after its H rows; readers of the format stop there. A layout file may go
on with these sections, in this order, each of which has H rows of W characters again:

``exits``
    One hexadecimal digit per cell: 1 up, 2 right, 4 down, 8 left, added together.
``speed_limits a=0.5 b=1.2``
    One character per cell: ``.`` without a limit, or a letter with its limit in m/s.
"""

from __future__ import annotations

import math
import string
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError
from bridge.warehouse.layout import Layout

__all__ = ["format_sections", "is_section", "parse_sections"]

_LETTERS = string.ascii_letters
_NO_LIMIT = "."


def is_section(line: str) -> bool:
    """Whether a line begins a section."""
    return line.split(maxsplit=1)[:1] in (["exits"], ["speed_limits"])


def parse_sections(layout: Layout, lines: list[str], first: int, where: str) -> Layout:
    """The layout with what the sections add.

    Args:
        layout: The cells.
        lines: Lines of the file behind the cells, without blank ones at the end.
        first: Number of the first of them in the file.
        where: Name of the file for messages.

    Raises:
        LayoutError: Names the file and the line that is wrong.
    """
    expected = ["exits", "speed_limits"]
    while lines:
        word, *fields = lines[0].split() or [""]
        if word not in expected:
            raise LayoutError(
                f"{where}: line {first}: expected {' or '.join(map(repr, expected)) or 'the end of the file'}, "
                f"got {lines[0][:40]!r}."
            )
        expected = expected[expected.index(word) + 1 :]
        rows = _rows(layout, lines[1 : 1 + layout.height], first + 1, where)
        if word == "exits":
            layout = replace(layout, exits=_exits(layout, rows, first + 1, where))
        else:
            layout = replace(layout, speed_limit_mps=_limits(layout, fields, rows, first, where))
        first += 1 + layout.height
        lines = lines[1 + layout.height :]
    return layout


def format_sections(layout: Layout) -> list[str]:
    """The lines of the sections that a layout needs; none for a plain one.

    There are letters for 52 different speed limits; of more, the limits are rounded down to as many.
    """
    lines: list[str] = []
    shape = layout.blocked.shape
    if layout.exits is not None:
        digits = np.array(list("0123456789abcdef"))[layout.exits].reshape(shape)
        lines += ["exits", *("".join(row) for row in digits)]
    if layout.speed_limit_mps is not None:
        limits = layout.speed_limit_mps
        limited = np.isfinite(limits)
        levels = _levels(limits[limited])
        letters = np.full(limits.size, _NO_LIMIT)
        letters[limited] = np.array(list(_LETTERS))[np.searchsorted(levels, limits[limited], side="right") - 1]
        named = (f"{letter}={level}" for letter, level in zip(_LETTERS, levels, strict=False))
        lines += [" ".join(["speed_limits", *named]), *("".join(row) for row in letters.reshape(shape))]
    return lines


def _levels(limits: NDArray[np.float32]) -> NDArray[np.float32]:
    levels = np.unique(limits)
    if len(levels) <= len(_LETTERS):
        return levels
    places = np.linspace(0, len(levels) - 1, len(_LETTERS)).astype(np.int64)
    return levels[places]


def _rows(layout: Layout, rows: list[str], first: int, where: str) -> NDArray[np.str_]:
    for index, row in enumerate(rows):
        if len(row) != layout.width:
            raise LayoutError(f"{where}: line {first + index}: expected {layout.width} characters, got {len(row)}.")
    if len(rows) < layout.height:
        raise LayoutError(
            f"{where}: line {first + len(rows)}: expected {layout.height} rows, got the end of the file after "
            f"{len(rows)}."
        )
    return np.array([list(row) for row in rows])


def _exits(layout: Layout, rows: NDArray[np.str_], first: int, where: str) -> NDArray[np.uint8]:
    allowed = np.isin(rows, list("0123456789abcdef"))
    _require(allowed, rows, first, where, "a digit from 0 to f")
    _require(~layout.blocked | (rows == "0"), rows, first, where, "0 in a blocked cell")
    exits = np.array([[int(digit, 16) for digit in row] for row in rows.tolist()], np.uint8)
    return exits.ravel()


def _limits(layout: Layout, fields: list[str], rows: NDArray[np.str_], first: int, where: str) -> NDArray[np.float32]:
    limits = {_NO_LIMIT: math.nan}
    for field in fields:
        letter, _, speed = field.partition("=")
        try:
            value = float(speed)
        except ValueError:
            value = math.nan
        if letter not in set(_LETTERS) or letter in limits or not 0 < value < math.inf:
            raise LayoutError(
                f"{where}: line {first}: expected letters with speeds > 0 m/s like 'a=0.5', each once, "
                f"got {field[:40]!r}."
            )
        limits[letter] = value
    _require(np.isin(rows, list(limits)), rows, first + 1, where, f"one of {' '.join(limits)}")
    return np.array([[limits[letter] for letter in row] for row in rows.tolist()], np.float32).ravel()


def _require(allowed: NDArray[np.bool_], rows: NDArray[np.str_], first: int, where: str, expected: str) -> None:
    if not allowed.all():
        row, column = np.argwhere(~allowed)[0]
        raise LayoutError(
            f"{where}: line {first + row}, character {column + 1}: expected {expected}, got {str(rows[row, column])!r}."
        )
