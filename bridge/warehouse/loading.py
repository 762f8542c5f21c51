"""From the ``layout:`` section of a scenario to a layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from bridge.errors import LayoutError, ScenarioError
from bridge.scenario import resolve_inside
from bridge.warehouse.config import CellsConfig, WarehouseConfig
from bridge.warehouse.layout import ALL_EXITS, EXIT_DOWN, EXIT_LEFT, EXIT_RIGHT, EXIT_UP, Layout
from bridge.warehouse.traps import without_traps
from bridge.warehouse.work.meeting_places import with_meeting_places

__all__ = ["load_layout"]

_EXITS: Final = {"up": EXIT_UP, "right": EXIT_RIGHT, "down": EXIT_DOWN, "left": EXIT_LEFT}


def load_layout(config: WarehouseConfig, folder: Path) -> Layout:
    """The layout of a scenario: its drawing, or its map file, which must lie inside ``folder``.

    Raises:
        ScenarioError: There is no such file, it leaves the folder, or it is no layout.
    """
    section = config.layout
    try:
        if section.grid is not None:
            rows = [row.strip() for row in section.grid.strip().splitlines()]
            return _amend(Layout.from_drawing(rows, section.cell_size_m, "warehouse.layout.grid"), config)
        assert section.file is not None, "LayoutConfig allows either a drawing or a file"
        path = resolve_inside(folder, section.file, "warehouse.layout.file")
        # Not at the top: the importers end in Layout and import this package.
        from bridge.maps import load_layout_file

        return _amend(load_layout_file(path, section.cell_size_m), config)
    except LayoutError as error:
        raise ScenarioError(str(error)) from error


def _amend(layout: Layout, config: WarehouseConfig) -> Layout:
    """Close cells, direct the traffic, slow zones down, and find places for pickers, as the scenario says."""
    layout = without_traps(_slow_down(_direct(_close(layout, config), config), config))
    return with_meeting_places(layout, "warehouse.layout") if config.has_pickers else layout


def _slow_down(layout: Layout, config: WarehouseConfig) -> Layout:
    """Lower the speed limits in the zones of the scenario."""
    if not config.layout.speed_zones:
        return layout
    limits = np.full(layout.blocked.shape, np.inf, np.float32)
    if layout.speed_limit_mps is not None:
        limits = np.nan_to_num(layout.speed_limit_mps, nan=np.inf).reshape(layout.blocked.shape)
    for index, zone in enumerate(config.layout.speed_zones):
        inside = _inside(layout, zone, f"speed_zones[{index}]")
        limits[inside] = np.minimum(limits[inside], np.float32(zone.limit_mps))
    return replace(layout, speed_limit_mps=np.where(np.isinf(limits), np.nan, limits).astype(np.float32).ravel())


def _direct(layout: Layout, config: WarehouseConfig) -> Layout:
    """Forbid the ways out of one-way cells that the scenario does not name."""
    if not config.layout.one_way:
        return layout
    named = np.zeros(layout.blocked.shape, np.uint8)
    for index, lane in enumerate(config.layout.one_way):
        named[_inside(layout, lane, f"one_way[{index}]")] |= sum({_EXITS[side] for side in lane.exits})
    allowed = np.where(named > 0, named, ALL_EXITS).ravel()
    exits = np.where(layout.blocked.ravel(), 0, ALL_EXITS) if layout.exits is None else layout.exits
    return replace(layout, exits=(exits & allowed).astype(np.uint8))


def _inside(layout: Layout, cells: CellsConfig, key: str) -> tuple[slice, slice]:
    """Rows and columns of a rectangle of the scenario."""
    if cells.last[0] >= layout.height or cells.last[1] >= layout.width:
        raise LayoutError(
            f"warehouse.layout.{key}.last: expected a cell of the {layout.height} x {layout.width} floor, "
            f"got {list(cells.last)}."
        )
    return slice(cells.first[0], cells.last[0] + 1), slice(cells.first[1], cells.last[1] + 1)


def _close(layout: Layout, config: WarehouseConfig) -> Layout:
    """Block the cells that the scenario closes."""
    if not config.layout.closed:
        return layout
    blocked = layout.blocked.copy()
    for index, (row, column) in enumerate(config.layout.closed):
        if row >= layout.height or column >= layout.width:
            raise LayoutError(
                f"warehouse.layout.closed[{index}]: expected a cell of the {layout.height} x {layout.width} floor, "
                f"got [{row}, {column}]."
            )
        blocked[row, column] = True
    exits = None if layout.exits is None else np.where(blocked.ravel(), 0, layout.exits).astype(np.uint8)
    return replace(layout, blocked=blocked, exits=exits)
