"""Stations that take time: one robot at a time, held while served, and where the time goes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bridge.planners.pibt import PibtPolicy
from bridge.planners.pibt_heading import PibtHeadingPolicy
from bridge.warehouse.config import DifferentialDriveConfig, HeadingGridConfig, ServiceConfig, TaskConfig
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.view import LEFT
from bridge.warehouse.work.service import SERVICE_METRICS

LANE = "S..P.E\n......"
HALL = """
S.PP..E
.#..#..
.#..#..
..PP..E
"""


def _make(make_warehouse: Any, drawing: str, count: int, service: ServiceConfig, **section: Any) -> WarehouseSimulator:
    tasks = section.pop("tasks", None) or TaskConfig(open=2, service=service)
    config, layout = make_warehouse(drawing, count, tasks=tasks, **section)
    simulator = WarehouseSimulator(config, layout, section.pop("num_envs", 1))
    simulator.reset(seed=1)
    return simulator


def _figures(simulator: WarehouseSimulator) -> dict[str, float]:
    return dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True))


def _being_served(simulator: WarehouseSimulator) -> np.ndarray:
    layout = simulator.spec.roles[0].observation
    place = layout.slice_of("self").start + layout.blocks[0].fields.index("being_served")
    return simulator.arrays.roles["carrier"].observations[0, :, place]


def test_service_holds_a_robot_for_its_time_and_then_gives_it_the_load(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, LANE, 1, ServiceConfig(pick_s=2.5, drop_s=0.0), episode_steps=60)
    policy = PibtPolicy(simulator)
    for _ in range(3):
        policy.act(simulator.arrays)
        simulator.step()
    assert simulator.cells[0, 0] == 0
    for step in range(3):
        assert _being_served(simulator)[0] == 1.0
        assert not simulator.movable[0, 0]
        assert not simulator.loaded[0, 0]
        # It is told to go, and stands.
        simulator.arrays.roles["carrier"].discrete_actions[:] = 2
        simulator.step()
        assert simulator.cells[0, 0] == 0
        assert not simulator.outcome.refused[0, 0]
        assert simulator.loaded[0, 0] == (step == 2)
    assert _being_served(simulator)[0] == 0.0
    assert simulator.movable[0, 0]
    # A drop of no time delivers in the step of the arrival.
    for _ in range(5):
        policy.act(simulator.arrays)
        simulator.step()
    assert simulator.outcome.served[0, 0] == 2
    assert simulator.outcome.task_steps[0, 0] == 3 + 3 + 5


def test_robot_with_heading_is_served_in_the_step_of_its_arrival_as_on_the_plain_grid(make_warehouse: Any) -> None:
    """Who drives a cell in a step has come to rest at its end; docking takes no time of its own."""
    service = ServiceConfig(pick_s=3.0, drop_s=2.0)
    simulator = _make(make_warehouse, HALL, 1, service, drive=HeadingGridConfig(), episode_steps=120)
    policy = PibtHeadingPolicy(simulator)
    drove = delivered = 0
    for _ in range(120):
        policy.act(simulator.arrays)
        simulator.step()
        outcome, turned = simulator.outcome, simulator._pose.turn_rate[0, 0] != 0.0
        drove += int(outcome.moved_m[0, 0] > 0.0 or turned)
        if outcome.served[0, 0] == 2:
            delivered += 1
            # Steps on the way and at stations, and no other.
            assert outcome.task_steps[0, 0] == drove + 3 + 2
            drove = 0
    assert delivered > 3
    figures = _figures(simulator)
    assert figures["pick_s"] == 3.0
    assert figures["drop_s"] == 2.0
    assert figures["empty_travel_s"] + figures["loaded_travel_s"] == pytest.approx(figures["transport_s"] - 5.0)


@pytest.mark.parametrize("count", [1, 5])
def test_service_splits_the_time_of_transports_into_parts_that_add_up(make_warehouse: Any, count: int) -> None:
    service = ServiceConfig(pick_s=3.0, drop_s=2.0, spread=0.5)
    simulator = _make(make_warehouse, HALL, count, service, episode_steps=150)
    policy = PibtPolicy(simulator)
    total, deliveries = 0, 0
    for _ in range(150):
        policy.act(simulator.arrays)
        simulator.step()
        served = simulator.outcome.served[0] == 2
        total += int(simulator.outcome.task_steps[0][served].sum())
        deliveries += int(served.sum())
    figures = _figures(simulator)
    assert deliveries > 3
    assert figures["deliveries"] == deliveries
    assert figures["transport_s"] == pytest.approx(total / deliveries)
    parts = [figures[metric.name] for metric in SERVICE_METRICS[1:]]
    assert sum(parts) == pytest.approx(figures["transport_s"])
    # Steps of 1 s: a pick of 3 s +-50 % takes 2 to 5 steps, a drop of 2 s 1 to 3.
    assert 2.0 <= figures["pick_s"] <= 5.0
    assert 1.0 <= figures["drop_s"] <= 3.0
    if count == 1:
        assert figures["queue_wait_s"] == figures["traffic_wait_s"] == 0.0
    else:
        assert figures["queue_wait_s"] > 0.0


def test_service_counts_waiting_for_a_busy_station_as_queue_and_any_other_as_traffic(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, "SPP.E", 2, ServiceConfig(pick_s=4.0, drop_s=0.0), episode_steps=7)
    actions = simulator.arrays.roles["carrier"].discrete_actions
    front = int(np.argmin(simulator.cells[0]))
    for _ in range(7):
        actions[0, :, 0] = 0
        actions[0, front, 0] = LEFT
        simulator.step()
        spent = simulator._features[0]._state.spent[0].copy()
    # Front: a step to the station, four of service, then it stays. Behind: a step before the service began, then
    # four in the queue, then it stands although the station is free.
    assert spent[front].tolist() == [0, 1, 4, 0, 0, 2, 0]
    assert spent[1 - front].tolist() == [4, 0, 0, 0, 0, 3, 0]


def test_service_takes_robots_in_the_order_of_their_arrival(make_warehouse: Any) -> None:
    """Differential drive: several robots fit into the radius of one station."""
    simulator = _make(
        make_warehouse,
        "S.P.P\n....E",
        2,
        ServiceConfig(pick_s=1.0, drop_s=1.0),
        drive=DifferentialDriveConfig(station_radius_m=1.0),
        tasks=None,
    )
    fleet, pose, feature = simulator._fleet, simulator._pose, simulator._features[0]
    pickup = simulator._floor.pickups[0]
    fleet.goal[0, :] = fleet.pickup[0, :] = pickup
    # Robot 1 comes first, robot 0 two steps later.
    pose.x[0], pose.y[0] = [4.0, 0.9], [0.4, 1.5]
    done = []
    for step in range(20):
        if step == 2:
            pose.x[0, 0], pose.y[0, 0] = 0.5, 0.8
        feature.before_service()
        simulator._steps += 1
        done += [(step, robot) for robot in (0, 1) if feature._state.left[0, robot] == 1]
        if done and len(done) == 2:
            break
    assert [robot for _, robot in done] == [1, 0]
    # One decision lasts 0.2 s, so a service lasts 5 steps, and the second begins when the first ends.
    assert done[1][0] - done[0][0] == 5


def test_service_waits_until_a_robot_is_slow(make_warehouse: Any) -> None:
    drive = DifferentialDriveConfig(station_radius_m=1.0)
    simulator = _make(make_warehouse, "S.P.P\n....E", 1, ServiceConfig(), drive=drive, tasks=None)
    fleet, pose, feature = simulator._fleet, simulator._pose, simulator._features[0]
    pose.x[0, 0], pose.y[0, 0], pose.speed[0, 0] = 0.5, 1.5, 0.21
    feature.before_service()
    assert (fleet.in_service[0, 0], feature._state.left[0, 0]) == (True, 0)
    pose.speed[0, 0] = 0.2
    feature.before_service()
    assert feature._state.left[0, 0] == 15
    assert fleet.held[0, 0] != 0


def test_service_draws_durations_evenly_within_the_spread(make_warehouse: Any) -> None:
    tasks = TaskConfig(open=1, service=ServiceConfig(pick_s=50.0, drop_s=0.0, spread=0.4))
    config, layout = make_warehouse("S.P.P\n....E", 1, tasks=tasks)
    simulator = WarehouseSimulator(config, layout, 300)
    simulator.reset(seed=3)
    simulator._fleet.cell[:] = 0
    simulator._features[0].before_service()
    left = simulator._features[0]._state.left[:, 0]
    assert left.min() >= 30
    assert left.max() <= 70
    # Five standard deviations of the mean of a uniform variable.
    assert abs(left.mean() - 50.5) < 5 * 40 / math.sqrt(12 * 300)


def test_service_ends_when_the_robot_leaves_the_floor(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, LANE, 1, ServiceConfig(), episode_steps=60)
    simulator._fleet.cell[:] = 0
    feature = simulator._features[0]
    feature.before_service()
    assert feature._state.server.max() == 0
    simulator.outcome.leaving[0, 0] = True
    feature.before_service()
    assert feature._state.server.max() == -1
    assert feature._state.left[0, 0] == 0
    assert simulator._fleet.held[0, 0] == 0


def test_service_is_not_in_the_observation_unless_used(make_warehouse: Any) -> None:
    config, layout = make_warehouse(LANE, 1)
    plain = WarehouseSimulator(config, layout, 1)
    assert "being_served" not in plain.spec.roles[0].observation.blocks[0].fields
    assert "transport_s" not in plain.spec.metric_names
