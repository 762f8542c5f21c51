"""Robots with an empty battery: no work for them, and none that waits for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.planners import PibtPolicy
from bridge.warehouse.config import BatteryConfig, RoleConfig, ServiceConfig, TaskConfig
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.work.meeting import Meeting
from bridge.warehouse.work.meeting_places import with_meeting_places
from bridge.warehouse.work.stranding import can_run_empty

HALL = """
S..P..E
.......
.......
E..P..S
"""


def _battery(charge: float, per_step: float = 0.0) -> BatteryConfig:
    """Drains as much in every step of 1 s, whether the robot moves or not."""
    return BatteryConfig(
        drain_idle_per_h=per_step * 3600.0, drain_moving_per_h=0.0, initial_min=charge, initial_max=charge
    )


def _simulator(make_warehouse: Any, *batteries: BatteryConfig, drawing: str = HALL, **section: Any) -> Any:
    fleet = tuple(RoleConfig(role=f"carrier{n}", count=1, battery=battery) for n, battery in enumerate(batteries))
    config, layout = make_warehouse(drawing, fleet=fleet, **section)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    return simulator


def _stand(simulator: WarehouseSimulator) -> None:
    for role in simulator.arrays.roles.values():
        role.discrete_actions[:] = 0
    simulator.step()


@pytest.mark.parametrize("dispatch", ["nearest", "fifo"])
def test_dispatch_gives_no_task_to_a_robot_that_starts_empty(make_warehouse: Any, dispatch: str) -> None:
    tasks = TaskConfig(open=2, dispatch=dispatch)
    simulator = _simulator(make_warehouse, _battery(0.0), _battery(1.0), tasks=tasks, episode_steps=100)
    policy = PibtPolicy(simulator)
    for _ in range(100):
        assert simulator.has_task[0].tolist() == [False, True]
        policy.act(simulator.arrays)
        simulator.step()
    assert simulator.arrays.metrics[0, 0] > 3


def test_a_task_that_is_not_fetched_goes_to_another_robot_when_its_own_strands(make_warehouse: Any) -> None:
    tasks = TaskConfig(arrival="poisson", rate_per_h=1e-6, open=1)
    simulator = _simulator(make_warehouse, _battery(0.35, 0.1), _battery(1.0), tasks=tasks, episode_steps=30)
    fleet, pool = simulator._fleet, simulator._pool
    pickup, delivery = simulator._floor.pickups[0], simulator._floor.deliveries[0]
    pool.claimed[0, fleet.goal[0, 0]] = False
    fleet.goal[0, 0] = fleet.pickup[0, 0] = fleet.origin[0, 0] = pickup
    fleet.delivery[0, 0], fleet.number[0, 0], fleet.released[0, 0] = delivery, 7, -3
    for step in range(3):
        assert simulator.has_task[0].tolist() == [True, False], step
        _stand(simulator)
    _stand(simulator)
    assert simulator.charge[0, 0] == 0.0
    assert simulator.has_task[0].tolist() == [False, True]
    assert (fleet.number[0, 1], fleet.released[0, 1], pool.num_waiting[0]) == (7, -3, 0)


def test_a_load_that_is_fetched_stays_on_a_robot_that_strands(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, _battery(0.15, 0.1), _battery(1.0), episode_steps=30)
    fleet = simulator._fleet
    fleet.loaded[0, 0], fleet.goal[0, 0] = True, fleet.delivery[0, 0]
    fleet.cell[0, 0] = simulator._floor.goal_cell[fleet.pickup[0, 0]]
    number = fleet.number[0, 0]
    for _ in range(5):
        _stand(simulator)
    assert simulator.charge[0, 0] == 0.0
    assert (simulator.has_task[0, 0], simulator.loaded[0, 0], fleet.number[0, 0]) == (True, True, number)


def test_a_robot_that_strands_while_it_is_served_keeps_its_task(make_warehouse: Any) -> None:
    tasks = TaskConfig(open=1, service=ServiceConfig(pick_s=4.0))
    simulator = _simulator(make_warehouse, _battery(0.25, 0.1), tasks=tasks, episode_steps=30)
    fleet = simulator._fleet
    fleet.cell[0, 0] = simulator._floor.goal_cell[fleet.pickup[0, 0]]
    for _ in range(6):
        _stand(simulator)
        assert simulator.has_task[0, 0]
    assert (simulator.charge[0, 0], simulator.loaded[0, 0]) == (0.0, True)


def test_a_robot_that_strands_on_its_way_to_park_frees_the_place(make_warehouse: Any) -> None:
    tasks = TaskConfig(arrival="poisson", rate_per_h=1e-6, open=1)
    simulator = _simulator(make_warehouse, _battery(0.15, 0.1), _battery(1.0), tasks=tasks, episode_steps=30)
    fleet, pool = simulator._fleet, simulator._pool
    fleet.cell[0, 0] = simulator.layout.width + 1
    place = fleet.goal[0, 0]
    assert pool.claimed[0, place]
    _stand(simulator)
    assert (fleet.goal[0, 0], pool.claimed[0, place]) == (place, True)
    _stand(simulator)
    assert (fleet.goal[0, 0], pool.claimed[0, place]) == (-1, False)
    assert np.count_nonzero(pool.claimed[0]) == 1


def test_a_robot_that_strands_at_its_parking_place_keeps_it(make_warehouse: Any) -> None:
    tasks = TaskConfig(arrival="poisson", rate_per_h=1e-6, open=1)
    simulator = _simulator(make_warehouse, _battery(0.05, 0.1), tasks=tasks, episode_steps=30)
    fleet = simulator._fleet
    place = fleet.goal[0, 0]
    fleet.cell[0, 0] = simulator._floor.goal_cell[place]
    _stand(simulator)
    assert (simulator.charge[0, 0], fleet.goal[0, 0], simulator._pool.claimed[0, place]) == (0.0, place, True)


def test_another_picker_is_called_when_the_called_one_strands(make_warehouse: Any) -> None:
    picker = RoleConfig(role="picker", count=2, job="pick", battery=_battery(1.0, 1e-3))
    fleet = (RoleConfig(role="carrier", count=1), picker)
    config, layout = make_warehouse("P..P..E\n.......\nS..P..E", fleet=fleet, episode_steps=2000)
    simulator = WarehouseSimulator(config, with_meeting_places(layout, "test"), 1)
    simulator.reset(seed=0)
    _stand(simulator)
    meeting = simulator._features[0]
    assert isinstance(meeting, Meeting)
    station = meeting._state.station[0]
    called = int(np.argmax(station))
    assert station[called] >= 0 > station[3 - called]
    simulator._fleet.charge[0, called] = 1e-9
    _stand(simulator)
    assert station[3 - called] >= 0 > station[called]
    assert simulator._fleet.goal[0, called] == -1


def test_can_run_empty_is_the_worst_sum_of_drains(make_warehouse: Any) -> None:
    def answer(steps: int, **battery: float) -> bool:
        fleet = [RoleConfig(role="a", count=2, battery=_battery(1.0))]
        fleet.append(RoleConfig(role="b", count=1, battery=BatteryConfig(**battery)))
        return can_run_empty(make_warehouse(HALL, fleet=tuple(fleet), episode_steps=steps)[0])

    rates = {"drain_idle_per_h": 3.6, "drain_moving_per_h": 3.6, "drain_loaded_factor": 2.0}
    # Steps of 1 s: 0.003 each at most.
    assert not answer(166, **rates, initial_min=0.5, initial_max=1.0)
    assert answer(167, **rates, initial_min=0.5, initial_max=1.0)
    assert not answer(10_000_000, drain_idle_per_h=0.0, drain_moving_per_h=0.0, initial_min=0.5)
    assert answer(1, initial_min=0.0)
    assert not answer(500)


def test_robots_that_run_empty_are_counted_without_chargers_too(make_warehouse: Any) -> None:
    batteries = (_battery(0.55, 0.1), _battery(0.95, 0.1), _battery(0.0), _battery(1.0, 0.01))
    simulator = _simulator(make_warehouse, *batteries, episode_steps=8)
    for _ in range(8):
        _stand(simulator)
    figures = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True))
    assert (figures["stranded"], figures["min_charge"]) == (2.0, 0.0)
    assert "charging_share" not in figures
    lasting = _simulator(make_warehouse, _battery(0.55, 0.05), _battery(0.0, 0.1), episode_steps=8)
    lasting._fleet.charge[0, 1] = 0.9
    for _ in range(8):
        _stand(lasting)
    figures = dict(zip(lasting.spec.metric_names, lasting.arrays.metrics[0].tolist(), strict=True))
    assert figures["stranded"] == 0.0
    assert figures["min_charge"] == pytest.approx(0.9 - 8 * 0.1, abs=1e-6)


def test_a_scenario_whose_batteries_last_does_not_look_for_stranded_robots(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, BatteryConfig(), episode_steps=500)
    assert simulator._features == ()
    assert "stranded" not in simulator.spec.metric_names
