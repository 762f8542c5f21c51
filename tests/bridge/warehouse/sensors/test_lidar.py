"""The lidar against a plain ray caster, and the merging of racks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.warehouse.sensors.beams import LidarPlace, make_beams
from bridge.warehouse.sensors.buckets import make_buckets, sort_robots
from bridge.warehouse.sensors.lidar import make_walls, merge_blocked, observe_lidar
from bridge.warehouse.sensors.lidar_robots import make_sightings
from bridge.warehouse.sensors.nearest import find_nearest, make_nearest

HALL = """
......#....
.S#.....##.
..#..#..##.
..#.......E
#....##....
"""


def _cast(scene: Any, env: int, robot: int, angle: float, range_m: float, radius: float) -> float:
    """Distance along one beam: every blocked cell, every outer wall and every robot, in double precision."""
    size, height, width = scene.layout.cell_size_m, scene.layout.height, scene.layout.width
    x, y = float(scene.pose.x[env, robot]), float(scene.pose.y[env, robot])
    ux, uy = np.cos(angle), np.sin(angle)
    hits = [range_m]
    boxes = [
        (column * size, (height - row - 1) * size, (column + 1) * size, (height - row) * size)
        for row, column in np.argwhere(scene.layout.blocked)
    ]
    for left, bottom, right, top in boxes:
        with np.errstate(divide="ignore"):
            tx = np.sort([(left - x) / ux, (right - x) / ux])
            ty = np.sort([(bottom - y) / uy, (top - y) / uy])
        enter, leave = max(tx[0], ty[0]), min(tx[1], ty[1])
        if 0 <= enter <= leave:
            hits.append(enter)
    with np.errstate(divide="ignore"):
        hits.append(min(max(-x / ux, (width * size - x) / ux), max(-y / uy, (height * size - y) / uy)))
    for other in range(scene.fleet.cell.shape[1]):
        if other != robot and scene.fleet.alive[env, other]:
            dx, dy = scene.pose.x[env, other] - x, scene.pose.y[env, other] - y
            along = dx * ux + dy * uy
            inside = radius**2 - (dx * dx + dy * dy - along**2)
            if inside >= 0 and along > 0:
                hits.append(along - np.sqrt(inside))
    return float(min(hits))


@pytest.mark.parametrize(
    ("size", "range_m", "num_beams", "num_robots"),
    [
        (1.0, 8.0, 36, 6),
        (1.5, 3.0, 36, 6),
        (0.8, 40.0, 36, 6),
        (1.2, 6.0, 97, 20),
        (1.0, 8.0, 4, 20),
        (1.0, 9.0, 36, 30),
    ],
)
def test_observe_lidar_agrees_with_a_plain_ray_caster(
    make_scene: Any, size: float, range_m: float, num_beams: int, num_robots: int
) -> None:
    # 30 robots make more pairs than are treated at a time.
    num_envs, radius = 3, 0.3
    scene = make_scene(HALL, num_robots, num_envs, cell_size_m=size)
    rng = np.random.default_rng(1)
    free = np.flatnonzero(~scene.layout.blocked.ravel())
    for env in range(num_envs):
        for robot, cell in enumerate(rng.choice(free, num_robots, replace=False)):
            row, column = divmod(int(cell), scene.floor.width)
            x = (column + rng.uniform(0.05, 0.95)) * size
            y = (scene.floor.height - row - rng.uniform(0.05, 0.95)) * size
            scene.place_at(env, robot, x, y, rng.uniform(-np.pi, np.pi))
    scene.fleet.alive[1, 2] = False
    hits = _observe(scene, num_beams, range_m, radius)
    for env in range(num_envs):
        for robot in range(num_robots):
            if not scene.fleet.alive[env, robot]:
                assert (hits[env, robot] == -7.0).all()
                continue
            for beam in range(num_beams):
                angle = scene.pose.heading[env, robot] + 2 * np.pi * beam / num_beams
                expected = _cast(scene, env, robot, angle, range_m, radius)
                if _inside_a_robot(scene, env, robot, radius):
                    continue
                assert hits[env, robot, beam] * range_m == pytest.approx(expected, abs=2e-3)


def _inside_a_robot(scene: Any, env: int, robot: int, radius: float) -> bool:
    dx, dy = scene.pose.x[env] - scene.pose.x[env, robot], scene.pose.y[env] - scene.pose.y[env, robot]
    near = (np.hypot(dx, dy) <= radius) & scene.fleet.alive[env]
    return bool(near.sum() > 1)


def _observe(scene: Any, num_beams: int, range_m: float, radius: float) -> np.ndarray:
    num_envs, num_robots = scene.fleet.cell.shape
    size = scene.layout.cell_size_m
    buckets = make_buckets(
        num_envs, num_robots, range_m + radius, scene.layout.width * size, scene.layout.height * size
    )
    everywhere = np.ones(num_envs, bool)
    sort_robots(scene.pose, scene.fleet.alive, everywhere, buckets)
    nearest = make_nearest(num_envs, num_robots, 4, range_m + radius)
    find_nearest(scene.pose, buckets, everywhere, nearest)
    observations = np.full((num_envs, num_robots, num_beams + 2), -7.0, np.float32)
    observe_lidar(
        scene.fleet,
        scene.pose,
        np.full(num_robots, radius),
        make_walls(scene.layout, range_m),
        buckets,
        nearest,
        make_sightings(),
        make_beams(num_beams),
        LidarPlace(1, num_beams, range_m),
        0,
        everywhere,
        observations,
    )
    assert (observations[..., 0] == -7.0).all()
    assert (observations[..., -1] == -7.0).all()
    return observations[..., 1:-1]


def test_observe_lidar_sees_walls_straight_along_the_axes_from_a_cell_centre(make_scene: Any) -> None:
    scene = make_scene("S.#\n...\n..E", 1)
    scene.place(0, 0, 0)
    hits = _observe(scene, 4, 10.0, 0.3)[0, 0] * 10.0
    # Ahead a rack at x = 2, left (up), behind and right (down) the outer walls.
    np.testing.assert_allclose(hits, [1.5, 0.5, 0.5, 2.5], atol=1e-5)


@pytest.mark.parametrize("gap", [3, 6, 7])
def test_observe_lidar_sees_a_rack_up_to_its_range_and_not_beyond(make_scene: Any, gap: int) -> None:
    scene = make_scene("S" + "." * gap + "#.E\n" + "." * (gap + 4), 1)
    scene.place_at(0, 0, 0.9, 1.5)
    # The rack begins at gap + 1 m.
    for range_m in (gap + 0.05, gap + 0.15):
        ahead = _observe(scene, 4, range_m, 0.3)[0, 0, 0] * range_m
        assert ahead == pytest.approx(min(range_m, gap + 0.1), abs=1e-5)


def test_observe_lidar_turns_with_the_body(make_scene: Any) -> None:
    scene = make_scene("S.#\n...\n..E", 1)
    scene.place(0, 0, 0, heading=np.pi / 2)
    hits = _observe(scene, 4, 10.0, 0.3)[0, 0] * 10.0
    np.testing.assert_allclose(hits, [0.5, 0.5, 2.5, 1.5], atol=1e-5)


def test_merge_blocked_covers_every_blocked_cell_once(make_scene: Any) -> None:
    rng = np.random.default_rng(0)
    for density in (0.0, 0.2, 0.6, 1.0):
        blocked = rng.random((13, 9)) < density
        cover = np.zeros(blocked.shape, int)
        for top, left, bottom, right in merge_blocked(blocked):
            cover[top:bottom, left:right] += 1
        np.testing.assert_array_equal(cover, blocked.astype(int))


def test_merge_blocked_makes_one_box_of_a_rack() -> None:
    blocked = np.zeros((6, 8), bool)
    blocked[1:3, 2:7] = True
    assert merge_blocked(blocked).tolist() == [[1, 2, 3, 7]]
