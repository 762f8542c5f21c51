"""Rewards: every term, and that shaping pays for nothing but progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import ContactConfig, DifferentialDriveConfig, LayoutConfig, RewardConfig, RoleConfig
from bridge.warehouse.loading import load_layout
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.view import DOWN, LEFT, RIGHT, STAY, UP

FLOOR = """
S.......
.##.##..
........
P..P...E
"""
SHAPING_ONLY = RewardConfig(delivery=0.0, progress=0.1, progress_gamma=0.95)


def _simulator(make_warehouse: Any, count: int = 1, **section: Any) -> WarehouseSimulator:
    config, layout = make_warehouse(FLOOR, count, **section)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=4)
    return simulator


def _step(simulator: WarehouseSimulator, *moves: int) -> np.ndarray:
    carriers = simulator.arrays.roles["carrier"]
    carriers.discrete_actions[0, :, 0] = moves
    simulator.step()
    return carriers.rewards[0].copy()


def _toward_goal(simulator: WarehouseSimulator, robot: int = 0) -> int:
    """A move that shortens the way, or stay."""
    distance = simulator.goal_distances[simulator.goal_index[0, robot]]
    cell = int(simulator.cells[0, robot])
    return min(range(5), key=lambda move: distance[simulator.moves[cell, move]])


def _run(simulator: WarehouseSimulator, moves: list[int], gamma: float) -> float:
    """Discounted return of a sequence of moves."""
    return sum(gamma**t * float(_step(simulator, move)[0]) for t, move in enumerate(moves))


def test_rewards_pay_pickup_and_delivery_once(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, reward=RewardConfig(delivery=2.0, pickup=0.5))
    paid = []
    while 2.0 not in paid:
        reward = float(_step(simulator, _toward_goal(simulator))[0])
        if reward:
            paid.append(reward)
        assert simulator.steps[0] < 60
    assert paid == [0.5, 2.0]


def test_rewards_charge_every_step_and_every_refused_move(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, reward=RewardConfig(step=-0.25, blocked=-0.5))
    assert _step(simulator, STAY)[0] == pytest.approx(-0.25)
    # Both parking places are in the bottom row.
    assert _step(simulator, DOWN)[0] == pytest.approx(-0.75)


def test_rewards_charge_a_collision_to_each_robot_concerned(make_warehouse: Any) -> None:
    simulator = _simulator(
        make_warehouse, 2, contact=ContactConfig(rule="despawn"), reward=RewardConfig(collision=-3.0)
    )
    left, right = np.argsort(simulator.cells[0])
    moves = [STAY, STAY]
    moves[left] = RIGHT
    assert not _step(simulator, *moves).any()
    moves[right] = LEFT
    np.testing.assert_allclose(_step(simulator, *moves), [-3.0, -3.0])


def test_shaping_is_gamma_times_the_new_potential_minus_the_old(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, reward=SHAPING_ONLY)
    bound = simulator._floor.bound_cells
    for _ in range(60):
        before = 0.1 * (bound - _remaining(simulator))
        reward = float(_step(simulator, _toward_goal(simulator))[0])
        after = 0.1 * (bound - _remaining(simulator))
        assert before >= 0
        assert reward == pytest.approx(0.95 * after - before, abs=1e-6)


def _remaining(simulator: WarehouseSimulator) -> float:
    """Cells to go: to the pick-up and on to the delivery."""
    table, goal = simulator.goal_distances, simulator.goal_index[0, 0]
    way = int(table[goal, simulator.cells[0, 0]])
    if not simulator.loaded[0, 0]:
        delivery = simulator._fleet.delivery[0, 0]
        way += int(table[delivery, simulator.goal_cells[0, 0]])
    return float(way)


SLOW = {"first": (0, 2), "last": (2, 4), "limit_mps": 0.3}


def _slow_simulator(make_warehouse: Any, kind: str) -> WarehouseSimulator:
    config, _ = make_warehouse(FLOOR, 3, reward=SHAPING_ONLY, drive={"kind": kind}, episode_steps=10_000)
    layout = LayoutConfig.model_validate({"grid": FLOOR.strip(), "speed_zones": (SLOW,)})
    config = config.model_copy(update={"layout": layout})
    simulator = WarehouseSimulator(config, load_layout(config, Path()), 4)
    simulator.reset(seed=4)
    return simulator


@pytest.mark.parametrize("kind", ["grid", "grid_heading"])
def test_shaping_pays_the_steps_that_zones_and_turns_take(make_warehouse: Any, kind: str) -> None:
    simulator = _slow_simulator(make_warehouse, kind)
    carriers, floor, fleet = simulator.arrays.roles["carrier"], simulator._floor, simulator._fleet
    rng = np.random.default_rng(0)
    before = fleet.potential.copy()
    for _ in range(200):
        carriers.discrete_actions[..., 0] = rng.integers(0, 5 if kind == "grid" else 4, (4, 3))
        simulator.step()
        after = fleet.potential.copy()
        np.testing.assert_allclose(carriers.rewards, 0.95 * after - before, atol=1e-6)
        assert (after >= 0.0).all()
        sides = (1 - np.rint(simulator.heading_rad / (np.pi / 2)).astype(int)) % 4
        entries = (
            floor.facing[fleet.goal, fleet.cell, sides] if kind != "grid" else floor.routes[fleet.goal, fleet.cell]
        )
        beyond = np.where(
            simulator.has_task & ~simulator.loaded, floor.routes[fleet.delivery, simulator.goal_cells] >> 4, 0
        )
        np.testing.assert_allclose(after, 0.1 * (floor.bound_cells - (entries >> 4) - beyond))
        before = after


def test_shaping_of_drives_pays_slow_cells_as_they_are_crossed(make_warehouse: Any) -> None:
    simulator = _slow_simulator(make_warehouse, "differential")
    carriers, fleet, pose = simulator.arrays.roles["carrier"], simulator._fleet, simulator._pose
    # Cells at 1.5 m/s that the slowest one takes.
    dearest = 1.5 / 0.3
    jumps = []
    for _ in range(600):
        before, driven, goal = fleet.potential.copy(), np.stack([pose.x, pose.y]), fleet.goal.copy()
        error = np.arctan2(fleet.way_y - pose.y, fleet.way_x - pose.x) - pose.heading
        error = (error + np.pi) % (2 * np.pi) - np.pi
        carriers.continuous_actions[..., 0] = np.where(np.abs(error) < 0.25, 0.6, 0.0)
        carriers.continuous_actions[..., 1] = np.clip(2.0 * error, -1, 1)
        simulator.step()
        moved = np.hypot(*(np.stack([pose.x, pose.y]) - driven))
        assert (fleet.potential >= 0.0).all()
        change = np.abs(fleet.potential - before)[fleet.goal == goal] / 0.1
        # From one way-point to the next, half a cell's way may change its direction and its price.
        jumps.append((change - dearest * (moved[fleet.goal == goal] + 0.75)).max(initial=-1.0))
    assert max(jumps) <= 0.0


@pytest.mark.parametrize("gamma", [0.9, 0.99, 1.0])
@pytest.mark.parametrize(
    "loop",
    [[STAY], [UP, DOWN], [RIGHT, LEFT], [UP, RIGHT, DOWN, LEFT], [LEFT, UP, DOWN, RIGHT], [DOWN], [UP, UP, DOWN, DOWN]],
    ids=["stand", "bob", "shuttle", "circle", "detour", "push", "two-steps"],
)
def test_shaping_never_pays_a_robot_that_comes_back_to_where_it_was(
    make_warehouse: Any, gamma: float, loop: list[int]
) -> None:
    config = RewardConfig(delivery=0.0, progress=0.1, progress_gamma=gamma)
    simulator = _simulator(make_warehouse, reward=config)
    for _ in range(20):
        start = (int(simulator.cells[0, 0]), int(simulator.goal_index[0, 0]))
        discounted = _run(simulator, loop, gamma)
        if (int(simulator.cells[0, 0]), int(simulator.goal_index[0, 0])) == start:
            assert discounted <= 1e-6


def test_shaping_never_pays_random_loops_without_discount(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, reward=RewardConfig(delivery=0.0, progress=0.1, progress_gamma=0.97))
    rng = np.random.default_rng(0)
    totals: dict[tuple[int, int, bool, int], float] = {}
    total, loops = 0.0, 0
    for _ in range(400):
        key = (
            int(simulator.cells[0, 0]),
            int(simulator.goal_index[0, 0]),
            bool(simulator.loaded[0, 0]),
            int(simulator._fleet.number[0, 0]),
        )
        if key in totals:
            loops += 1
            assert total - totals[key] <= 1e-6
        totals[key] = total
        total += float(_step(simulator, int(rng.integers(0, 5)))[0])
    assert loops > 100


def test_shaping_takes_back_the_potential_of_a_robot_that_leaves(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, contact=ContactConfig(rule="despawn"), reward=SHAPING_ONLY)
    before = float(simulator._fleet.potential[0, 0])
    assert before > 0
    assert _step(simulator, DOWN)[0] == pytest.approx(-before, rel=1e-6)
    assert simulator.arrays.roles["carrier"].terminated[0, 0]


def test_shaping_pays_nothing_for_coming_back_at_once(make_warehouse: Any) -> None:
    contact = ContactConfig(rule="despawn", respawn_after_s=0.0)
    simulator = _simulator(make_warehouse, contact=contact, reward=SHAPING_ONLY)
    before = float(simulator._fleet.potential[0, 0])
    assert _step(simulator, DOWN)[0] == pytest.approx(-before, rel=1e-6)
    assert simulator.arrays.roles["carrier"].agent_mask[0, 0]
    # The new life starts with its own potential.
    start = float(simulator._fleet.potential[0, 0])
    assert _step(simulator, STAY)[0] == pytest.approx((0.95 - 1.0) * start, rel=1e-5)


def test_shaping_of_differential_drive_pays_for_progress_within_a_cell(make_warehouse: Any) -> None:
    config, layout = make_warehouse(
        FLOOR,
        drive=DifferentialDriveConfig(),
        fleet=(RoleConfig(role="carrier", count=1),),
        reward=RewardConfig(delivery=0.0, progress=0.1, progress_gamma=1.0),
    )
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=1)
    pose, fleet = simulator._pose, simulator._fleet
    carriers = simulator.arrays.roles["carrier"]
    heading = np.arctan2(fleet.way_y[0, 0] - pose.y[0, 0], fleet.way_x[0, 0] - pose.x[0, 0])
    pose.heading[0, 0] = heading
    carriers.continuous_actions[0, 0] = (1.0, 0.0)
    simulator.step()
    # 0.008 m and 0.016 m at a cell size of 1 m.
    assert carriers.rewards[0, 0] == pytest.approx(0.1 * 0.024, abs=1e-5)
