"""Map files of every supported format, told apart by their content."""

from __future__ import annotations

import math
from pathlib import Path

from bridge.errors import LayoutError
from bridge.maps.import_warnings import ImportWarnings
from bridge.maps.movingai import format_movingai, looks_like_movingai, parse_movingai
from bridge.warehouse.layout import MAX_CELLS, Layout

__all__ = ["MAX_MAP_BYTES", "load_layout_file", "read_bounded", "write_layout_file"]

# Three grids of the largest size (cells, exits, speed limits), one character per cell, CRLF behind
# every row of one cell, and header lines.
MAX_MAP_BYTES = 3 * 3 * MAX_CELLS + 4096


def load_layout_file(path: Path, cell_size_m: float, warnings: ImportWarnings | None = None) -> Layout:
    """Read a map file.

    Formats: MovingAI ``.map`` (also with the letters of the League of Robot Runners).

    Args:
        path: The file.
        cell_size_m: Edge length of a cell in m, for formats that do not state it.
        warnings: Receives what is loose about the file.

    Raises:
        LayoutError: Names the file, and the line where there is one.
    """
    if not (math.isfinite(cell_size_m) and cell_size_m > 0):
        raise LayoutError(f"{path}: expected a cell size > 0 m, got {cell_size_m}.")
    # Latin-1 decodes any byte; one that is no cell is refused where its line and column are known.
    text = read_bounded(path, MAX_MAP_BYTES, "map file").decode("latin-1").removeprefix("\xef\xbb\xbf")
    if looks_like_movingai(text) or path.suffix.lower() == ".map":
        return parse_movingai(text, cell_size_m, str(path), warnings)
    raise LayoutError(
        f"{path}: expected a map file, got one of an unknown format. "
        "Supported: MovingAI .map, whose first line is 'type octile'. Import files of other formats first: "
        "agv-bridge scenarios import."
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


def read_bounded(path: Path, max_bytes: int, kind: str) -> bytes:
    """The content of a file that is not larger than it can sensibly be.

    Raises:
        LayoutError: It cannot be read or is larger.
    """
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise LayoutError(f"{path}: expected a {kind} that can be read, got: {reason}.") from error
    if len(data) > max_bytes:
        raise LayoutError(f"{path}: expected at most {max_bytes} bytes, got more. Is it a {kind}?")
    return data
