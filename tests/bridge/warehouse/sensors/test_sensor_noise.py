"""Errors of position and odometry: the same in every block that is worked out from them, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import (
    DifferentialDriveConfig,
    GridConfig,
    HeadingGridConfig,
    PathBlock,
    PositionBlock,
    SelfBlock,
    SpeedLimitBlock,
    TargetBlock,
)
from bridge.warehouse.config_randomisation import RandomisationConfig
from bridge.warehouse.floor import cell_after_next
from bridge.warehouse.simulator import WarehouseSimulator

HALL = "S............\n.............\n......P.P....\n.............\n............E"
BLOCKS = (SelfBlock(), TargetBlock(), PathBlock(), PositionBlock(), SpeedLimitBlock())
DRIVES = {drive.kind: drive for drive in (GridConfig(), HeadingGridConfig(), DifferentialDriveConfig())}


def _pair(
    make_warehouse: Any, kind: str, blocks: tuple[Any, ...] = BLOCKS, **random: float
) -> tuple[WarehouseSimulator, WarehouseSimulator]:
    """The same warehouse without and with noise, a few steps on."""
    simulators = []
    for randomisation in (None, RandomisationConfig(**random)):
        section = {"drive": DRIVES[kind], "observation": blocks, "randomisation": randomisation}
        config, layout = make_warehouse(HALL, 2, cell_size_m=2.0, **section)
        simulator = WarehouseSimulator(config, layout, 20)
        simulator.reset(seed=3)
        for step in range(5):
            rng = np.random.default_rng(step)
            arrays = simulator.arrays.roles["carrier"]
            arrays.discrete_actions[:] = rng.integers(0, 4, arrays.discrete_actions.shape)
            arrays.continuous_actions[:] = rng.uniform(-1, 1, arrays.continuous_actions.shape)
            simulator.step()
        simulators.append(simulator)
    return simulators[0], simulators[1]


def _block(simulator: WarehouseSimulator, name: str) -> np.ndarray:
    """Values of a block: (20, 2, size) float64."""
    place = simulator.spec.roles[0].observation.slice_of(name)
    return simulator.arrays.roles["carrier"].observations[..., place].astype(np.float64)


def _target_m(simulator: WarehouseSimulator) -> np.ndarray:
    """Offset of the target in m, as the robot sees it: (20, 2, 2)."""
    block = _block(simulator, "target")
    scale = 30.0 if simulator.config.drive.kind == "grid" else 30.0 * block[..., 2:3]
    offset: np.ndarray = block[..., :2] * scale
    return offset


@pytest.mark.parametrize("kind", DRIVES)
def test_position_noise_is_one_error_for_target_and_position(make_warehouse: Any, kind: str) -> None:
    clear, noisy = _pair(make_warehouse, kind, position_noise_m=0.3)
    error = _target_m(noisy) - _target_m(clear)
    assert error.std() == pytest.approx(0.3, abs=0.06)
    moved = (_block(noisy, "position") - _block(clear, "position")) * 100.0
    heading = clear.heading_rad
    cos, sin = np.cos(heading), np.sin(heading)
    # From the body frame to the floor frame: a target that seems further ahead is one that is seen from further back.
    np.testing.assert_allclose(moved[..., 0], -(cos * error[..., 0] - sin * error[..., 1]), atol=1e-4)
    np.testing.assert_allclose(moved[..., 1], -(sin * error[..., 0] + cos * error[..., 1]), atol=1e-4)


@pytest.mark.parametrize("kind", ["grid_heading", "differential"])
def test_position_noise_moves_way_points_and_the_length_of_the_way_by_the_same_error(
    make_warehouse: Any, kind: str
) -> None:
    clear, noisy = _pair(make_warehouse, kind, position_noise_m=0.3)
    error = _target_m(noisy) - _target_m(clear)
    heading, fleet = clear.heading_rad, clear._parts.fleet
    x, y = fleet.way_x - clear.positions_m[..., 0], fleet.way_y - clear.positions_m[..., 1]
    ahead = np.cos(heading) * x + np.sin(heading) * y + error[..., 0]
    left = np.cos(heading) * y - np.sin(heading) * x + error[..., 1]
    length = np.hypot(ahead, left)
    seen, true = _block(noisy, "path"), _block(clear, "path")
    np.testing.assert_allclose(seen[..., 0], ahead / length, atol=2e-3)
    np.testing.assert_allclose(seen[..., 1], left / length, atol=2e-3)
    np.testing.assert_allclose((seen - true)[..., 4] * 60.0, length - np.hypot(x, y), atol=1e-3)
    second = np.array([[_second_way_point(clear, env, robot) for robot in range(2)] for env in range(20)])
    x, y = (second - clear.positions_m).transpose(2, 0, 1)
    ahead = np.cos(heading) * x + np.sin(heading) * y + error[..., 0]
    left = np.cos(heading) * y - np.sin(heading) * x + error[..., 1]
    np.testing.assert_allclose(seen[..., 2], ahead / np.hypot(ahead, left), atol=2e-3)
    np.testing.assert_allclose(seen[..., 3], left / np.hypot(ahead, left), atol=2e-3)


@pytest.mark.parametrize("kind", DRIVES)
def test_what_is_far_out_of_range_stays_so_with_noise(make_warehouse: Any, kind: str) -> None:
    blocks = (TargetBlock(range_m=3.0), PathBlock(range_m=3.0))
    clear, noisy = _pair(make_warehouse, kind, blocks, position_noise_m=0.3)
    target, path = clear.goal_cells, _block(clear, "path")[..., 4]
    place = np.stack([clear._floor.x[target], clear._floor.y[target]], axis=-1)
    far = np.linalg.norm(place - clear.positions_m, axis=-1) > 3.0 + 5 * 0.3
    assert far.sum() > 10
    assert (_block(noisy, "target")[..., 2][far] == 1.0).all()
    assert (_block(noisy, "path")[..., 4][path == 1.0] == 1.0).all()


def _second_way_point(simulator: WarehouseSimulator, env: int, robot: int) -> tuple[float, float]:
    """Centre of the cell after the next one on a robot's way."""
    floor, fleet = simulator._parts.floor, simulator._parts.fleet
    cell, route = int(fleet.cell[env, robot]), int(fleet.route[env, robot])
    assert route >> 4 >= 2, "nobody has arrived"
    other = cell_after_next(floor, fleet.goal[env, robot], cell, route)
    return float(floor.x[other]), float(floor.y[other])


