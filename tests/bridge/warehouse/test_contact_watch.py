"""Protective stops and near misses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.policy import RandomPolicy
from bridge.warehouse.config import ContactConfig, DifferentialDriveConfig
from bridge.warehouse.contact_watch import find_near_misses, make_figures
from bridge.warehouse.drives.cell_lists import make_cell_lists
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.view import LEFT, RIGHT, UP

LANE = "S.P..P.E\n........"


def _make(make_warehouse: Any, count: int, contact: ContactConfig, **section: Any) -> WarehouseSimulator:
    config, layout = make_warehouse(LANE, count, contact=contact, **section)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    return simulator


def _figures(simulator: WarehouseSimulator) -> dict[str, float]:
    return dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True))


def test_stop_holds_a_robot_for_its_time_after_a_refused_move(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, 1, ContactConfig(rule="stop", stop_s=2.5), episode_steps=9)
    carriers = simulator.arrays.roles["carrier"]
    layout = simulator.spec.roles[0].observation
    stopped = layout.slice_of("self").start + layout.blocks[0].fields.index("stopped")
    start = int(simulator.cells[0, 0])
    carriers.discrete_actions[:] = UP
    simulator.step()
    assert simulator.outcome.refused[0, 0]
    for _ in range(3):
        assert carriers.observations[0, 0, stopped] == 1.0
        assert not simulator.movable[0, 0]
        carriers.discrete_actions[:] = RIGHT
        simulator.step()
        assert simulator.cells[0, 0] == start
        assert not simulator.outcome.refused[0, 0]
    assert carriers.observations[0, 0, stopped] == 0.0
    simulator.step()
    assert simulator.cells[0, 0] == start + 1
    carriers.discrete_actions[:] = UP
    for _ in range(4):
        simulator.step()
    figures = _figures(simulator)
    assert figures["protective_stops"] == 2
    assert figures["stopped_s"] == 6
    assert figures["collisions"] == 0


def test_stop_keeps_robots_apart_and_restarts_with_the_episode(make_warehouse: Any) -> None:
    contact = ContactConfig(rule="stop", stop_s=50.0)
    simulator = _make(make_warehouse, 4, contact, episode_steps=30)
    policy = RandomPolicy(simulator.spec, 1)
    for step in range(90):
        policy.act(simulator.arrays)
        simulator.step()
        assert len(set(simulator.cells[0].tolist())) == 4
        assert not simulator.outcome.robot_contacts.any()
        if (step + 1) % 30 == 0:
            assert simulator.movable.all()


def test_near_misses_count_robots_that_come_too_near_once(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, 2, ContactConfig(near_miss_m=0.5), episode_steps=8)
    carriers = simulator.arrays.roles["carrier"]
    left = int(np.argmin(simulator.cells[0]))
    gaps = []
    # From 3 cells apart to neighbours, a step apart, and back.
    for move in (RIGHT, RIGHT, LEFT, RIGHT, RIGHT, LEFT, LEFT, LEFT):
        carriers.discrete_actions[0, :, 0] = 0
        carriers.discrete_actions[0, left, 0] = move
        simulator.step()
        if len(gaps) < 7:
            x = simulator.positions_m[0, :, 0]
            gaps.append(abs(x[0] - x[1]) - 0.7)
    figures = _figures(simulator)
    assert figures["min_gap_m"] == pytest.approx(min(gaps)) == pytest.approx(0.3)
    # Both robots, each of the two times.
    assert figures["near_misses"] == 4


def test_near_misses_agree_with_a_plain_loop_when_robots_drive(make_warehouse: Any) -> None:
    section = {"drive": DifferentialDriveConfig(), "cell_size_m": 1.5, "episode_steps": 200}
    simulator = _make(make_warehouse, 5, ContactConfig(near_miss_m=0.4), **section)
    policy = RandomPolicy(simulator.spec, 2)
    near, count, smallest = set(), 0, np.inf
    for _ in range(199):
        policy.act(simulator.arrays)
        simulator.step()
        positions = simulator.positions_m[0]
        now = set()
        for one in range(5):
            for other in range(5):
                if one != other:
                    gap = float(np.hypot(*(positions[one] - positions[other]))) - 0.7
                    smallest = min(smallest, gap)
                    if gap < 0.4:
                        now.add(one)
        count += len(now - near)
        near = now
    watch = simulator._features[0]
    found, gap = watch.figures(np.ones(1, bool))[0]
    assert found == count > 0
    assert gap == pytest.approx(smallest)


def test_contact_config_refuses_a_return_without_despawn() -> None:
    with pytest.raises(ValueError, match=r"expected no respawn_after_s with rule 'stop', got 3\.0"):
        ContactConfig(rule="stop", respawn_after_s=3.0)


@pytest.mark.parametrize("count", [1, 2, 24])
@pytest.mark.parametrize("margin_m", [0.05, 0.6, 4.0])
def test_near_misses_equal_those_of_all_pairs(make_warehouse: Any, count: int, margin_m: float) -> None:
    rows = ["S" + "." * 13, *["." * 14] * 8, "." * 13 + "E"]
    config, layout = make_warehouse("\n".join(rows), count, drive=DifferentialDriveConfig())
    simulator = WarehouseSimulator(config, layout, 2)
    simulator.reset(seed=4)
    fleet, pose, radius = simulator._fleet, simulator._pose, simulator._traits.radius_m
    figures, lists = make_figures(config, radius), make_cell_lists(140, count)
    near, counted, smallest = np.zeros((2, count), np.bool_), np.zeros(2, np.int64), np.full(2, np.inf)
    were_near, expected, least = near.copy(), np.zeros(2, np.int64), smallest.copy()
    rng = np.random.default_rng(count)
    for _ in range(40):
        fleet.alive[:] = rng.random((2, count)) < 0.9
        pose.x[:], pose.y[:] = rng.uniform(0.0, 14.0, (2, count)), rng.uniform(0.0, 10.0, (2, count))
        fleet.cell[:] = (9 - pose.y.astype(int)) * 14 + pose.x.astype(int)
        find_near_misses(simulator._floor, fleet, pose, figures, margin_m, lists, near, counted, smallest)
        # (E, N, N)
        dx, dy = pose.x[:, :, None] - pose.x[:, None], pose.y[:, :, None] - pose.y[:, None]
        gaps = np.sqrt(dx * dx + dy * dy) - radius[:, None] - radius[None]
        there = fleet.alive[:, :, None] & fleet.alive[:, None] & ~np.eye(count, dtype=np.bool_)
        gaps = np.where(there, gaps, np.inf).min(axis=2)
        expected += ((gaps < margin_m) & ~were_near).sum(axis=1)
        were_near, least = gaps < margin_m, np.minimum(least, gaps.min(axis=1))
        assert (near == were_near).all()
        assert (smallest == least).all()
    assert (counted == expected).all()
    assert counted.min() > 0 or count < 24


def test_near_misses_are_measured_between_rectangles_and_discs(make_warehouse: Any) -> None:
    fleet = (
        {"role": "forklift", "count": 2, "length_m": 0.8, "width_m": 0.4},
        {"role": "carrier", "count": 1, "radius_m": 0.3},
    )
    config, layout = make_warehouse("S......E\n........\n........", fleet=fleet, drive={"kind": "differential"})
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=4)
    pose = simulator._pose
    pose.x[0], pose.y[0] = [1.0, 1.9, 1.0], [1.0, 1.0, 2.2]
    pose.cos[0], pose.sin[0] = [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]
    simulator._fleet.cell[0] = [8 + 1, 8 + 1, 1]
    figures = make_figures(config, simulator._traits.radius_m)
    near, count, smallest = np.zeros((1, 3), np.bool_), np.zeros(1, np.int64), np.full(1, np.inf)
    lists = make_cell_lists(24, 3)
    find_near_misses(simulator._floor, simulator._fleet, pose, figures, 0.5, lists, near, count, smallest)
    # One along x with its front at 1.4, the other across it with its side at 1.7; the disc is 0.7 m off.
    assert smallest[0] == pytest.approx(0.3)
    assert near[0].tolist() == [True, True, False]
    assert count[0] == 2
    assert (lists.first == -1).all()


def _gap(one: np.ndarray, other: np.ndarray) -> float:
    """Distance of two polygons, (corners, 2) each, that do not overlap: from a corner to a side of the other."""
    least = np.inf
    for corners, sides in ((one, other), (other, one)):
        for k in range(len(sides)):
            along = sides[k] - sides[k - 1]
            length = max(float(along @ along), 1e-12)
            share = np.clip((corners - sides[k - 1]) @ along / length, 0.0, 1.0)
            nearest = np.linalg.norm(sides[k - 1] + share[:, None] * along - corners, axis=1)
            least = min(least, float(nearest.min()))
    return least


def test_near_misses_of_discs_and_rectangles_equal_those_of_all_pairs(make_warehouse: Any) -> None:
    fleet = (
        {"role": "forklift", "count": 5, "length_m": 0.9, "width_m": 0.4},
        {"role": "carrier", "count": 4, "radius_m": 0.3},
        {"role": "tugger", "count": 4, "length_m": 0.5, "width_m": 0.8},
    )
    rows = ["S......E", *["........"] * 3]
    config, layout = make_warehouse("\n".join(rows), fleet=fleet, drive={"kind": "differential"}, cell_size_m=1.1)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=4)
    pose, cells = simulator._pose, simulator._fleet.cell
    roles = [role for role in config.fleet for _ in range(role.count)]
    rng = np.random.default_rng(2)
    for _ in range(20):
        figures, lists = make_figures(config, simulator._traits.radius_m), make_cell_lists(32, 13)
        near, count, smallest = np.zeros((1, 13), np.bool_), np.zeros(1, np.int64), np.full(1, np.inf)
        cells[0] = rng.choice(32, 13, replace=False)
        # As far from the middle of its cell as keeps it within.
        away = np.array([0.54 - role.outer_radius_m for role in roles])
        pose.x[0] = (cells[0] % 8 + 0.5) * 1.1 + rng.uniform(-away, away)
        pose.y[0] = (3.5 - cells[0] // 8) * 1.1 + rng.uniform(-away, away)
        headings = rng.uniform(-np.pi, np.pi, 13)
        pose.cos[0], pose.sin[0] = np.cos(headings), np.sin(headings)
        find_near_misses(simulator._floor, simulator._fleet, pose, figures, 0.25, lists, near, count, smallest)
        gaps = np.full((13, 13), np.inf)
        outlines = []
        for robot, role in enumerate(roles):
            half = np.array(role.half_sides_m) * [[1, 1], [-1, 1], [-1, -1], [1, -1]]
            turn = np.array([[pose.cos[0, robot], pose.sin[0, robot]], [-pose.sin[0, robot], pose.cos[0, robot]]])
            outlines.append(half @ turn + [pose.x[0, robot], pose.y[0, robot]])
        for one in range(13):
            for other in range(13):
                if one != other:
                    rounded = sum(roles[k].radius_m for k in (one, other) if roles[k].length_m is None)
                    gaps[one, other] = _gap(outlines[one], outlines[other]) - rounded
        assert smallest[0] == pytest.approx(gaps.min(), abs=1e-6)
        assert near[0].tolist() == (gaps.min(axis=1) < 0.25).tolist()
        assert count[0] == near[0].sum()
    simulator.close()
