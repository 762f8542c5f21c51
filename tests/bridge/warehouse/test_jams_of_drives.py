"""Circles of robots that drive: who waits for whom where robots are not in step with the cells."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.warehouse.config import DifferentialDriveConfig, RoleConfig
from bridge.warehouse.config_monitoring import DeadlockConfig
from bridge.warehouse.jams import DEADLOCKED
from bridge.warehouse.simulator import WarehouseSimulator

LANE = """
S.......E
.#######.
P.......P
"""
STEPS = 60


def _head_on(make_warehouse: Any, columns: tuple[float, float], rows: tuple[float, float], **role: Any) -> Any:
    """Two robots in the upper lane on their ways to each other's side, at places in m from the left and the top."""
    config, layout = make_warehouse(
        LANE,
        fleet=(RoleConfig(role="carrier", count=2, **role),),
        drive=DifferentialDriveConfig(),
        deadlock=DeadlockConfig(cycle_s=4.0, no_progress_s=8.0),
        episode_steps=STEPS,
    )
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    fleet, pose, floor = simulator._fleet, simulator._pose, simulator._floor
    for robot, (column, row) in enumerate(zip(columns, rows, strict=True)):
        fleet.cell[0, robot] = int(row) * floor.width + int(column)
        pose.x[0, robot], pose.y[0, robot] = column, floor.height - row
        pose.heading[0, robot] = 0.0 if robot else -3.1415
        pose.cos[0, robot], pose.sin[0, robot] = (1.0 if robot else -1.0), 0.0
        fleet.pickup[0, robot], fleet.delivery[0, robot] = floor.pickups[0], floor.deliveries[0]
        fleet.loaded[0, robot] = bool(robot)
        fleet.goal[0, robot] = floor.deliveries[0] if robot else floor.pickups[0]
    return simulator


def _figures(simulator: WarehouseSimulator, *speeds: float) -> dict[str, float]:
    for step in range(STEPS):
        for robot, speed in enumerate(speeds):
            # A policy that is never quite still.
            simulator.arrays.roles["carrier"].continuous_actions[0, robot] = (speed, 0.01 * (step % 3 - 1))
        simulator.step()
    return dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True))


@pytest.mark.parametrize("columns", [(4.5, 3.5), (5.0, 4.3), (4.9, 4.1)])
@pytest.mark.parametrize("speeds", [(1.0, 1.0), (0.0, 0.0), (1.0, 0.0)])
def test_two_robots_head_on_in_a_lane_are_one_deadlock(
    make_warehouse: Any, columns: tuple[float, float], speeds: tuple[float, float]
) -> None:
    figures = _figures(_head_on(make_warehouse, columns, (0.5, 0.5)), *speeds)
    assert (figures["deadlocks"], figures["livelocks"]) == (1.0, 0.0)
    # Two robots for nearly all of 60 steps of 0.2 s.
    assert 2 * 10.0 < figures["deadlock_time_s"] <= 2 * 12.0


def test_rectangles_head_on_are_a_deadlock_too(make_warehouse: Any) -> None:
    simulator = _head_on(make_warehouse, (4.9, 3.6), (0.5, 0.5), length_m=1.2, width_m=0.8)
    assert _figures(simulator, 1.0, 1.0)["deadlocks"] == 1.0


def test_robots_that_stand_apart_or_side_by_side_are_no_deadlock(make_warehouse: Any) -> None:
    apart = _figures(_head_on(make_warehouse, (7.5, 1.5), (0.5, 0.5)), 0.0, 0.0)
    assert (apart["deadlocks"], apart["livelocks"]) == (0.0, 2.0)
    # They have passed each other: who is behind is in nobody's way.
    passed = _figures(_head_on(make_warehouse, (3.5, 4.5), (0.5, 0.5)), 0.0, 0.0)
    assert (passed["deadlocks"], passed["livelocks"]) == (0.0, 2.0)


def test_a_deadlock_of_drives_ends_when_a_robot_gets_on(make_warehouse: Any) -> None:
    simulator = _head_on(make_warehouse, (4.5, 3.5), (0.5, 0.5))
    actions = simulator.arrays.roles["carrier"].continuous_actions
    for _ in range(25):
        actions[0] = 0.0
        simulator.step()
    assert simulator.jams.state[0].tolist() == [DEADLOCKED, DEADLOCKED]
    # Somebody lifts the other one out of the way.
    simulator._pose.x[0, 1], simulator._fleet.cell[0, 1] = 8.5, 8
    simulator.step()
    assert simulator.jams.state[0, 0] == 0
