"""Deadlocks and livelocks: the stated rule, its counters, the way out, and what it costs to switch off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import ContactConfig, DifferentialDriveConfig, ServiceConfig, TaskConfig
from bridge.warehouse.config_monitoring import DeadlockConfig, MetricsConfig
from bridge.warehouse.jams import DEADLOCKED, LIVELOCKED
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.view import DOWN, LEFT, RIGHT, STAY, UP
from bridge.warehouse.work.tasks import PICKED_UP

LANE = """
S.......E
#########
P........
P........
"""
LANE_OPEN = LANE.replace("#########", ".#######.")


def _simulator(make_warehouse: Any, count: int = 2, drawing: str = LANE_OPEN, **section: Any) -> WarehouseSimulator:
    config, layout = make_warehouse(drawing, count, **section)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    return simulator


def _put(simulator: WarehouseSimulator, robot: int, cell: int, goal_cell: int, loaded: bool) -> None:
    """Place a robot and give it a target."""
    fleet, floor = simulator._fleet, simulator._floor
    fleet.cell[0, robot] = cell
    simulator._pose.x[0, robot] = cell % floor.width + 0.5
    simulator._pose.y[0, robot] = floor.height - cell // floor.width - 0.5
    fleet.goal[0, robot] = int(np.searchsorted(floor.goal_cell, goal_cell))
    fleet.pickup[0, robot], fleet.delivery[0, robot] = floor.pickups[0], floor.deliveries[0]
    fleet.loaded[0, robot] = loaded


def _step(simulator: WarehouseSimulator, *moves: int) -> None:
    simulator.arrays.roles["carrier"].discrete_actions[0, :, 0] = moves
    simulator.step()


def _head_on(make_warehouse: Any, **section: Any) -> WarehouseSimulator:
    """Two robots that face each other in the lane, one on its way to the pick-up, one to the delivery."""
    simulator = _simulator(make_warehouse, **section)
    _put(simulator, 0, 4, 0, loaded=False)
    _put(simulator, 1, 3, 8, loaded=True)
    return simulator


def _metrics(simulator: WarehouseSimulator) -> dict[str, float]:
    while not simulator.arrays.episode_over[0]:
        simulator.step()
    return dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))


@pytest.mark.parametrize("moves", [(LEFT, RIGHT), (STAY, STAY)], ids=["pushing", "polite"])
def test_deadlock_is_found_when_two_robots_wait_for_each_other(make_warehouse: Any, moves: tuple[int, int]) -> None:
    simulator = _head_on(make_warehouse, deadlock=DeadlockConfig(cycle_s=4.0), episode_steps=9)
    began = []
    for _ in range(8):
        _step(simulator, *moves)
        assert simulator.jams is not None
        began.append(simulator.jams.began[0].tolist())
    assert began == [[0, 0]] * 3 + [[DEADLOCKED] * 2] + [[0, 0]] * 4
    assert simulator.jams.group[0].tolist() == [0, 0]
    metrics = _metrics(simulator)
    assert (metrics["deadlocks"], metrics["livelocks"]) == (1.0, 0.0)
    # Two robots, all nine steps.
    assert metrics["deadlock_time_s"] == 18.0


def test_standing_until_one_is_served_is_no_deadlock(make_warehouse: Any) -> None:
    """A robot is served for 6 s while the next one stands before it: they have been face to face since then only."""
    service = TaskConfig(service=ServiceConfig(pick_s=6.0))
    simulator = _simulator(make_warehouse, deadlock=DeadlockConfig(cycle_s=4.0), tasks=service, episode_steps=30)
    _put(simulator, 0, 0, 0, loaded=False)
    _put(simulator, 1, 1, 0, loaded=False)
    served, began = [], []
    for _ in range(14):
        _step(simulator, RIGHT, LEFT)
        assert simulator.jams is not None
        served.append(int(simulator.outcome.served[0, 0]))
        began.append(int(simulator.jams.began[0, 0]))
    assert began.index(DEADLOCKED) == served.index(PICKED_UP) + 4


def test_deadlock_ends_when_a_robot_backs_out_and_counts_again(make_warehouse: Any) -> None:
    simulator = _head_on(make_warehouse, deadlock=DeadlockConfig(cycle_s=2.0), episode_steps=30)
    for _ in range(3):
        _step(simulator, LEFT, RIGHT)
    _step(simulator, RIGHT, STAY)
    assert simulator.jams is not None
    assert simulator.jams.state[0].tolist() == [0, 0]
    _step(simulator, LEFT, STAY)
    for _ in range(2):
        _step(simulator, LEFT, RIGHT)
    assert simulator.jams.num_deadlocks[0].tolist() == [2, 0]


def test_deadlock_is_no_queue_and_no_free_way(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, 3, deadlock=DeadlockConfig(cycle_s=2.0))
    # A queue of two behind a robot that does not want to move, all on their way to the left.
    for robot, cell in enumerate((3, 4, 5)):
        _put(simulator, robot, cell, 0, loaded=False)
    for _ in range(5):
        _step(simulator, STAY, LEFT, LEFT)
    assert simulator.jams is not None
    assert not simulator.jams.state.any()


def test_deadlock_of_a_ring_has_all_its_members(make_warehouse: Any) -> None:
    ring = """
    E.S
    .#.
    S.E
    ...
    ...
    """
    simulator = _simulator(make_warehouse, 8, ring, deadlock=DeadlockConfig(cycle_s=3.0), mask_blocked_moves=False)
    # All cells of the ring are taken, each robot wants the opposite corner clockwise.
    for robot, (cell, goal) in enumerate([(0, 2), (1, 2), (2, 8), (5, 8), (8, 6), (7, 6), (6, 0), (3, 0)]):
        _put(simulator, robot, cell, goal, loaded=False)
    for _ in range(3):
        _step(simulator, *[STAY] * 8)
    jams = simulator.jams
    assert jams is not None
    # Robots in the corners stand at a station or beside it; the circle found is closed under waiting.
    members = np.flatnonzero(jams.state[0] == DEADLOCKED)
    assert len(members) >= 2
    assert len(np.unique(jams.group[0, members])) == jams.num_deadlocks.sum() == 1


def test_livelock_is_a_robot_that_comes_no_nearer_whatever_it_does(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, deadlock=DeadlockConfig(no_progress_s=6.0), episode_steps=40)
    _put(simulator, 0, 4, 0, loaded=False)
    simulator._fleet.cell[0, 1] = 34
    for step in range(7):
        _step(simulator, RIGHT if step % 2 == 0 else LEFT, STAY)
    jams = simulator.jams
    assert jams is not None
    # After the first two steps it was nearer than after the first.
    assert jams.state[0, 0] == 0
    _step(simulator, LEFT, STAY)
    assert jams.state[0, 0] == jams.began[0, 0] == LIVELOCKED
    assert jams.lost[0, 0] == 6
    for _ in range(2):
        _step(simulator, LEFT, STAY)
    assert jams.state[0, 0] == 0
    assert jams.num_livelocks[0].tolist()[0] == 1


def test_livelock_is_found_on_differential_drive(make_warehouse: Any) -> None:
    simulator = _simulator(
        make_warehouse, drive=DifferentialDriveConfig(), deadlock=DeadlockConfig(no_progress_s=2.0), episode_steps=30
    )
    carriers = simulator.arrays.roles["carrier"]
    carriers.continuous_actions[0] = (0.0, 1.0)
    metrics = _metrics(simulator)
    assert metrics["livelocks"] == 2.0
    assert metrics["deadlocks"] == 0.0
    assert metrics["deadlock_time_s"] == pytest.approx(2 * 29 * 0.2)


def test_relocation_takes_the_robot_that_yields_to_a_parking_place_with_its_load(make_warehouse: Any) -> None:
    simulator = _head_on(make_warehouse, deadlock=DeadlockConfig(cycle_s=3.0, resolve="relocate"))
    task = int(simulator._fleet.number[0, 1])
    for _ in range(3):
        _step(simulator, LEFT, RIGHT)
    parking = simulator.layout.parking.tolist()
    # Both have waited equally long: the higher slot yields.
    assert simulator.cells[0, 0] == 4
    assert int(simulator.cells[0, 1]) in parking
    assert simulator.loaded[0, 1]
    assert simulator._fleet.number[0, 1] == task
    _step(simulator, LEFT, STAY)
    assert simulator.cells[0, 0] == 3


@pytest.mark.parametrize(("warm_up_s", "resolved"), [(0.0, 1.0), (5.0, 0.0)])
def test_resolved_jams_are_counted_where_an_operator_helps(
    make_warehouse: Any, warm_up_s: float, resolved: float
) -> None:
    simulator = _head_on(
        make_warehouse,
        deadlock=DeadlockConfig(cycle_s=3.0, no_progress_s=6.0, resolve="relocate"),
        metrics=MetricsConfig(warm_up_s=warm_up_s),
        episode_steps=13,
    )
    for _ in range(3):
        _step(simulator, LEFT, RIGHT)
    for _ in range(9):
        _step(simulator, STAY, STAY)
    metrics = _metrics(simulator)
    assert (metrics["deadlocks"], metrics["deadlocks_resolved"]) == (resolved, resolved)
    assert metrics["livelocks_resolved"] == metrics["livelocks"] > 0
    assert "deadlocks_resolved" not in _head_on(make_warehouse, deadlock=DeadlockConfig()).spec.metric_names


def test_a_jam_without_a_free_place_is_not_resolved(make_warehouse: Any) -> None:
    simulator = _head_on(make_warehouse, deadlock=DeadlockConfig(cycle_s=3.0, resolve="relocate"), episode_steps=10)
    # Robots are as large as the floor: there is no room for anybody else.
    simulator._traits.radius_m[:] = 100.0
    for _ in range(9):
        _step(simulator, LEFT, RIGHT)
    metrics = _metrics(simulator)
    assert (metrics["deadlocks"], metrics["deadlocks_resolved"]) == (1.0, 0.0)


def test_detection_can_be_switched_off_and_changes_nothing_else(make_warehouse: Any) -> None:
    watched = _head_on(make_warehouse, deadlock=DeadlockConfig(cycle_s=3.0), episode_steps=20)
    blind = _head_on(make_warehouse, deadlock=None, episode_steps=20)
    assert blind.jams is None
    assert "deadlocks" not in blind.spec.metric_names
    for _ in range(19):
        for simulator in (watched, blind):
            _step(simulator, LEFT, RIGHT)
        for name in ("observations", "rewards"):
            mine, its = (getattr(simulator.arrays.roles["carrier"], name) for simulator in (watched, blind))
            np.testing.assert_array_equal(mine, its)


def test_warm_up_is_not_counted(make_warehouse: Any) -> None:
    simulator = _head_on(
        make_warehouse, deadlock=DeadlockConfig(cycle_s=4.0), metrics=MetricsConfig(warm_up_s=6.0), episode_steps=10
    )
    for _ in range(9):
        _step(simulator, LEFT, RIGHT)
    metrics = _metrics(simulator)
    assert metrics["deadlocks"] == 0.0
    # The last four steps of two robots.
    assert metrics["deadlock_time_s"] == 8.0
    assert metrics["blocked_moves"] == 8.0


@pytest.mark.parametrize("respawn_after_s", [0.0, 2.0])
def test_standing_and_progress_are_counted_from_the_beginning_of_a_life(
    make_warehouse: Any, respawn_after_s: float
) -> None:
    contact = ContactConfig(rule="despawn", respawn_after_s=respawn_after_s)
    simulator = _simulator(make_warehouse, 6, contact=contact, episode_steps=10_000)
    jams, rng = simulator.jams, np.random.default_rng(0)
    assert jams is not None
    born, lives = np.zeros(6, int), 0
    for step in range(200):
        was_alive = simulator.alive[0].copy()
        # Most of them stand.
        _step(simulator, *(rng.integers(1, 5, 6) * (rng.random(6) < 0.1)).tolist())
        came = simulator.alive[0] & (~was_alive | simulator.outcome.leaving[0])
        born[came], lives = step + 1, lives + int(came.sum())
        present = simulator.alive[0]
        # The step in which it came may count.
        assert (jams.still[0] <= step + 2 - born)[present].all()
        assert (jams.stalled[0] <= step + 2 - born)[present].all()
    assert lives > 10


def test_robots_that_follow_each_other_round_a_slow_loop_are_in_no_jam(make_warehouse: Any) -> None:
    """A cell takes twenty steps: longer than a circle may stand still, and a lap longer than the time for progress."""
    config, layout = make_warehouse(
        "S.E\n.#.\nP.P",
        6,
        deadlock=DeadlockConfig(cycle_s=10.0, no_progress_s=15.0),
        episode_steps=400,
    )
    slow = replace(layout, speed_limit_mps=np.where(layout.blocked.ravel(), np.nan, 0.05).astype(np.float32))
    simulator = WarehouseSimulator(config, slow, 1)
    simulator.reset(seed=0)
    clockwise = {0: RIGHT, 1: RIGHT, 2: DOWN, 5: DOWN, 8: LEFT, 7: LEFT, 6: UP, 3: UP}
    moved = 0
    for _ in range(400):
        _step(simulator, *(clockwise[cell] for cell in simulator.cells[0].tolist()))
        moved += int((simulator.outcome.moved_m > 0).sum())
    assert moved == 6 * 20
    figures = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    assert (figures["deadlocks"], figures["livelocks"], figures["deadlock_time_s"]) == (0, 0, 0)
