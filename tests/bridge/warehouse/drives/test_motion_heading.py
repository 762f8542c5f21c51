"""Cells with heading: turns, forward, masks, and PIBT that drives it without a refused move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.errors import SpecMismatchError
from bridge.planners.pibt import PibtPolicy
from bridge.planners.pibt_heading import PibtHeadingPolicy
from bridge.warehouse.config import HeadingGridConfig, LidarBlock, NeighboursBlock, PathBlock, SelfBlock, TargetBlock
from bridge.warehouse.simulator import WarehouseSimulator

STAY, FORWARD, LEFT, RIGHT = range(4)
HALL = """
S.P.P.P.S
.##.#.##.
.##.#.##.
P...P...P
.##.#.##.
E.P.P.P.E
"""
BLOCKS = (SelfBlock(), TargetBlock(), PathBlock(), LidarBlock(), NeighboursBlock())


def _make(make_warehouse: Any, drawing: str, count: int, num_envs: int = 1, **section: Any) -> WarehouseSimulator:
    drive = HeadingGridConfig(step_s=section.pop("step_s", 1.0))
    config, layout = make_warehouse(drawing, count, drive=drive, **section)
    simulator = WarehouseSimulator(config, layout, num_envs)
    simulator.reset(seed=0)
    return simulator


def _act(simulator: WarehouseSimulator, *actions: int) -> None:
    simulator.arrays.roles["carrier"].discrete_actions[0, :, 0] = actions
    simulator.step()


def _quarter(simulator: WarehouseSimulator, robot: int = 0) -> int:
    """Heading in quarter turns counter-clockwise from the right, 0 to 3."""
    return round(float(simulator.heading_rad[0, robot]) / (np.pi / 2)) % 4


def test_robots_start_facing_all_four_sides(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, HALL, 6, num_envs=50)
    quarters = np.round(simulator.heading_rad / (np.pi / 2)).astype(int) % 4
    np.testing.assert_allclose(np.cos(simulator.heading_rad), simulator._pose.cos, atol=1e-6)
    np.testing.assert_allclose(np.sin(simulator.heading_rad), simulator._pose.sin, atol=1e-6)
    assert (np.bincount(quarters.ravel(), minlength=4) > 40).all()


def test_turns_take_a_step_on_the_spot_and_forward_goes_where_the_robot_faces(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, "S...E\n.....\n..P..\n.....\n.....", 1, step_s=2.0)
    row, column = 2, 2
    quarter = _quarter(simulator)
    for action in (
        LEFT,
        FORWARD,
        LEFT,
        LEFT,
        FORWARD,
        RIGHT,
        FORWARD,
        RIGHT,
        RIGHT,
        STAY,
        RIGHT,
        RIGHT,
        RIGHT,
        FORWARD,
    ):
        _act(simulator, action)
        quarter = (quarter + (action == LEFT) - (action == RIGHT)) % 4
        if action == FORWARD:
            right, up = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarter]
            row, column = row - up, column + right
        assert simulator.cells[0, 0] == row * 5 + column
        assert _quarter(simulator) == quarter
        assert -np.pi <= simulator.heading_rad[0, 0] < np.pi
        assert simulator._pose.speed[0, 0] == (0.5 if action == FORWARD else 0.0)
        sign = (action == LEFT) - (action == RIGHT)
        assert simulator._pose.turn_rate[0, 0] == pytest.approx(sign * np.pi / 4)
        layout = simulator.spec.roles[0].observation
        own = simulator.arrays.roles["carrier"].observations[0, 0, layout.slice_of("self")]
        assert own[:2].tolist() == [float(action == FORWARD), float(sign)]


def test_forward_into_a_rack_is_refused_and_masked_when_asked_to(make_warehouse: Any) -> None:
    for masked in (False, True):
        simulator = _make(make_warehouse, "S.P.E", 1, mask_blocked_moves=masked)
        while _quarter(simulator) != 1:
            _act(simulator, LEFT)
        mask = simulator.arrays.roles["carrier"].action_mask[0, 0]
        assert mask.tolist() == [True, not masked, True, True]
        if not masked:
            _act(simulator, FORWARD)
            assert simulator.outcome.refused[0, 0]
            assert simulator.cells[0, 0] == 2


def test_robots_without_charge_do_not_turn(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, "S.P.E", 1)
    simulator._fleet.charge[:] = 0.0
    before = _quarter(simulator)
    _act(simulator, LEFT)
    assert _quarter(simulator) == before


def test_path_block_shows_the_next_cell_in_the_body_frame(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, "S.P.E", 1)
    layout = simulator.spec.roles[0].observation
    for _ in range(4):
        # The pick-up is on the left.
        path = simulator.arrays.roles["carrier"].observations[0, 0, layout.slice_of("path")]
        bearing = np.pi - simulator.heading_rad[0, 0]
        np.testing.assert_allclose(path[:2], [np.cos(bearing), np.sin(bearing)], atol=1e-6)
        _act(simulator, LEFT)


@pytest.mark.parametrize("count", [1, 8])
def test_pibt_with_heading_delivers_without_a_refused_move(make_warehouse: Any, count: int) -> None:
    simulator = _make(make_warehouse, HALL, count, num_envs=2, observation=BLOCKS, episode_steps=1000)
    policy = PibtHeadingPolicy(simulator)
    deliveries = np.zeros(count, int)
    for _ in range(600):
        policy.act(simulator.arrays)
        simulator.step()
        assert not simulator.outcome.refused.any()
        assert all(len(set(cells.tolist())) == count for cells in simulator.cells)
        deliveries += (simulator.outcome.served == 2).sum(axis=0)
    # A robot alone needs about 30 steps for a transport of about 22 cells with its turns.
    assert deliveries.sum() > 25 * count
    assert deliveries.min() > 15


def test_planners_refuse_the_other_kind_of_grid(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, HALL, 1)
    with pytest.raises(SpecMismatchError, match="PibtPolicy: expected drive 'grid', got 'grid_heading'"):
        PibtPolicy(simulator)
    config, layout = make_warehouse(HALL, 1)
    with pytest.raises(SpecMismatchError, match="PibtHeadingPolicy: expected drive 'grid_heading', got 'grid'"):
        PibtHeadingPolicy(WarehouseSimulator(config, layout, 1))
