"""Rectangular footprints: whether they overlap racks, discs and each other (separating axes, Gottschalk et al. 1996).

A rectangle is centred on its robot and turned with it: half its length ahead and behind, half its width to the
sides. Figures that touch do not overlap.
"""

from __future__ import annotations

import numpy as np

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.floor import Floor

__all__ = ["disc_meets_rectangle", "rectangle_distance", "rectangle_meets_rack", "rectangles_meet"]


@lean_kernel
def rectangle_meets_rack(
    floor: Floor, x: float, y: float, cos: float, sin: float, half_length: float, half_width: float
) -> bool:
    """Whether a rectangle overlaps a blocked cell or the outside of the floor.

    Args:
        floor: The floor plan.
        x: Centre in m.
        y: Likewise.
        cos: Of the heading.
        sin: Likewise.
        half_length: In m, along the heading.
        half_width: In m, across it.
    """
    size = floor.cell_size_m
    width_m, height_m = floor.width * size, floor.height * size
    reach_x = abs(cos) * half_length + abs(sin) * half_width
    reach_y = abs(sin) * half_length + abs(cos) * half_width
    if x < reach_x or y < reach_y or x > width_m - reach_x or y > height_m - reach_y:
        return True
    half, spread = 0.5 * size, 0.5 * size * (abs(cos) + abs(sin))
    for row in range(int((height_m - y - reach_y) / size), int((height_m - y + reach_y) / size) + 1):
        for column in range(int((x - reach_x) / size), int((x + reach_x) / size) + 1):
            inside = row < floor.height and column < floor.width
            if inside and floor.blocked[row * floor.width + column]:
                dx, dy = (column + 0.5) * size - x, height_m - (row + 0.5) * size - y
                apart = abs(dx) >= half + reach_x or abs(dy) >= half + reach_y
                apart = apart or abs(dx * cos + dy * sin) >= half_length + spread
                if not apart and abs(dy * cos - dx * sin) < half_width + spread:
                    return True
    return False


@lean_kernel
def rectangles_meet(
    dx: float,
    dy: float,
    cos: float,
    sin: float,
    half_length: float,
    half_width: float,
    other_cos: float,
    other_sin: float,
    other_half_length: float,
    other_half_width: float,
) -> bool:
    """Whether two rectangles overlap.

    Args:
        dx: From the centre of the first to that of the second in m.
        dy: Likewise.
        cos: Of the heading of the first.
        sin: Likewise.
        half_length: Of the first in m.
        half_width: Likewise.
        other_cos: Of the second.
        other_sin: Likewise.
        other_half_length: Likewise.
        other_half_width: Likewise.
    """
    along, across = abs(cos * other_cos + sin * other_sin), abs(cos * other_sin - sin * other_cos)
    if abs(dx * cos + dy * sin) >= half_length + other_half_length * along + other_half_width * across:
        return False
    if abs(dy * cos - dx * sin) >= half_width + other_half_length * across + other_half_width * along:
        return False
    if abs(dx * other_cos + dy * other_sin) >= other_half_length + half_length * along + half_width * across:
        return False
    return bool(abs(dy * other_cos - dx * other_sin) < other_half_width + half_length * across + half_width * along)


@lean_kernel
def disc_meets_rectangle(
    dx: float, dy: float, radius: float, cos: float, sin: float, half_length: float, half_width: float
) -> bool:
    """Whether a disc overlaps a rectangle.

    Args:
        dx: From the centre of the rectangle to that of the disc in m.
        dy: Likewise.
        radius: Of the disc in m.
        cos: Of the heading of the rectangle.
        sin: Likewise.
        half_length: Of the rectangle in m.
        half_width: Likewise.
    """
    return bool(_square_m2(dx, dy, cos, sin, half_length, half_width) < radius * radius)


@lean_kernel
def rectangle_distance(
    dx: float,
    dy: float,
    cos: float,
    sin: float,
    half_length: float,
    half_width: float,
    other_cos: float,
    other_sin: float,
    other_half_length: float,
    other_half_width: float,
) -> float:
    """Distance in m between two rectangles that do not overlap; a corner of one is nearest to the other.

    A rectangle without length and width is the centre of a disc. Arguments as in :func:`rectangles_meet`.
    """
    nearest = np.inf
    for along in (-1.0, 1.0):
        for across in (-1.0, 1.0):
            x = dx + along * other_half_length * other_cos - across * other_half_width * other_sin
            y = dy + along * other_half_length * other_sin + across * other_half_width * other_cos
            nearest = min(nearest, _square_m2(x, y, cos, sin, half_length, half_width))
            x = along * half_length * cos - across * half_width * sin - dx
            y = along * half_length * sin + across * half_width * cos - dy
            nearest = min(nearest, _square_m2(x, y, other_cos, other_sin, other_half_length, other_half_width))
    return float(np.sqrt(nearest))


@kernel_part
def _square_m2(x: float, y: float, cos: float, sin: float, half_length: float, half_width: float) -> float:
    """Squared distance of the point (x, y), counted from a rectangle's centre, from the rectangle."""
    ahead = max(abs(x * cos + y * sin) - half_length, 0.0)
    aside = max(abs(y * cos - x * sin) - half_width, 0.0)
    return ahead * ahead + aside * aside
