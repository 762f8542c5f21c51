"""Lines on a grid: the cells that they run through, and the steps along them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel
from bridge.warehouse.layout import EXIT_DOWN, EXIT_LEFT, EXIT_RIGHT, EXIT_UP

__all__ = ["cell_chain", "open_line"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]


def cell_chain(points: Float) -> tuple[Int, Int]:
    """Rows and columns of the cells that a line of grid coordinates (k, 2) runs through.

    Each cell shares a side with the next one; through a corner the line goes sideways first.
    """
    corners = np.floor(points)
    length = 1 + int(np.abs(corners[1:] - corners[:-1]).sum())
    rows, columns = np.empty(length, np.int64), np.empty(length, np.int64)
    _walk(np.ascontiguousarray(points, np.float64), rows, columns)
    return rows, columns


@lean_kernel
def _walk(points: Float, rows: Int, columns: Int) -> None:
    """Write the cells of :func:`cell_chain`; the arrays have room for just as many."""
    column, row = int(np.floor(points[0, 0])), int(np.floor(points[0, 1]))
    rows[0], columns[0] = row, column
    at = 0
    for segment in range(len(points) - 1):
        x0, y0 = points[segment, 0], points[segment, 1]
        x1, y1 = points[segment + 1, 0], points[segment + 1, 1]
        across = abs(int(np.floor(x1)) - int(np.floor(x0)))
        along = abs(int(np.floor(y1)) - int(np.floor(y0)))
        right, down = 1 if x1 > x0 else -1, 1 if y1 > y0 else -1
        while across + along > 0:
            # Where along the segment, from 0 to 1, it leaves the cell to the side, and where up or down.
            to_side = (column + (1 if right > 0 else 0) - x0) / (x1 - x0) if across > 0 else np.inf
            to_end = (row + (1 if down > 0 else 0) - y0) / (y1 - y0) if along > 0 else np.inf
            if to_side <= to_end:
                column += right
                across -= 1
            else:
                row += down
                along -= 1
            at += 1
            rows[at], columns[at] = row, column


@lean_kernel
def open_line(rows: Int, columns: Int, width: int, two_way: bool, exits: NDArray[np.uint8]) -> None:
    """Allow the steps along a chain of cells, and back where it is driven both ways.

    Args:
        rows: (k,) int64, of :func:`cell_chain`.
        columns: (k,) int64, likewise.
        width: Columns of the grid.
        two_way: Steps back are allowed, too.
        exits: (cells,) uint8, bits are added.
    """
    for at in range(len(rows) - 1):
        down, right = rows[at + 1] - rows[at], columns[at + 1] - columns[at]
        ahead = EXIT_DOWN if down > 0 else EXIT_UP if down < 0 else EXIT_RIGHT if right > 0 else EXIT_LEFT
        back = EXIT_UP if down > 0 else EXIT_DOWN if down < 0 else EXIT_LEFT if right > 0 else EXIT_RIGHT
        exits[rows[at] * width + columns[at]] |= np.uint8(ahead)
        if two_way:
            exits[rows[at + 1] * width + columns[at + 1]] |= np.uint8(back)