def test_position_noise_leaves_moves_on_the_grid_and_all_else_alone(make_warehouse: Any) -> None:
    clear, noisy = _pair(make_warehouse, "grid", position_noise_m=0.3)
    for name in ("self", "path", "speed_limit"):
        assert np.array_equal(_block(clear, name), _block(noisy, name)), name
    assert np.array_equal(clear.arrays.state, noisy.arrays.state)


@pytest.mark.parametrize("kind", ["grid_heading", "differential"])
def test_odometry_noise_disturbs_speed_and_turn_rate_alone(make_warehouse: Any, kind: str) -> None:
    clear, noisy = _pair(make_warehouse, kind, odometry_noise=0.05)
    error = _block(noisy, "self") - _block(clear, "self")
    free = (np.abs(_block(clear, "self")) < 0.8)[..., :2]
    assert error[..., :2][free].std() == pytest.approx(0.05, abs=0.02)
    assert abs(np.corrcoef(error[..., 0].ravel(), error[..., 1].ravel())[0, 1]) < 0.5
    assert not error[..., 2:].any()
    for name in ("target", "path", "position", "speed_limit"):
        assert np.array_equal(_block(clear, name), _block(noisy, name)), name
    assert np.array_equal(clear.arrays.state, noisy.arrays.state)
