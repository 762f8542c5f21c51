"""From the ``layout:`` section of a scenario to a layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from bridge.errors import LayoutError, ScenarioError
from bridge.scenario import resolve_inside
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.work.meeting_places import with_meeting_places

__all__ = ["load_layout"]


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
    """Close cells, slow zones down, and find places for pickers, as the scenario says."""
    layout = _slow_down(_close(layout, config), config)
    return with_meeting_places(layout, "warehouse.layout") if config.has_pickers else layout


def _slow_down(layout: Layout, config: WarehouseConfig) -> Layout:
    """Lower the speed limits in the zones of the scenario."""
    if not config.layout.speed_zones:
        return layout
    limits = np.full(layout.blocked.shape, np.inf, np.float32)
    if layout.speed_limit_mps is not None:
        limits = np.nan_to_num(layout.speed_limit_mps, nan=np.inf).reshape(layout.blocked.shape)
    for index, zone in enumerate(config.layout.speed_zones):
        if zone.last[0] >= layout.height or zone.last[1] >= layout.width:
            raise LayoutError(
                f"warehouse.layout.speed_zones[{index}].last: expected a cell of the {layout.height} x {layout.width} "
                f"floor, got {list(zone.last)}."
            )
        inside = slice(zone.first[0], zone.last[0] + 1), slice(zone.first[1], zone.last[1] + 1)
        limits[inside] = np.minimum(limits[inside], np.float32(zone.limit_mps))
    return replace(layout, speed_limit_mps=np.where(np.isinf(limits), np.nan, limits).astype(np.float32).ravel())


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
