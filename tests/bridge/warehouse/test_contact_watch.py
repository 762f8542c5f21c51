"""Protective stops and near misses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.policy import RandomPolicy
from bridge.warehouse.config import ContactConfig, DifferentialDriveConfig
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
