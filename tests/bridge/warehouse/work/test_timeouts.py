"""Tasks that are not begun in time go back and can be taken by others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import ServiceConfig, TaskConfig
from bridge.warehouse.feature import HELD_DELAYED, HELD_SLOW, HELD_STOPPED
from bridge.warehouse.simulator import WarehouseSimulator


def _make(make_warehouse: Any, count: int, **tasks: Any) -> WarehouseSimulator:
    config, layout = make_warehouse("S.P.P.E\n.......", count, tasks=TaskConfig(**tasks), episode_steps=12)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    return simulator


def _stand(simulator: WarehouseSimulator) -> None:
    simulator.arrays.roles["carrier"].discrete_actions[:] = 0
    simulator.step()


def test_timeout_gives_the_task_to_another_robot_and_is_counted(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, 2, arrival="poisson", rate_per_h=1e-6, open=1, timeout_s=4.0)
    fleet = simulator._fleet
    pickup, delivery = simulator._floor.pickups[0], simulator._floor.deliveries[0]
    holder = 0
    simulator._pool.claimed[0, fleet.goal[0, holder]] = False
    fleet.goal[0, holder] = fleet.pickup[0, holder] = fleet.origin[0, holder] = pickup
    fleet.delivery[0, holder], fleet.number[0, holder] = delivery, 7
    for step in range(12):
        holders = np.flatnonzero(simulator.has_task[0]).tolist()
        # Four steps each, in turn; the one that gives it back takes no task in that step.
        assert holders == [step // 4 % 2]
        assert fleet.number[0, holders[0]] == 7
        _stand(simulator)
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    assert metrics["timeouts"] == 3


def test_timeout_leaves_tasks_alone_that_have_been_begun(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, 1, timeout_s=3.0, errands=2, service=ServiceConfig(pick_s=6.0))
    fleet = simulator._fleet
    fleet.cell[0, 0] = 0
    number = fleet.number[0, 0]
    for _ in range(8):
        _stand(simulator)
        # First it is being served, then it has the first of two loads.
        assert fleet.number[0, 0] == number
        assert simulator.has_task[0, 0]
    assert fleet.errand[0, 0] == 1


@pytest.mark.parametrize("held", [HELD_DELAYED, HELD_STOPPED, HELD_SLOW])
def test_timeout_comes_also_to_a_robot_that_cannot_drive(make_warehouse: Any, held: int) -> None:
    simulator = _make(make_warehouse, 1, timeout_s=3.0)
    fleet = simulator._fleet
    fleet.held[0, 0] = held
    ages = []
    for _ in range(5):
        ages.append(int(fleet.age[0, 0]))
        _stand(simulator)
    # Given back in the third step; the next one begins after a step without.
    assert ages == [0, 1, 2, 0, 0]
