"""How fast robots are: a step and the largest speed of every drive, and the limits of differential drive."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.config import DifferentialDriveConfig, DriveConfig, RoleConfig
from bridge.warehouse.fleet import half_sides

__all__ = ["DriveLimits", "FieldLimits", "Sides", "largest_speed", "make_limits", "seconds_per_step"]

Float64 = NDArray[np.float64]


class FieldLimits(NamedTuple):
    """The gap that a protective field keeps in m, and the braking that it counts on in m/s2."""

    margin_m: float
    deceleration: float


class Sides(NamedTuple):
    """Rectangular footprints.

    Attributes:
        half_length: (N,) float64, along the heading in m, 0 for discs.
        half_width: (N,) float64, across it, likewise.
    """

    half_length: Float64
    half_width: Float64


class DriveLimits(NamedTuple):
    """Limits of the drive: m/s, m/s2, rad/s, rad/s2 and the physics steps (s, count); then the options.

    Attributes:
        step_s: Physics step.
        decision_steps: Physics steps of a decision.
        max_speed: Forwards.
        max_reverse: Backwards.
        max_acceleration: Of the speed.
        max_deceleration: Braking.
        max_turn_rate: To both sides.
        max_turn_acceleration: And its braking.
        response: Share of the gap to the command that a physics step closes; 1 without a lag.
        lag_s: Time constant of the lag.
        field: Of the protective field; None without one.
        widest: Radius of the largest disc around a footprint in m.
        sides: Rectangular footprints; None if all are discs.
        speed_factor: (E,) float64, of the running episodes; empty if it is always 1.
        traction: (E,) float64, likewise.
    """

    step_s: float
    decision_steps: int
    max_speed: float
    max_reverse: float
    max_acceleration: float
    max_deceleration: float
    max_turn_rate: float
    max_turn_acceleration: float
    response: float
    lag_s: float
    field: FieldLimits | None
    widest: float
    sides: Sides | None
    speed_factor: Float64
    traction: Float64


def make_limits(
    drive: DifferentialDriveConfig,
    fleet: tuple[RoleConfig, ...] = (),
    slipping_envs: int = 0,
    min_traction: float = 1.0,
) -> DriveLimits:
    """The limits of a scenario.

    Args:
        drive: The drive.
        fleet: The robots by role; without them all footprints are discs.
        slipping_envs: Number of environments whose ``speed_factor`` and ``traction`` somebody will write; 0 for none.
        min_traction: Smallest traction; a protective field counts on no more.
    """
    half_length, half_width = half_sides(fleet)
    field = drive.protective_field
    return DriveLimits(
        step_s=float(drive.step_s),
        decision_steps=drive.decision_steps,
        max_speed=float(drive.max_speed_mps),
        max_reverse=float(drive.max_reverse_mps),
        max_acceleration=float(drive.max_acceleration_mps2),
        max_deceleration=float(drive.max_deceleration_mps2),
        max_turn_rate=float(drive.max_turn_rate_radps),
        max_turn_acceleration=float(drive.max_turn_acceleration_radps2),
        response=float(-np.expm1(-drive.step_s / drive.lag_s)) if drive.lag_s else 1.0,
        lag_s=float(drive.lag_s),
        field=None
        if field is None
        else FieldLimits(float(field.margin_m), float(drive.max_deceleration_mps2 * min_traction)),
        widest=max((role.outer_radius_m for role in fleet), default=0.0),
        sides=Sides(half_length, half_width) if len(half_length) else None,
        speed_factor=np.ones(slipping_envs),
        traction=np.ones(slipping_envs),
    )


def seconds_per_step(drive: DriveConfig) -> float:
    """Simulated time of one step, which is one decision of every robot."""
    if isinstance(drive, DifferentialDriveConfig):
        return drive.step_s * drive.decision_steps
    return float(drive.step_s)


def largest_speed(drive: DriveConfig, cell_size_m: float) -> float:
    """The largest speed of a robot in m/s."""
    if isinstance(drive, DifferentialDriveConfig):
        return float(max(drive.max_speed_mps, drive.max_reverse_mps))
    return cell_size_m / drive.step_s
