from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.jit import lean_kernel
from bridge.warehouse.config import DifferentialDriveConfig, RoleConfig
from bridge.warehouse.drives.crowd import Crowd, count_contacts, make_crowd, split_crowd
from bridge.warehouse.drives.drive_limits import make_limits
from bridge.warehouse.drives.motion_differential import drive_differential, make_drive_scratch
from bridge.warehouse.fleet import Pose

HALL = """
............
.S........E.
............
....##......
....##......
............
......#.....
............
"""
DISC = RoleConfig(role="carrier", count=1, radius_m=0.3)
FORKLIFT = RoleConfig(role="forklift", count=1, length_m=0.9, width_m=0.4)


@lean_kernel
def _split(pose: Pose, radius: Any, alive: Any, crowd: Crowd, env: int, sizes: Any) -> None:
    sizes[0], sizes[1] = split_crowd(pose, radius, alive, crowd, env, True)


@lean_kernel
def _count(pose: Pose, alive: Any, radius: Any, crowd: Crowd, env: int, contacts: Any) -> None:
    count_contacts(pose, alive, None, radius, crowd, env, contacts)


def _scatter(scene: Any, count: int, seed: int) -> np.random.Generator:
    rng = np.random.default_rng(seed)
    for robot in range(count):
        scene.place_at(0, robot, rng.uniform(0.3, 11.7), rng.uniform(0.3, 7.7), heading=rng.uniform(-np.pi, np.pi))
    return rng


@pytest.mark.parametrize("radius_m", [0.05, 0.3, 1.1])
def test_split_crowd_leaves_alone_only_who_nobody_can_reach(make_scene: Any, radius_m: float) -> None:
    drive = DifferentialDriveConfig(decision_steps=3)
    limits = make_limits(drive)._replace(widest=radius_m)
    counts = np.zeros(2, int)
    for seed in range(20):
        scene = make_scene(HALL, 12)
        rng = _scatter(scene, 12, seed)
        scene.fleet.alive[0, :2] = False
        scene.pose.speed[0] = rng.uniform(-0.3, 1.5, 12)
        crowd, sizes = make_crowd(scene.floor, 12, limits), np.zeros(2, np.int64)
        _split(scene.pose, np.full(12, radius_m), scene.fleet.alive, crowd, 0, sizes)
        alone, near = crowd.alone[: sizes[0]].tolist(), crowd.near[: sizes[1]].tolist()
        assert sorted(alone + near) == list(range(2, 12))
        assert near == sorted(near)
        assert (crowd.first == -1).all()
        # Full throttle for three steps of 0.1 s.
        way = sum(np.minimum(np.abs(scene.pose.speed[0]) + 0.08 * tick, 1.5) * 0.1 for tick in (1, 2, 3))
        for robot in alone:
            for other in range(2, 12):
                gap = np.hypot(
                    *(getattr(scene.pose, axis)[0, robot] - getattr(scene.pose, axis)[0, other] for axis in "xy")
                )
                assert other == robot or gap > 2 * radius_m + way[robot] + way[other]
        counts += sizes
    assert counts[1] > 0
    assert counts[0] > 0 or radius_m > 1.0


@pytest.mark.parametrize("radius_m", [0.05, 0.3, 1.1])
def test_count_contacts_counts_every_overlap(make_scene: Any, radius_m: float) -> None:
    limits = make_limits(DifferentialDriveConfig())._replace(widest=radius_m)
    for seed in range(20):
        scene = make_scene(HALL, 20)
        _scatter(scene, 20, seed)
        scene.fleet.alive[0, 3] = False
        scene.pose.x[0, 5], scene.pose.y[0, 5] = scene.pose.x[0, 4] + 0.07, scene.pose.y[0, 4]
        contacts = np.zeros((1, 20), np.int32)
        _count(scene.pose, scene.fleet.alive, np.full(20, radius_m), make_crowd(scene.floor, 20, limits), 0, contacts)
        dx = scene.pose.x[0, :, None] - scene.pose.x[0]
        dy = scene.pose.y[0, :, None] - scene.pose.y[0]
        meet = (np.hypot(dx, dy) < 2 * radius_m) & scene.fleet.alive[0] & scene.fleet.alive[0, :, None]
        assert contacts[0].tolist() == (meet.sum(axis=1) - scene.fleet.alive[0]).tolist()
        assert contacts[0, 4] > 0


@pytest.mark.parametrize("role", [DISC, FORKLIFT], ids=["disc", "rectangle"])
@pytest.mark.parametrize("despawn", [False, True])
def test_drive_differential_does_the_same_as_if_everybody_could_touch_everybody(
    make_scene: Any, role: RoleConfig, despawn: bool
) -> None:
    limits = make_limits(DifferentialDriveConfig(decision_steps=2), (role.model_copy(update={"count": 9}),))
    scenes = [make_scene(HALL, 9) for _ in range(2)]
    for scene in scenes:
        rng = np.random.default_rng(1)
        for robot in range(9):
            scene.place_at(0, robot, 1.0 + 1.2 * robot, 0.7 if robot % 2 else 2.5, heading=rng.uniform(-np.pi, np.pi))
    scratches = [make_drive_scratch(scene.floor, 9, limits) for scene in scenes]
    # Squares as large as the floor, and robots that may be anywhere in no time.
    one = make_crowd(scenes[1].floor, 9, limits._replace(max_speed=1e3))._replace(speed_gain=1e9)
    scratches[1] = scratches[1]._replace(crowd=one)
    happened = 0
    for step in range(250):
        action = rng.uniform([-0.2, -1.0], [1.0, 1.0], (1, 9, 2)).astype(np.float32)
        for scene, scratch in zip(scenes, scratches, strict=True):
            state = (
                scene.floor,
                scene.fleet,
                scene.pose,
                scene.outcome,
                scratch,
                limits,
                np.full(9, role.outer_radius_m),
            )
            drive_differential(*state, action, np.full(1, 5, np.uint64), np.full(1, step, np.int32), despawn)
            assert (scratch.lists.first == -1).all()
        for group in ("pose", "outcome"):
            for name, values in getattr(scenes[0], group)._asdict().items():
                np.testing.assert_array_equal(values, getattr(getattr(scenes[1], group), name), err_msg=name)
        np.testing.assert_array_equal(scenes[0].fleet.cell, scenes[1].fleet.cell)
        happened += int(scene.outcome.refused.sum() + scene.outcome.leaving.sum())
        for scene in scenes:
            scene.fleet.alive[0] &= ~scene.outcome.leaving[0]
    assert happened > 5
