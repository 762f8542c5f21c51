"""Idle robots that block others get another parking place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import ContactConfig, TaskConfig
from bridge.warehouse.feature import HELD_DELAYED, OFF_CHARGING, OFF_PICKING
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.work.tasks import dispatch
from bridge.warehouse.work.yielding import Yielding

LANE = "S.P.....P.E\n...........\n..........."


def _blocked(make_warehouse: Any, idle_cell: int, **section: Any) -> WarehouseSimulator:
    """Robot 0 wants from cell 1 to the delivery on the right and stands; robot 1 is idle."""
    tasks = TaskConfig(arrival="poisson", rate_per_h=1e-6, open=1, idle_yield_s=3.0)
    config, layout = make_warehouse(section.pop("drawing", LANE), 2, tasks=tasks, episode_steps=8, **section)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    fleet, pose, pool = simulator._fleet, simulator._pose, simulator._pool
    pool.claimed[:] = False
    fleet.cell[0] = [1, idle_cell]
    for robot, cell in enumerate(fleet.cell[0]):
        row, column = divmod(int(cell), layout.width)
        pose.x[0, robot], pose.y[0, robot] = column + 0.5, layout.height - row - 0.5
    fleet.pickup[0, 0] = simulator._floor.pickups[0]
    fleet.goal[0, 0] = fleet.delivery[0, 0] = simulator._floor.deliveries[0]
    fleet.loaded[0, 0] = True
    fleet.goal[0, 1] = simulator._floor.parking[0]
    pool.claimed[0, fleet.goal[0, 1]] = True
    dispatch(*simulator._dispatch_arguments(simulator._all))
    return simulator


def _stand(simulator: WarehouseSimulator) -> None:
    simulator.arrays.roles["carrier"].discrete_actions[:] = 0
    simulator.step()


def test_idle_robot_is_sent_away_after_it_has_blocked_another_for_the_stated_time(make_warehouse: Any) -> None:
    simulator = _blocked(make_warehouse, idle_cell=2)
    # The way goes right along the top or through the row below; the first direction is the right one.
    assert simulator._fleet.way_x[0, 0] == 2.5
    goals = []
    for _ in range(7):
        _stand(simulator)
        goals.append(int(simulator.goal_cells[0, 1]))
    assert goals == [2, 2, 8, 8, 8, 8, 8]
    assert simulator._pool.claimed[0].sum() == 1
    _stand(simulator)
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    assert metrics["idle_yields"] == 1
    assert metrics["blocked_by_idle_s"] == 8


@pytest.mark.parametrize("off_duty", [OFF_PICKING, OFF_CHARGING])
def test_picker_that_nobody_calls_and_robot_that_waits_for_a_charger_yield_too(
    make_warehouse: Any, off_duty: int
) -> None:
    simulator = _blocked(make_warehouse, idle_cell=2)
    simulator._fleet.off_duty[0, 1] |= off_duty
    for _ in range(4):
        _stand(simulator)
    assert simulator.goal_cells[0, 1] == 8


@pytest.mark.parametrize("reason", ["empty battery", "on its way to a charger"])
def test_robot_that_is_not_idle_is_not_sent_away(make_warehouse: Any, reason: str) -> None:
    simulator = _blocked(make_warehouse, idle_cell=2)
    fleet = simulator._fleet
    if reason == "empty battery":
        fleet.charge[0, 1] = 0.0
    else:
        # Any goal that is no parking place.
        fleet.goal[0, 1] = simulator._floor.pickups[0]
    goal = int(simulator.goal_cells[0, 1])
    for _ in range(5):
        _stand(simulator)
        assert simulator.goal_cells[0, 1] == goal


def test_robot_with_a_task_that_is_held_is_blocked_by_nobody(make_warehouse: Any) -> None:
    simulator = _blocked(make_warehouse, idle_cell=2, contact=ContactConfig(rule="stop"))
    for _ in range(5):
        simulator._fleet.held[0, 0] |= HELD_DELAYED
        _stand(simulator)
        assert simulator.goal_cells[0, 1] == 2


def test_idle_robot_stays_where_it_blocks_nobody(make_warehouse: Any) -> None:
    simulator = _blocked(make_warehouse, idle_cell=5)
    for _ in range(7):
        _stand(simulator)
        assert simulator.goal_cells[0, 1] == 2
    yielding = next(feature for feature in simulator._features if isinstance(feature, Yielding))
    assert yielding.figures(np.ones(1, bool)).tolist() == [[0.0, 0.0]]


def test_idle_robot_stays_when_there_is_no_other_place(make_warehouse: Any) -> None:
    simulator = _blocked(make_warehouse, idle_cell=2, drawing="S.P.......E\n...........\n...........")
    for _ in range(7):
        _stand(simulator)
        assert simulator.goal_cells[0, 1] == 2
