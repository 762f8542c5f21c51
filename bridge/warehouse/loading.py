"""From the ``layout:`` section of a scenario to a layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from bridge.errors import LayoutError, ScenarioError
from bridge.scenario import resolve_inside
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout

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
            return _close(Layout.from_drawing(rows, section.cell_size_m, "warehouse.layout.grid"), config)
        assert section.file is not None, "LayoutConfig allows either a drawing or a file"
        path = resolve_inside(folder, section.file, "warehouse.layout.file")
        # Not at the top: the importers end in Layout and import this package.
        from bridge.maps import load_layout_file

        return _close(load_layout_file(path, section.cell_size_m), config)
    except LayoutError as error:
        raise ScenarioError(str(error)) from error


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
