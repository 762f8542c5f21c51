"""How robots move: the ``drive:`` section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from bridge.warehouse.section import Section

__all__ = [
    "LIMIT_NAMES",
    "DifferentialDriveConfig",
    "DriveConfig",
    "GridConfig",
    "HeadingGridConfig",
    "ProtectiveFieldConfig",
    "fastest_of",
]


class GridConfig(Section):
    """Robots move from cell to cell: stay, up, right, down, left."""

    kind: Literal["grid"] = "grid"
    step_s: float = Field(1.0, ge=0.001, le=60, description="Simulated time of one step in s.")


class HeadingGridConfig(Section):
    """Robots face one of four sides: stay, one cell forward, or a quarter turn to the left or right."""

    kind: Literal["grid_heading"] = "grid_heading"
    step_s: float = Field(1.0, ge=0.001, le=60, description="Simulated time of one step in s.")


class ProtectiveFieldConfig(Section):
    """A robot's own safety, whatever it is told: it sees how far its way straight on is free, and can always stop."""

    margin_m: float = Field(0.1, ge=0, le=10, description="Gap in m that is left to what it stops for.")


class DifferentialDriveConfig(Section):
    """Robots are driven by forward speed v and turn rate omega, both in [-1, 1] of their limits."""

    kind: Literal["differential"] = "differential"
    step_s: float = Field(0.1, ge=0.001, le=1, description="Simulated time of one physics step in s.")
    decision_steps: int = Field(2, ge=1, le=100, description="Physics steps per action.")
    max_speed_mps: float = Field(1.5, ge=0.001, le=100, description="Largest forward speed in m/s.")
    max_reverse_mps: float = Field(0.3, ge=0, le=100, description="Largest backward speed in m/s.")
    max_acceleration_mps2: float = Field(0.8, ge=0.001, le=1000, description="Largest acceleration in m/s2.")
    max_deceleration_mps2: float = Field(1.2, ge=0.001, le=1000, description="Largest braking in m/s2.")
    max_turn_rate_radps: float = Field(1.0, ge=0.001, le=1000, description="Largest turn rate in rad/s.")
    max_turn_acceleration_radps2: float = Field(
        2.0, ge=0.001, le=10_000, description="Largest turn acceleration in rad/s2."
    )
    station_radius_m: float = Field(
        0.6, ge=0.001, description="A robot whose centre is this near has reached its target."
    )
    lag_s: float = Field(
        0.0,
        ge=0,
        le=10,
        description="Time constant in s with which speed and turn rate follow their commands (first-order lag).",
    )
    protective_field: ProtectiveFieldConfig | None = Field(
        None, description="Robots keep to speeds from which they can stop in the way that they have; null: they do not."
    )


DriveConfig = Annotated[GridConfig | HeadingGridConfig | DifferentialDriveConfig, Field(discriminator="kind")]


LIMIT_NAMES: Final = (
    "max_speed_mps",
    "max_reverse_mps",
    "max_acceleration_mps2",
    "max_deceleration_mps2",
    "max_turn_rate_radps",
    "max_turn_acceleration_radps2",
)


def fastest_of(drives: Sequence[DifferentialDriveConfig]) -> DifferentialDriveConfig:
    """The first drive with the largest limits of all, but for braking: that is the weakest of all."""
    if all(drive == drives[0] for drive in drives):
        return drives[0]
    limits = {
        name: (min if name == "max_deceleration_mps2" else max)(getattr(drive, name) for drive in drives)
        for name in LIMIT_NAMES
    }
    return drives[0].model_copy(update=limits)
