"""Makespan and sum of costs of a list, and tasks that nobody will do, against a plain count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.planners.pibt import PibtPolicy
from bridge.warehouse.config import TaskConfig, TransportConfig
from bridge.warehouse.config_monitoring import MetricsConfig
from bridge.warehouse.simulator import WarehouseSimulator

HALL = """
S.P.P.S
.......
E.P.P.E
"""
LISTED = (
    TransportConfig(pickups=((0, 0),), delivery=(2, 6)),
    TransportConfig(pickups=((0, 6),), delivery=(2, 6)),
    TransportConfig(pickups=((0, 6),), delivery=(2, 0), release_s=8.0),
)


def _play(make_warehouse: Any, steps: int, count: int = 3, **section: Any) -> tuple[dict[str, float], list[list[int]]]:
    """The figures, and for each robot the times of its deliveries in steps of half a second."""
    config, layout = make_warehouse(HALL, count, episode_steps=steps, drive={"kind": "grid", "step_s": 0.5}, **section)
    simulator = WarehouseSimulator(config, layout, 1)
    policy = PibtPolicy(simulator)
    simulator.reset(seed=4)
    times: list[list[int]] = [[] for _ in range(count)]
    for step in range(steps):
        policy.act(simulator.arrays)
        simulator.step()
        for robot in np.flatnonzero(simulator.outcome.served[0] == 2):
            times[robot].append(step + 1)
    return dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True)), times


@pytest.mark.parametrize("warm_up_s", [0.0, 10.0])
def test_a_list_that_is_done_has_the_times_of_its_last_deliveries(make_warehouse: Any, warm_up_s: float) -> None:
    tasks = TaskConfig(arrival="list", transports=LISTED)
    figures, times = _play(make_warehouse, 80, tasks=tasks, metrics=MetricsConfig(warm_up_s=warm_up_s))
    assert sum(map(len, times)) == 3
    assert figures["tasks_left"] == 0
    assert figures["makespan_s"] == 0.5 * max(max(own, default=0) for own in times)
    assert figures["sum_of_costs_s"] == 0.5 * sum(max(own, default=0) for own in times)


def test_a_list_that_is_not_done_counts_with_the_whole_episode(make_warehouse: Any) -> None:
    late = TransportConfig(pickups=((0, 0),), delivery=(2, 6), release_s=1e4)
    tasks = TaskConfig(arrival="list", transports=(*LISTED, late))
    figures, times = _play(make_warehouse, 80, tasks=tasks)
    assert figures["tasks_left"] == 1
    assert figures["makespan_s"] == 40.0
    assert figures["sum_of_costs_s"] == 0.5 * sum(max(own, default=0) for own in times)
    # Cut while robots are on their way: these count with the whole episode.
    figures, times = _play(make_warehouse, 4, tasks=tasks)
    assert sum(map(len, times)) == 0
    assert figures["tasks_left"] == 4
    assert figures["sum_of_costs_s"] == 2 * 2.0


@pytest.mark.parametrize("warm_up_s", [0.0, 20.0])
def test_tasks_that_find_the_pool_full_are_counted(make_warehouse: Any, warm_up_s: float) -> None:
    tasks = TaskConfig(arrival="poisson", rate_per_h=7200.0, open=2)
    figures, _ = _play(make_warehouse, 200, count=1, tasks=tasks, metrics=MetricsConfig(warm_up_s=warm_up_s))
    # One per step on average; but few of them are taken.
    counted = 200 - 2 * warm_up_s
    arrived = figures["tasks_turned_away"] + figures["deliveries"]
    assert abs(arrived - counted) < 5 * np.sqrt(counted)
    assert figures["tasks_turned_away"] > 0.8 * arrived


def test_figures_of_lists_and_arrivals_are_reported_only_where_they_mean_something(make_warehouse: Any) -> None:
    backlog, _ = _play(make_warehouse, 5)
    assert {"makespan_s", "sum_of_costs_s", "tasks_left", "tasks_turned_away"}.isdisjoint(backlog)
