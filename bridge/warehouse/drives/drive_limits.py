"""How fast robots are: a step and the largest speed of every drive, and the limits of differential drive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.config import DifferentialDriveConfig, DriveConfig, RoleConfig
from bridge.warehouse.fleet import half_sides

__all__ = [
    "DriveLimits",
    "FieldLimits",
    "OwnLimits",
    "Sides",
    "largest_acceleration",
    "largest_speed",
    "largest_turn",
    "largest_way",
    "make_limits",
    "seconds_per_step",
]

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


class OwnLimits(NamedTuple):
    """Limits that differ between robots, of the same names as in :class:`DriveLimits`; all (N,) float64."""

    max_speed: Float64
    max_reverse: Float64
    max_acceleration: Float64
    max_deceleration: Float64
    max_turn_rate: Float64
    max_turn_acceleration: Float64


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
        own: Limits of every robot, which then hold in place of those above; None if they are the same for all.
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
    own: OwnLimits | None
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
        fleet: The robots by role; without them all footprints are discs, and all limits those of the drive.
        slipping_envs: Number of environments whose ``speed_factor`` and ``traction`` somebody will write; 0 for none.
        min_traction: Smallest traction; a protective field counts on no more, and on the weakest braking of all robots.
    """
    half_length, half_width = half_sides(fleet)
    drives = [role.drive_of(drive) for role in fleet for _ in range(role.count)] or [drive]
    field, weakest_mps2 = drive.protective_field, min(each.max_deceleration_mps2 for each in drives)
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
        field=None if field is None else FieldLimits(float(field.margin_m), float(weakest_mps2 * min_traction)),
        widest=max((role.outer_radius_m for role in fleet), default=0.0),
        sides=Sides(half_length, half_width) if len(half_length) else None,
        own=_own_limits(drives) if any(each != drive for each in drives) else None,
        speed_factor=np.ones(slipping_envs),
        traction=np.ones(slipping_envs),
    )


def _own_limits(drives: Sequence[DifferentialDriveConfig]) -> OwnLimits:
    """The limits of every robot, by its drive."""
    rows = [
        (
            each.max_speed_mps,
            each.max_reverse_mps,
            each.max_acceleration_mps2,
            each.max_deceleration_mps2,
            each.max_turn_rate_radps,
            each.max_turn_acceleration_radps2,
        )
        for each in drives
    ]
    # (N, limits) -> one contiguous array per limit
    return OwnLimits(*(np.array(column, np.float64) for column in zip(*rows, strict=True)))


def largest_way(limits: DriveLimits) -> float:
    """The longest way of any robot in a step in m."""
    fastest = max(limits.max_speed, limits.max_reverse)
    if limits.own is not None:
        fastest = max(limits.own.max_speed.max(), limits.own.max_reverse.max())
    return float(fastest) * limits.step_s * limits.decision_steps


def largest_acceleration(limits: DriveLimits) -> float:
    """The largest acceleration of any robot in m/s2."""
    return float(limits.max_acceleration if limits.own is None else limits.own.max_acceleration.max())


def largest_turn(limits: DriveLimits) -> float:
    """The largest angle by which any robot turns in a physics step in rad."""
    fastest = limits.max_turn_rate if limits.own is None else limits.own.max_turn_rate.max()
    return float(fastest) * limits.step_s


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
