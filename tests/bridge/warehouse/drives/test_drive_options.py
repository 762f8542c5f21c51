"""Options of differential drive: rectangular footprints, a drive that lags, wet floors."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.errors import ScenarioError
from bridge.warehouse.config import DifferentialDriveConfig, RoleConfig, WarehouseConfig
from bridge.warehouse.disturbances import SlipperyFloor
from bridge.warehouse.drives.drive_limits import DriveLimits, make_limits
from bridge.warehouse.drives.motion_differential import drive_differential, make_drive_scratch
from bridge.warehouse.drives.rectangles import rectangle_meets_rack, rectangles_meet
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.validation import check_warehouse

HALL = """
..........
.S......E.
..........
....##....
....##....
..........
"""
DRIVE = DifferentialDriveConfig(decision_steps=1)
FORKLIFT = RoleConfig(role="forklift", count=1, length_m=0.9, width_m=0.6)


def _drive(scene: Any, actions: Any, limits: DriveLimits, step: int = 0, despawn: bool = False) -> None:
    num_envs, num_robots = scene.fleet.cell.shape
    radius = np.full(num_robots, limits.widest or 0.35)
    wanted = np.broadcast_to(np.asarray(actions, np.float32), (num_envs, num_robots, 2)).copy()
    keys, steps = np.full(num_envs, 5, np.uint64), np.full(num_envs, step, np.int32)
    scratch = make_drive_scratch(scene.floor, num_robots, limits)
    state = (scene.floor, scene.fleet, scene.pose, scene.outcome, scratch, limits, radius)
    drive_differential(*state, wanted, keys, steps, despawn)
    assert (scratch.lists.first == -1).all()


def _forklifts(count: int) -> DriveLimits:
    return make_limits(DRIVE, (FORKLIFT.model_copy(update={"count": count}),))


def _overlapping(scene: Any, limits: DriveLimits, env: int) -> bool:
    """Some forklift overlaps another one, or a rack, by more than rounding."""
    pose, alive = scene.pose, np.flatnonzero(scene.fleet.alive[env] & ~scene.outcome.leaving[env])
    assert limits.sides is not None
    length, width = limits.sides.half_length[0] - 1e-7, limits.sides.half_width[0] - 1e-7
    at = [
        (pose.x[env, r], pose.y[env, r], math.cos(pose.heading[env, r]), math.sin(pose.heading[env, r])) for r in alive
    ]
    racks = any(rectangle_meets_rack(scene.floor, *place, length, width) for place in at)
    return racks or any(
        rectangles_meet(b[0] - a[0], b[1] - a[1], *a[2:], length, width, *b[2:], length, width)
        for a, b in combinations(at, 2)
    )


def test_rectangle_drives_past_what_its_disc_would_touch_and_stops_at_what_it_touches(make_scene: Any) -> None:
    limits = _forklifts(1)
    scene = make_scene(HALL, 1, cell_size_m=1.2)
    # Along the rack from its left to its right, 0.31 m off its upper side: the disc around is 0.54 m wide.
    scene.place_at(0, 0, 3.5, 3.6 + 0.31)
    for step in range(40):
        _drive(scene, [1.0, 0.0], limits, step)
    assert not scene.outcome.refused.any()
    assert scene.pose.x[0, 0] > 7.0
    # Towards it: the front stops before it.
    scene.place_at(0, 0, 3.0, 3.0)
    for step in range(40):
        _drive(scene, [1.0, 0.0], limits, step)
    assert scene.outcome.refused[0, 0]
    assert 4.8 - 0.45 - 0.15 < scene.pose.x[0, 0] <= 4.8 - 0.45


def test_rectangle_that_has_no_room_to_turn_keeps_its_heading(make_scene: Any) -> None:
    limits = _forklifts(1)
    scene = make_scene(HALL, 1, cell_size_m=1.2)
    scene.place_at(0, 0, 6.0, 3.6 + 0.31)
    for step in range(10):
        _drive(scene, [0.0, 1.0], limits, step)
        assert scene.outcome.refused[0, 0] == (scene.pose.turn_rate[0, 0] == 0.0)
    assert abs(scene.pose.heading[0, 0]) < 0.05
    assert not _overlapping(scene, limits, 0)
    # With room it turns.
    scene.place_at(0, 0, 6.0, 5.5)
    for step in range(10):
        _drive(scene, [0.0, 1.0], limits, step)
    assert scene.pose.heading[0, 0] > 0.7


def test_rectangle_that_is_stuck_with_its_corner_still_turns_away(make_scene: Any) -> None:
    limits = _forklifts(1)
    scene = make_scene(HALL, 1, cell_size_m=1.2)
    scene.place_at(0, 0, 6.0, 3.6 + 0.40, heading=0.2)
    for step in range(12):
        _drive(scene, [-1.0, 0.0], limits, step)
    stuck = scene.pose.x[0, 0]
    for step in range(6):
        _drive(scene, [-1.0, -1.0], limits, step)
    assert scene.pose.heading[0, 0] < 0.1
    assert scene.pose.x[0, 0] < stuck


@pytest.mark.parametrize("seed", range(3))
def test_rectangles_never_overlap_whatever_robots_do(make_scene: Any, seed: int) -> None:
    limits = _forklifts(6)
    scene = make_scene(HALL, 6, 2, cell_size_m=1.2)
    rng = np.random.default_rng(seed)
    free = np.flatnonzero(~scene.floor.blocked)
    for env in range(2):
        for robot, cell in enumerate(rng.choice(free, 6, replace=False)):
            scene.place(env, robot, int(cell), rng.uniform(-np.pi, np.pi))
    refused = contacts = 0
    actions = np.zeros((2, 6, 2))
    for step in range(200):
        if step % 5 == 0:
            actions = np.clip(rng.normal([0.7, 0.0], [0.5, 0.8], (2, 6, 2)), -1, 1)
        _drive(scene, actions, limits, step)
        refused += int(scene.outcome.refused.sum())
        contacts += int(scene.outcome.robot_contacts.sum() + scene.outcome.rack_contacts.sum())
        assert not _overlapping(scene, limits, 0)
        assert not _overlapping(scene, limits, 1)
    assert refused > 20
    assert contacts == 0


def test_rectangles_that_touch_leave_the_floor_under_the_rule_despawn(make_scene: Any) -> None:
    limits = _forklifts(3)
    scene = make_scene(HALL, 3, cell_size_m=1.2)
    scene.place_at(0, 0, 3.0, 6.0)
    scene.place_at(0, 1, 4.2, 6.0, heading=math.pi)
    # Beside them: nearer than the discs around them, but not in the way.
    scene.place_at(0, 2, 3.6, 5.35)
    for step in range(8):
        _drive(scene, [[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]], limits, step, despawn=True)
        if scene.outcome.leaving.any():
            break
    assert scene.outcome.leaving[0].tolist() == [True, True, False]
    assert scene.outcome.robot_contacts[0].tolist() == [1, 1, 0]


def test_disc_and_rectangle_stop_at_each_other(make_scene: Any) -> None:
    limits = make_limits(DRIVE, (FORKLIFT, RoleConfig(role="carrier", count=1, radius_m=0.35)))
    scene = make_scene(HALL, 2, cell_size_m=1.2)
    radius = np.array([FORKLIFT.outer_radius_m, 0.35])
    scratch = make_drive_scratch(scene.floor, 2, limits)
    keys = np.full(1, 5, np.uint64)
    # The side of the forklift, 0.3 m from its middle; the disc comes up to it.
    scene.place_at(0, 0, 6.0, 6.0)
    scene.place_at(0, 1, 6.0, 4.5, heading=math.pi / 2)
    wanted = np.array([[[0.0, 0.0], [1.0, 0.0]]], np.float32)
    for step in range(30):
        state = (scene.floor, scene.fleet, scene.pose, scene.outcome, scratch, limits, radius)
        drive_differential(*state, wanted, keys, np.full(1, step, np.int32), False)
    assert scene.outcome.refused[0, 1]
    assert 0.65 <= 6.0 - scene.pose.y[0, 1] < 0.65 + 0.15


def test_footprints_are_checked(make_warehouse: Any) -> None:
    drive = {"kind": "differential"}

    def config(role: dict[str, Any], drive: dict[str, Any] = drive) -> WarehouseConfig:
        made, _ = make_warehouse(HALL, cell_size_m=1.2)
        data = {"layout": made.layout, "fleet": ({"role": "forklift", "count": 1, **role},), "drive": drive}
        return WarehouseConfig.model_validate(data)

    with pytest.raises(ValidationError, match="expected length_m and width_m together, got length_m alone"):
        config({"length_m": 0.9})
    with pytest.raises(ValidationError, match="expected either radius_m or length_m and width_m, got both"):
        config({"length_m": 0.9, "width_m": 0.6, "radius_m": 0.3})
    with pytest.raises(
        ValidationError, match="expected circular footprints with drive 'grid', got length_m and width_m"
    ):
        config({"length_m": 0.9, "width_m": 0.6}, {"kind": "grid"})
    _, layout = make_warehouse(HALL, cell_size_m=1.2)
    forklifts = config({"length_m": 0.9, "width_m": 0.6})
    check_warehouse(forklifts, layout, "warehouse")
    assert WarehouseConfig.model_validate_json(forklifts.model_dump_json()) == forklifts
    with pytest.raises(
        ScenarioError, match=r"fleet\[0\].length_m, width_m: expected half a diagonal of less than half"
    ):
        check_warehouse(config({"length_m": 1.1, "width_m": 0.6}), layout, "warehouse")
    with pytest.raises(ScenarioError, match=r"expected half the shorter side more than the way of one physics step"):
        check_warehouse(config({"length_m": 0.9, "width_m": 0.2}), layout, "warehouse")


def test_lag_closes_its_share_of_the_gap_in_every_step_and_then_stands(make_scene: Any) -> None:
    lag = DifferentialDriveConfig(decision_steps=1, lag_s=0.2, max_acceleration_mps2=100.0, max_deceleration_mps2=100.0)
    limits = make_limits(lag)
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 1.0, 3.5)
    speeds = []
    for step in range(10):
        _drive(scene, [1.0, 0.0], limits, step)
        speeds.append(float(scene.pose.speed[0, 0]))
    assert speeds == pytest.approx([1.5 * (1.0 - math.exp(-0.1 * k / 0.2)) for k in range(1, 11)])
    for step in range(20):
        _drive(scene, [0.0, 0.0], limits, step)
    assert scene.pose.speed[0, 0] == 0.0


def test_lag_keeps_to_the_limits_on_acceleration(make_scene: Any) -> None:
    limits = make_limits(DifferentialDriveConfig(decision_steps=1, lag_s=0.3))
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 1.0, 3.5)
    speeds, rates = [0.0], [0.0]
    for step in range(30):
        _drive(scene, [1.0, 1.0] if step < 20 else [0.0, 0.0], limits, step)
        speeds.append(float(scene.pose.speed[0, 0]))
        rates.append(float(scene.pose.turn_rate[0, 0]))
    assert np.diff(speeds).max() == pytest.approx(0.08)
    assert np.diff(speeds).min() >= -0.12 - 1e-9
    # Without a lag it is at its command after 19 steps.
    assert speeds[20] < 1.5
    assert np.diff(rates).max() == pytest.approx(0.2)
    # Without a lag it would turn at full rate after 5 steps.
    assert rates[5] < 0.8


def test_traction_scales_every_physics_step_of_speeding_up_braking_and_turning(make_scene: Any) -> None:
    limits = make_limits(DifferentialDriveConfig(decision_steps=3), slipping_envs=2, min_traction=0.5)
    limits.traction[:] = [0.5, 1.0]
    limits.speed_factor[:] = [0.8, 1.0]
    scene = make_scene(HALL, 1, 2)
    for env in range(2):
        scene.place_at(env, 0, 1.0, 3.5)
    _drive(scene, [1.0, 1.0], limits)
    assert scene.pose.speed[:, 0] == pytest.approx([3 * 0.04, 3 * 0.08])
    assert scene.pose.turn_rate[:, 0] == pytest.approx([3 * 0.1, 3 * 0.2])
    for step in range(1, 20):
        _drive(scene, [1.0, 0.0], limits, step)
    assert scene.pose.speed[:, 0] == pytest.approx([0.8 * 1.5, 1.5])
    _drive(scene, [0.0, 0.0], limits, 20)
    assert scene.pose.speed[:, 0] == pytest.approx([1.2 - 3 * 0.06, 1.5 - 3 * 0.12])


def test_slippery_floor_draws_within_its_range_for_every_episode(make_warehouse: Any) -> None:
    random = {"min_speed_factor": 0.6, "min_traction_factor": 0.3}
    config, layout = make_warehouse(HALL, drive={"kind": "differential"}, randomisation=random, episode_steps=2)
    simulator = WarehouseSimulator(config, layout, 50)
    simulator.reset(1)
    feature = next(feature for feature in simulator._features if isinstance(feature, SlipperyFloor))
    first = feature.traction_factor.copy()
    assert 0.3 <= first.min() < 0.4 < 0.9 < first.max() <= 1.0
    assert 0.6 <= feature.speed_factor.min() < 0.7
    for _ in range(2):
        simulator.step()
    assert (feature.traction_factor != first).all()
