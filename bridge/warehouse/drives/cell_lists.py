"""Robots of one environment by the cell of their centre, kept up to date while they drive."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part

__all__ = ["CellLists", "link", "make_cell_lists", "relink", "unlink"]

Int32 = NDArray[np.int32]


class CellLists(NamedTuple):
    """Robots of one environment by cell, as linked lists.

    Attributes:
        first: (cells,) int32, a robot in each cell; -1 for nobody, also between calls.
        follower: (N,) int32, another robot in the same cell; -1 for none.
    """

    first: Int32
    follower: Int32


def make_cell_lists(num_cells: int, num_robots: int) -> CellLists:
    """Empty lists for a floor and a fleet."""
    return CellLists(np.full(num_cells, -1, np.int32), np.full(num_robots, -1, np.int32))


@kernel_part
def link(cell: int, robot: int, lists: CellLists) -> None:
    """Note that a robot is in a cell."""
    lists.follower[robot] = lists.first[cell]
    lists.first[cell] = robot


@kernel_part
def unlink(cell: int, robot: int, lists: CellLists) -> None:
    """Note that it is not there any more."""
    first, follower = lists.first, lists.follower
    if first[cell] == robot:
        first[cell] = follower[robot]
        return
    other = first[cell]
    while follower[other] != robot:
        other = follower[other]
    follower[other] = follower[robot]


@kernel_part
def relink(cells: Int32, robot: int, cell: int, lists: CellLists) -> None:
    """Note that a robot is in another cell now."""
    if cell != cells[robot]:
        unlink(cells[robot], robot, lists)
        link(cell, robot, lists)
        cells[robot] = cell
