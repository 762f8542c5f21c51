"""MovingAI ``.scen`` files: one line per robot with its start and its goal.

The benchmark is one-shot, every robot drives once. Here robots work on, so that the starts of
the first robots become their parking places, and the goals, in the order of the file, become
pick-ups and deliveries. The optimal lengths in the file are octile and of no use on a grid.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from bridge.errors import LayoutError
from bridge.maps.files import load_layout_file
from bridge.maps.floor import largest_component
from bridge.maps.grid_stations import place_stations, reachable_cells, wanted_numbers
from bridge.maps.import_options import Imported, ImportOptions, fleet_size
from bridge.maps.import_warnings import ImportWarnings
from bridge.warehouse.layout import MAX_CELLS, Layout

__all__ = ["import_scen", "looks_like_scen"]

_FIELDS: Final = 9
_MAX_ROWS: Final = 200_000


class _Row(NamedTuple):
    """One robot; x is the column, y the row."""

    line: int
    map_name: str
    width: int
    height: int
    start: tuple[int, int]
    goal: tuple[int, int]


def looks_like_scen(text: str) -> bool:
    """Whether a file of this content means to be a ``.scen`` file, going by its first line."""
    first = text.lstrip(" \t\r\n").split("\n", 1)[0].split()
    return bool(first) and first[0] == "version"


def import_scen(text: str, path: Path, options: ImportOptions, robots: int | None) -> Imported:
    """The layout of the map of a ``.scen`` file, with stations at its starts and goals.

    Args:
        text: Content of the file.
        path: The file; its map lies beside it unless the options name one.
        options: Map file, cell size, numbers of stations, and whether to rescale.
        robots: Size of the fleet; the format leaves it open.

    Raises:
        LayoutError: Names the file and the line that is wrong.
    """
    where = str(path)
    num_robots = fleet_size(robots, None, where)
    warnings = ImportWarnings()
    rows = _parse(text, where, warnings)
    map_path = _map_path(path, rows[0], options)
    layout = load_layout_file(map_path, options.cell_size_m or 1.0, warnings)
    starts, goals = _cells(rows, layout, options, map_path, where)
    return _stationed(layout, starts, goals, num_robots, options, warnings, where, map_path.name)


def _parse(text: str, where: str, warnings: ImportWarnings) -> list[_Row]:
    lines = text.removeprefix("\ufeff").split("\n")
    begin = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[begin].split()[:1] == ["version"]:
        if not re.fullmatch(r"version\s+1(\.0*)?", lines[begin].strip()):
            raise LayoutError(f"{where}: line {begin + 1}: expected 'version 1', got {lines[begin].strip()[:40]!r}.")
        begin += 1
    else:
        warnings.add("The file has no version line; it was read as version 1.")
    rows: list[_Row] = []
    for index, line in enumerate(lines[begin:], begin + 1):
        if not line.strip():
            continue
        if len(rows) == _MAX_ROWS:
            raise LayoutError(f"{where}: line {index}: expected at most {_MAX_ROWS} robots, got more.")
        rows.append(_row(line.strip(), index, where))
    if not rows:
        raise LayoutError(f"{where}: expected at least one robot's line, got none.")
    return rows


def _row(line: str, number: int, where: str) -> _Row:
    parts = line.split("\t")
    if len(parts) != _FIELDS:
        # Blanks instead of tabs; only the second field, a file name, may hold blanks itself.
        head, *numbers = line.rsplit(None, _FIELDS - 2)
        parts = [*head.split(None, 1), *numbers]
    if len(parts) != _FIELDS:
        raise LayoutError(
            f"{where}: line {number}: expected {_FIELDS} fields (bucket, map, width, height, start x, start y, goal x, "
            f"goal y, length), got {len(parts)}."
        )
    values = [_whole(field, place + 3, number, where) for place, field in enumerate(parts[2:8])]
    width, height, *ends = values
    return _Row(number, parts[1].strip(), width, height, (ends[0], ends[1]), (ends[2], ends[3]))


def _whole(field: str, place: int, number: int, where: str) -> int:
    word = field.strip()
    # Some exporters write 12.0; seven digits hold every cell of the largest map.
    word = word.removesuffix(".0")
    if not (word.isdecimal() and word.isascii() and len(word) <= 7):
        raise LayoutError(
            f"{where}: line {number}: expected a whole number from 0 to {MAX_CELLS} in field {place}, "
            f"got {field.strip()[:40]!r}."
        )
    return int(word)


def _map_path(path: Path, row: _Row, options: ImportOptions) -> Path:
    if options.map_file is not None:
        return options.map_file
    # Only the name counts: the folder is that of whoever wrote the file.
    name = row.map_name.replace("\\", "/").rsplit("/", 1)[-1]
    beside = path.parent / name
    if name in ("", ".", "..") or "\0" in name or not beside.is_file():
        raise LayoutError(
            f"{path}: line {row.line}: expected the map {name[:100]!r} in the same folder, got no such file. "
            "Name the map with --map."
        )
    return beside


def _cells(
    rows: list[_Row], layout: Layout, options: ImportOptions, map_path: Path, where: str
) -> tuple[list[int], list[int]]:
    starts: list[int] = []
    goals: list[int] = []
    for row in rows:
        if (row.height, row.width) != (layout.height, layout.width) and not options.rescale:
            raise LayoutError(
                f"{where}: line {row.line}: expected the size of {map_path.name}, {layout.width} x {layout.height}, "
                f"got {row.width} x {row.height}. Choose its map with --map, or stretch the coordinates with --rescale."
            )
        for cells, (x, y), kind in ((starts, row.start, "start"), (goals, row.goal, "goal")):
            if x >= row.width or y >= row.height:
                raise LayoutError(
                    f"{where}: line {row.line}: expected a {kind} within {row.width} x {row.height} cells, "
                    f"got x={x}, y={y}."
                )
            column, down = x * layout.width // row.width, y * layout.height // row.height
            cell = down * layout.width + column
            if layout.blocked.flat[cell] and not options.rescale:
                raise LayoutError(
                    f"{where}: line {row.line}: expected a {kind} on a free cell of {map_path.name}, got x={x}, y={y}, "
                    "which is blocked. Is it the right map?"
                )
            cells.append(cell)
    return starts, goals


def _stationed(
    layout: Layout,
    starts: list[int],
    goals: list[int],
    num_robots: int,
    options: ImportOptions,
    warnings: ImportWarnings,
    where: str,
    map_name: str,
) -> Imported:
    floor = largest_component(~layout.blocked)
    starts = reachable_cells(floor, starts[:num_robots], "starts", warnings)
    goals = reachable_cells(floor, goals, "goals", warnings)
    parked = set(starts)
    apart = [cell for cell in goals if cell not in parked]
    num_pickups, num_deliveries = wanted_numbers(options.stations, num_robots)
    if num_pickups + num_deliveries > len(apart):
        warnings.add(f"The file has {len(apart)} goals for {num_pickups} pick-ups and {num_deliveries} deliveries.")
        num_deliveries = max(1, len(apart) * num_deliveries // (num_pickups + num_deliveries))
        num_pickups = len(apart) - num_deliveries
    # Every so many goals one delivery, so that both kinds lie all over the floor.
    used = apart[: num_pickups + num_deliveries]
    every = max(1, len(used) // num_deliveries)
    deliveries = used[every - 1 :: every][:num_deliveries]
    brought = set(deliveries)
    pickups = [cell for cell in used if cell not in brought]
    if num_robots > len(starts):
        warnings.add(f"The file has {len(starts)} starts for {num_robots} robots; the others start on free cells.")
    placed = place_stations(layout, pickups, deliveries, starts, where)
    notes = (
        f"parking places: the starts of the first {len(starts)} robots.",
        f"stations: the first {len(used)} goals that are no start; every {every}th of them is a delivery, "
        "the others are pick-ups.",
    )
    return Imported(placed, f"MovingAI .scen on {map_name}", num_robots, notes, warnings.lines())
