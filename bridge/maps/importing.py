"""A scenario folder from a map file: ``scenario.yaml`` and ``layout.map``.

What the importer derived, and by which rule, stands in the header comment of the YAML;
everything in it can be edited afterwards.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from bridge.errors import LayoutError, ScenarioError
from bridge.maps.files import load_layout_file, write_layout_file
from bridge.maps.stations import StationedLayout, StationRules, derive_stations
from bridge.warehouse.layout import Layout

__all__ = ["import_map"]

_LAYOUT_FILE = "layout.map"
_SCENARIO_FILE = "scenario.yaml"
_MAX_NAME = 64


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
    """Write a scenario folder for a map file.

    Args:
        map_path: Map in a format of :func:`bridge.maps.files.load_layout_file`.
        robots: Size of the fleet.
        out_folder: Folder to write ``scenario.yaml`` and ``layout.map`` into; made if it is missing.
        name: Name of the scenario; the map file's stem, in lower case, by default.
        cell_size_m: Edge length of a cell in m; MovingAI maps have none.
        rules: How many stations there shall be, and where; the defaults of :class:`StationRules` if None.
        overwrite: Replace files of an earlier import.

    Returns:
        The path of ``scenario.yaml``.

    Raises:
        LayoutError: The map is malformed or has no room for the fleet and its stations.
        ScenarioError: The name is not allowed, or the folder already holds a scenario.
    """
    name = _name_from(map_path) if name is None else _checked_name(name)
    scenario_path, layout_path = out_folder / _SCENARIO_FILE, out_folder / _LAYOUT_FILE
    for path in (scenario_path, layout_path):
        if path.exists() and not overwrite:
            raise ScenarioError(f"{path}: expected no such file yet, got one. Choose another folder, or overwrite it.")
    layout = load_layout_file(map_path, cell_size_m)
    stationed = derive_stations(layout, robots, rules, str(map_path))
    try:
        out_folder.mkdir(parents=True, exist_ok=True)
        write_layout_file(stationed.layout, layout_path)
        scenario_path.write_text(_scenario_text(name, map_path.name, stationed, robots), encoding="utf-8")
    except OSError as error:
        raise LayoutError(f"{out_folder}: expected a folder that can be written, got: {error.strerror}.") from error
    return scenario_path


def _name_from(map_path: Path) -> str:
    """The file's stem with everything that a scenario's name may not hold turned into hyphens."""
    stem = re.sub(r"[^a-z0-9_-]+", "-", map_path.stem.lower()).strip("-_")
    return stem[:_MAX_NAME] or "imported"


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name) or len(name) > _MAX_NAME:
        raise ScenarioError(
            f"import: name: expected at most {_MAX_NAME} of a-z, 0-9, '_' and '-', got {name!r}. "
            "Use lower case, without spaces."
        )
    return name


def _scenario_text(name: str, map_name: str, stationed: StationedLayout, robots: int) -> str:
    layout = stationed.layout
    notes = "\n".join(
        textwrap.fill(note, width=100, initial_indent="# - ", subsequent_indent="#   ") for note in stationed.notes
    )
    shown_name = re.sub(r"[^\x20-\x7e]", "?", map_name)
    return f"""\
# {robots} robots on a floor imported from {shown_name}
# ({layout.height} x {layout.width} cells of {layout.cell_size_m:g} m, {layout.num_free} free).
#
# The import derived the stations in {_LAYOUT_FILE} by these rules; edit the letters there
# (S pick-up, E delivery, P parking, C charger) to move a station:
{notes}
schema: 1
name: {name}
world: warehouse
warehouse:
  layout: {{file: {_LAYOUT_FILE}, cell_size_m: {layout.cell_size_m!r}}}
  fleet:
    - {{role: carrier, count: {robots}}}
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
  episode_steps: {_episode_steps(layout)}
"""


def _episode_steps(layout: Layout) -> int:
    """Time for some transports per robot: four times the way around half the floor, in hundreds."""
    return max(500, -(-4 * (layout.height + layout.width) // 100) * 100)
