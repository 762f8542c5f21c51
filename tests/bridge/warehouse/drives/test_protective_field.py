"""Robots with a protective field stop before whatever they are told to drive into."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import DifferentialDriveConfig, RoleConfig
from bridge.warehouse.drives.cell_lists import make_cell_lists
from bridge.warehouse.drives.drive_limits import DriveLimits, make_limits
from bridge.warehouse.drives.motion_differential import drive_differential, make_drive_scratch
from bridge.warehouse.drives.protective_field import clear_way, safe_speed
from bridge.warehouse.drives.rectangles import rectangle_distance

HALL = """
............
.S........E.
............
....##......
....##......
............
"""
CARRIER = RoleConfig(role="carrier", count=1, radius_m=0.35)
FORKLIFT = RoleConfig(role="forklift", count=1, length_m=0.9, width_m=0.6)


def _limits(count: int, role: RoleConfig = CARRIER, lag_s: float = 0.0, margin_m: float = 0.1) -> DriveLimits:
    data = {"decision_steps": 1, "lag_s": lag_s, "protective_field": {"margin_m": margin_m}}
    return make_limits(DifferentialDriveConfig.model_validate(data), (role.model_copy(update={"count": count}),))


def _drive(scene: Any, actions: Any, limits: DriveLimits, step: int) -> None:
    num_envs, num_robots = scene.fleet.cell.shape
    wanted = np.broadcast_to(np.asarray(actions, np.float32), (num_envs, num_robots, 2)).copy()
    scratch = make_drive_scratch(scene.floor, num_robots, limits)
    state = (scene.floor, scene.fleet, scene.pose, scene.outcome, scratch, limits, np.full(num_robots, limits.widest))
    drive_differential(*state, wanted, np.full(num_envs, 5, np.uint64), np.full(num_envs, step, np.int32), False)


@pytest.mark.parametrize("role", [CARRIER, FORKLIFT], ids=["disc", "rectangle"])
@pytest.mark.parametrize("lag_s", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("share", [1.0, -1.0])
def test_robot_stops_before_a_rack_with_its_margin_and_without_contact(
    make_scene: Any, role: RoleConfig, lag_s: float, share: float
) -> None:
    limits = _limits(1, role, lag_s)
    scene = make_scene(HALL, 1, cell_size_m=1.2)
    heading = 0.0 if share > 0 else math.pi
    scene.place_at(0, 0, 1.0, 2.5, heading)
    front = role.half_sides_m[0] or role.radius_m
    for step in range(400):
        _drive(scene, [share, 0.0], limits, step)
        assert not scene.outcome.refused.any()
    gap = 4 * 1.2 - front - scene.pose.x[0, 0]
    assert 0.1 - 1e-6 <= gap < 0.12
    # The other way it is free to go.
    for step in range(20):
        _drive(scene, [-share, 0.0], limits, step)
    assert scene.pose.x[0, 0] < 4.8 - front - 0.3


@pytest.mark.parametrize("lag_s", [0.0, 0.3])
def test_robots_that_drive_at_each_other_stop_in_time(make_scene: Any, lag_s: float) -> None:
    limits = _limits(2, lag_s=lag_s)
    scene = make_scene(HALL, 2)
    scene.place_at(0, 0, 1.0, 4.5)
    scene.place_at(0, 1, 11.0, 4.6, math.pi)
    fastest = 0.0
    for step in range(300):
        _drive(scene, [1.0, 0.0], limits, step)
        fastest = max(fastest, float(scene.pose.speed.max()))
        assert not scene.outcome.refused.any()
    assert fastest == pytest.approx(1.5, abs=0.01)
    gap = scene.pose.x[0, 1] - scene.pose.x[0, 0] - math.sqrt(0.7**2 - 0.1**2)
    assert 0.1 - 1e-6 <= gap < 0.13


@pytest.mark.parametrize("roles", [(FORKLIFT, FORKLIFT), (FORKLIFT, CARRIER), (CARRIER, FORKLIFT)])
@pytest.mark.parametrize("other", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)], ids=["comes", "turns", "stands"])
def test_robot_keeps_off_the_disc_around_a_rectangle_that_comes_turns_or_stands(
    make_scene: Any, roles: tuple[RoleConfig, RoleConfig], other: tuple[float, float]
) -> None:
    data = {"decision_steps": 1, "protective_field": {"margin_m": 0.1}}
    limits = make_limits(DifferentialDriveConfig.model_validate(data), roles)
    scene = make_scene(HALL, 2)
    scene.place_at(0, 0, 1.0, 4.5)
    scene.place_at(0, 1, 10.0, 4.6, math.pi)
    radius = np.array([role.outer_radius_m for role in roles])
    scratch = make_drive_scratch(scene.floor, 2, limits)
    wanted = np.array([[[1.0, 0.0], other]], np.float32)
    for step in range(300):
        state = (scene.floor, scene.fleet, scene.pose, scene.outcome, scratch, limits, radius)
        drive_differential(*state, wanted, np.full(1, 5, np.uint64), np.full(1, step, np.int32), False)
        assert not scene.outcome.refused.any()
    pose, (one, two) = scene.pose, roles
    assert pose.speed[0].tolist() == [0.0, 0.0]
    dx, dy = pose.x[0, 1] - pose.x[0, 0], pose.y[0, 1] - pose.y[0, 0]
    facing = [(float(pose.cos[0, k]), float(pose.sin[0, k]), *roles[k].half_sides_m) for k in (0, 1)]
    gap = rectangle_distance(dx, dy, *facing[0], *facing[1])
    gap -= sum(role.radius_m for role in roles if role.length_m is None)
    assert gap >= 0.1 - 1e-6
    if other[0] == 0.0:
        # As far as the disc around the other one lets it come straight on; a rectangle has its front ahead.
        reach = two.outer_radius_m if one.length_m else two.outer_radius_m + one.radius_m
        off = 0.0 if one.length_m else 0.1
        assert dx - one.half_sides_m[0] - math.sqrt(reach**2 - off**2) == pytest.approx(0.1, abs=0.03)


def test_robot_follows_another_one_and_stops_behind_it(make_scene: Any) -> None:
    limits = _limits(2)
    scene = make_scene(HALL, 2)
    scene.place_at(0, 0, 1.0, 4.5)
    scene.place_at(0, 1, 2.0, 4.5)
    for step in range(150):
        _drive(scene, [[[1.0, 0.0], [1.0, 0.0] if step < 60 else [0.0, 0.0]]], limits, step)
        assert not scene.outcome.refused.any()
    assert scene.pose.x[0, 1] - scene.pose.x[0, 0] == pytest.approx(0.8, abs=0.02)


def test_field_counts_on_the_worst_floor_of_the_scenario(make_scene: Any) -> None:
    data = {"decision_steps": 1, "protective_field": {"margin_m": 0.0}}
    limits = make_limits(DifferentialDriveConfig.model_validate(data), (CARRIER,), 1, min_traction=0.25)
    limits.traction[:] = 0.25
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 1.0, 4.5)
    for step in range(400):
        _drive(scene, [1.0, 0.0], limits, step)
        assert not scene.outcome.refused.any()
    assert 12.0 - 0.35 - scene.pose.x[0, 0] < 0.03


def test_robot_beside_a_rack_or_another_robot_drives_past_at_full_speed(make_scene: Any) -> None:
    limits = _limits(2)
    scene = make_scene(HALL, 2)
    # Along the rack, and past a robot that stands as near as possible.
    scene.place_at(0, 0, 1.0, 3.35)
    scene.place_at(0, 1, 5.0, 3.35 + 0.7)
    for step in range(70):
        _drive(scene, [[[1.0, 0.0], [0.0, 0.0]]], limits, step)
    assert scene.pose.speed[0, 0] == pytest.approx(1.5)
    assert scene.pose.x[0, 0] > 7.0


@pytest.mark.parametrize("deceleration", [0.5, 1.2, 3.0])
@pytest.mark.parametrize("lag_s", [0.0, 0.05, 0.4])
def test_safe_speed_leaves_the_way_that_braking_step_by_step_needs(deceleration: float, lag_s: float) -> None:
    step_s = 0.1
    for clear in np.linspace(0.01, 3.0, 40):
        speed = float(safe_speed(clear, deceleration, step_s, lag_s))
        way, response = speed * step_s, -math.expm1(-step_s / lag_s) if lag_s else 1.0
        while speed > 1e-6:
            speed -= min(response * speed, deceleration * step_s)
            way += speed * step_s
        assert way <= clear + 1e-9
        if lag_s == 0.0 and clear > 0.2:
            assert way > 0.8 * clear
    assert safe_speed(-0.1, deceleration, step_s, lag_s) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_clear_way_is_the_way_until_the_footprint_touches(make_scene: Any, seed: int) -> None:
    """Against the drive itself: without a field, slowly, until a motion is refused."""
    rng = np.random.default_rng(seed)
    role = FORKLIFT if seed % 2 else CARRIER
    slow = DifferentialDriveConfig.model_validate({"decision_steps": 1, "max_speed_mps": 0.01, "step_s": 1.0})
    for _ in range(10):
        scene = make_scene(HALL, 1, cell_size_m=1.2)
        cell = int(rng.choice(np.flatnonzero(~scene.floor.blocked)))
        scene.place(0, 0, cell, rng.uniform(-np.pi, np.pi))
        lists = make_cell_lists(scene.layout.blocked.size, 1)
        lists.first[cell] = 0
        limits = make_limits(slow, (role,))
        radius = np.array([role.outer_radius_m])
        clear = clear_way(
            scene.floor, scene.pose, radius, limits.sides, lists.first, lists.follower, 0, 0, False, 2.0, limits.widest,
            1.2, 0.0,
        )  # fmt: skip
        start = scene.pose.x[0, 0], scene.pose.y[0, 0]
        for step in range(200):
            _drive(scene, [1.0, 0.0], limits, step)
            if scene.outcome.refused[0, 0]:
                break
        way = math.hypot(scene.pose.x[0, 0] - start[0], scene.pose.y[0, 0] - start[1])
        assert clear == pytest.approx(way, abs=0.011)
