"""Cells from roads: which are free, through which sides they may be left, and how fast.

A lane becomes the chain of cells that its line runs through, each sharing a side with the
next, and the exits lead along the chain: forwards, and backwards if the lane is two-way.
Where a lane is wide enough for a vehicle to stand beside the line, the cells beside it are
free too; there, a one-way lane forbids the steps that go against it. Cells of two lanes may
touch; without an exit between them, they stay two lanes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError
from bridge.maps.cell_lines import cell_chain, open_line
from bridge.maps.cell_size import grid_offset
from bridge.maps.road_graph import Lane, RoadGraph
from bridge.warehouse.layout import EXIT_DOWN, EXIT_LEFT, EXIT_RIGHT, EXIT_UP, MAX_CELLS

__all__ = ["RoadCells", "rasterise"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_MAX_WORK: Final = 20_000_000
# A step against a one-way lane turns by more than 120 degrees from it.
_AGAINST: Final = -0.5 - 1e-9
# Exit bit, step in rows, step in columns, and the bit of the way back.
_SIDES: Final = (
    (EXIT_UP, -1, 0, EXIT_DOWN),
    (EXIT_RIGHT, 0, 1, EXIT_LEFT),
    (EXIT_DOWN, 1, 0, EXIT_UP),
    (EXIT_LEFT, 0, -1, EXIT_RIGHT),
)


@dataclass(frozen=True, eq=False)
class RoadCells:
    """Roads as cells.

    Attributes:
        free: (H, W) bool, cells of lanes.
        exits: (H*W,) uint8, as in :class:`bridge.warehouse.layout.Layout`; None if no step between free cells is
            forbidden.
        speed_limit_mps: (H*W,) float32, NaN without a limit; None if there is none at all.
        node_cells: (N,) int64, the cell of each node.
    """

    free: NDArray[np.bool_]
    exits: NDArray[np.uint8] | None
    speed_limit_mps: NDArray[np.float32] | None
    node_cells: Int


def rasterise(graph: RoadGraph, cell_m: float, where: str) -> RoadCells:
    """Draw roads on a grid whose row 0 is the top (largest y).

    Raises:
        LayoutError: The grid would be too large.
    """
    frame = _frame(graph, cell_m, where)
    painter = _Painter(frame)
    for lane in graph.lanes:
        painter.paint(lane, where)
    painter.raise_walls(graph.walls)
    painter.close_traps()
    return RoadCells(
        painter.free.reshape(frame.height, frame.width),
        painter.restricting_exits(),
        painter.limits if np.isfinite(painter.limits).any() else None,
        frame.cells(frame.to_grid(graph.positions)),
    )


@dataclass(frozen=True)
class _Frame:
    """Where the grid lies in the plane."""

    left_m: float
    top_m: float
    cell_m: float
    height: int
    width: int

    def to_grid(self, points: Float) -> Float:
        """Columns and rows, with fractions, of points in m."""
        return np.stack([points[:, 0] - self.left_m, self.top_m - points[:, 1]], axis=1) / self.cell_m

    def cells(self, grid_points: Float) -> Int:
        """Cells of points within the grid."""
        places = np.floor(grid_points).astype(np.int64)
        cells: Int = places[:, 1] * self.width + places[:, 0]
        return cells


def _frame(graph: RoadGraph, cell_m: float, where: str) -> _Frame:
    points = np.vstack([graph.positions, *(lane.points for lane in graph.lanes)])
    aside = max((max(lane.left_m, lane.right_m) for lane in graph.lanes), default=0.0)
    low, high = points.min(axis=0) - aside, points.max(axis=0) + aside
    lines = [grid_offset(graph.positions[:, axis], cell_m) for axis in (0, 1)]
    # A cell more on every side: round-off cannot push a point off the grid, and pictures get a frame.
    first = [line + (np.floor((value - line) / cell_m) - 1) * cell_m for line, value in zip(lines, low, strict=True)]
    width, height = (int(np.floor((value - line) / cell_m)) + 2 for line, value in zip(first, high, strict=True))
    if width * height > MAX_CELLS:
        raise LayoutError(
            f"{where}: expected at most {MAX_CELLS} cells, got {height} x {width} = {height * width} of {cell_m:g} m. "
            "Import it with a larger --cell-size-m, or cut the map."
        )
    return _Frame(first[0], first[1] + height * cell_m, cell_m, height, width)


class _Painter:
    """The cells while lanes are being drawn."""

    def __init__(self, frame: _Frame) -> None:
        self._frame = frame
        num_cells = frame.height * frame.width
        self._on_line = np.zeros(num_cells, np.bool_)
        self._scratch = np.zeros(num_cells, np.bool_)
        self.free = np.zeros(num_cells, np.bool_)
        self.exits = np.zeros(num_cells, np.uint8)
        self.limits = np.full(num_cells, np.nan, np.float32)
        self._work = 0

    def paint(self, lane: Lane, where: str) -> None:
        """Draw one lane."""
        points = self._frame.to_grid(lane.points)
        self._spend(int(np.abs(np.diff(points, axis=0)).sum()) + 2 * len(points), where)
        rows, columns = cell_chain(points)
        chain = rows * self._frame.width + columns
        self._on_line[chain] = True
        open_line(rows, columns, self._frame.width, lane.two_way, self.exits)
        cells = chain
        # A cell that the line misses has its centre at least half a cell away from it.
        if max(lane.left_m, lane.right_m) >= self._frame.cell_m / 2:
            cells = self._widen(lane, points, chain, where)
        self.free[cells] = True
        if lane.speed_limit_mps is not None:
            self.limits[cells] = np.fmin(self.limits[cells], np.float32(lane.speed_limit_mps))

    def _widen(self, lane: Lane, points: Float, chain: Int, where: str) -> Int:
        """Open the cells beside a lane's line in which a vehicle may stand, and the steps among them."""
        left, right = lane.left_m / self._frame.cell_m, lane.right_m / self._frame.cell_m
        wide = [chain]
        for start, end in pairwise(points):
            length = float(np.hypot(*(end - start)))
            if length == 0.0:
                continue
            ahead = (end - start) / length
            cells, centres = self._box(np.minimum(start, end), np.maximum(start, end), max(left, right), where)
            along = (centres - start) @ ahead
            # Rows grow downwards: what is left of the way in the plane has a smaller row.
            aside = (centres - start) @ np.array([ahead[1], -ahead[0]])
            inside = (along >= 0) & (along <= length) & (aside <= left + 1e-9) & (aside >= -right - 1e-9)
            rows, columns = cell_chain(np.stack([start, end]))
            part = np.union1d(cells[inside], rows * self._frame.width + columns)
            self._open_steps(part, ahead, lane.two_way)
            wide.append(part)
        return np.unique(np.concatenate(wide))

    def _box(self, low: Float, high: Float, aside: float, where: str) -> tuple[Int, Float]:
        """Cells around a segment, and their centres in grid coordinates."""
        first = np.maximum(np.floor(low - aside), 0).astype(np.int64)
        last = np.minimum(np.floor(high + aside) + 1, [self._frame.width, self._frame.height]).astype(np.int64)
        self._spend(int(np.prod(np.maximum(last - first, 0))), where)
        columns, rows = np.meshgrid(np.arange(first[0], last[0]), np.arange(first[1], last[1]))
        cells = (rows * self._frame.width + columns).ravel()
        return cells, np.stack([columns.ravel() + 0.5, rows.ravel() + 0.5], axis=1)

    def _open_steps(self, cells: Int, ahead: Float, two_way: bool) -> None:
        """Allow steps between neighbouring ones of a lane's cells, in one-way lanes none against it."""
        mine = self._scratch
        mine[cells] = True
        rows, columns = np.divmod(cells, self._frame.width)
        for bit, down, right, back in _SIDES:
            inside = (
                (rows + down >= 0)
                & (rows + down < self._frame.height)
                & (columns + right >= 0)
                & (columns + right < self._frame.width)
            )
            here = cells[inside]
            there = here + down * self._frame.width + right
            here, there = here[mine[there]], there[mine[there]]
            if two_way or right * ahead[0] + down * ahead[1] >= _AGAINST:
                self.exits[here] |= np.uint8(bit)
            if two_way or -right * ahead[0] - down * ahead[1] >= _AGAINST:
                self.exits[there] |= np.uint8(back)
        mine[cells] = False

    def raise_walls(self, walls: Float) -> None:
        """Block the cells that walls touch, except those that a lane's line runs through."""
        beside = self.free & ~self._on_line
        if not beside.any():
            return
        shape = np.array([self._frame.width, self._frame.height], np.float64)
        for wall in walls:
            points = _clipped(self._frame.to_grid(wall.reshape(2, 2)), shape)
            if points is None:
                continue
            rows, columns = cell_chain(points)
            inside = (rows < self._frame.height) & (columns < self._frame.width)
            cells = rows[inside] * self._frame.width + columns[inside]
            self._block(cells[beside[cells]])

    def close_traps(self) -> None:
        """Block cells beside the lines from which, or to which, no way leads."""
        if not (self.free & ~self._on_line).any():
            return
        root = int(np.flatnonzero(self._on_line)[0])
        self._block(np.flatnonzero(self.free & ~(self._reached(root, True) & self._reached(root, False))))

    def _reached(self, root: int, forwards: bool) -> NDArray[np.bool_]:
        width = self._frame.width
        offset = {bit: down * width + right for bit, down, right, _ in _SIDES}
        exits, free = self.exits, self.free
        seen = np.zeros(free.size, np.bool_)
        seen[root] = True
        queue = deque([root])
        while queue:
            cell = queue.popleft()
            row, column = divmod(cell, width)
            for bit, down, right, back in _SIDES:
                if not (0 <= row + down < self._frame.height and 0 <= column + right < width):
                    continue
                other = cell + offset[bit]
                is_open = exits[cell] & bit if forwards else exits[other] & back
                if is_open and free[other] and not seen[other]:
                    seen[other] = True
                    queue.append(other)
        return seen

    def _block(self, cells: Int) -> None:
        self.free[cells] = False
        self.exits[cells] = 0
        self.limits[cells] = np.nan

    def restricting_exits(self) -> NDArray[np.uint8] | None:
        """Exits towards free cells only; None if that is every side of every free cell."""
        free = np.pad(self.free.reshape(self._frame.height, self._frame.width), 1)
        every = np.zeros((self._frame.height, self._frame.width), np.uint8)
        for bit, down, right, _ in _SIDES:
            beside = free[1 + down : free.shape[0] - 1 + down, 1 + right : free.shape[1] - 1 + right]
            every |= np.where(free[1:-1, 1:-1] & beside, bit, 0).astype(np.uint8)
        exits = self.exits & every.ravel()
        return None if np.array_equal(exits, every.ravel()) else exits

    def _spend(self, cells: int, where: str) -> None:
        self._work += cells
        if self._work > _MAX_WORK:
            raise LayoutError(
                f"{where}: expected lanes of at most {_MAX_WORK} cells together, got more. "
                "Import it with a larger --cell-size-m."
            )


def _clipped(points: Float, shape: Float) -> Float | None:
    """The part of a segment (2, 2) within [0, shape]; None if there is none (Liang and Barsky 1984)."""
    start, way = points[0], points[1] - points[0]
    low, high = 0.0, 1.0
    for axis in (0, 1):
        if way[axis] == 0.0:
            if not 0.0 <= start[axis] <= shape[axis]:
                return None
            continue
        ends = sorted((-start[axis] / way[axis], (shape[axis] - start[axis]) / way[axis]))
        low, high = max(low, ends[0]), min(high, ends[1])
    return np.clip(np.stack([start + low * way, start + high * way]), 0.0, shape) if low <= high else None
