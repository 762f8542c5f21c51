"""All that robots and critics see of a running warehouse: calls the kernel of every block that a scenario uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind
from bridge.specs import WorldSpec
from bridge.warehouse.config import (
    BlockConfig,
    DifferentialDriveConfig,
    LidarBlock,
    NeighboursBlock,
    PathBlock,
    TargetBlock,
    WarehouseConfig,
    WindowBlock,
)
from bridge.warehouse.drives.drive_limits import largest_speed
from bridge.warehouse.feature import Feature
from bridge.warehouse.fleet import Fleet, Outcome, Pose, Traits, half_sides
from bridge.warehouse.floor import Floor
from bridge.warehouse.layout import Layout
from bridge.warehouse.sensors.beams import Beams, LidarPlace, make_beams
from bridge.warehouse.sensors.buckets import make_buckets, sort_robots
from bridge.warehouse.sensors.lidar import Walls, make_walls, observe_lidar
from bridge.warehouse.sensors.lidar_rectangles import (
    cut_scans_by_rectangles,
    make_rectangles,
    points_for_rectangles,
)
from bridge.warehouse.sensors.lidar_robots import make_sightings
from bridge.warehouse.sensors.nearest import find_nearest, make_nearest
from bridge.warehouse.sensors.neighbours import NeighbourBlock, make_cards, observe_neighbours, write_cards
from bridge.warehouse.sensors.observation import OwnBlocks, observe_own
from bridge.warehouse.sensors.state import write_state
from bridge.warehouse.sensors.window import WindowMaps, WindowPlace, make_maps, observe_window

__all__ = ["Sensing"]

Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]
Block = TypeVar("Block", bound=BlockConfig)


class Sensing:
    """Writes observations and state from the simulator's arrays.

    Args:
        config: The warehouse.
        layout: Its floor plan.
        spec: Of ``warehouse_spec``.
        floor: Of ``make_floor``.
        fleet: What robots do.
        pose: Where they are.
        outcome: What happened to them in the last step.
        traits: Their footprints.
        features: What adds fields of its own to the observations.
    """

    def __init__(
        self,
        config: WarehouseConfig,
        layout: Layout,
        spec: WorldSpec,
        floor: Floor,
        fleet: Fleet,
        pose: Pose,
        outcome: Outcome,
        traits: Traits,
        features: Sequence[Feature] = (),
    ) -> None:
        self._features = tuple(features)
        self._floor, self._fleet, self._pose = floor, fleet, pose
        self._outcome, self._traits = outcome, traits
        self._turning = config.drive.kind != "grid"
        self._max_speed = largest_speed(config.fastest_drive, layout.cell_size_m)
        self._episode_steps = config.episode_steps
        self._layout = layout
        observation = spec.roles[0].observation
        self._at = {block.name: observation.slice_of(block.name).start for block in observation.blocks}

        self._own = self._make_own(config)
        self._window = self._make_window(_find(config, WindowBlock))
        self._neighbours = self._make_neighbours(_find(config, NeighboursBlock))
        self._sightings = make_sightings()
        self._lidar = self._make_lidar(_find(config, LidarBlock))
        self._rectangles = make_rectangles(*half_sides(config.fleet)) if self._lidar else None
        # Footprints as ``observe_lidar`` takes them, which knows discs alone.
        self._radius_m = traits.radius_m
        if self._rectangles is not None:
            self._radius_m = points_for_rectangles(traits.radius_m, self._rectangles)
        ranges = [self._neighbours.range_m] if self._neighbours else []
        fleet_size = (len(fleet.cell), config.num_robots)
        if self._lidar:
            ranges.append(self._lidar[0].range_m + float(traits.radius_m.max()))
            # As many as a robot seldom has in range; where it has more, it looks at all of them.
            self._in_range = make_nearest(*fleet_size, 4, ranges[-1])
        if self._neighbours:
            block = self._neighbours
            self._cards = make_cards(*fleet_size)
            self._nearest = make_nearest(*fleet_size, block.num_robots, block.range_m)
        self._looks_for_robots = bool(ranges)
        width_m, height_m = layout.width * layout.cell_size_m, layout.height * layout.cell_size_m
        self._buckets = make_buckets(len(fleet.cell), config.num_robots, max(ranges, default=np.inf), width_m, height_m)

    def prepare(self, envs: Bool) -> None:
        """What the blocks of all roles have in common, in the environments of ``envs``; before :meth:`observe`."""
        for kernel, arguments in self._preparations(envs):
            kernel(*arguments)

    def observe(self, first: int, envs: Bool, observations: Float32) -> None:
        """Write the observations of one role.

        Args:
            first: Slot of its first robot on the robot axis.
            envs: (E,) bool, environments to treat.
            observations: (E, A, F) float32, written; zeros where no robot lives.
        """
        for kernel, arguments in self._blocks(first, envs, observations):
            kernel(*arguments)
        for feature in self._features:
            feature.observe(first, envs, observations)

    def write_state(self, steps: NDArray[np.int32], envs: Bool, state: Float32) -> None:
        """Write the global state: (E, S) float32, for the environments of ``envs``."""
        write_state(*self._state_arguments(steps, envs, state))

    def bind_prepare(self, envs: Bool) -> list[Callable[[], None]]:
        """:meth:`prepare` with this very array, as calls."""
        return [bind(kernel, *arguments) for kernel, arguments in self._preparations(envs)]

    def bind_observe(self, first: int, envs: Bool, observations: Float32) -> list[Callable[[], None]]:
        """:meth:`observe` with these very arrays, as calls."""
        calls = [bind(kernel, *arguments) for kernel, arguments in self._blocks(first, envs, observations)]
        return calls + [partial(feature.observe, first, envs, observations) for feature in self._features]

    def bind_write_state(self, steps: NDArray[np.int32], envs: Bool, state: Float32) -> Callable[[], None]:
        """:meth:`write_state` with these very arrays."""
        return bind(write_state, *self._state_arguments(steps, envs, state))

    def _preparations(self, envs: Bool) -> Iterator[tuple[Callable[..., None], Any]]:
        if self._looks_for_robots:
            yield sort_robots, (self._pose, self._fleet.alive, envs, self._buckets)
        if self._neighbours is not None:
            yield write_cards, (self._fleet, self._pose, self._neighbours, self._turning, envs, self._cards)
            yield find_nearest, (self._pose, self._buckets, envs, self._nearest)
        if self._lidar is not None:
            yield find_nearest, (self._pose, self._buckets, envs, self._in_range)

    def _blocks(self, first: int, envs: Bool, observations: Float32) -> Iterator[tuple[Callable[..., None], Any]]:
        """The kernels of the blocks of one role, and their arguments."""
        floor, fleet, pose, turning = self._floor, self._fleet, self._pose, self._turning
        yield observe_own, (floor, fleet, pose, self._outcome, self._own, turning, first, envs, observations)
        if self._window is not None:
            place, maps = self._window
            yield observe_window, (fleet, maps, place, first, envs, observations)
        if self._neighbours is not None:
            block, seen = self._neighbours, (fleet.alive, pose, self._nearest, self._cards)
            yield observe_neighbours, (*seen, block, turning, first, envs, observations)
        if self._lidar is not None:
            lidar, walls, beams = self._lidar
            radius, buckets, where = self._radius_m, self._buckets, (beams, lidar, first, envs, observations)
            yield observe_lidar, (fleet, pose, radius, walls, buckets, self._in_range, self._sightings, *where)
            if self._rectangles is not None:
                yield cut_scans_by_rectangles, (fleet.alive, pose, self._rectangles, buckets, *where)

    def _state_arguments(self, steps: NDArray[np.int32], envs: Bool, state: Float32) -> tuple[Any, ...]:
        return self._floor, self._fleet, self._pose, steps, self._episode_steps, self._max_speed, envs, state

    def _make_own(self, config: WarehouseConfig) -> OwnBlocks:
        target, path = _find(config, TargetBlock), _find(config, PathBlock)
        return OwnBlocks(
            self_at=self._at.get("self", -1),
            target_at=self._at.get("target", -1),
            path_at=self._at.get("path", -1),
            target_range_m=float(target.range_m) if target else 1.0,
            path_range_m=float(path.range_m) if path else 1.0,
            max_speed=self._max_speed,
            max_turn_rate=_largest_turn_rate(config),
            cell_after=np.zeros(config.num_robots, np.int32),
        )

    def _make_window(self, block: WindowBlock | None) -> tuple[WindowPlace, WindowMaps] | None:
        if block is None:
            return None
        return WindowPlace(self._at["window"], block.radius), make_maps(self._layout.blocked, block.radius)

    def _make_neighbours(self, block: NeighboursBlock | None) -> NeighbourBlock | None:
        if block is None:
            return None
        scale = 2.0 * self._max_speed if self._turning else self._max_speed
        return NeighbourBlock(self._at["neighbours"], block.count, float(block.range_m), scale)

    def _make_lidar(self, block: LidarBlock | None) -> tuple[LidarPlace, Walls, Beams] | None:
        if block is None:
            return None
        place = LidarPlace(self._at["lidar"], block.beams, float(block.range_m))
        return place, make_walls(self._layout, block.range_m), make_beams(block.beams)


def _largest_turn_rate(config: WarehouseConfig) -> float:
    drive = config.fastest_drive
    if isinstance(drive, DifferentialDriveConfig):
        return float(drive.max_turn_rate_radps)
    return 0.5 * math.pi / drive.step_s


def _find(config: WarehouseConfig, kind: type[Block]) -> Block | None:
    return next((block for block in config.observation if isinstance(block, kind)), None)
