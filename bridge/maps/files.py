"""Map files of every supported format, told apart by their content."""

from __future__ import annotations

import math
from pathlib import Path

from bridge.errors import LayoutError
from bridge.maps.movingai import format_movingai, looks_like_movingai, parse_movingai
from bridge.warehouse.layout import MAX_CELLS, Layout

__all__ = ["MAX_MAP_BYTES", "load_layout_file", "write_layout_file"]

# The largest map, one character per cell, CRLF behind every row of one cell, and a header.
MAX_MAP_BYTES = 3 * MAX_CELLS + 1024


def load_layout_file(path: Path, cell_size_m: float) -> Layout:
    """Read a map file.

    Formats: MovingAI ``.map`` (also with the letters of the League of Robot Runners).

    Args:
        path: The file.
        cell_size_m: Edge length of a cell in m, for formats that do not state it.

    Raises:
        LayoutError: Names the file, and the line where there is one.
    """
    if not (math.isfinite(cell_size_m) and cell_size_m > 0):
        raise LayoutError(f"{path}: expected a cell size > 0 m, got {cell_size_m}.")
    text = _read(path)
    if looks_like_movingai(text) or path.suffix.lower() == ".map":
        return parse_movingai(text, cell_size_m, str(path))
    raise LayoutError(
        f"{path}: expected a map file, got one of an unknown format. "
        "Supported: MovingAI .map, whose first line is 'type octile'."
    )


def write_layout_file(layout: Layout, path: Path) -> None:
    """Write a layout as a MovingAI ``.map`` file; the cell size is not part of the format.

    Raises:
        LayoutError: The file cannot be written.
    """
    try:
        path.write_text(format_movingai(layout), encoding="ascii", newline="\n")
    except OSError as error:
        raise LayoutError(f"{path}: expected a file that can be written, got: {error.strerror}.") from error


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_MAP_BYTES + 1)
    except OSError as error:
        raise LayoutError(f"{path}: expected a map file that can be read, got: {error.strerror}.") from error
    if len(data) > MAX_MAP_BYTES:
        raise LayoutError(f"{path}: expected at most {MAX_MAP_BYTES} bytes, got more. Is it a map file?")
    # Latin-1 decodes any byte; one that is no cell is refused where its line and column are known.
    return data.decode("latin-1")
