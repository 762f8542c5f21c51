"""Tasks: arrival, dispatch, service, return, parking."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import TaskConfig
from bridge.warehouse.fleet import TaskPool, make_pool
from bridge.warehouse.work.tasks import (
    DELIVERED,
    PICKED_UP,
    TaskStream,
    _poisson,
    clear_tasks,
    dispatch,
    make_stream,
    serve,
)

CORRIDOR = "S.P..S..P.E\n..........."
NOTHING = TaskStream(0, -1.0)


def _pool(scene: Any, num_open: int = 4) -> TaskPool:
    num_envs, num_robots = scene.fleet.cell.shape
    pool = make_pool(num_envs, num_open, num_robots, len(scene.floor.goal_cell))
    clear_tasks(scene.fleet, pool, np.ones(num_envs, bool))
    return pool


def _dispatch(scene: Any, pool: TaskPool, stream: TaskStream, step: int = 0, key: int = 1) -> None:
    num_envs = len(scene.fleet.cell)
    keys = np.full(num_envs, key, np.uint64)
    steps = np.full(num_envs, step, np.int32)
    dispatch(scene.floor, scene.fleet, scene.pose, pool, stream, keys, keys, steps, np.ones(num_envs, bool))


def _wait(pool: TaskPool, *tasks: tuple[int, int]) -> None:
    """Let tasks wait; the number of a task is its place in the list."""
    for number, (pickup, delivery) in enumerate(tasks):
        pool.pickup[0, number], pool.delivery[0, number], pool.number[0, number] = pickup, delivery, number
    pool.num_waiting[0] = len(tasks)
    pool.drawn[0] = len(tasks)


def _serve(scene: Any, pool: TaskPool, radius_m: float = -1.0) -> None:
    steps = np.zeros(len(scene.fleet.cell), np.int32)
    serve(scene.floor, scene.fleet, scene.pose, pool, scene.outcome, steps, radius_m)


def test_dispatch_sends_a_robot_to_the_nearest_pickup(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 1)
    scene.place(0, 0, 4)
    pool = _pool(scene)
    far, near = scene.floor.pickups.tolist()
    delivery = int(scene.floor.deliveries[0])
    _wait(pool, (far, delivery), (near, delivery))
    _dispatch(scene, pool, NOTHING)
    assert scene.floor.goal_cell[scene.fleet.goal[0, 0]] == 5
    assert scene.fleet.number[0, 0] == 1
    assert pool.num_waiting[0] == 1
    assert pool.pickup[0, 0] == far


def test_dispatch_measures_the_way_around_racks_and_not_the_air_line(make_scene: Any) -> None:
    scene = make_scene("S#S...\n.#...E\n......", 1)
    # From row 0, column 3, the left pick-up is 7 cells away, the other 1; from row 2, column 0: 2 and 4.
    for cell, goal in ((3, 2), (12, 0)):
        scene.place(0, 0, cell)
        pool = _pool(scene)
        _wait(pool, *[(int(pickup), int(scene.floor.deliveries[0])) for pickup in scene.floor.pickups])
        _dispatch(scene, pool, NOTHING)
        assert scene.floor.goal_cell[scene.fleet.goal[0, 0]] == goal


def test_dispatch_takes_the_older_task_among_equally_near_ones(make_scene: Any) -> None:
    scene = make_scene("S.S\n..E", 1)
    scene.place(0, 0, 1)
    left, right = scene.floor.pickups.tolist()
    delivery = int(scene.floor.deliveries[0])
    for order in ((left, right), (right, left)):
        pool = _pool(scene)
        _wait(pool, (order[0], delivery), (order[1], delivery))
        _dispatch(scene, pool, NOTHING)
        assert scene.fleet.goal[0, 0] == order[0]


def test_dispatch_lets_the_lower_slot_choose_first(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 2)
    scene.place(0, 0, 7)
    scene.place(0, 1, 6)
    pool = _pool(scene)
    far, near = scene.floor.pickups.tolist()
    _wait(pool, (near, int(scene.floor.deliveries[0])), (far, int(scene.floor.deliveries[0])))
    _dispatch(scene, pool, NOTHING)
    assert scene.fleet.goal[0].tolist() == [near, far]


def test_dispatch_keeps_a_backlog_of_open_tasks(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 3)
    for robot in range(3):
        scene.place(0, robot, 12 + robot)
    pool = _pool(scene, num_open=4)
    _dispatch(scene, pool, TaskStream(4, -1.0))
    assert pool.num_waiting[0] == 4
    assert pool.drawn[0] == 7
    assert (scene.fleet.pickup[0] >= 0).all()


def test_dispatch_draws_stations_uniformly(make_scene: Any) -> None:
    scene = make_scene("SSS.E\n....E", 1, num_envs=1)
    scene.place(0, 0, 3)
    pool = _pool(scene, num_open=6000)
    _dispatch(scene, pool, TaskStream(6000, -1.0))
    pickups = np.bincount(pool.pickup[0, :6000], minlength=5)
    deliveries = np.bincount(pool.delivery[0, :6000], minlength=5)
    assert sorted(np.flatnonzero(pickups).tolist()) == sorted(scene.floor.pickups.tolist())
    assert sorted(np.flatnonzero(deliveries).tolist()) == sorted(scene.floor.deliveries.tolist())
    # Five standard deviations.
    assert np.abs(pickups[pickups > 0] - 2000).max() < 5 * np.sqrt(6000 * 2 / 9)
    assert np.abs(deliveries[deliveries > 0] - 3000).max() < 5 * np.sqrt(6000 / 4)


def test_dispatch_poisson_arrivals_have_the_stated_mean_and_variance(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 1)
    scene.place(0, 0, 12)
    scene.fleet.alive[0, 0] = False
    stream = make_stream(TaskConfig(arrival="poisson", rate_per_h=5400.0, open=50), 1.0, scene.layout)
    assert stream.mean == 1.5
    arrivals = []
    for step in range(4000):
        pool = _pool(scene, 50)
        _dispatch(scene, pool, stream, step)
        arrivals.append(int(pool.num_waiting[0]))
    assert abs(np.mean(arrivals) - 1.5) < 5 * np.sqrt(1.5 / 4000)
    assert abs(np.var(arrivals) - 1.5) < 0.25


def test_dispatch_poisson_turns_tasks_away_when_enough_wait(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 1)
    scene.place(0, 0, 12)
    scene.fleet.alive[0, 0] = False
    pool = _pool(scene, 3)
    for step in range(50):
        _dispatch(scene, pool, TaskStream(3, 800.0), step)
        assert pool.num_waiting[0] <= 3
    assert pool.num_waiting[0] == 3
    arrived = 3 + pool.turned_away[0]
    assert abs(arrived - 50 * 800) < 5 * np.sqrt(50 * 800)


@pytest.mark.parametrize("mean", [1e-6, 0.3, 20.0, 150.0, 800.0, 1e5])
def test_poisson_inverts_the_distribution_also_where_its_first_term_underflows(mean: float) -> None:
    for probability in (1e-12, 0.01, 0.5, 0.99, 1.0 - 1e-12):
        count = _poisson(mean, probability)
        numbers = np.arange(max(count - int(20 * np.sqrt(mean)) - 50, 0), count + 1)
        log_terms = numbers * np.log(mean) - mean - np.array([math.lgamma(number + 1.0) for number in numbers])
        total = np.cumsum(np.exp(log_terms))
        assert total[-1] >= probability * (1 - 1e-9) - 1e-9
        assert count == 0 or total[-2] <= probability + 1e-9
    assert _poisson(mean, 1.0 - 2.0**-53) < mean + 12 * np.sqrt(mean) + 41


def test_dispatch_sends_idle_robots_to_the_nearest_free_parking_place(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 3)
    for robot, cell in enumerate((3, 1, 4)):
        scene.place(0, robot, cell)
    pool = _pool(scene)
    _dispatch(scene, pool, TaskStream(4, 0.0))
    cells = [int(scene.floor.goal_cell[goal]) if goal >= 0 else -1 for goal in scene.fleet.goal[0]]
    # The third robot finds both places taken and has nowhere to go.
    assert cells == [2, 8, -1]
    assert scene.fleet.route[0, 2] == 0


def test_dispatch_frees_the_parking_place_of_a_robot_that_gets_work(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 2)
    scene.place(0, 0, 3)
    scene.place(0, 1, 12)
    pool = _pool(scene)
    _dispatch(scene, pool, TaskStream(4, 0.0))
    first = scene.fleet.goal[0, 0]
    assert pool.claimed[0, first]
    _wait(pool, (int(scene.floor.pickups[0]), int(scene.floor.deliveries[0])))
    _dispatch(scene, pool, TaskStream(4, 0.0))
    assert scene.fleet.pickup[0, 0] >= 0
    assert not pool.claimed[0, first]
    assert pool.claimed[0].sum() == 1


def test_serve_loads_at_the_pickup_and_unloads_at_the_delivery(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 1)
    scene.place(0, 0, 4)
    pool = _pool(scene)
    _wait(pool, (int(scene.floor.pickups[1]), int(scene.floor.deliveries[0])))
    _dispatch(scene, pool, NOTHING)
    _serve(scene, pool)
    assert scene.outcome.served[0, 0] == 0
    _walk(scene, 5)
    _serve(scene, pool)
    assert scene.outcome.served[0, 0] == PICKED_UP
    assert scene.fleet.loaded[0, 0]
    assert scene.floor.goal_cell[scene.fleet.goal[0, 0]] == 10
    _serve(scene, pool)
    assert scene.outcome.served[0, 0] == 0
    _walk(scene, 10)
    _serve(scene, pool)
    assert scene.outcome.served[0, 0] == DELIVERED
    assert scene.outcome.task_steps[0, 0] == 4
    assert not scene.fleet.loaded[0, 0]
    assert scene.fleet.pickup[0, 0] == scene.fleet.goal[0, 0] == -1


def _walk(scene: Any, cell: int) -> None:
    """Move a robot and leave its task alone."""
    row, column = divmod(cell, scene.floor.width)
    scene.fleet.cell[0, 0] = cell
    scene.pose.x[0, 0], scene.pose.y[0, 0] = column + 0.5, scene.floor.height - row - 0.5


def test_serve_counts_steps_since_the_last_station_as_waiting(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 1)
    scene.place(0, 0, 4)
    pool = _pool(scene)
    _wait(pool, (int(scene.floor.pickups[1]), int(scene.floor.deliveries[0])))
    _dispatch(scene, pool, NOTHING)
    for expected in (1, 2, 3):
        _serve(scene, pool)
        assert scene.fleet.waiting[0, 0] == expected
    _walk(scene, 5)
    _serve(scene, pool)
    assert scene.fleet.waiting[0, 0] == 0


def test_serve_by_radius_serves_within_it_and_not_beyond(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 1)
    for x, served in ((5.5 - 0.61, 0), (5.5 - 0.59, PICKED_UP)):
        scene.place_at(0, 0, x, 1.5)
        pool = _pool(scene)
        _wait(pool, (int(scene.floor.pickups[1]), int(scene.floor.deliveries[0])))
        _dispatch(scene, pool, NOTHING)
        _serve(scene, pool, radius_m=0.6)
        assert scene.outcome.served[0, 0] == served


def test_serve_returns_the_task_of_a_robot_that_leaves_with_its_old_number(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 1)
    scene.place(0, 0, 5)
    pool = _pool(scene)
    task = (int(scene.floor.pickups[1]), int(scene.floor.deliveries[0]))
    _wait(pool, (int(scene.floor.pickups[0]), task[1]), task)
    _dispatch(scene, pool, NOTHING)
    _serve(scene, pool)
    assert scene.fleet.loaded[0, 0]
    scene.outcome.leaving[0, 0] = True
    _serve(scene, pool)
    assert not scene.fleet.alive[0, 0]
    assert not scene.fleet.loaded[0, 0]
    assert scene.fleet.pickup[0, 0] == -1
    assert pool.num_waiting[0] == 2
    assert (pool.pickup[0, 1], pool.delivery[0, 1], pool.number[0, 1]) == (*task, 1)


def test_serve_frees_the_parking_place_of_an_idle_robot_that_leaves(make_scene: Any) -> None:
    scene = make_scene(CORRIDOR, 1)
    scene.place(0, 0, 3)
    pool = _pool(scene)
    _dispatch(scene, pool, TaskStream(4, 0.0))
    assert pool.claimed.sum() == 1
    scene.outcome.leaving[0, 0] = True
    _serve(scene, pool)
    assert pool.claimed.sum() == 0


def test_dispatch_token_leaves_tasks_that_begin_or_end_where_another_robots_task_ends(make_scene: Any) -> None:
    scene = make_scene("S..S..E\n.......\nP..P..E", 2)
    scene.place(0, 0, 1)
    scene.place(0, 1, 2)
    pool = _pool(scene)
    near, far = scene.floor.pickups.tolist()
    above, below = scene.floor.deliveries.tolist()
    stream = make_stream(TaskConfig(dispatch="token", open=3), 1.0, scene.layout)._replace(open=0)
    _wait(pool, (near, above), (near, above), (far, below))
    _dispatch(scene, pool, stream)
    # The second robot stands as near to both pick-ups, but the first one's task ends at the delivery above.
    assert scene.fleet.number[0].tolist() == [0, 2]
    assert pool.num_waiting[0] == 1
    # A third one would have to wait; once the first has delivered, its task is free.
    scene.fleet.pickup[0, 0] = scene.fleet.delivery[0, 0] = scene.fleet.goal[0, 0] = -1
    _dispatch(scene, pool, stream)
    assert scene.fleet.number[0, 0] == 1
    assert pool.num_waiting[0] == 0
    pool = _pool(scene)
    _wait(pool, (near, above), (near, above))
    _dispatch(scene, pool, stream)
    assert pool.num_waiting[0] == 1
    assert scene.fleet.pickup[0, 1] == -1
    assert scene.fleet.goal[0, 1] in scene.floor.parking.tolist()
