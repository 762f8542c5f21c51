"""A fixed list of transports, in the numbers of the kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.config import TaskConfig, TransportConfig
from bridge.warehouse.durations import steps_of
from bridge.warehouse.floor import goal_cells
from bridge.warehouse.layout import Layout

__all__ = ["listed_deliveries", "listed_loads", "listed_pickups", "listed_release_steps", "pool_size"]

Int32 = NDArray[np.int32]


def listed_pickups(tasks: TaskConfig, layout: Layout) -> Int32:
    """(tasks, errands) int32, goals of the pick-ups of each task in the order of their release; -1 for no more."""
    listed = _in_order(tasks)
    most = max((len(task.pickups) for task in listed), default=0)
    cells = np.full((len(listed), most), -1, np.int32)
    goals = goal_cells(layout)
    for row, task in enumerate(listed):
        for column, (line, place) in enumerate(task.pickups):
            cells[row, column] = np.searchsorted(goals, line * layout.width + place)
    return cells


def listed_deliveries(tasks: TaskConfig, layout: Layout) -> Int32:
    """(tasks,) int32, goals of the deliveries."""
    cells = [task.delivery[0] * layout.width + task.delivery[1] for task in _in_order(tasks)]
    return np.searchsorted(goal_cells(layout), np.array(cells, np.int32)).astype(np.int32)


def listed_release_steps(tasks: TaskConfig, step_s: float) -> Int32:
    """(tasks,) int32, ascending: the step at whose beginning each task arrives."""
    return np.array([steps_of(task.release_s, step_s) for task in _in_order(tasks)], np.int32)


def listed_loads(tasks: TaskConfig) -> NDArray[np.float64]:
    """(tasks,) float64, masses of the loads in kg."""
    return np.array([task.load_kg for task in _in_order(tasks)], np.float64)


def pool_size(tasks: TaskConfig) -> int:
    """How many tasks may wait."""
    return len(tasks.transports) if tasks.arrival == "list" else tasks.open


def _in_order(tasks: TaskConfig) -> list[TransportConfig]:
    return sorted(tasks.transports, key=lambda task: task.release_s)
