"""The lidar among rectangles, against a plain caster of rays onto line segments, in whole simulators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import RoleConfig
from bridge.warehouse.fleet import half_sides
from bridge.warehouse.sensors.beams import LidarPlace, make_beams
from bridge.warehouse.sensors.buckets import make_buckets, sort_robots
from bridge.warehouse.sensors.lidar import make_walls, observe_lidar
from bridge.warehouse.sensors.lidar_rectangles import make_rectangles
from bridge.warehouse.sensors.lidar_robots import make_sightings
from bridge.warehouse.sensors.nearest import find_nearest, make_nearest
from bridge.warehouse.simulator import WarehouseSimulator

HALL = """
....................
.S..##.....##.......
....##.....##.......
....................
.......##.........E.
.......##...........
....................
"""
FORKLIFT = {"role": "forklift", "count": 5, "length_m": 0.9, "width_m": 0.5}
TUGGER = {"role": "tugger", "count": 4, "length_m": 0.4, "width_m": 0.7}
CARRIER = {"role": "carrier", "count": 4, "radius_m": 0.3}

Segment = tuple[float, float, float, float]


def _simulator(
    make_warehouse: Any, *fleet: dict[str, Any], num_envs: int = 1, beams: int = 36, range_m: float = 6.0, **more: Any
) -> WarehouseSimulator:
    config, layout = make_warehouse(
        HALL,
        cell_size_m=1.2,
        fleet=tuple(RoleConfig.model_validate(role) for role in fleet),
        drive={"kind": "differential"},
        observation=({"block": "self"}, {"block": "lidar", "beams": beams, "range_m": range_m}),
        randomisation={"start": "anywhere"},
        **more,
    )
    return WarehouseSimulator(config, layout, num_envs)


def _scatter(simulator: WarehouseSimulator, rng: np.random.Generator) -> None:
    """All robots anywhere in free cells, one in each, facing anywhere: sides and corners may come close."""
    pose, fleet, layout = simulator._pose, simulator._fleet, simulator.layout
    size, free = layout.cell_size_m, np.flatnonzero(~layout.blocked.ravel())
    for env in range(len(fleet.cell)):
        cells = rng.choice(free, fleet.cell.shape[1], replace=False)
        fleet.cell[env] = cells
        # Up to the border of the cell for the centre of a robot, not for its footprint.
        pose.x[env] = (cells % layout.width + rng.uniform(0.3, 0.7, len(cells))) * size
        pose.y[env] = (layout.height - cells // layout.width - rng.uniform(0.3, 0.7, len(cells))) * size
        pose.heading[env] = rng.uniform(-np.pi, np.pi, len(cells))
    pose.cos[:], pose.sin[:] = np.cos(pose.heading), np.sin(pose.heading)


def _scans(simulator: WarehouseSimulator) -> np.ndarray:
    """(E, N, beams) in [0, 1], seen by the robots where they are now."""
    everywhere = np.ones(len(simulator._fleet.cell), bool)
    simulator._sensing.prepare(everywhere)
    seen = []
    for role, values, slots in simulator._roles:
        values.observations[:] = 0.0
        simulator._sensing.observe(slots.start, everywhere, values.observations)
        seen.append(values.observations[..., role.observation.slice_of("lidar")])
    return np.concatenate(seen, axis=1)


def _outline(x: float, y: float, heading: float, half_length: float, half_width: float) -> list[Segment]:
    corners = []
    for ahead, left in ((1, 1), (-1, 1), (-1, -1), (1, -1)):
        along, across = ahead * half_length, left * half_width
        corners.append(
            (
                x + along * math.cos(heading) - across * math.sin(heading),
                y + along * math.sin(heading) + across * math.cos(heading),
            )
        )
    return [(*corners[k], *corners[(k + 1) % 4]) for k in range(4)]


def _to_segment(x: float, y: float, angle: float, segment: Segment) -> float:
    """Way from a point at an angle until it crosses a segment; infinite if it does not."""
    ux, uy = math.cos(angle), math.sin(angle)
    ax, ay, bx, by = segment
    ex, ey = bx - ax, by - ay
    across = ux * ey - uy * ex
    if abs(across) < 1e-12:
        return math.inf
    way = ((ax - x) * ey - (ay - y) * ex) / across
    share = ((ax - x) * uy - (ay - y) * ux) / across
    return way if way >= 0.0 and 0.0 <= share <= 1.0 else math.inf


def _to_disc(x: float, y: float, angle: float, disc: tuple[float, float, float]) -> float:
    dx, dy, radius = disc[0] - x, disc[1] - y, disc[2]
    along, across = dx * math.cos(angle) + dy * math.sin(angle), dx * math.sin(angle) - dy * math.cos(angle)
    return along - math.sqrt(radius**2 - across**2) if along > 0.0 and abs(across) <= radius else math.inf


def _expected(simulator: WarehouseSimulator, env: int, robot: int, beams: int, grown_m: float) -> np.ndarray:
    """(beams,) m, without the limit of the range; everything is larger by ``grown_m`` to each side."""
    layout, pose = simulator.layout, simulator._pose
    size, width_m, height_m = layout.cell_size_m, layout.width * layout.cell_size_m, layout.height * layout.cell_size_m
    segments = _outline(width_m / 2, height_m / 2, 0.0, width_m / 2 - grown_m, height_m / 2 - grown_m)
    for row, column in np.argwhere(layout.blocked).tolist():
        middle = (column + 0.5) * size, height_m - (row + 0.5) * size
        segments += _outline(*middle, 0.0, size / 2 + grown_m, size / 2 + grown_m)
    discs = []
    roles = [role for role in simulator.config.fleet for _ in range(role.count)]
    for other, role in enumerate(roles):
        if other == robot or not simulator._fleet.alive[env, other]:
            continue
        at = float(pose.x[env, other]), float(pose.y[env, other])
        if role.length_m is None:
            discs.append((*at, role.radius_m + grown_m))
        else:
            half_length, half_width = role.half_sides_m
            segments += _outline(*at, pose.heading[env, other], half_length + grown_m, half_width + grown_m)
    x, y = float(pose.x[env, robot]), float(pose.y[env, robot])
    angles = [pose.heading[env, robot] + 2 * math.pi * beam / beams for beam in range(beams)]
    return np.array(
        [
            min([_to_segment(x, y, angle, s) for s in segments] + [_to_disc(x, y, angle, d) for d in discs])
            for angle in angles
        ]
    )


@pytest.mark.parametrize(
    ("fleet", "beams", "range_m"),
    [
        ((FORKLIFT, TUGGER), 36, 6.0),
        ((FORKLIFT, CARRIER, TUGGER), 36, 6.0),
        ((CARRIER, FORKLIFT), 61, 2.5),
        ((CARRIER, FORKLIFT), 4, 40.0),
    ],
)
def test_lidar_meets_the_sides_of_rectangles_among_racks_and_discs(
    make_warehouse: Any, fleet: tuple[dict[str, Any], ...], beams: int, range_m: float
) -> None:
    num_envs = 6
    simulator = _simulator(make_warehouse, *fleet, num_envs=num_envs, beams=beams, range_m=range_m)
    simulator.reset(seed=1)
    rng = np.random.default_rng(beams)
    for _ in range(2):
        _scatter(simulator, rng)
        simulator._fleet.alive[:] = True
        simulator._fleet.alive[1, 2] = False
        hits = _scans(simulator) * range_m
        assert (hits[1, 2] == 0.0).all()
        for env, robot in np.argwhere(simulator._fleet.alive).tolist():
            # A beam that only grazes something may meet it or not, so the truth is a span.
            nearest = np.minimum(_expected(simulator, env, robot, beams, 1e-5), range_m)
            farthest = np.minimum(_expected(simulator, env, robot, beams, -1e-5), range_m)
            assert (hits[env, robot] >= nearest - 2e-3).all()
            assert (hits[env, robot] <= farthest + 2e-3).all()
            # As good as everywhere it is a narrow one.
            assert np.mean(farthest - nearest < 1e-3) > 0.9
    simulator.close()


def test_lidar_sees_less_of_a_rectangle_than_of_the_disc_around_it(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, {**FORKLIFT, "count": 2}, beams=4)
    simulator.reset(seed=1)
    pose, fleet = simulator._pose, simulator._fleet
    fleet.cell[0] = [3 * 20 + 1, 3 * 20 + 3]
    pose.x[0], pose.y[0] = [1.8, 4.2], [4.2, 4.2]
    for heading, front in ((0.0, 0.45), (np.pi / 2, 0.25), (np.pi / 4, 0.25 * math.sqrt(2.0))):
        pose.heading[0] = [0.0, heading]
        pose.cos[0], pose.sin[0] = np.cos(pose.heading[0]), np.sin(pose.heading[0])
        assert _scans(simulator)[0, 0, 0] * 6.0 == pytest.approx(2.4 - front, abs=1e-5)
    simulator.close()


def test_lidar_of_a_rectangle_is_measured_from_its_centre_and_does_not_see_itself(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, {**FORKLIFT, "count": 1}, beams=4)
    simulator.reset(seed=1)
    simulator._fleet.cell[0] = 3 * 20 + 1
    simulator._pose.x[0], simulator._pose.y[0] = 1.8, 4.2
    simulator._pose.cos[0], simulator._pose.sin[0] = 1.0, 0.0
    np.testing.assert_allclose(_scans(simulator)[0, 0] * 6.0, [6.0, 4.2, 1.8, 4.2], atol=1e-5)
    simulator.close()


def test_lidar_of_discs_alone_is_that_of_its_kernel_bit_for_bit(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, {**CARRIER, "count": 14}, num_envs=3)
    simulator.reset(seed=1)
    _scatter(simulator, np.random.default_rng(3))
    scans = _scans(simulator)
    kernels = [
        kernel for kernel, *_ in simulator._sensing._blocks(0, np.ones(3, bool), simulator._roles[0][1].observations)
    ]
    assert kernels.count(observe_lidar) == 1
    assert len(kernels) == 2  # and what a robot sees of itself
    assert make_rectangles(*half_sides(simulator.config.fleet)) is None
    layout, alive = simulator.layout, simulator._fleet.alive
    buckets = make_buckets(3, 14, 6.3, layout.width * 1.2, layout.height * 1.2)
    everywhere, radius = np.ones(3, bool), np.full(14, 0.3)
    sort_robots(simulator._pose, alive, everywhere, buckets)
    nearest = make_nearest(3, 14, 4, 6.3)
    find_nearest(simulator._pose, buckets, everywhere, nearest)
    expected = np.zeros((3, 14, 36), np.float32)
    observe_lidar(
        simulator._fleet,
        simulator._pose,
        radius,
        make_walls(layout, 6.0),
        buckets,
        nearest,
        make_sightings(),
        make_beams(36),
        LidarPlace(0, 36, 6.0),
        0,
        everywhere,
        expected,
    )
    np.testing.assert_array_equal(scans, expected)
    simulator.close()


def test_lidar_of_discs_does_not_change_for_rectangles_that_are_off_the_floor(make_warehouse: Any) -> None:
    scans = []
    for fleet in ((CARRIER,), (CARRIER, FORKLIFT)):
        simulator = _simulator(make_warehouse, *fleet, num_envs=3)
        simulator.reset(seed=1)
        places = np.random.default_rng(3)
        simulator._fleet.alive[:, 4:] = False
        for env in range(3):
            simulator._pose.x[env, :4] = 1.2 * (np.arange(4) * 4 + places.uniform(0.3, 0.7, 4))
            simulator._pose.y[env, :4] = 1.2 * (3 + places.uniform(0.3, 0.7, 4))
            simulator._fleet.cell[env, :4] = 3 * 20 + np.arange(4) * 4
        scans.append(_scans(simulator)[:, :4])
        simulator.close()
    np.testing.assert_array_equal(*scans)
    assert scans[0].min() < 0.5
