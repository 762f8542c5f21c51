"""Noise and drop-out of what robots see; the simulated truth stays as it is.

Beams and offsets are disturbed after the blocks are written. A beam that sees
nothing stays so, and one that is dropped sees nothing. The offsets in the
blocks ``target`` and ``neighbours`` move by independent normal errors along
both axes; bearings and distance of a target follow. The block ``path`` is read
off the map and keeps its values.
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
    TargetBlock,
)
from bridge.warehouse.config_randomisation import RandomisationConfig
from bridge.warehouse.feature import Feature, Parts
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
    target_size: int
    target_noise: float
    turning: bool
    neighbours_at: int
    num_neighbours: int
    neighbour_noise: float
    neighbour_dropout: float


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
        noise_m = config.position_noise_m
        self._blocks = NoisyBlocks(
            lidar_at=layout.slice_of("lidar").start if lidar is not None else -1,
            num_beams=lidar.beams if isinstance(lidar, LidarBlock) else 0,
            lidar_noise=config.lidar_noise_m / lidar.range_m if isinstance(lidar, LidarBlock) else 0.0,
            lidar_dropout=float(config.lidar_dropout),
            target_at=layout.slice_of("target").start if target is not None else -1,
            target_size=layout.slice_of("target").stop - layout.slice_of("target").start if target is not None else 0,
            target_noise=noise_m / target.range_m if isinstance(target, TargetBlock) else 0.0,
            turning=parts.config.drive.kind != "grid",
            neighbours_at=layout.slice_of("neighbours").start if neighbours is not None else -1,
            num_neighbours=neighbours.count if isinstance(neighbours, NeighboursBlock) else 0,
            neighbour_noise=noise_m / neighbours.range_m if isinstance(neighbours, NeighboursBlock) else 0.0,
            neighbour_dropout=float(config.neighbour_dropout),
        )

    def observe(self, first: int, envs: Bool, observations: Float32) -> None:
        """Disturb the observations of one role."""
        parts, keys = self._parts, self._parts.keys
        disturb_observations(
            self._blocks,
            parts.fleet.alive,
            keys[Purpose.LIDAR_NOISE],
            keys[Purpose.LIDAR_DROPOUT],
            keys[Purpose.POSITION_NOISE],
            keys[Purpose.NEIGHBOUR_DROPOUT],
            parts.steps,
            first,
            envs,
            observations,
        )


@lean_kernel
def disturb_observations(
    blocks: NoisyBlocks,
    alive: Bool,
    lidar_keys: UInt64,
    beam_keys: UInt64,
    position_keys: UInt64,
    neighbour_keys: UInt64,
    steps: Int32,
    first: int,
    envs: Bool,
    observations: Float32,
) -> None:
    """Disturb the observations of one role.

    Args:
        blocks: What, where and how much.
        alive: (E, N) bool.
        lidar_keys: (E,) uint64, stream of the beams' errors.
        beam_keys: (E,) uint64, stream of the dropped beams.
        position_keys: (E,) uint64, stream of the offsets' errors.
        neighbour_keys: (E,) uint64, stream of the dropped neighbours.
        steps: (E,) int32, steps since the start of the episode.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, changed.
    """
    num_robots = alive.shape[1]
    for env in range(len(envs)):
        for slot in range(observations.shape[1]):
            if not envs[env] or not alive[env, first + slot]:
                continue
            row = observations[env, slot]
            look = int(steps[env]) * num_robots + first + slot
            if blocks.lidar_at >= 0 and (blocks.lidar_noise > 0.0 or blocks.lidar_dropout > 0.0):
                _disturb_lidar(blocks, lidar_keys[env], beam_keys[env], look, row)
            counter = look * (blocks.num_neighbours + 1)
            if blocks.target_at >= 0 and blocks.target_noise > 0.0:
                _disturb_target(blocks, position_keys[env], counter, row)
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
def _disturb_target(blocks: NoisyBlocks, key: np.uint64, counter: int, row: Float32) -> None:
    """Move the offset of the target; a robot without one sees zeros."""
    at = blocks.target_at
    has_target = False
    for index in range(blocks.target_size):
        has_target = has_target or row[at + index] != 0.0
    if not has_target:
        return
    scale = float(row[at + 2]) if blocks.turning else 1.0
    dx = row[at] * scale + blocks.target_noise * _normal(key, counter, True)
    dy = row[at + 1] * scale + blocks.target_noise * _normal(key, counter, False)
    distance = np.sqrt(dx * dx + dy * dy)
    scale = 1.0 / max(distance, 1e-9) if blocks.turning else 1.0
    row[at] = min(max(dx * scale, -1.0), 1.0)
    row[at + 1] = min(max(dy * scale, -1.0), 1.0)
    row[at + 2] = min(distance, 1.0)


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
