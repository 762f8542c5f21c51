"""Listed transports, dispatch of the oldest task first, several errands per task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.errors import ScenarioError
from bridge.planners.pibt import PibtPolicy
from bridge.warehouse.config import ContactConfig, TaskConfig, TransportConfig
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.validation import check_warehouse
from bridge.warehouse.view import LEFT

HALL = """
S.P.P.S
.#...#.
E.P.P.E
"""
UPPER_LEFT, UPPER_RIGHT, LOWER_LEFT, LOWER_RIGHT = (0, 0), (0, 6), (2, 0), (2, 6)


def _run(make_warehouse: Any, count: int, steps: int, num_envs: int = 1, **tasks: Any) -> Any:
    """Let PIBT drive; yields the simulator and (step, robot, kind, cell, task) of everything that was served."""
    config, layout = make_warehouse(HALL, count, tasks=TaskConfig(**tasks), episode_steps=steps + 1)
    check_warehouse(config, layout, "test")
    simulator = WarehouseSimulator(config, layout, num_envs)
    simulator.reset(seed=4)
    policy = PibtPolicy(simulator)
    events = []
    for step in range(steps):
        numbers = simulator._fleet.number[0].copy()
        policy.act(simulator.arrays)
        simulator.step()
        events += [
            (step + 1, robot, int(kind), divmod(int(simulator.cells[0, robot]), layout.width), int(numbers[robot]))
            for robot, kind in enumerate(simulator.outcome.served[0])
            if kind
        ]
    return simulator, events


def _transport(*pickups: tuple[int, int], delivery: tuple[int, int], release_s: float = 0.0) -> TransportConfig:
    return TransportConfig(pickups=pickups, delivery=delivery, release_s=release_s)


def test_listed_transports_are_done_once_each_after_their_release(make_warehouse: Any) -> None:
    listed = (
        _transport(UPPER_RIGHT, delivery=LOWER_LEFT, release_s=30.0),
        _transport(UPPER_LEFT, delivery=LOWER_RIGHT),
        _transport(UPPER_RIGHT, delivery=LOWER_RIGHT, release_s=10.5),
    )
    simulator, events = _run(make_warehouse, 2, 80, arrival="list", transports=listed)
    by_task = {number: [(kind, cell) for *_, kind, cell, task in events if task == number] for number in range(3)}
    # Numbered in the order of their release.
    assert by_task[0] == [(1, UPPER_LEFT), (2, LOWER_RIGHT)]
    assert by_task[1] == [(1, UPPER_RIGHT), (2, LOWER_RIGHT)]
    assert by_task[2] == [(1, UPPER_RIGHT), (2, LOWER_LEFT)]
    assert len(events) == 6
    first = {number: min(step for step, *_, task in events if task == number) for number in range(3)}
    assert first[1] > 10.5
    assert first[2] > 30.0
    assert not simulator.has_task.any()
    assert simulator._pool.num_waiting[0] == 0


def test_listed_transports_begin_anew_in_every_episode(make_warehouse: Any) -> None:
    listed = (_transport(UPPER_LEFT, delivery=LOWER_RIGHT, release_s=2.0),)
    config, layout = make_warehouse(HALL, 1, tasks=TaskConfig(arrival="list", transports=listed), episode_steps=30)
    simulator = WarehouseSimulator(config, layout, 2)
    simulator.reset(seed=0)
    policy = PibtPolicy(simulator)
    deliveries = 0
    for _ in range(60):
        policy.act(simulator.arrays)
        simulator.step()
        deliveries += int((simulator.outcome.served == 2).sum())
    assert deliveries == 4


def test_fifo_gives_the_oldest_task_to_the_nearest_robot(make_warehouse: Any) -> None:
    # The robots start at the four parking places; the oldest task is on the right.
    listed = (_transport(UPPER_RIGHT, delivery=LOWER_LEFT), _transport(UPPER_LEFT, delivery=LOWER_LEFT, release_s=1.0))
    simulator, events = _run(make_warehouse, 1, 60, arrival="list", transports=listed, dispatch="fifo")
    assert [task for *_, kind, _, task in events if kind == 1] == [0, 1]
    config, layout = make_warehouse(HALL, 4, tasks=TaskConfig(arrival="list", transports=listed[:1], dispatch="fifo"))
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    (robot,) = np.flatnonzero(simulator.has_task[0])
    assert simulator.cells[0, robot] == 4


def test_fifo_keeps_a_backlog_and_never_overtakes(make_warehouse: Any) -> None:
    simulator, events = _run(make_warehouse, 3, 150, open=5, dispatch="fifo")
    assert simulator._pool.num_waiting[0] == 5
    taken = simulator._fleet.number[0][simulator.has_task[0]]
    assert taken.max() < simulator._pool.number[0, :5].min()
    assert len([event for event in events if event[2] == 2]) > 15


def test_errands_visit_every_listed_pickup_in_order_before_the_delivery(make_warehouse: Any) -> None:
    listed = (
        _transport(UPPER_LEFT, UPPER_RIGHT, UPPER_LEFT, delivery=LOWER_RIGHT),
        _transport(UPPER_RIGHT, delivery=LOWER_LEFT, release_s=40.0),
    )
    _, events = _run(make_warehouse, 1, 120, arrival="list", transports=listed)
    assert [(kind, cell) for *_, kind, cell, _ in events] == [
        (1, UPPER_LEFT),
        (1, UPPER_RIGHT),
        (1, UPPER_LEFT),
        (2, LOWER_RIGHT),
        (1, UPPER_RIGHT),
        (2, LOWER_LEFT),
    ]


def test_errands_are_drawn_for_tasks_that_are_not_listed(make_warehouse: Any) -> None:
    _, events = _run(make_warehouse, 2, 300, errands=3, open=2)
    finished = {task for *_, kind, _, task in events if kind == 2}
    stations = set()
    for number in finished:
        visits = [(kind, cell) for *_, kind, cell, task in events if task == number]
        assert [kind for kind, _ in visits] == [1, 1, 1, 2]
        stations |= {tuple(cell for kind, cell in visits if kind == 1)}
    assert len(finished) > 8
    assert len(stations) > 3


def test_errands_begin_anew_when_another_robot_takes_the_task_over(make_warehouse: Any) -> None:
    config, layout = make_warehouse(
        "S.P.S\n.###.\nE...E\nP...P",
        1,
        tasks=TaskConfig(arrival="list", transports=(_transport((0, 0), (0, 4), delivery=(2, 4)),), timeout_s=None),
        contact=ContactConfig(rule="despawn", respawn_after_s=0.0),
    )
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    policy = PibtPolicy(simulator)
    while simulator.outcome.served[0, 0] != 1:
        policy.act(simulator.arrays)
        simulator.step()
    assert simulator.goal_cells[0, 0] == 4
    # Into the wall: it leaves, comes back at once, and has the task from its beginning.
    simulator.arrays.roles["carrier"].discrete_actions[:] = LEFT
    simulator.step()
    assert simulator.outcome.leaving[0, 0]
    assert simulator.goal_cells[0, 0] == 0
    assert simulator._fleet.errand[0, 0] == 0


def test_check_warehouse_finds_listed_transports_that_are_at_no_station(make_warehouse: Any) -> None:
    listed = (_transport((1, 0), delivery=LOWER_LEFT), _transport(UPPER_LEFT, delivery=(9, 9)))
    config, layout = make_warehouse(HALL, 1, tasks=TaskConfig(arrival="list", transports=listed))
    with pytest.raises(ScenarioError) as error:
        check_warehouse(config, layout, "warehouse")
    faults = str(error.value).splitlines()
    assert len(faults) == 2
    assert "warehouse.tasks.transports[0].pickups: expected the row and column of a pick-up, got [1, 0]." in faults[0]
    assert "warehouse.tasks.transports[1].delivery: expected the row and column of a delivery, got [9, 9]." in faults[1]


def test_task_config_refuses_a_list_without_transports_and_transports_without_a_list() -> None:
    with pytest.raises(ValueError, match="expected transports with arrival 'list' and only there, got arrival 'list'"):
        TaskConfig(arrival="list")
    with pytest.raises(ValueError, match="got arrival 'backlog' and 1 transports"):
        TaskConfig(transports=(_transport(UPPER_LEFT, delivery=LOWER_LEFT),))
