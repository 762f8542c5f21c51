"""A scenario folder from a map file: ``scenario.yaml`` and ``layout.map``.

What the importer derived, and by which rule, stands in the header comment of the YAML;
everything in it can be edited afterwards.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import yaml

from bridge.errors import LayoutError, ScenarioError
from bridge.maps.files import write_layout_file
from bridge.maps.formats import read_layout
from bridge.maps.import_options import Imported, ImportOptions
from bridge.maps.route_room import fit_route_tables
from bridge.maps.stations import StationRules
from bridge.scenario_name import MAX_SCENARIO_NAME, default_scenario_name
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.config_randomisation import ExecutionDelayConfig
from bridge.warehouse.layout import Layout

__all__ = ["ImportedScenario", "import_layout", "import_map"]

_LAYOUT_FILE = "layout.map"
_SCENARIO_FILE = "scenario.yaml"
_DEFAULT_RADIUS_M = 0.35
_LARGEST_SHARE = 0.45


class ImportedScenario(NamedTuple):
    """The scenario file that an import wrote, and sentences on what is loose about the map file."""

    path: Path
    warnings: tuple[str, ...]


def import_layout(
    map_path: Path,
    *,
    out_folder: Path,
    robots: int | None = None,
    name: str | None = None,
    options: ImportOptions | None = None,
    overwrite: bool = False,
) -> ImportedScenario:
    """Write a scenario folder for a map file of any supported format.

    Args:
        map_path: A file that :func:`bridge.maps.formats.read_layout` reads.
        out_folder: Folder to write ``scenario.yaml`` and ``layout.map`` into; made if it is missing.
        robots: Size of the fleet; None: as the file states.
        name: Name of the scenario; the map file's stem, in lower case, by default.
        options: Cell size, stations, level and the like.
        overwrite: Replace files of an earlier import.

    Returns:
        The path of ``scenario.yaml``, and the warnings, which stand in its header as well.

    Raises:
        LayoutError: Nothing sensible can be made of the map; nothing has been written.
        ScenarioError: The name is not allowed, or the folder already holds a scenario.
    """
    name = default_scenario_name(map_path, "imported") if name is None else _checked_name(name)
    scenario_path, layout_path = out_folder / _SCENARIO_FILE, out_folder / _LAYOUT_FILE
    for path in (scenario_path, layout_path):
        if path.exists() and not overwrite:
            raise ScenarioError(f"{path}: expected no such file yet, got one. Choose another folder, or overwrite it.")
    imported = _amended(read_layout(map_path, options, robots), options)
    text = _scenario_text(name, map_path.name, imported)
    _check(text, imported.layout, map_path)
    try:
        out_folder.mkdir(parents=True, exist_ok=True)
        write_layout_file(imported.layout, layout_path)
        scenario_path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LayoutError(f"{out_folder}: expected a folder that can be written, got: {error.strerror}.") from error
    return ImportedScenario(scenario_path, imported.warnings)


def import_map(
    map_path: Path,
    *,
    robots: int,
    out_folder: Path,
    name: str | None = None,
    cell_size_m: float = 1.0,
    rules: StationRules | None = None,
    overwrite: bool = False,
) -> Path:
    """:func:`import_layout` for a MovingAI map.

    Args:
        map_path: The map.
        robots: Size of the fleet.
        out_folder: Folder to write into.
        name: Name of the scenario; the map file's stem, in lower case, by default.
        cell_size_m: Edge length of a cell in m.
        rules: How many stations there shall be, and where; the defaults of :class:`StationRules` if None.
        overwrite: Replace files of an earlier import.

    Returns:
        The path of ``scenario.yaml``.

    Raises:
        LayoutError: The map is malformed or has no room for the fleet and its stations.
        ScenarioError: The name is not allowed, or the folder already holds a scenario.
    """
    options = ImportOptions(cell_size_m=cell_size_m, stations=StationRules() if rules is None else rules)
    return import_layout(
        map_path, out_folder=out_folder, robots=robots, name=name, options=options, overwrite=overwrite
    ).path


def _check(text: str, layout: Layout, map_path: Path) -> None:
    """Prove that the scenario would open, before anything is written."""
    # Not at the top: it compiles the simulator's kernels.
    from bridge.warehouse.validation import check_warehouse

    config = WarehouseConfig.model_validate_json(json.dumps(yaml.safe_load(text)["warehouse"]))
    try:
        check_warehouse(config, layout, f"{map_path}: warehouse")
    except ScenarioError as error:
        raise LayoutError(str(error)) from error


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name) or len(name) > MAX_SCENARIO_NAME:
        raise ScenarioError(
            f"import: name: expected at most {MAX_SCENARIO_NAME} of a-z, 0-9, '_' and '-', got {name!r}. "
            "Use lower case, without spaces."
        )
    return name


def _scenario_text(name: str, map_name: str, imported: Imported) -> str:
    layout, robots = imported.layout, imported.num_robots
    return f"""\
