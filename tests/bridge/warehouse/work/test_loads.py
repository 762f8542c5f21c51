"""Loads and payloads: who is given what, that masses follow the task, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.errors import ScenarioError
from bridge.planners import PibtPolicy
from bridge.warehouse.config import LoadConfig, RoleConfig, TaskConfig, TransportConfig
from bridge.warehouse.random_streams import Purpose, stream_keys
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.validation import check_warehouse
from bridge.warehouse.work.loads import LOAD_METRICS, NO_LOADS, Loads, load_kg, make_loads
from bridge.warehouse.work.tasks import DELIVERED, TaskStream, dispatch
from tests.bridge.warehouse.work.test_tasks import _pool, _wait

FLOOR = """
P.P.P.P.P.P
...........
S.##.##.##E
...........
S.##.##.##E
...........
"""
KEY = np.uint64(77)


def _fleet(weak_kg: float | None = 100.0, strong_kg: float | None = 500.0) -> tuple[RoleConfig, ...]:
    return (
        RoleConfig(role="carrier", count=3, payload_kg=weak_kg),
        RoleConfig(role="tugger", count=2, payload_kg=strong_kg),
    )


def _dispatch(scene: Any, pool: Any, stream: TaskStream) -> None:
    keys, steps = np.array([KEY]), np.zeros(1, np.int32)
    dispatch(scene.floor, scene.fleet, scene.pose, pool, stream, keys, keys, steps, np.ones(1, bool))


def _listed(*masses: float, payloads: tuple[float, ...]) -> Loads:
    return Loads(np.array(payloads), np.array(masses), 0.0, 0.0)


def test_a_robot_is_given_the_nearest_task_that_it_can_carry(make_scene: Any) -> None:
    scene = make_scene("S.P..S..P.E\n...........", 1)
    scene.place(0, 0, 4)
    pool = _pool(scene)
    far, near = scene.floor.pickups.tolist()
    _wait(pool, (near, 1), (far, 1))
    _dispatch(scene, pool, TaskStream(0, -1.0, loads=_listed(120.0, 100.0, payloads=(100.0,))))
    assert scene.fleet.number[0, 0] == 1
    assert pool.number[0, 0] == 0


def test_a_robot_that_can_carry_nothing_goes_to_park(make_scene: Any) -> None:
    scene = make_scene("S.P..S..P.E\n...........", 2)
    scene.place(0, 0, 4)
    scene.place(0, 1, 9)
    pool = _pool(scene)
    _wait(pool, (int(scene.floor.pickups[0]), 1))
    _dispatch(scene, pool, TaskStream(0, -1.0, loads=_listed(120.0, payloads=(100.0, 150.0))))
    assert scene.fleet.pickup[0].tolist() == [-1, scene.floor.pickups[0]]
    assert scene.fleet.goal[0, 0] in scene.floor.parking


@pytest.mark.parametrize("strong", [0, 1])
def test_fifo_passes_over_a_task_that_no_free_robot_can_carry(make_scene: Any, strong: int) -> None:
    scene = make_scene("S.P..S..P.E\n...........", 2)
    scene.place(0, 0, 4)
    scene.place(0, 1, 6)
    pool = _pool(scene)
    left, right = scene.floor.pickups.tolist()
    _wait(pool, (right, 1), (left, 1), (right, 1))
    payloads = (150.0, 10.0) if strong == 0 else (10.0, 150.0)
    loads = _listed(900.0, 120.0, 5.0, payloads=payloads)
    _dispatch(scene, pool, TaskStream(0, -1.0, oldest_first=True, loads=loads))
    # The first is too heavy for both, the second for one of them, the third for nobody.
    assert scene.fleet.number[0, strong] == 1
    assert scene.fleet.number[0, 1 - strong] == 2
    assert pool.num_waiting[0] == 1
    assert pool.number[0, 0] == 0


def test_drawn_masses_are_uniform_and_belong_to_the_number_of_the_task() -> None:
    loads = Loads(np.zeros(0), np.zeros(0), 50.0, 150.0)
    masses = np.array([load_kg(loads, KEY, number) for number in range(4000)])
    assert masses.min() >= 50.0
    assert masses.max() < 150.0
    # Five standard deviations of the mean; a tenth each in ten bins.
    assert abs(masses.mean() - 100.0) < 5 * 100 / np.sqrt(12 * 4000)
    assert np.abs(np.histogram(masses, 10, (50, 150))[0] - 400).max() < 5 * 20
    assert masses[17] == load_kg(loads, KEY, 17)
    assert masses[17] != load_kg(loads, np.uint64(78), 17)


@pytest.mark.parametrize("rule", ["nearest", "fifo"])
def test_nobody_ever_carries_more_than_its_payload(make_warehouse: Any, rule: str) -> None:
    tasks = TaskConfig(load=LoadConfig(min_kg=10, max_kg=400), dispatch=rule, open=6, timeout_s=25)  # type: ignore[arg-type]
    config, layout = make_warehouse(FLOOR, fleet=_fleet(), tasks=tasks, episode_steps=200)
    check_warehouse(config, layout, "test")
    simulator = WarehouseSimulator(config, layout, 2)
    policy = PibtPolicy(simulator)
    simulator.reset(seed=5)
    loads, payload = make_loads(config), np.array([100.0] * 3 + [500.0] * 2)
    keys = stream_keys(np.full(2, 5, np.uint64), np.arange(2), np.zeros(2, np.int64))[:, Purpose.TASK]
    delivered, by_weak = np.zeros(2), 0
    while not simulator.arrays.episode_over.any():
        fleet = simulator._parts.fleet
        for env, robot in np.argwhere(fleet.pickup >= 0):
            assert load_kg(loads, keys[env], int(fleet.number[env, robot])) <= payload[robot]
        numbers = fleet.number.copy()
        policy.act(simulator.arrays)
        simulator.step()
        for env, robot in np.argwhere(simulator.outcome.served == DELIVERED):
            delivered[env] += load_kg(loads, keys[env], int(numbers[env, robot]))
            by_weak += robot < 3
    place = simulator.spec.metric_names.index(LOAD_METRICS[0].name)
    np.testing.assert_allclose(simulator.arrays.metrics[:, place], delivered)
    assert delivered.min() > 1000
    assert by_weak > 5


def test_listed_loads_are_weighed_in_the_order_of_their_release(make_warehouse: Any) -> None:
    transports = (
        TransportConfig(pickups=((2, 0),), delivery=(2, 10), release_s=5, load_kg=300),
        TransportConfig(pickups=((4, 0),), delivery=(2, 10), load_kg=20),
    )
    config, layout = make_warehouse(FLOOR, fleet=_fleet(), tasks=TaskConfig(arrival="list", transports=transports))
    check_warehouse(config, layout, "test")
    assert make_loads(config).listed_kg.tolist() == [20.0, 300.0]
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=1)
    for _ in range(6):
        for values in simulator.arrays.roles.values():
            values.discrete_actions[:] = 0
        simulator.step()
    assert simulator.has_task[0].sum() == 2
    fleet = simulator._parts.fleet
    heavy = int(np.flatnonzero(simulator.has_task[0] & (fleet.number[0] == 1))[0])
    assert heavy >= 3  # a tugger


def test_scenarios_without_loads_have_no_figure_of_them(make_warehouse: Any) -> None:
    config, layout = make_warehouse(FLOOR, fleet=_fleet())
    assert make_loads(config) is NO_LOADS
    assert LOAD_METRICS[0].name not in WarehouseSimulator(config, layout, 1).spec.metric_names


def test_loads_that_nobody_can_carry_are_refused(make_warehouse: Any) -> None:
    config, layout = make_warehouse(FLOOR, fleet=_fleet(), tasks=TaskConfig(load=LoadConfig(max_kg=501)))
    with pytest.raises(ScenarioError, match=r"tasks\.load\.max_kg: expected at most .* 500 kg, got 501\. Nobody"):
        check_warehouse(config, layout, "test")
    heavy = TransportConfig(pickups=((2, 0),), delivery=(2, 10), load_kg=600)
    config, layout = make_warehouse(FLOOR, fleet=_fleet(), tasks=TaskConfig(arrival="list", transports=(heavy,)))
    with pytest.raises(ScenarioError, match=r"tasks\.transports\[0\]\.load_kg: expected at most .* 500 kg, got 600\."):
        check_warehouse(config, layout, "test")
    config, layout = make_warehouse(FLOOR, fleet=_fleet(None), tasks=TaskConfig(arrival="list", transports=(heavy,)))
    check_warehouse(config, layout, "test")


def test_load_sections_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"expected min_kg <= max_kg, got min_kg=50\.0 > max_kg=20\.0"):
        LoadConfig(min_kg=50, max_kg=20)
    task = TransportConfig(pickups=((2, 0),), delivery=(2, 10))
    with pytest.raises(ValidationError, match=r"expected no load with arrival 'list', got one\. State load_kg"):
        TaskConfig(arrival="list", transports=(task,), load=LoadConfig(max_kg=20))
