"""The bound on the deliveries, on floors where it can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.errors import SpecMismatchError
from bridge.planners.bound import throughput_bound
from bridge.warehouse.config import TaskConfig, WarehouseConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.simulator import WarehouseSimulator

CORRIDOR = ["P..S.....E", ".........."]


def _config(rows: list[str], **changes: object) -> tuple[WarehouseConfig, Layout]:
    data = {"layout": {"grid": "\n".join(rows)}, "fleet": ({"role": "carrier", "count": 1},), **changes}
    return WarehouseConfig.model_validate(data), Layout.from_drawing(rows, 1.0, "test")


def test_throughput_bound_is_the_work_of_the_fleet_divided_by_the_way_of_a_transport() -> None:
    # One kind of transport: 3 cells to the pick-up from the parking place, which is nearer than the
    # delivery, and 6 to the delivery. The first empty leg is granted: 3 more steps.
    bound = throughput_bound(*_config(CORRIDOR, episode_steps=897))
    assert bound.fleet_per_h == pytest.approx(100 / (897 / 3600))
    assert bound.deliveries_per_h == bound.fleet_per_h


def test_throughput_bound_grows_with_the_fleet_and_falls_with_the_time_of_a_step() -> None:
    alone = throughput_bound(*_config(CORRIDOR)).fleet_per_h
    fleet = ({"role": "carrier", "count": 3}, {"role": "tugger", "count": 2})
    assert throughput_bound(*_config(CORRIDOR, fleet=fleet)).fleet_per_h == pytest.approx(5 * alone)
    slow = throughput_bound(*_config(CORRIDOR, drive={"kind": "grid", "step_s": 2.0})).fleet_per_h
    assert slow == pytest.approx(alone / 2)


def test_throughput_bound_lets_the_dearest_transports_wait() -> None:
    rows = ["PS......S", "........E"]
    few = throughput_bound(*_config(rows, tasks=TaskConfig(open=1))).fleet_per_h
    many = throughput_bound(*_config(rows, tasks=TaskConfig(open=100))).fleet_per_h
    assert few < many


def test_throughput_bound_is_one_robot_per_step_and_station_when_the_fleet_is_large() -> None:
    fleet = ({"role": "carrier", "count": 19},)
    bound = throughput_bound(*_config(["S.E......."] * 2, fleet=fleet, episode_steps=1000))
    assert bound.stations_per_h == 2 * 3600
    assert bound.deliveries_per_h == bound.stations_per_h


def test_throughput_bound_is_the_rate_of_arrivals_when_there_is_little_to_do() -> None:
    config, layout = _config(CORRIDOR, tasks=TaskConfig(arrival="poisson", rate_per_h=12.0))
    assert throughput_bound(config, layout).deliveries_per_h == 12.0


def test_throughput_bound_is_almost_reached_by_a_single_robot_that_drives_straight() -> None:
    rows = ["S...E", "....."]
    config, layout = _config(rows, episode_steps=400)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(0)
    values = simulator.arrays.roles["carrier"]
    while not simulator.arrays.episode_over[0]:
        distance = simulator.goal_distances[simulator.goal_index[0, 0]]
        values.discrete_actions[0, 0, 0] = np.argmin(distance[simulator.moves[simulator.cells[0, 0]]])
        simulator.step()
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    bound = throughput_bound(config, layout).deliveries_per_h
    assert 0.97 * bound < metrics["deliveries_per_h"] <= bound


def test_throughput_bound_refuses_robots_that_drive() -> None:
    with pytest.raises(SpecMismatchError, match=r"throughput_bound: expected drive 'grid', got 'differential'\."):
        throughput_bound(*_config(CORRIDOR, drive={"kind": "differential"}))