# {robots} robots on a floor imported from {_printable(map_name)}
# ({layout.height} x {layout.width} cells of {layout.cell_size_m:g} m, {layout.num_free} free).
# Format: {_printable(imported.source)}.
#
# The import made {_LAYOUT_FILE} by these rules; edit the letters there
# (S pick-up, E delivery, P parking, C charger) to move a station:
{_listed(imported.notes)}
{_warned(imported.warnings)}schema: 1
name: "{name}"
world: warehouse
warehouse:
  layout: {{file: {_LAYOUT_FILE}, cell_size_m: {layout.cell_size_m!r}}}
  fleet:
    - {{role: carrier, count: {robots}{_radius(_radius_m(imported))}}}
  tasks: {{open: {robots}}}   # a backlog of one waiting transport per robot
  observation:
    - {{block: self}}
    - {{block: target}}
    - {{block: path}}
    - {{block: window, radius: 2}}
    - {{block: neighbours, range_m: {6 * layout.cell_size_m:g}}}
  # Progress is potential-based shaping: it speeds learning up and leaves the best policy as it is.
  reward: {{delivery: 1.0, pickup: 0.5, progress: 0.05, blocked: -0.02}}
  mask_blocked_moves: true
{_delayed(imported.delays)}  episode_steps: {_episode_steps(layout)}
"""


def _delayed(delays: ExecutionDelayConfig | None) -> str:
    """The line of the execution delays, if there are any."""
    if delays is None:
        return ""
    stated = ", ".join(f"{name}: {value}" for name, value in delays.model_dump(exclude_defaults=True).items())
    return f"  randomisation: {{execution_delays: {{{stated}}}}}\n"


def _listed(sentences: tuple[str, ...]) -> str:
    return "\n".join(
        textwrap.fill(_printable(sentence), width=100, initial_indent="# - ", subsequent_indent="#   ")
        for sentence in sentences
    )


def _warned(warnings: tuple[str, ...]) -> str:
    return f"#\n# The file is loose in places:\n{_listed(warnings)}\n" if warnings else ""


def _printable(text: str) -> str:
    """Names of strangers must not end a comment line, or hide in it."""
    return re.sub(r"[^\x20-\x7e]", "?", text)


def _amended(imported: Imported, options: ImportOptions | None) -> Imported:
    """What the simulator has room for, with a warning where robots or stations had to become smaller or fewer."""
    # Not at the top: it compiles the simulator's kernels.
    from bridge.warehouse.floor import max_goals

    rules = StationRules() if options is None else options.stations
    imported = fit_route_tables(imported, rules, max_goals(imported.layout))
    radius_m = _radius_m(imported)
    if imported.vehicle_width_m is not None or radius_m == _DEFAULT_RADIUS_M:
        return imported
    sentence = (
        f"Robots have a radius of {radius_m:g} m instead of {_DEFAULT_RADIUS_M:g} m, to fit into cells of "
        f"{imported.layout.cell_size_m:g} m."
    )
    return replace(imported, warnings=(*imported.warnings, sentence))


def _radius_m(imported: Imported) -> float:
    """A footprint that fits into a cell, with a gap to the next one: that of the vehicle, or the usual one."""
    width_m = 2 * _DEFAULT_RADIUS_M if imported.vehicle_width_m is None else imported.vehicle_width_m
    return float(f"{min(width_m / 2, _LARGEST_SHARE * imported.layout.cell_size_m):.4g}")


def _radius(radius_m: float) -> str:
    return "" if radius_m == _DEFAULT_RADIUS_M else f", radius_m: {radius_m:g}"


def _episode_steps(layout: Layout) -> int:
    """Time for some transports per robot: four times the way around half the floor, in hundreds."""
    return max(500, -(-4 * (layout.height + layout.width) // 100) * 100)
