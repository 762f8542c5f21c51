"""Questions about a floor's shape that placing stations has to answer.

All functions work on (H, W) bool arrays, True = a robot may stand there, and on
4-connected movement.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "beside",
    "components",
    "is_one_lane",
    "keeps_neighbours_connected",
    "largest_component",
    "outermost",
    "rack_faces",
    "without_dead_ends",
]

Bool = NDArray[np.bool_]


def components(free: Bool) -> NDArray[np.int32]:
    """Number of the 4-connected component of every cell: (H, W) int32 from 0, -1 where not free."""
    height, width = free.shape
    label = np.full(height * width, -1, np.int32)
    open_cells = free.ravel()
    number = 0
    for start in np.flatnonzero(open_cells).tolist():
        if label[start] >= 0:
            continue
        label[start] = number
        queue = deque([start])
        while queue:
            cell = queue.popleft()
            for other in _neighbours(cell, height, width):
                if open_cells[other] and label[other] < 0:
                    label[other] = number
                    queue.append(other)
        number += 1
    return label.reshape(free.shape)


def largest_component(free: Bool) -> Bool:
    """The cells of the component with the most cells; of equal ones, the first in row order."""
    label = components(free)
    if label.max(initial=-1) < 0:
        return np.zeros_like(free)
    largest: Bool = label == np.bincount(label[label >= 0]).argmax()
    return largest


def without_dead_ends(free: Bool) -> Bool:
    """The floor after cutting off cells with fewer than two free neighbours until none is left.

    A robot that stands in a dead end and one that wants to enter it can block each other for
    ever, whatever the planner (Okumura et al. 2022 ask for a biconnected graph), so that no
    station belongs there.
    """
    height, width = free.shape
    kept = free.ravel().copy()
    queue = deque(np.flatnonzero(kept).tolist())
    while queue:
        cell = queue.popleft()
        around = [other for other in _neighbours(cell, height, width) if kept[other]]
        if kept[cell] and len(around) < 2:
            kept[cell] = False
            queue.extend(around)
    return kept.reshape(free.shape)


def is_one_lane(free: Bool) -> Bool:
    """Cells where two robots cannot pass: blocked on two opposite sides. (H, W) bool."""
    padded = np.pad(free, 1)
    across = ~padded[1:-1, :-2] & ~padded[1:-1, 2:]
    along = ~padded[:-2, 1:-1] & ~padded[2:, 1:-1]
    return free & (across | along)


def keeps_neighbours_connected(free: Bool, cell: int) -> bool:
    """Whether the cell's free neighbours can still reach each other around it, within the 8 cells around it.

    If so, a robot that stands on the cell for ever cuts nothing off.
    """
    height, width = free.shape
    row, column = divmod(cell, width)

    def is_free(down: int, right: int) -> bool:
        y, x = row + down, column + right
        return 0 <= y < height and 0 <= x < width and bool(free[y, x])

    sides = [is_free(-1, 0), is_free(0, 1), is_free(1, 0), is_free(0, -1)]
    corners = [is_free(-1, 1), is_free(1, 1), is_free(1, -1), is_free(-1, -1)]
    links = sum(sides[i] and corners[i] and sides[(i + 1) % 4] for i in range(4))
    # Links on a ring: n sides joined by n - 1 links are one group; by n (only 4 of 4) as well.
    return any(sides) and links >= sum(sides) - 1


def rack_faces(blocked: Bool, core: Bool) -> tuple[Bool, str]:
    """Floor cells beside racks within the storage area, and what they are called."""
    label = components(blocked)
    border = np.unique(np.concatenate([label[0], label[-1], label[:, 0], label[:, -1]]))
    racks = blocked & ~np.isin(label, border)
    if not racks.any():
        racks = blocked
    area = np.zeros_like(core)
    if not racks.any():
        height, width = core.shape
        area[height // 4 : height - height // 4, width // 4 : width - width // 4] = True
        return core & area, "cells in the middle half of a floor without racks"
    rows, columns = np.flatnonzero(racks.any(axis=1)), np.flatnonzero(racks.any(axis=0))
    area[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    faces = core & area & beside(racks)
    if not faces.any():
        # A single rack fills its own bounding box.
        faces = core & beside(racks)
    return faces, "cells beside racks in the storage area (the bounding box of all racks)"


def beside(cells: Bool) -> Bool:
    """Cells with one of ``cells`` as a 4-neighbour."""
    padded = np.pad(cells, 1)
    beside: Bool = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
    return beside


def outermost(allowed: Bool, border: str) -> NDArray[np.int32]:
    """In each row (or column) the allowed cell nearest to a border, in order along it."""
    width = allowed.shape[1]
    lines = allowed if border in ("left", "right") else allowed.T
    lines = lines if border in ("left", "top") else lines[:, ::-1]
    along = np.flatnonzero(lines.any(axis=1))
    depth = lines.argmax(axis=1)[along]
    depth = depth if border in ("left", "top") else lines.shape[1] - 1 - depth
    cells = along * width + depth if border in ("left", "right") else depth * width + along
    nearest: NDArray[np.int32] = cells.astype(np.int32)
    return nearest


def _neighbours(cell: int, height: int, width: int) -> list[int]:
    row, column = divmod(cell, width)
    around = []
    if row > 0:
        around.append(cell - width)
    if column < width - 1:
        around.append(cell + 1)
    if row < height - 1:
        around.append(cell + width)
    if column > 0:
        around.append(cell - 1)
    return around
