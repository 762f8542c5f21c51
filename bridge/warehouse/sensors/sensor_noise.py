"""Noise and drop-out of what robots see; the simulated truth stays as it is, and with it the state for critics.

Everything is disturbed after the blocks are written. A beam that sees nothing stays so, and one that is dropped sees
nothing.

A robot takes itself to be somewhere else: one error per step, normal and independent along both axes, moves all that
it works out from its position. These are the block ``position``, offset, bearing and distance in ``target``, and in
``path`` the bearings of the way-points and the way to the first of them, as a part of the length. The cell is known, as
by a mark on the floor: moves in ``path`` and ``window``, which way-points come next, and ``speed_limit`` stay. Offsets
in ``neighbours`` are measured from robot to robot and have errors of their own, as beams have. Headings are exact.

Odometry errs in ``self``: speed and turn rate, by shares of their largest values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.warehouse.config import (
    BlockConfig,
    LidarBlock,
    NeighboursBlock,
    PathBlock,
    PositionBlock,
    TargetBlock,
)
from bridge.warehouse.config_randomisation import RandomisationConfig
from bridge.warehouse.feature import Feature, Parts
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.floor import Floor, cell_after_next
from bridge.warehouse.random_streams import Purpose, uniform
from bridge.warehouse.sensors.neighbours import NEIGHBOUR_FIELDS

__all__ = ["NoisyBlocks", "SensorNoise", "disturb_observations"]

Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
UInt64 = NDArray[np.uint64]

_NEIGHBOUR_SIZE = len(NEIGHBOUR_FIELDS)


class NoisyBlocks(NamedTuple):
    """Where the disturbed blocks lie (-1: not disturbed), their sizes, and the errors over their ranges."""

    lidar_at: int
    num_beams: int
    lidar_noise: float
    lidar_dropout: float
    target_at: int
    target_range_m: float
    turning: bool
    neighbours_at: int
    num_neighbours: int
    neighbour_noise: float
    neighbour_dropout: float
    path_at: int
    path_range_m: float
    place_at: int
    place_range_m: float
    position_noise_m: float
    self_at: int
    odometry_noise: float


class SensorNoise(Feature):
    """Disturbs the observations of all robots.

    Args:
        parts: The simulator's arrays.
        config: How much.
    """

    def __init__(self, parts: Parts, config: RandomisationConfig) -> None:
        self._parts = parts
        layout = parts.spec.roles[0].observation
        blocks: dict[str, BlockConfig] = {block.block: block for block in parts.config.observation}
        lidar, target, neighbours = (blocks.get(name) for name in ("lidar", "target", "neighbours"))
        path, place = blocks.get("path"), blocks.get("position")
        noise_m = config.position_noise_m
        turning = parts.config.drive.kind != "grid"
        self._blocks = NoisyBlocks(
            lidar_at=layout.slice_of("lidar").start if lidar is not None else -1,
            num_beams=lidar.beams if isinstance(lidar, LidarBlock) else 0,
            lidar_noise=config.lidar_noise_m / lidar.range_m if isinstance(lidar, LidarBlock) else 0.0,
            lidar_dropout=float(config.lidar_dropout),
            target_at=layout.slice_of("target").start if target is not None else -1,
            target_range_m=float(target.range_m) if isinstance(target, TargetBlock) else 1.0,
            turning=turning,
            neighbours_at=layout.slice_of("neighbours").start if neighbours is not None else -1,
            num_neighbours=neighbours.count if isinstance(neighbours, NeighboursBlock) else 0,
            neighbour_noise=noise_m / neighbours.range_m if isinstance(neighbours, NeighboursBlock) else 0.0,
            neighbour_dropout=float(config.neighbour_dropout),
            path_at=layout.slice_of("path").start if path is not None and turning else -1,
            path_range_m=float(path.range_m) if isinstance(path, PathBlock) else 1.0,
            place_at=layout.slice_of("position").start if place is not None else -1,
            place_range_m=float(place.range_m) if isinstance(place, PositionBlock) else 1.0,
            position_noise_m=float(noise_m),
            self_at=layout.slice_of("self").start if config.odometry_noise > 0.0 else -1,
            odometry_noise=float(config.odometry_noise),
        )

    def observe(self, first: int, envs: Bool, observations: Float32) -> None:
        """Disturb the observations of one role."""
        parts, keys = self._parts, self._parts.keys
        disturb_observations(
            self._blocks,
            parts.floor,
            parts.fleet,
            parts.pose,
            keys[Purpose.LIDAR_NOISE],
            keys[Purpose.LIDAR_DROPOUT],
            keys[Purpose.POSITION_NOISE],
            keys[Purpose.NEIGHBOUR_DROPOUT],
            keys[Purpose.ODOMETRY_NOISE],
            parts.steps,
            first,
            envs,
            observations,
        )


@lean_kernel
def disturb_observations(
    blocks: NoisyBlocks,
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    lidar_keys: UInt64,
    beam_keys: UInt64,
    position_keys: UInt64,
    neighbour_keys: UInt64,
    odometry_keys: UInt64,
    steps: Int32,
    first: int,
    envs: Bool,
    observations: Float32,
) -> None:
    """Disturb the observations of one role.

    Args:
        blocks: What, where and how much.
        floor: The floor plan.
        fleet: Who lives, and where its way leads.
        pose: Where robots are.
        lidar_keys: (E,) uint64, stream of the beams' errors.
        beam_keys: (E,) uint64, stream of the dropped beams.
        position_keys: (E,) uint64, stream of the errors of positions and neighbours.
        neighbour_keys: (E,) uint64, stream of the dropped neighbours.
        odometry_keys: (E,) uint64, stream of the errors of speed and turn rate.
        steps: (E,) int32, steps since the start of the episode.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, changed.
    """
    num_robots = fleet.alive.shape[1]
    for env in range(len(envs)):
        for slot in range(observations.shape[1]):
            if not envs[env] or not fleet.alive[env, first + slot]:
                continue
            row = observations[env, slot]
            look = int(steps[env]) * num_robots + first + slot
            if blocks.lidar_at >= 0 and (blocks.lidar_noise > 0.0 or blocks.lidar_dropout > 0.0):
                _disturb_lidar(blocks, lidar_keys[env], beam_keys[env], look, row)
            counter = look * (blocks.num_neighbours + 1)
            if blocks.position_noise_m > 0.0 and max(blocks.target_at, blocks.path_at, blocks.place_at) >= 0:
                dx = blocks.position_noise_m * _normal(position_keys[env], counter, True)
                dy = blocks.position_noise_m * _normal(position_keys[env], counter, False)
                _disturb_place(blocks, pose, env, first + slot, dx, dy, row)
                if blocks.target_at >= 0 and fleet.goal[env, first + slot] >= 0:
                    _disturb_target(blocks, floor, fleet, pose, env, first + slot, dx, dy, row)
                if blocks.path_at >= 0 and fleet.goal[env, first + slot] >= 0:
                    _disturb_path(blocks, floor, fleet, pose, env, first + slot, dx, dy, row)
            if blocks.self_at >= 0:
                for index in range(2):
                    error = blocks.odometry_noise * _normal(odometry_keys[env], look, index == 0)
                    row[blocks.self_at + index] = min(max(row[blocks.self_at + index] + error, -1.0), 1.0)
            if blocks.neighbours_at >= 0:
                _disturb_neighbours(blocks, position_keys[env], neighbour_keys[env], counter, row)


@kernel_part
def _normal(key: np.uint64, counter: int, along_x: bool) -> float:
    """One of the two independent standard normal numbers of a counter (Box and Muller 1958)."""
    radius = np.sqrt(-2.0 * np.log(1.0 - uniform(key, 2 * counter)))
    angle = 2.0 * np.pi * uniform(key, 2 * counter + 1)
    return float(radius * (np.cos(angle) if along_x else np.sin(angle)))


@kernel_part
def _disturb_lidar(blocks: NoisyBlocks, noise_key: np.uint64, drop_key: np.uint64, look: int, row: Float32) -> None:
    for beam in range(blocks.num_beams):
        counter = look * blocks.num_beams + beam
        value = float(row[blocks.lidar_at + beam])
        if blocks.lidar_noise > 0.0 and value < 1.0:
            value = min(max(value + blocks.lidar_noise * _normal(noise_key, counter, True), 0.0), 1.0)
        if blocks.lidar_dropout > 0.0 and uniform(drop_key, counter) < blocks.lidar_dropout:
            value = 1.0
        row[blocks.lidar_at + beam] = value


@kernel_part
def _disturb_target(
    blocks: NoisyBlocks,
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    env: int,
    robot: int,
    dx: float,
    dy: float,
    row: Float32,
) -> None:
    """Move the offset of the target by an error in the body frame; what is out of range is cut afterwards."""
    at, cell = blocks.target_at, floor.goal_cell[fleet.goal[env, robot]]
    x, y = floor.x[cell] - pose.x[env, robot], floor.y[cell] - pose.y[env, robot]
    cos, sin = (pose.cos[env, robot], pose.sin[env, robot]) if blocks.turning else (1.0, 0.0)
    ahead, left = cos * x + sin * y + dx, cos * y - sin * x + dy
    distance = np.sqrt(ahead * ahead + left * left)
    scale = 1.0 / (max(distance, 1e-9) if blocks.turning else blocks.target_range_m)
    row[at] = min(max(ahead * scale, -1.0), 1.0)
    row[at + 1] = min(max(left * scale, -1.0), 1.0)
    row[at + 2] = min(distance / blocks.target_range_m, 1.0)


@kernel_part
def _disturb_place(blocks: NoisyBlocks, pose: Pose, env: int, robot: int, dx: float, dy: float, row: Float32) -> None:
    """The other way round than offsets: who sees its target further ahead takes itself to be further back."""
    if blocks.place_at < 0:
        return
    cos, sin = (pose.cos[env, robot], pose.sin[env, robot]) if blocks.turning else (1.0, 0.0)
    x = pose.x[env, robot] - (cos * dx - sin * dy)
    y = pose.y[env, robot] - (sin * dx + cos * dy)
    row[blocks.place_at] = min(max(x / blocks.place_range_m, 0.0), 1.0)
    row[blocks.place_at + 1] = min(max(y / blocks.place_range_m, 0.0), 1.0)


@kernel_part
def _disturb_path(
    blocks: NoisyBlocks,
    floor: Floor,
    fleet: Fleet,
    pose: Pose,
    env: int,
    robot: int,
    dx: float,
    dy: float,
    row: Float32,
) -> None:
    """Move the way-points, of which the block has the bearings, by an error in the body frame."""
    at, goal, route = blocks.path_at, fleet.goal[env, robot], fleet.route[env, robot]
    cos, sin = pose.cos[env, robot], pose.sin[env, robot]
    x, y = fleet.way_x[env, robot], fleet.way_y[env, robot]
    for point in range(2):
        if point == 1 and route >> 4 >= 1:
            cell = cell_after_next(floor, goal, fleet.cell[env, robot], route)
            x, y = floor.x[cell], floor.y[cell]
        from_x, from_y = x - pose.x[env, robot], y - pose.y[env, robot]
        ahead, left = cos * from_x + sin * from_y + dx, cos * from_y - sin * from_x + dy
        length = np.sqrt(ahead * ahead + left * left)
        row[at + 2 * point] = ahead / max(length, 1e-9)
        row[at + 2 * point + 1] = left / max(length, 1e-9)
        # A way out of range stays so.
        if point == 0 and row[at + 4] < 1.0:
            longer = (length - np.sqrt(from_x * from_x + from_y * from_y)) / blocks.path_range_m
            row[at + 4] = min(max(row[at + 4] + longer, 0.0), 1.0)


@kernel_part
def _disturb_neighbours(
    blocks: NoisyBlocks, noise_key: np.uint64, drop_key: np.uint64, counter: int, row: Float32
) -> None:
    for place in range(blocks.num_neighbours):
        at = blocks.neighbours_at + place * _NEIGHBOUR_SIZE
        if row[at] == 0.0:
            continue
        if blocks.neighbour_dropout > 0.0 and uniform(drop_key, counter + 1 + place) < blocks.neighbour_dropout:
            row[at : at + _NEIGHBOUR_SIZE] = 0.0
        elif blocks.neighbour_noise > 0.0:
            for axis in range(2):
                error = blocks.neighbour_noise * _normal(noise_key, counter + 1 + place, axis == 0)
                row[at + 1 + axis] = min(max(row[at + 1 + axis] + error, -1.0), 1.0)
