"""The ``randomisation:`` section of a warehouse: what differs from episode to episode, and from step to step."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from bridge.warehouse.section import Section

__all__ = ["ExecutionDelayConfig", "LayoutVariationConfig", "RandomisationConfig"]


class ExecutionDelayConfig(Section):
    """Robots that stop for a while, as in the ``delayConfig`` of the League of Robot Runners."""

    probability: float = Field(
        0.001, ge=0, le=1, description="bernoulli: chance per step that a delay begins; poisson: mean number per step."
    )
    events: Literal["bernoulli", "poisson"] = Field("bernoulli", description="How beginnings are drawn.")
    min_steps: int = Field(2, ge=1, le=10_000, description="Shortest delay in steps.")
    max_steps: int = Field(30, ge=1, le=10_000, description="Longest delay in steps.")
    duration: Literal["uniform", "gaussian"] = Field(
        "uniform",
        description="uniform between the two; gaussian: normal, rounded and cut at both.",
    )
    mean_ratio: float = Field(
        0.5, ge=0, le=1, description="gaussian: where the mean lies, from 0 at min_steps to 1 at max_steps."
    )
    std_ratio: float = Field(
        0.22, ge=0, le=100, description="gaussian: standard deviation over max_steps - min_steps; 0: always the mean."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_steps > self.max_steps:
            raise ValueError(
                f"expected min_steps <= max_steps, got min_steps={self.min_steps} > max_steps={self.max_steps}."
            )
        # Resolved configurations state every default.
        for name in ("mean_ratio", "std_ratio"):
            if self.duration == "uniform" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(
                    f"expected no {name} with duration 'uniform', got {getattr(self, name):g}. Use duration 'gaussian'."
                )
        return self


class LayoutVariationConfig(Section):
    """Variants of the floor plan, among which every episode draws; stations, chargers and parking places stay."""

    variants: int = Field(8, ge=1, le=256, description="Number of variants that are drawn, once, from the floor plan.")
    seed: int = Field(
        0, ge=0, lt=2**63, description="Seed of the variants; another one gives variants that no policy has seen."
    )
    max_missing_racks: float = Field(
        0.0, ge=0, le=1, description="A variant lacks between no and this share of the racks (groups of joined cells)."
    )
    max_rack_offset_cells: int = Field(
        0, ge=0, le=100, description="Each rack stands up to this many cells further along its longer side, if it can."
    )
    max_blocked_cells: int = Field(
        0, ge=0, le=10_000, description="In a variant, between none and this many cells beside racks are blocked."
    )

    @model_validator(mode="after")
    def _something_varies(self) -> Self:
        if self.max_missing_racks == 0 and self.max_rack_offset_cells == 0 and self.max_blocked_cells == 0:
            raise ValueError(
                "expected max_missing_racks, max_rack_offset_cells or max_blocked_cells above 0, got 0 for all: "
                "no variant would differ."
            )
        return self


class RandomisationConfig(Section):
    """Each item has a random stream of its own: adding one changes none of the others."""

    min_fleet_share: float = Field(
        1.0, gt=0, le=1, description="Each role has between this share of `count` and `count` robots in an episode."
    )
    start: Literal["parking", "anywhere"] = Field(
        "parking",
        description="parking: robots start on parking places while there are any; anywhere: on any free cell.",
    )
    lidar_noise_m: float = Field(0.0, ge=0, le=1, description="Standard deviation of each beam's distance in m.")
    lidar_dropout: float = Field(0.0, ge=0, le=1, description="Share of beams that see nothing.")
    position_noise_m: float = Field(
        0.0,
        ge=0,
        le=10,
        description="Standard deviation along each axis in m of where a robot takes itself to be (blocks target, path "
        "and position), and of the offsets in the block neighbours.",
    )
    odometry_noise: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Not on the grid without heading: standard deviation of speed and turn rate in the block self, as "
        "a share of their largest values.",
    )
    neighbour_dropout: float = Field(
        0.0, ge=0, le=1, description="Share of entries of the block neighbours that are missing."
    )
    max_action_delay_steps: int = Field(
        0, ge=0, le=20, description="Actions are carried out 0 .. this many steps late, drawn per robot and episode."
    )
    min_speed_factor: float = Field(
        1.0,
        ge=0.01,
        le=1,
        description="differential only: factor on the speed limits of an episode, between this and 1.",
    )
    min_traction_factor: float = Field(
        1.0,
        ge=0.01,
        le=1,
        description="differential only: factor on how fast speed and turn rate can change in an episode (wet floor), "
        "between this and 1.",
    )
    layout: LayoutVariationConfig | None = Field(
        None, description="Missing racks, racks out of place and blocked aisles; null: every episode on the floor plan."
    )
    execution_delays: ExecutionDelayConfig | None = Field(None, description="Robots that stop for a while; null: none.")
