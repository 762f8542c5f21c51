"""The robots of a role: the ``fleet:`` section."""

from __future__ import annotations

import math
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from bridge.warehouse.config_drives import LIMIT_NAMES, DifferentialDriveConfig
from bridge.warehouse.config_work import BatteryConfig
from bridge.warehouse.section import Section

__all__ = ["MAX_ROBOTS", "RoleConfig"]

MAX_ROBOTS: Final = 50_000
"""Most robots of a role."""


class RoleConfig(Section):
    """Robots of one kind."""

    role: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=32, description="Name of the role, e.g. carrier.")
    count: int = Field(ge=1, le=MAX_ROBOTS, description="Number of robots.")
    job: Literal["carry", "pick"] = Field(
        "carry",
        description="carry: transports; pick: stands beside carriers while they fetch, which they cannot without.",
    )
    radius_m: float = Field(0.35, gt=0, le=10, description="Radius of the circular footprint in m.")
    length_m: float | None = Field(
        None, gt=0, le=20, description="Of a rectangular footprint instead, along the heading in m; null: circular."
    )
    width_m: float | None = Field(None, gt=0, le=20, description="Of the same, across the heading in m.")
    payload_kg: float | None = Field(None, gt=0, description="Heaviest load that it can carry in kg; null: any.")
    battery: BatteryConfig = Field(default_factory=BatteryConfig, description="Battery of each robot.")
    max_speed_mps: float | None = Field(
        None, ge=0.001, le=100, description="Largest forward speed in m/s; null: the drive's."
    )
    max_reverse_mps: float | None = Field(
        None, ge=0, le=100, description="Largest backward speed in m/s; null: the drive's."
    )
    max_acceleration_mps2: float | None = Field(
        None, ge=0.001, le=1000, description="Largest acceleration in m/s2; null: the drive's."
    )
    max_deceleration_mps2: float | None = Field(
        None, ge=0.001, le=1000, description="Largest braking in m/s2; null: the drive's."
    )
    max_turn_rate_radps: float | None = Field(
        None, ge=0.001, le=1000, description="Largest turn rate in rad/s; null: the drive's."
    )
    max_turn_acceleration_radps2: float | None = Field(
        None, ge=0.001, le=10_000, description="Largest turn acceleration in rad/s2; null: the drive's."
    )

    @model_validator(mode="after")
    def _one_footprint(self) -> Self:
        if (self.length_m is None) != (self.width_m is None):
            given = "length_m" if self.width_m is None else "width_m"
            raise ValueError(f"expected length_m and width_m together, got {given} alone.")
        # Resolved configurations state every default.
        if self.length_m is not None and self.radius_m != type(self).model_fields["radius_m"].default:
            raise ValueError("expected either radius_m or length_m and width_m, got both.")
        return self

    @property
    def half_sides_m(self) -> tuple[float, float]:
        """Half the length and half the width of a rectangular footprint; zeros for a circular one."""
        if self.length_m is None or self.width_m is None:
            return 0.0, 0.0
        return 0.5 * self.length_m, 0.5 * self.width_m

    @property
    def footprint(self) -> str:
        """The footprint in words."""
        if self.length_m is None:
            return f"disc of radius {self.radius_m:g} m"
        return f"rectangle, {self.length_m:g} m long, {self.width_m:g} m wide"

    @property
    def outer_radius_m(self) -> float:
        """Radius of the smallest disc that holds the footprint, whichever way the robot faces."""
        return self.radius_m if self.length_m is None else math.hypot(*self.half_sides_m)

    @property
    def inner_radius_m(self) -> float:
        """Radius of the largest disc that fits into the footprint."""
        return self.radius_m if self.length_m is None else min(self.half_sides_m)

    @property
    def own_limits(self) -> dict[str, float]:
        """Those that differ from the drive's, by name."""
        given = ((name, getattr(self, name)) for name in LIMIT_NAMES)
        return {name: float(value) for name, value in given if value is not None}

    def drive_of(self, drive: DifferentialDriveConfig) -> DifferentialDriveConfig:
        """The drive of a robot of this role."""
        return drive.model_copy(update=self.own_limits) if self.own_limits else drive
