"""From the ``layout:`` section of a scenario to a layout."""

from __future__ import annotations

from pathlib import Path

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
            return Layout.from_drawing(rows, section.cell_size_m, "warehouse.layout.grid")
        assert section.file is not None, "LayoutConfig allows either a drawing or a file"
        path = resolve_inside(folder, section.file, "warehouse.layout.file")
        # Not at the top: the importers end in Layout and import this package.
        from bridge.maps import load_layout_file

        return load_layout_file(path, section.cell_size_m)
    except LayoutError as error:
        raise ScenarioError(str(error)) from error
