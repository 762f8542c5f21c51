"""Differential drive: limits, integration, and contact that never becomes overlap."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import DifferentialDriveConfig
from bridge.warehouse.drives.drive_limits import make_limits
from bridge.warehouse.drives.motion_differential import drive_differential, make_drive_scratch

HALL = """
..........
.S......E.
..........
....##....
....##....
..........
"""
DRIVE = DifferentialDriveConfig(decision_steps=1)


def _drive(
    scene: Any, actions: Any, step: int = 0, radius_m: float = 0.35, despawn: bool = False, drive: Any = DRIVE
) -> None:
    num_envs, num_robots = scene.fleet.cell.shape
    limits = make_limits(drive)._replace(widest=radius_m)
    scratch = make_drive_scratch(scene.floor, num_robots, limits)
    drive_differential(
        scene.floor,
        scene.fleet,
        scene.pose,
        scene.outcome,
        scratch,
        limits,
        np.full(num_robots, radius_m),
        np.broadcast_to(np.asarray(actions, np.float32), (num_envs, num_robots, 2)).copy(),
        np.full(num_envs, 5, np.uint64),
        np.full(num_envs, step, np.int32),
        despawn,
    )
    assert (scratch.lists.first == -1).all()
    assert (scratch.crowd.first == -1).all()


def test_drive_differential_speeds_up_and_brakes_within_the_limits(make_scene: Any) -> None:
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 1.0, 3.5)
    speeds = []
    for share in [1.0] * 25 + [0.0] * 15:
        _drive(scene, [share, 0.0])
        speeds.append(float(scene.pose.speed[0, 0]))
    changes = np.diff([0.0, *speeds])
    assert changes.max() == pytest.approx(0.08)
    assert changes.min() == pytest.approx(-0.12)
    assert max(speeds) == pytest.approx(1.5)
    assert speeds[-1] == 0.0


def test_drive_differential_reverses_more_slowly_than_it_drives(make_scene: Any) -> None:
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 5.0, 3.5)
    for _ in range(20):
        _drive(scene, [-1.0, 0.0])
    assert scene.pose.speed[0, 0] == pytest.approx(-0.3)
    assert scene.pose.x[0, 0] < 5.0


def test_drive_differential_turns_in_place_counter_clockwise_for_positive_rates(make_scene: Any) -> None:
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 5.0, 4.5, heading=3.0)
    headings = []
    for _ in range(12):
        _drive(scene, [0.0, 1.0])
        headings.append(float(scene.pose.heading[0, 0]))
    assert scene.pose.turn_rate[0, 0] == pytest.approx(1.0)
    # 2.0 rad/s2 up to 1.0 rad/s: 0.02 + 0.04 + 0.06 + 0.08 rad, then eight times 0.1 rad; wrapped at pi.
    assert headings[0] == pytest.approx(3.02)
    assert headings[-1] == pytest.approx(3.0 + 0.2 + 0.8 - 2 * np.pi)
    assert (scene.pose.x[0, 0], scene.pose.y[0, 0]) == (5.0, 4.5)
    assert scene.pose.cos[0, 0] == pytest.approx(np.cos(headings[-1]))


def test_drive_differential_drives_a_circle_of_the_radius_speed_over_turn_rate(make_scene: Any) -> None:
    drive = DifferentialDriveConfig(
        decision_steps=1, max_acceleration_mps2=100.0, max_turn_acceleration_radps2=100.0, max_speed_mps=0.5
    )
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 5.0, 3.6)
    ys = []
    for _ in range(63):
        _drive(scene, [1.0, 1.0], drive=drive)
        ys.append(float(scene.pose.y[0, 0]))
    # Diameter 2 * 0.5 m/s / 1.0 rad/s = 1.0 m, and back at the start after 2 pi seconds.
    assert max(ys) - 3.6 == pytest.approx(1.0, abs=0.01)
    assert np.hypot(scene.pose.x[0, 0] - 5.0, scene.pose.y[0, 0] - 3.6) < 0.02


def test_drive_differential_reports_the_way_driven_and_the_mean_velocity(make_scene: Any) -> None:
    drive = DifferentialDriveConfig(decision_steps=4)
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 1.0, 3.5)
    _drive(scene, [1.0, 0.0], drive=drive)
    # 0.1 s at 0.08, 0.16, 0.24 and 0.32 m/s.
    assert scene.outcome.moved_m[0, 0] == pytest.approx(0.08)
    assert scene.pose.x[0, 0] == pytest.approx(1.08)
    assert scene.pose.vx[0, 0] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("x", "y", "heading"), [(9.0, 3.5, 0.0), (3.0, 2.0, 0.0), (5.0, 5.0, np.pi / 2), (1.0, 0.6, -np.pi / 2)]
)
def test_drive_differential_stops_before_racks_and_walls(make_scene: Any, x: float, y: float, heading: float) -> None:
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, x, y, heading)
    refused = False
    for step in range(60):
        _drive(scene, [1.0, 0.0], step)
        refused |= bool(scene.outcome.refused[0, 0])
        assert scene.outcome.rack_contacts[0, 0] == 0
    assert refused
    assert scene.pose.speed[0, 0] <= 0.08 + 1e-12


def test_drive_differential_lets_a_robot_turn_away_after_it_was_stopped(make_scene: Any) -> None:
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 9.0, 4.5)
    for step in range(40):
        _drive(scene, [1.0, 0.0], step)
    for step in range(40):
        _drive(scene, [0.0, 1.0], step)
    for step in range(40):
        _drive(scene, [1.0, 0.0], step)
    assert scene.pose.x[0, 0] < 9.0


def _free_spot(scene: Any, rng: np.random.Generator, radius: float, others: list[tuple[float, float]]) -> Any:
    blocked = scene.layout.blocked
    height, width = blocked.shape
    while True:
        x, y = rng.uniform(radius, width - radius), rng.uniform(radius, height - radius)
        if _overlaps_rack(blocked, x, y, radius):
            continue
        if all(np.hypot(x - ox, y - oy) >= 2 * radius for ox, oy in others):
            return x, y


def _overlaps_rack(blocked: np.ndarray, x: float, y: float, radius: float) -> bool:
    """Disc against every blocked cell, by the nearest point of the cell."""
    height = blocked.shape[0]
    for row, column in np.argwhere(blocked):
        nearest_x = np.clip(x, column, column + 1)
        nearest_y = np.clip(y, height - row - 1, height - row)
        if np.hypot(x - nearest_x, y - nearest_y) < radius - 1e-9:
            return True
    return False


def test_drive_differential_never_lets_discs_overlap_in_a_crowd_that_drives_at_random(make_scene: Any) -> None:
    num_robots, radius = 14, 0.35
    scene = make_scene(HALL, num_robots)
    rng = np.random.default_rng(3)
    spots: list[tuple[float, float]] = []
    for robot in range(num_robots):
        spots.append(_free_spot(scene, rng, radius, spots))
        scene.place_at(0, robot, *spots[-1], heading=rng.uniform(-np.pi, np.pi))
    blocked, height, width = scene.layout.blocked, scene.layout.height, scene.layout.width
    touched = 0
    actions = rng.uniform(-1, 1, (1, num_robots, 2))
    for step in range(300):
        if step % 10 == 0:
            actions = np.stack([rng.uniform(0.0, 1.0, (1, num_robots)), rng.uniform(-1, 1, (1, num_robots))], axis=-1)
        _drive(scene, actions, step)
        x, y = scene.pose.x[0], scene.pose.y[0]
        assert (
            min(np.hypot(x[a] - x[b], y[a] - y[b]) for a, b in combinations(range(num_robots), 2)) >= 2 * radius - 1e-9
        )
        assert x.min() >= radius
        assert x.max() <= width - radius
        assert y.min() >= radius
        assert y.max() <= height - radius
        assert not any(_overlaps_rack(blocked, x[r], y[r], radius) for r in range(num_robots))
        cells = (height - 1 - y.astype(int)) * width + x.astype(int)
        assert scene.fleet.cell[0].tolist() == cells.tolist()
        assert not scene.outcome.robot_contacts.any()
        assert not scene.outcome.rack_contacts.any()
        touched += int(scene.outcome.refused.sum())
    assert touched > 100


def test_drive_differential_counts_contacts_of_robots_that_do_overlap(make_scene: Any) -> None:
    # What the rule never lets happen is put there by hand: the measurement must see it.
    scene = make_scene(HALL, 3)
    scene.place_at(0, 0, 2.0, 4.5)
    scene.place_at(0, 1, 2.5, 4.5)
    scene.place_at(0, 2, 3.8, 2.0)
    _drive(scene, [0.0, 0.0])
    assert scene.outcome.robot_contacts[0].tolist() == [1, 1, 0]
    assert scene.outcome.rack_contacts[0].tolist() == [0, 0, 1]


def test_drive_differential_despawn_takes_both_robots_of_a_contact(make_scene: Any) -> None:
    scene = make_scene(HALL, 3)
    scene.place_at(0, 0, 2.0, 4.5, heading=0.0)
    scene.place_at(0, 1, 4.0, 4.5, heading=np.pi)
    scene.place_at(0, 2, 8.0, 0.5)
    left = np.zeros(3, bool)
    for step in range(30):
        _drive(scene, [[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], step, despawn=True)
        left |= scene.outcome.leaving[0]
        scene.fleet.alive[0] &= ~scene.outcome.leaving[0]
        if left.any():
            break
    assert left.tolist() == [True, True, False]
    assert scene.outcome.robot_contacts[0].tolist() == [1, 1, 0]
    # They met in the middle, and nobody is inside the other.
    assert scene.pose.x[0, 1] - scene.pose.x[0, 0] >= 0.7


def test_drive_differential_despawn_takes_a_robot_that_hits_a_rack(make_scene: Any) -> None:
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 3.5, 2.0)
    for step in range(30):
        _drive(scene, [1.0, 0.0], step, despawn=True)
        if scene.outcome.leaving[0, 0]:
            break
    assert scene.outcome.leaving[0, 0]
    assert scene.outcome.rack_contacts[0, 0] == 1
    assert not scene.outcome.refused.any()


def test_drive_differential_lets_an_empty_battery_roll_to_a_stand(make_scene: Any) -> None:
    scene = make_scene(HALL, 1)
    scene.place_at(0, 0, 1.0, 3.5)
    for _ in range(10):
        _drive(scene, [1.0, 0.5])
    scene.fleet.charge[0, 0] = 0.0
    for _ in range(10):
        _drive(scene, [1.0, 1.0])
    assert scene.pose.speed[0, 0] == 0.0
    assert scene.pose.turn_rate[0, 0] == 0.0
