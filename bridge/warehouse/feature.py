"""Parts of a warehouse that a scenario may leave out, and then does not pay for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.specs import WorldSpec
from bridge.warehouse.config import DifferentialDriveConfig, WarehouseConfig
from bridge.warehouse.drives.drive_limits import DriveLimits, make_limits
from bridge.warehouse.fleet import Fleet, Outcome, Pose, TaskPool, Traits
from bridge.warehouse.floor import Floor
from bridge.warehouse.layout import Layout

__all__ = [
    "HELD_CHARGING",
    "HELD_DELAYED",
    "HELD_HELPING",
    "HELD_SERVED",
    "HELD_SLOW",
    "HELD_STOPPED",
    "OFF_CHARGING",
    "OFF_PICKING",
    "OFF_RESTING",
    "OFF_STRANDED",
    "Feature",
    "Parts",
]

Bool = NDArray[np.bool_]

# Bits of ``Fleet.held``.
HELD_SERVED: Final = 1
HELD_DELAYED: Final = 2
HELD_STOPPED: Final = 4
HELD_SLOW: Final = 8
HELD_HELPING: Final = 16
HELD_CHARGING: Final = 32

# Bits of ``Fleet.off_duty``.
OFF_CHARGING: Final = 1
OFF_RESTING: Final = 2
OFF_PICKING: Final = 4
OFF_STRANDED: Final = 8


@dataclass(frozen=True)
class Parts:
    """The arrays of a simulator, which its features read and write.

    Attributes:
        config: The warehouse.
        layout: Its floor plan.
        spec: What it looks like.
        floor: The floor plan, prepared for kernels.
        traits: What is fixed about each robot.
        fleet: What robots do.
        pose: Where they are.
        outcome: What happened to them in the last step.
        pool: Tasks that wait.
        keys: (purpose, E) uint64, random streams of the running episodes.
        steps: (E,) int32, steps of the running episodes.
        moves: (E, N) int32, moves of robots that move from cell to cell.
        commands: (E, N, 2) float32, commands of robots that drive.
        step_s: Simulated time of a step.
        radius_m: How near to the centre of a station counts as there; negative: in its cell.
    """

    config: WarehouseConfig
    layout: Layout
    spec: WorldSpec
    floor: Floor
    traits: Traits
    fleet: Fleet
    pose: Pose
    outcome: Outcome
    pool: TaskPool
    keys: NDArray[np.uint64]
    steps: NDArray[np.int32]
    moves: NDArray[np.int32]
    commands: NDArray[np.float32]
    step_s: float
    radius_m: float

    @cached_property
    def limits(self) -> DriveLimits:
        """Limits and options of differential drive; always the same arrays."""
        drive, random = self.config.drive, self.config.randomisation
        assert isinstance(drive, DifferentialDriveConfig), "asked for by what drives"
        if random is None or min(random.min_speed_factor, random.min_traction_factor) == 1.0:
            return make_limits(drive, self.config.fleet)
        return make_limits(drive, self.config.fleet, len(self.steps), random.min_traction_factor)

    def column(self, block: str, field: str) -> int:
        """Place of a field in the observations; -1 if they have no such block."""
        layout = self.spec.roles[0].observation
        for found in layout.blocks:
            if found.name == block:
                return int(layout.slice_of(block).start) + found.fields.index(field)
        return -1


class Feature:
    """What happens when; every method does nothing unless a feature says otherwise."""

    def begin(self, envs: Bool) -> None:
        """Start an episode in the environments of ``envs``: (E,) bool; robots stand, nobody has a task yet."""

    def before_motion(self) -> None:
        """Actions were taken; robots that are not held carry them out next."""

    def before_service(self) -> None:
        """Robots have moved; those at their stations are served next, unless ``Fleet.in_service`` says not yet."""

    def after_service(self) -> None:
        """Robots have moved, were served, left and came back; tasks are handed out next."""

    def observe(self, first: int, envs: Bool, observations: NDArray[np.float32]) -> None:
        """Write the feature's fields of one role's observations.

        Args:
            first: Slot of the role's first robot on the robot axis.
            envs: (E,) bool, environments to treat.
            observations: (E, A, F) float32, written where a robot lives.
        """

    def clear_figures(self, envs: Bool) -> None:
        """Forget what has been counted in the environments of ``envs``: (E,) bool."""

    def figures(self, envs: Bool) -> NDArray[np.float64]:
        """Values of the feature's metrics in the environments of ``envs``: (environments, metrics) float64."""
        return np.zeros((int(envs.sum()), 0))
