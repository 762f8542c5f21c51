"""The text format of the MovingAI benchmark maps, with the letters of its extensions.

A file is ``type octile``, ``height H``, ``width W``, ``map`` and then H rows of W
characters; row 0 is the top. The benchmark itself (Stern et al. 2019) has blocked
(``@ O T W``) and free (``. G S``) cells only. The League of Robot Runners reads ``S`` as
a pick-up and ``E`` as a delivery; agv-bridge adds ``P`` for a parking place, ``C`` for a
charger and ``#`` for a blocked cell. What the letters mean stands in
:meth:`bridge.warehouse.layout.Layout.from_drawing`; this module is about lines. Behind the
rows, a layout file may have the sections of ``bridge/maps/layout_sections.py``.
"""

from __future__ import annotations

from bridge.errors import LayoutError
from bridge.maps.import_warnings import ImportWarnings
from bridge.maps.layout_sections import format_sections, is_section, parse_sections
from bridge.warehouse.layout import MAX_CELLS, Layout

__all__ = ["format_movingai", "looks_like_movingai", "parse_movingai"]

_HEADER_LINES = 4
_SIZES = ("height", "width")
_LETTERS = frozenset("#@TOW.GSEPC")


def looks_like_movingai(text: str) -> bool:
    """Whether a file of this content means to be a MovingAI map, going by its first word."""
    return text.lstrip()[:5].rstrip() == "type"


def parse_movingai(text: str, cell_size_m: float, where: str, warnings: ImportWarnings | None = None) -> Layout:
    """A layout from the content of a ``.map`` file.

    Args:
        text: Content of the file; lines end in LF or CRLF, blank lines may follow the last row.
        cell_size_m: Edge length of a cell in m; the format has none.
        where: Name of the file for messages.
        warnings: Receives what is loose about the file: blanks behind rows, width before height.

    Raises:
        LayoutError: Names the file and the line that is wrong.
    """
    warnings = ImportWarnings() if warnings is None else warnings
    lines = text.split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    while lines and not lines[-1].strip():
        lines.pop()
    _check_type(lines, where, warnings)
    first, second = ("width", "height") if _begins(lines, 1, "width") and _begins(lines, 2, "height") else _SIZES
    size = {first: _read_size(lines, 1, first, where), second: _read_size(lines, 2, second, where)}
    if first == "width":
        warnings.add("The width stands before the height.")
    height, width = size["height"], size["width"]
    if height * width > MAX_CELLS:
        raise LayoutError(
            f"{where}: line 3: expected at most {MAX_CELLS} cells, got {height} x {width} = {height * width}. "
            "Cut the map into smaller ones."
        )
    _require_word(lines, 3, "map", where)
    end = _HEADER_LINES + height
    has_sections = len(lines) > end and is_section(lines[end])
    rows = _without_blanks(lines[_HEADER_LINES:end] if has_sections else lines[_HEADER_LINES:], width, warnings)
    _check_rows(rows, height, width, where)
    layout = Layout.from_drawing(rows, cell_size_m, where)
    return parse_sections(layout, lines[end:], end + 1, where) if has_sections else layout


def format_movingai(layout: Layout) -> str:
    """The content of a ``.map`` file; blocked cells become ``@``, which every reader of the format knows."""
    rows = [row.replace("#", "@") for row in layout.to_drawing()]
    header = ["type octile", f"height {layout.height}", f"width {layout.width}", "map"]
    return "\n".join([*header, *rows, *format_sections(layout), ""])


def _check_type(lines: list[str], where: str, warnings: ImportWarnings) -> None:
    """The first line says how robots of the file's maker move, which changes nothing about the cells."""
    words = lines[0].split() if lines else []
    if len(words) != 2 or words[0] != "type":
        raise LayoutError(f"{where}: line 1: expected 'type octile', got {_shown(lines[0] if lines else None)}.")
    if words[1] != "octile":
        warnings.add(f"The type is {words[1][:40]!r}, not 'octile'; robots move up, right, down and left all the same.")


def _require_word(lines: list[str], index: int, word: str, where: str) -> None:
    found = lines[index] if index < len(lines) else None
    if found is None or found.split() != word.split():
        raise LayoutError(f"{where}: line {index + 1}: expected {word!r}, got {_shown(found)}.")


def _begins(lines: list[str], index: int, key: str) -> bool:
    return index < len(lines) and lines[index].split()[:1] == [key]


def _without_blanks(rows: list[str], width: int, warnings: ImportWarnings) -> list[str]:
    """Rows without the blanks that editors leave behind them."""
    kept = [row if len(row) <= width else row[:width] + row[width:].rstrip() for row in rows]
    if kept != rows:
        warnings.add("Rows have blanks behind their cells.")
    return kept


def _read_size(lines: list[str], index: int, key: str, where: str) -> int:
    found = lines[index] if index < len(lines) else None
    parts = found.split() if found is not None else []
    # At most seven digits: MAX_CELLS has as many, and int() never sees a number of unbounded length.
    if len(parts) != 2 or parts[0] != key or not (parts[1].isdecimal() and parts[1].isascii() and len(parts[1]) <= 7):
        raise LayoutError(
            f"{where}: line {index + 1}: expected '{key} N' with N from 1 to {MAX_CELLS}, got {_shown(found)}."
        )
    size = int(parts[1])
    if not 1 <= size <= MAX_CELLS:
        raise LayoutError(f"{where}: line {index + 1}: expected a {key} from 1 to {MAX_CELLS}, got {size}.")
    return size


def _check_rows(rows: list[str], height: int, width: int, where: str) -> None:
    for index, row in enumerate(rows[:height]):
        line = index + _HEADER_LINES + 1
        if len(row) != width:
            raise LayoutError(
                f"{where}: line {line}: expected {width} cells as the header says, got {len(row)}. "
                "Every row has one character per cell and nothing else."
            )
        if not _LETTERS.issuperset(row):
            column = next(place for place, cell in enumerate(row) if cell not in _LETTERS)
            raise LayoutError(
                f"{where}: line {line}, character {column + 1}: expected one of "
                f"{' '.join(sorted(_LETTERS))}, got {row[column]!r}."
            )
    if len(rows) != height:
        line = min(len(rows), height) + _HEADER_LINES + 1
        raise LayoutError(f"{where}: line {line}: expected {height} rows as the header says, got {len(rows)}.")


def _shown(line: str | None) -> str:
    if line is None:
        return "the end of the file"
    return repr(line if len(line) <= 40 else line[:40] + "...")
