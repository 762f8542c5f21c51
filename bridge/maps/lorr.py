"""Problems of the League of Robot Runners: a JSON file that names a map, agents and tasks.

Agents start where the ``.agents`` file says, which makes these cells parking places. A task is
a chain of errands (cells to visit in order); the simulator's transports go from one pick-up to
one delivery, so that the first errand of every chain is a pick-up, the last one a delivery,
and errands between them are left out.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError
from bridge.maps.documents import Item
from bridge.maps.files import load_layout_file, read_bounded
from bridge.maps.floor import largest_component
from bridge.maps.grid_stations import place_stations, reachable_cells, wanted_numbers
from bridge.maps.import_options import Imported, ImportOptions, fleet_size
from bridge.maps.lorr_delays import read_delays
from bridge.warehouse.config_fleet import MAX_ROBOTS
from bridge.warehouse.layout import MAX_CELLS, Layout

__all__ = ["import_lorr", "looks_like_lorr"]

_MAX_LIST_BYTES: Final = 32 * 1024 * 1024
_MAX_ROWS: Final = 1_000_000
_MAX_ERRANDS: Final = 1000


def looks_like_lorr(document: object) -> bool:
    """Whether a JSON document means to be a problem of the League of Robot Runners."""
    return isinstance(document, dict) and bool({"mapFile", "agentFile", "taskFile"} & document.keys())


def import_lorr(document: Item, path: Path, options: ImportOptions, robots: int | None) -> Imported:
    """The layout of a problem.

    Args:
        document: The JSON file.
        path: Where it lies; the files that it names have to lie in its folder or below.
        options: Cell size and numbers of stations.
        robots: Size of the fleet; ``teamSize`` if None.

    Raises:
        LayoutError: Names the file and the key or line that is wrong.
    """
    where = document.file
    stated = document.get("teamSize") if robots is None else None
    num_robots = fleet_size(robots, None if stated is None else stated.integer(1, MAX_ROBOTS), where)
    map_path = _inside(path, document.require("mapFile"))
    layout = load_layout_file(map_path, options.cell_size_m or 1.0, document.warnings)
    starts = _read_starts(_inside(path, document.require("agentFile")), layout)
    tasks = _read_tasks(_inside(path, document.require("taskFile")), layout)
    if len(starts) < num_robots:
        document.warnings.add(
            f"The problem has {len(starts)} agents for {num_robots} robots; the others start on free cells."
        )
    notes: list[str] = []
    floor = largest_component(~layout.blocked)
    agents = reachable_cells(floor, starts[:num_robots], "agents", document.warnings)
    pickups, deliveries = _stations(document, floor, tasks, wanted_numbers(options.stations, num_robots), notes)
    if len(layout.pickups) or len(layout.deliveries):
        notes.append("The letters S and E of the map were not used: the tasks say more.")
    placed = place_stations(layout, pickups, deliveries, agents, where)
    notes.append(
        f"parking places: the starts of {len(placed.parking)} of {num_robots} agents; the others are stations."
    )
    delays = read_delays(document)
    return Imported(
        placed,
        f"League of Robot Runners problem on {map_path.name}",
        num_robots,
        tuple(notes),
        document.warnings.lines(),
        delays=delays,
    )


def _inside(path: Path, reference: Item) -> Path:
    """A file that the problem names, which has to lie in its folder or below."""
    name = reference.text().replace("\\", "/")
    try:
        folder = path.resolve().parent
        target = (folder / name).resolve()
        is_inside = not Path(name).is_absolute() and target.is_relative_to(folder)
        is_file = is_inside and target.is_file()
    except (OSError, ValueError) as error:
        raise reference.fault("the path of a file") from error
    if not is_inside:
        raise reference.fault("a path inside the problem's folder", "Put the file beside the problem.")
    if not is_file:
        raise reference.fault(f"a file in {folder}", "There is none of this name.")
    return target


def _rows(path: Path) -> list[tuple[int, str]]:
    """Numbered lines of an agent or task file behind the count, without comments and blank lines."""
    where = str(path)
    text = read_bounded(path, _MAX_LIST_BYTES, "list of agents or tasks").decode("utf-8-sig", errors="replace")
    lines = [(number, line.split("#")[0].strip()) for number, line in enumerate(text.split("\n"), 1)]
    lines = [(number, line) for number, line in lines if line]
    if not lines:
        raise LayoutError(f"{where}: expected the number of rows in the first line, got an empty file.")
    number, first = lines[0]
    count = _location(first, _MAX_ROWS, number, where)
    rows = lines[1:]
    if len(rows) < count:
        raise LayoutError(f"{where}: line {number}: expected {count} rows as it says, got {len(rows)}.")
    return rows[:count]


def _read_starts(path: Path, layout: Layout) -> list[int]:
    return [_free_cell(line, layout, number, str(path)) for number, line in _rows(path)]


def _read_tasks(path: Path, layout: Layout) -> list[list[int]]:
    tasks = []
    for number, line in _rows(path):
        fields = line.rstrip(",").split(",")
        if len(fields) > _MAX_ERRANDS:
            raise LayoutError(f"{path}: line {number}: expected at most {_MAX_ERRANDS} errands, got {len(fields)}.")
        tasks.append([_free_cell(field, layout, number, str(path)) for field in fields])
    return tasks


def _location(field: str, largest: int, number: int, where: str) -> int:
    word = field.strip()
    if not (word.isdecimal() and word.isascii() and len(word) <= 7 and int(word) <= largest):
        raise LayoutError(f"{where}: line {number}: expected a whole number from 0 to {largest}, got {word[:40]!r}.")
    return int(word)


def _free_cell(field: str, layout: Layout, number: int, where: str) -> int:
    cell = _location(field, min(MAX_CELLS, layout.blocked.size - 1), number, where)
    if layout.blocked.flat[cell]:
        row, column = divmod(cell, layout.width)
        raise LayoutError(
            f"{where}: line {number}: expected a free cell, got {cell} (row {row}, column {column}), which is blocked."
        )
    return cell


def _stations(
    document: Item, floor: NDArray[np.bool_], tasks: list[list[int]], wanted: tuple[int, int], notes: list[str]
) -> tuple[list[int], list[int]]:
    """Pick-ups and deliveries: the cells where most tasks begin and end; each cell is one of the two."""
    chains = [task for task in tasks if len(task) > 1]
    lengths = Counter(len(task) for task in chains)
    longer = sum(count for length, count in lengths.items() if length > 2)
    if longer:
        document.warnings.add(
            f"{longer} of {len(tasks)} tasks have more than two errands; only their first and last ones were taken."
        )
    if not chains and tasks:
        # The league of 2023: one cell per task, and a robot does one task after the other.
        document.warnings.add("Tasks have one errand each; every second one was taken for a delivery.")
        chains = [[*pair[0], *pair[1]] for pair in zip(tasks[::2], tasks[1::2], strict=False)]
    begins = Counter(task[0] for task in chains)
    ends = Counter(task[-1] for task in chains)
    fetch = [cell for cell in begins if begins[cell] >= ends[cell]]
    bring = [cell for cell in ends if ends[cell] > begins[cell]]
    fetch = reachable_cells(floor, fetch, "pick-ups", document.warnings)
    bring = reachable_cells(floor, bring, "deliveries", document.warnings)
    pickups, deliveries = _busiest(fetch, begins, wanted[0]), _busiest(bring, ends, wanted[1])
    notes.append(
        f"pick-ups: the {len(pickups)} busiest of {len(begins)} cells where tasks begin; "
        f"deliveries: the {len(deliveries)} busiest of {len(ends)} cells where tasks end. "
        "A cell where both happen is what happens there more often."
    )
    return pickups, deliveries


def _busiest(cells: list[int], uses: Counter[int], wanted: int) -> list[int]:
    """The most used cells; of equally used ones, evenly many from all over the list."""
    if wanted >= len(cells):
        return cells
    spread = np.argsort((np.arange(len(cells)) + 0.5) * (5**0.5 - 1) / 2 % 1.0, kind="stable").tolist()
    return sorted((cells[place] for place in spread), key=lambda cell: -uses[cell])[:wanted]
