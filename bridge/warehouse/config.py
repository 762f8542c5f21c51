"""The ``warehouse:`` section of a scenario.

Field descriptions carry meaning, unit and range; defaults stand only here.
The same section drives the built-in simulator, the headless player and the
Unity scene.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bridge.warehouse.config_communication import CommunicationConfig, MessagesBlock
from bridge.warehouse.config_drives import (
    DifferentialDriveConfig,
    DriveConfig,
    GridConfig,
    HeadingGridConfig,
    ProtectiveFieldConfig,
    fastest_of,
)
from bridge.warehouse.config_fleet import RoleConfig
from bridge.warehouse.config_monitoring import DeadlockConfig, MetricsConfig
from bridge.warehouse.config_randomisation import RandomisationConfig
from bridge.warehouse.config_work import (
    BatteryConfig,
    Cell,
    ChargingConfig,
    LoadConfig,
    ServiceConfig,
    TaskConfig,
    TransportConfig,
)
from bridge.warehouse.section import Section

__all__ = [
    "BatteryConfig",
    "BlockConfig",
    "CellsConfig",
    "ChargingConfig",
    "ContactConfig",
    "DifferentialDriveConfig",
    "DriveConfig",
    "GridConfig",
    "HeadingGridConfig",
    "HistoryBlock",
    "LayoutConfig",
    "LidarBlock",
    "LoadConfig",
    "NeighboursBlock",
    "OneWayConfig",
    "PathBlock",
    "PositionBlock",
    "ProtectiveFieldConfig",
    "RewardConfig",
    "RoleConfig",
    "SelfBlock",
    "ServiceConfig",
    "SpeedLimitBlock",
    "SpeedZoneConfig",
    "TargetBlock",
    "TaskConfig",
    "TransportConfig",
    "WarehouseConfig",
    "WindowBlock",
]


class CellsConfig(Section):
    """A rectangle of cells."""

    first: Cell = Field(description="Cell [row, column] at its top left.")
    last: Cell = Field(description="Cell [row, column] at its bottom right.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.first[0] > self.last[0] or self.first[1] > self.last[1]:
            raise ValueError(
                f"expected 'first' above and to the left of 'last', got {list(self.first)} and {list(self.last)}."
            )
        return self


class SpeedZoneConfig(CellsConfig):
    """A rectangle of cells in which robots may not drive faster."""

    limit_mps: float = Field(ge=0.001, le=100, description="Largest speed in m/s; a lower limit of the plan stays.")


class OneWayConfig(CellsConfig):
    """A rectangle of cells that robots may leave by some sides alone."""

    exits: tuple[Literal["up", "right", "down", "left"], ...] = Field(
        min_length=1,
        max_length=4,
        description="Sides by which robots may leave each of the cells, as far as the plan allows; where rectangles "
        "overlap, by those of any of them.",
    )


class LayoutConfig(Section):
    """Where the racks, stations and parking places are."""

    file: str | None = Field(None, description="Map file, relative to the scenario's folder and inside it.")
    grid: str | None = Field(None, description="Inline drawing, one line per row; see `docs/scenarios.md`.")
    cell_size_m: float = Field(1.0, ge=0.01, le=100, description="Edge length of a cell in m.")
    closed: tuple[Cell, ...] = Field(
        (), description="Cells [row, column] that are blocked although the plan says they are free: a closed aisle."
    )
    one_way: tuple[OneWayConfig, ...] = Field((), description="One-way cells, besides those of the plan.")
    speed_zones: tuple[SpeedZoneConfig, ...] = Field((), description="Zones of lower speed, besides those of the plan.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.grid is None):
            raise ValueError(f"expected either 'file' or 'grid', got {'neither' if self.file is None else 'both'}.")
        return self


class SelfBlock(Section):
    """Speed, load and charge of the robot itself."""

    block: Literal["self"] = "self"


class TargetBlock(Section):
    """Where the current target is, in the body frame."""

    block: Literal["target"] = "target"
    range_m: float = Field(30.0, ge=0.01, description="Distances are divided by this and cut at 1.")


class PathBlock(Section):
    """Direction and distance along the static shortest path to the target."""

    block: Literal["path"] = "path"
    range_m: float = Field(60.0, ge=0.01, description="The distance is divided by this and cut at 1.")


class WindowBlock(Section):
    """Grids: racks, robots, and the ways of robots in the cells around the robot; with heading, the row ahead first."""

    block: Literal["window"] = "window"
    radius: int = Field(2, ge=1, le=15, description="Cells to each side; the window is (2*radius+1) squared.")


class LidarBlock(Section):
    """Distances to racks, walls and robots around the robot."""

    block: Literal["lidar"] = "lidar"
    beams: int = Field(36, ge=4, le=720, description="Number of beams over the full circle.")
    range_m: float = Field(8.0, ge=0.01, le=100, description="Longest distance in m.")


class NeighboursBlock(Section):
    """The nearest robots within radio range, nearest first, padded, with a validity flag."""

    block: Literal["neighbours"] = "neighbours"
    count: int = Field(4, ge=1, le=32, description="Number of robots.")
    range_m: float = Field(6.0, ge=0.01, le=1000, description="Radio range in m.")


class PositionBlock(Section):
    """Where on the floor the robot is: binds a policy to one layout, so no other block tells."""

    block: Literal["position"] = "position"
    range_m: float = Field(100.0, ge=0.01, description="Positions are divided by this and cut at 1.")


class SpeedLimitBlock(Section):
    """The speed limit of the cell that the robot is in, as a share of its largest speed; 1 where there is none."""

    block: Literal["speed_limit"] = "speed_limit"


class HistoryBlock(Section):
    """What the robot saw in other blocks at its last decisions, newest first; zeros before the start of its life."""

    block: Literal["history"] = "history"
    of: tuple[str, ...] = Field(("self", "target"), min_length=1, description="Blocks that are remembered.")
    steps: int = Field(2, ge=1, le=64, description="How many decisions are remembered.")


BlockConfig = Annotated[
    SelfBlock
    | TargetBlock
    | PathBlock
    | WindowBlock
    | LidarBlock
    | NeighboursBlock
    | MessagesBlock
    | PositionBlock
    | SpeedLimitBlock
    | HistoryBlock,
    Field(discriminator="block"),
]


class RewardConfig(Section):
    """Weights of the reward terms; a term of weight 0 costs nothing."""

    delivery: float = Field(1.0, description="Per load delivered.")
    pickup: float = Field(0.0, description="Per load fetched.")
    help: float = Field(0.0, description="Per load that the robot, a picker, has helped another one to fetch.")
    progress: float = Field(
        0.0, ge=0, description="Potential-based shaping per cell of remaining path (Ng et al. 1999)."
    )
    progress_gamma: float = Field(
        0.99, gt=0, le=1, description="Discount of the shaping; equal to the learner's gamma."
    )
    step: float = Field(0.0, le=0, description="Per step.")
    blocked: float = Field(0.0, le=0, description="Per move that was refused because of a rack or a robot.")
    collision: float = Field(0.0, le=0, description="Per contact with a robot or a rack, to each robot concerned.")


class ContactConfig(Section):
    """What happens when robots would touch each other or a rack."""

    rule: Literal["block", "stop", "despawn"] = Field(
        "block",
        description="block: the move is refused; stop: and the robot stands for `stop_s`; despawn: the robots "
        "concerned leave the floor.",
    )
    stop_s: float = Field(5.0, gt=0, description="stop only: time that a robot stands after a refused move in s.")
    near_miss_m: float | None = Field(
        None, gt=0, description="Gap between two robots below which a near miss counts in m; null: not counted."
    )
    respawn_after_s: float | None = Field(
        None, ge=0, description="despawn only: a robot comes back after this time; null: not before the next episode."
    )

    @model_validator(mode="after")
    def _stop_s_needs_stop(self) -> Self:
        if self.rule != "stop" and self.stop_s != type(self).model_fields["stop_s"].default:
            raise ValueError(f"expected no stop_s with rule {self.rule!r}, got {self.stop_s}. Use rule 'stop'.")
        return self

    @model_validator(mode="after")
    def _respawn_needs_despawn(self) -> Self:
        if self.rule != "despawn" and self.respawn_after_s is not None:
            raise ValueError(
                f"expected no respawn_after_s with rule {self.rule!r}, got {self.respawn_after_s}. Use rule 'despawn'."
            )
        return self


class WarehouseConfig(Section):
    """One warehouse."""

    layout: LayoutConfig = Field(description="Floor plan.")
    fleet: tuple[RoleConfig, ...] = Field(min_length=1, max_length=8, description="The robots, by role.")
    drive: DriveConfig = Field(default_factory=GridConfig, description="How robots move.")
    tasks: TaskConfig = Field(default_factory=TaskConfig, description="The work.")
    observation: tuple[BlockConfig, ...] = Field(
        default=(SelfBlock(), TargetBlock(), PathBlock(), NeighboursBlock()),
        min_length=1,
        description="Blocks of each robot's observation, in order.",
    )
    reward: RewardConfig = Field(default_factory=RewardConfig, description="Reward terms.")
    contact: ContactConfig = Field(default_factory=ContactConfig, description="Contact rule.")
    communication: CommunicationConfig | None = Field(
        None, description="Messages between robots, as part of their actions; null: none."
    )
    randomisation: RandomisationConfig | None = Field(
        None, description="What differs between episodes besides starts and tasks, and disturbs robots; null: nothing."
    )
    deadlock: DeadlockConfig | None = Field(
        default_factory=DeadlockConfig, description="Detection of robots that are stuck; null: none."
    )
    metrics: MetricsConfig = Field(default_factory=MetricsConfig, description="What figures are taken over.")
    mask_blocked_moves: bool = Field(
        False,
        description="grid, grid_heading: the action mask forbids moves into racks and walls.",
    )
    episode_steps: int = Field(500, ge=1, le=10_000_000, description="Steps until the episode is truncated.")

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        roles = [role.role for role in self.fleet]
        if len(set(roles)) != len(roles):
            raise ValueError(f"expected distinct roles in fleet, got {', '.join(roles)}.")
        blocks = [block.block for block in self.observation]
        if len(set(blocks)) != len(blocks):
            raise ValueError(f"expected distinct blocks in observation, got {', '.join(blocks)}.")
        return self

    @model_validator(mode="after")
    def _pickers_have_carriers(self) -> Self:
        if all(role.job == "pick" for role in self.fleet):
            raise ValueError("expected a role with job 'carry' in fleet, got pickers alone.")
        for role in self.fleet:
            if role.job == "pick" and role.payload_kg is not None:
                raise ValueError(f"expected no payload_kg with job 'pick', got one in role {role.role!r}.")
        return self

    @property
    def has_pickers(self) -> bool:
        """Carriers have to meet pickers."""
        return any(role.job == "pick" for role in self.fleet)

    @model_validator(mode="after")
    def _blocks_fit_drive(self) -> Self:
        blocks = [block.block for block in self.observation]
        if self.drive.kind != "differential" and any(role.length_m is not None for role in self.fleet):
            raise ValueError(
                f"expected circular footprints with drive {self.drive.kind!r}, got length_m and width_m. Use radius_m."
            )
        for role in self.fleet:
            if self.drive.kind != "differential" and role.own_limits:
                raise ValueError(
                    f"expected no limits of its own in role {role.role!r} with drive {self.drive.kind!r}, "
                    f"got {', '.join(role.own_limits)}. Robots on a grid drive a cell per step: use layout.speed_zones."
                )
        if self.drive.kind == "differential" and self.mask_blocked_moves:
            raise ValueError("expected mask_blocked_moves false with drive 'differential', got true.")
        if self.drive.kind == "differential" and "window" in blocks:
            raise ValueError(f"expected no 'window' block with drive {self.drive.kind!r}, got one. Use 'lidar'.")
        return self

    @property
    def fastest_drive(self) -> DriveConfig:
        """The drive with the limits that no role exceeds, and the weakest braking of all."""
        if not isinstance(self.drive, DifferentialDriveConfig):
            return self.drive
        return fastest_of([role.drive_of(self.drive) for role in self.fleet])

    @property
    def charges(self) -> bool:
        """Some robots use the chargers."""
        return any(role.battery.charging is not None for role in self.fleet)

    @model_validator(mode="after")
    def _messages_are_sent_and_heard(self) -> Self:
        heard = any(block.block == "messages" for block in self.observation)
        if heard and self.communication is None:
            raise ValueError("expected communication with the block 'messages', got none. Add `communication: {}`.")
        if not heard and self.communication is not None:
            raise ValueError("expected a block 'messages' with communication, got none: nobody would hear anything.")
        return self

    @model_validator(mode="after")
    def _randomisation_fits(self) -> Self:
        random = self.randomisation
        if random is None:
            return self
        blocks = {block.block for block in self.observation}
        if self.drive.kind != "differential" and min(random.min_speed_factor, random.min_traction_factor) < 1:
            raise ValueError(
                f"expected no min_speed_factor or min_traction_factor with drive {self.drive.kind!r}, got one."
            )
        if max(random.lidar_noise_m, random.lidar_dropout) > 0 and "lidar" not in blocks:
            raise ValueError("expected a block 'lidar' with lidar_noise_m or lidar_dropout, got none.")
        placed = {"target", "neighbours", "position"} | ({"path"} if self.drive.kind != "grid" else set())
        if random.position_noise_m > 0 and not blocks & placed:
            names = ", ".join(sorted(placed))
            raise ValueError(f"expected one of the blocks {names} with position_noise_m, got none.")
        if random.odometry_noise > 0 and ("self" not in blocks or self.drive.kind == "grid"):
            raise ValueError(
                f"expected a block 'self' and robots with a speed in it with odometry_noise, got drive "
                f"{self.drive.kind!r} and the blocks {', '.join(sorted(blocks))}."
            )
        if random.neighbour_dropout > 0 and "neighbours" not in blocks:
            raise ValueError("expected a block 'neighbours' with neighbour_dropout, got none.")
        return self

    @model_validator(mode="after")
    def _warm_up_ends(self) -> Self:
        decision_steps = self.drive.decision_steps if isinstance(self.drive, DifferentialDriveConfig) else 1
        step_s, warm_up_s = self.drive.step_s * decision_steps, self.metrics.warm_up_s
        if warm_up_s > (self.episode_steps - 1) * step_s + 1e-9:
            raise ValueError(
                f"expected metrics.warm_up_s to end within episodes of {self.episode_steps} steps of {step_s:g} s, "
                f"got warm_up_s={warm_up_s}. Nothing would be measured: lower it, or raise episode_steps."
            )
        return self

    @model_validator(mode="after")
    def _history_is_of_blocks(self) -> Self:
        names = [block.block for block in self.observation if block.block != "history"]
        for block in self.observation:
            if isinstance(block, HistoryBlock):
                unknown = [name for name in block.of if name not in names]
                if unknown or len(set(block.of)) != len(block.of):
                    raise ValueError(
                        f"expected history.of to be distinct blocks among {', '.join(names)}, "
                        f"got {', '.join(block.of)}."
                    )
        return self

    @property
    def num_robots(self) -> int:
        """Number of robots of all roles."""
        return sum(role.count for role in self.fleet)
