"""The observation blocks: single values, and plain oracles for neighbours and window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.warehouse.sensors.buckets import make_buckets, sort_robots
from bridge.warehouse.sensors.nearest import find_nearest, make_nearest
from bridge.warehouse.sensors.neighbours import (
    NEIGHBOUR_FIELDS,
    NeighbourBlock,
    make_cards,
    observe_neighbours,
    write_cards,
)
from bridge.warehouse.sensors.observation import OwnBlocks, observe_own
from bridge.warehouse.sensors.window import WindowPlace, make_maps, observe_window

FLOOR = """
S..#....
...#....
.......E
P.......
"""
OWN = OwnBlocks(
    self_at=0,
    target_at=7,
    path_at=13,
    target_range_m=10.0,
    path_range_m=20.0,
    max_speed=1.5,
    max_turn_rate=1.0,
    cell_after=np.zeros(8, np.int32),
)


def _send(scene: Any, robot: int, cell: int, task: bool = True) -> None:
    """Give a robot a goal and look up its route, as dispatch does."""
    goal = scene.floor.goal_cell.tolist().index(cell)
    scene.fleet.goal[0, robot] = goal
    if task:
        scene.fleet.pickup[0, robot], scene.fleet.delivery[0, robot] = scene.floor.pickups[0], scene.floor.deliveries[0]
    here = scene.fleet.cell[0, robot]
    scene.fleet.route[0, robot] = scene.floor.routes[goal, here]
    for move in range(1, 5):
        if scene.fleet.route[0, robot] >> (move - 1) & 1:
            here = scene.floor.moves[here, move]
            break
    row, column = divmod(int(here), scene.floor.width)
    scene.fleet.way_x[0, robot], scene.fleet.way_y[0, robot] = column + 0.5, scene.floor.height - row - 0.5


def _own(scene: Any, turning: bool) -> np.ndarray:
    num_envs, num_robots = scene.fleet.cell.shape
    observations = np.full((num_envs, num_robots, 18), 9.0, np.float32)
    envs = np.ones(num_envs, bool)
    observe_own(scene.floor, scene.fleet, scene.pose, scene.outcome, OWN, turning, 0, envs, observations)
    return observations[0]


def test_observe_own_shows_load_charge_refusal_and_urgency(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 1)
    scene.place(0, 0, 16)
    scene.fleet.loaded[0, 0], scene.fleet.charge[0, 0], scene.fleet.waiting[0, 0] = True, 0.25, 32
    scene.outcome.refused[0, 0] = True
    np.testing.assert_allclose(_own(scene, False)[0, :5], [1.0, 0.25, 0.0, 1.0, 0.5])
    scene.fleet.charge[0, 0] = 0.0
    assert _own(scene, False)[0, 2] == 1.0


def test_observe_own_shows_speed_and_turn_rate_over_their_limits(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 1)
    scene.place(0, 0, 16)
    scene.pose.speed[0, 0], scene.pose.turn_rate[0, 0] = 0.75, -0.5
    np.testing.assert_allclose(_own(scene, True)[0, :2], [0.5, -0.5])


def test_observe_own_shows_the_target_up_and_right_on_the_grid(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 1)
    scene.place(0, 0, 26)
    _send(scene, 0, 23)
    # From row 3, column 2 to row 2, column 7.
    np.testing.assert_allclose(_own(scene, False)[0, 7:13], [0.5, 0.1, np.sqrt(26) / 10, 1, 0, 0], rtol=1e-6)


def test_observe_own_shows_the_target_in_the_body_frame(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 1)
    scene.place(0, 0, 25, heading=np.pi / 2)
    scene.fleet.loaded[0, 0] = True
    _send(scene, 0, 23)
    # The robot looks up; the target is 6 m to the right and 1 m up: ahead 1, left -6.
    expected = [1 / np.sqrt(37), -6 / np.sqrt(37), np.sqrt(37) / 10, 0, 1, 0]
    np.testing.assert_allclose(_own(scene, True)[0, 7:13], expected, atol=1e-6)


def test_observe_own_tells_parking_from_work(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 1)
    scene.place(0, 0, 26)
    _send(scene, 0, 24, task=False)
    assert _own(scene, False)[0, 10:13].tolist() == [0, 0, 1]


def test_observe_own_shows_which_moves_shorten_the_way_and_which_are_barred(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 1)
    # Row 1, column 2: a rack on the right; the way to the delivery leads down first.
    scene.place(0, 0, 10)
    _send(scene, 0, 23)
    up, right, down, left, length = _own(scene, False)[0, 13:18]
    assert (up, right, down, left) == (0, -1, 1, 0)
    assert length == pytest.approx(6 / 20)


def test_observe_own_shows_the_next_two_way_points_in_the_body_frame(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 1)
    # Row 1, column 2, looking down: the way leads down, then right.
    scene.place(0, 0, 10, heading=-np.pi / 2)
    _send(scene, 0, 23)
    values = _own(scene, True)[0, 13:18]
    np.testing.assert_allclose(values, [1, 0, np.sqrt(0.5), np.sqrt(0.5), 6 / 20], atol=1e-6)


def test_observe_own_is_zero_without_a_goal(make_scene: Any) -> None:
    for turning in (False, True):
        scene = make_scene(FLOOR, 1)
        scene.place(0, 0, 26)
        assert not _own(scene, turning)[0, 7:13].any()
        assert _own(scene, turning)[0, 17] == 0


def test_observe_own_is_zero_where_no_robot_lives(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 2)
    scene.place(0, 0, 26)
    assert not _own(scene, False)[1].any()


def test_observe_own_does_not_change_when_the_floor_around_is_larger(make_scene: Any) -> None:
    small = make_scene(FLOOR, 1)
    wide = make_scene("\n".join(["." * 20] * 3 + ["." * 6 + row + "." * 6 for row in FLOOR.split()]), 1)
    small.place(0, 0, 10)
    wide.place(0, 0, (3 + 1) * 20 + 6 + 2)
    _send(small, 0, 23)
    _send(wide, 0, (3 + 2) * 20 + 6 + 7)
    np.testing.assert_array_equal(_own(small, False)[0, :12], _own(wide, False)[0, :12])


def _neighbours(scene: Any, count: int, range_m: float, turning: bool, bucket_m: float | None = None) -> np.ndarray:
    num_envs, num_robots = scene.fleet.cell.shape
    size = scene.layout.cell_size_m
    edge = bucket_m or range_m
    buckets = make_buckets(num_envs, num_robots, edge, scene.layout.width * size, scene.layout.height * size)
    envs = np.ones(num_envs, bool)
    sort_robots(scene.pose, scene.fleet.alive, envs, buckets)
    observations = np.full((num_envs, num_robots, 1 + count * len(NEIGHBOUR_FIELDS)), 9.0, np.float32)
    block = NeighbourBlock(1, count, range_m, 2.0 if turning else 1.0)
    cards, nearest = make_cards(num_envs, num_robots), make_nearest(num_envs, num_robots, count, range_m)
    write_cards(scene.fleet, scene.pose, block, turning, envs, cards)
    find_nearest(scene.pose, buckets, envs, nearest)
    observe_neighbours(scene.fleet.alive, scene.pose, nearest, cards, block, turning, 0, envs, observations)
    return observations[:, :, 1:].reshape(num_envs, num_robots, count, -1)


@pytest.mark.parametrize("turning", [False, True])
@pytest.mark.parametrize(("range_m", "bucket_m"), [(3.0, 3.0), (3.0, 7.5), (6.0, 6.0), (100.0, 100.0)])
def test_observe_neighbours_finds_the_nearest_in_range_like_a_full_search(
    make_scene: Any, turning: bool, range_m: float, bucket_m: float
) -> None:
    num_robots, count = 30, 5
    scene = make_scene("S" + "." * 22 + "E\n" + "\n".join(["." * 24] * 16), num_robots, num_envs=3)
    rng = np.random.default_rng(2)
    for env in range(3):
        for robot, cell in enumerate(rng.choice(24 * 17, num_robots, replace=False)):
            scene.place(env, robot, int(cell), rng.uniform(-np.pi, np.pi) if turning else 0.0)
    scene.fleet.alive[:, 7] = False
    scene.fleet.waiting[:] = rng.integers(0, 4, scene.fleet.waiting.shape)
    scene.fleet.loaded[:] = rng.random(scene.fleet.loaded.shape) < 0.5
    found = _neighbours(scene, count, range_m, turning, bucket_m)
    for env in range(3):
        for robot in np.flatnonzero(scene.fleet.alive[env]):
            dx, dy = scene.pose.x[env] - scene.pose.x[env, robot], scene.pose.y[env] - scene.pose.y[env, robot]
            square = dx * dx + dy * dy
            near = [r for r in np.lexsort((np.arange(num_robots), square)) if r != robot and scene.fleet.alive[env, r]]
            near = [r for r in near if square[r] <= range_m**2][:count]
            assert found[env, robot, :, 0].tolist() == [1.0] * len(near) + [0.0] * (count - len(near))
            assert not found[env, robot, len(near) :].any()
            cos, sin = np.cos(scene.pose.heading[env, robot]), np.sin(scene.pose.heading[env, robot])
            for place, other in enumerate(near):
                ahead, left = (cos * dx + sin * dy)[other], (cos * dy - sin * dx)[other]
                np.testing.assert_allclose(found[env, robot, place, 1:3] * range_m, [ahead, left], atol=1e-4)
                assert found[env, robot, place, 7] == scene.fleet.loaded[env, other]
                waited = scene.fleet.waiting[env]
                first = (waited[other], -other) > (waited[robot], -robot)
                assert found[env, robot, place, 8] == (1.0 if first else -1.0)


def test_observe_neighbours_gives_opposite_right_of_way_to_the_two_of_a_pair(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 2)
    scene.place(0, 0, 16)
    scene.place(0, 1, 17)
    for waiting in ((0, 0), (3, 1), (1, 3)):
        scene.fleet.waiting[0] = waiting
        flags = _neighbours(scene, 1, 6.0, False)[0, :, 0, 8]
        assert flags[0] == -flags[1] != 0


@pytest.mark.parametrize("turning", [False, True])
def test_observe_neighbours_stays_in_range_when_rounding_lifts_the_farthest(make_scene: Any, turning: bool) -> None:
    scene = make_scene("S" + "." * 38 + "E", 2)
    largest = 0.0
    for column in range(34):
        scene.place(0, 0, column)
        scene.place(0, 1, column + 6)
        block = _neighbours(scene, 1, 6.0, turning)[0, :, 0]
        assert block[:, 0].tolist() == [1.0, 1.0]
        largest = max(largest, float(np.abs(block).max()))
    assert largest == 1.0


def test_observe_neighbours_shows_last_move_and_next_way_on_the_grid(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 2)
    scene.place(0, 0, 16)
    scene.place(0, 1, 18)
    _send(scene, 1, 23)
    scene.pose.vx[0, 1], scene.pose.vy[0, 1] = 0.0, 1.0
    np.testing.assert_allclose(
        _neighbours(scene, 1, 6.0, False)[0, 0, 0], [1, 2 / 6, 0, 0, 1, 1, 0, 0, 1 - 2], rtol=1e-6
    )


def test_observe_neighbours_shows_relative_velocity_and_way_in_the_body_frame(make_scene: Any) -> None:
    scene = make_scene(FLOOR, 2)
    scene.place(0, 0, 16, heading=np.pi / 2)
    scene.place(0, 1, 18, heading=0.3)
    _send(scene, 1, 23)
    scene.pose.vx[0], scene.pose.vy[0] = (0.0, 1.0), (0.5, 0.0)
    # Seen by a robot that looks up: the other is to its right, comes no nearer ahead, drives away to the right.
    values = _neighbours(scene, 1, 6.0, True)[0, 0, 0]
    np.testing.assert_allclose(values, [1, 0, -2 / 6, -0.5 / 2, -1 / 2, 0, -1, 0, -1], atol=1e-6)


@pytest.mark.parametrize("radius", [1, 2, 3, 4, 5, 6, 7, 8, 20])
def test_observe_window_shows_racks_robots_and_ways_of_others_like_a_full_map(make_scene: Any, radius: int) -> None:
    num_robots = 6
    scene = make_scene(FLOOR, num_robots)
    height, width = scene.layout.height, scene.layout.width
    for robot, cell in enumerate((0, 2, 10, 16, 23, 31)):
        scene.place(0, robot, cell)
        _send(scene, robot, 23 if robot % 2 else 0)
    scene.fleet.alive[0, 3] = False
    maps = make_maps(scene.layout.blocked, radius)
    edge = 2 * radius + 1
    observations = np.full((1, num_robots, 3 * edge**2 + 2), 9.0, np.float32)
    envs = np.ones(1, bool)
    observe_window(scene.fleet, maps, WindowPlace(1, radius), 0, envs, observations)
    assert not maps.values[1:].any()
    for robot in np.flatnonzero(scene.fleet.alive[0]):
        expected = np.zeros((3, height + 2 * radius, width + 2 * radius))
        expected[0] = np.pad(scene.layout.blocked, radius, constant_values=True)
        for other in np.flatnonzero(scene.fleet.alive[0]):
            if other == robot:
                continue
            row, column = divmod(int(scene.fleet.cell[0, other]), width)
            expected[1, row + radius, column + radius] = 1
            for move in range(1, 5):
                if scene.fleet.route[0, other] >> (move - 1) & 1:
                    row, column = divmod(int(scene.floor.moves[scene.fleet.cell[0, other], move]), width)
                    expected[2, row + radius, column + radius] += 0.25
        row, column = divmod(int(scene.fleet.cell[0, robot]), width)
        window = expected[:, row : row + edge, column : column + edge]
        np.testing.assert_array_equal(observations[0, robot, 1:-1].reshape(3, edge, edge), window)
    assert (observations[..., [0, -1]] == 9.0).all()
