from __future__ import annotations

import numpy as np

from bridge.jit import lean_kernel
from bridge.warehouse.config import DifferentialDriveConfig
from bridge.warehouse.drives.drive_lanes import (
    LANES,
    SPEED,
    WANTED_SPEED,
    Lanes,
    advance_lanes,
    make_lanes,
    set_cos_and_sin,
)
from bridge.warehouse.drives.drive_limits import DriveLimits, make_limits


@lean_kernel
def _advance(lanes: Lanes, num_lanes: int, limits: DriveLimits) -> None:
    advance_lanes(lanes, num_lanes, limits)


def test_set_cos_and_sin_writes_those_of_numpy() -> None:
    angles = np.concatenate([np.linspace(-np.pi, np.pi, 4001), np.arange(-4, 5) * 0.25 * np.pi])
    cos, sin = np.zeros_like(angles), np.zeros_like(angles)
    set_cos_and_sin(angles, cos, sin)
    np.testing.assert_allclose(cos, np.cos(angles), rtol=0, atol=1e-15)
    np.testing.assert_allclose(sin, np.sin(angles), rtol=0, atol=1e-15)


def test_advance_lanes_moves_by_the_same_law_whether_the_series_or_the_general_functions_turn() -> None:
    limits = make_limits(DifferentialDriveConfig(max_turn_rate_radps=4.9, max_turn_acceleration_radps2=49.0, lag_s=0.2))
    rng = np.random.default_rng(2)
    by_series, in_general = make_lanes(LANES, limits), make_lanes(LANES, limits)._replace(turns_little=False)
    assert by_series.turns_little
    by_series.values[:] = in_general.values[:] = rng.uniform(-1.0, 1.0, len(by_series.values))
    for _ in range(5):
        _advance(by_series, LANES, limits)
        _advance(in_general, LANES, limits)
    np.testing.assert_allclose(by_series.values, in_general.values, rtol=0, atol=1e-14)


def test_make_lanes_leaves_fast_turns_to_the_general_functions() -> None:
    assert not make_lanes(1, make_limits(DifferentialDriveConfig(max_turn_rate_radps=5.1))).turns_little


def test_advance_lanes_leaves_alone_what_is_behind_the_last_lane_in_use() -> None:
    limits = make_limits(DifferentialDriveConfig())._replace(step_s=0.5)
    lanes = make_lanes(LANES, limits)._replace(turns_little=False)
    lanes.values[WANTED_SPEED : WANTED_SPEED + np.uint64(LANES)] = 1.0
    lanes.values[-3 * LANES :] = 1.0  # changes allowed in a step
    _advance(lanes, 3, limits)
    assert lanes.values[SPEED : SPEED + np.uint64(LANES)].tolist() == [1.0] * 3 + [0.0] * 5
