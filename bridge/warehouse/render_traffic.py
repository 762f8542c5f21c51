"""One-way borders and speed zones in the pictures of :mod:`bridge.warehouse.render`."""

from __future__ import annotations

from typing import Final

from PIL import ImageDraw, ImageFont

from bridge.warehouse.layout import Layout
from bridge.warehouse.traffic_plan import special_borders, speed_zones

__all__ = ["draw_special_borders", "draw_zone_limits", "draw_zones"]

Rgb = tuple[int, int, int]

_ZONE: Final[Rgb] = (217, 233, 243)
_ZONE_LINES: Final[Rgb] = (160, 196, 218)
_ZONE_INK: Final[Rgb] = (35, 84, 115)
_ARROW: Final[Rgb] = (45, 50, 58)
_MIN_ARROW_PX: Final = 8
_MIN_LABEL_PX: Final = 20


def draw_zones(draw: ImageDraw.ImageDraw, layout: Layout, cell: int) -> None:
    """Hatch the cells that have a speed limit; ``cell`` is the edge of a cell in pixels."""
    for zone in speed_zones(layout):
        for place in zone.cells.tolist():
            row, column = divmod(place, layout.width)
            left, top = column * cell, row * cell
            draw.rectangle([left, top, left + cell - 1, top + cell - 1], _ZONE)
            # Two lines up to the right, which go on in the next cell.
            half, width = cell // 2, max(1, cell // 24)
            draw.line([(left, top + half), (left + half, top)], _ZONE_LINES, width)
            draw.line([(left, top + cell - 1), (left + cell - 1, top)], _ZONE_LINES, width)
            draw.line([(left + half, top + cell - 1), (left + cell - 1, top + half)], _ZONE_LINES, width)


def draw_zone_limits(
    draw: ImageDraw.ImageDraw,
    layout: Layout,
    cell: int,
    cell_px: int,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    """Write the limit of each zone in m/s into the top left of its first cell, where cells are large enough."""
    if cell_px < _MIN_LABEL_PX:
        return
    for zone in speed_zones(layout):
        row, column = divmod(int(zone.cells[0]), layout.width)
        place = (column * cell + cell // 16, row * cell + cell // 20)
        draw.text(place, f"{zone.limit_mps:.3g}", _ZONE_INK, font, anchor="la")


def draw_special_borders(draw: ImageDraw.ImageDraw, layout: Layout, cell: int, cell_px: int) -> None:
    """A triangle in the way of every one-way border, a line along every one that is closed."""
    borders = special_borders(layout)
    size, width = cell * 0.14, max(2, cell // 14)
    for first, second in borders.closed.tolist():
        row, column = divmod(second, layout.width)
        beside = second == first + 1
        end = (column * cell, (row + 1) * cell) if beside else ((column + 1) * cell, row * cell)
        draw.line([(column * cell, row * cell), end], _ARROW, width)
    if cell_px < _MIN_ARROW_PX:
        return
    for first, second in borders.one_way.tolist():
        (row, column), (other_row, other_column) = divmod(first, layout.width), divmod(second, layout.width)
        x, y = (column + other_column + 1) / 2 * cell, (row + other_row + 1) / 2 * cell
        right, down = (other_column - column) * size, (other_row - row) * size
        draw.polygon(
            [(x + right, y + down), (x - right - down, y - down + right), (x - right + down, y - down - right)], _ARROW
        )
