"""From a scenario to what a robot sees and does, without compiling or simulating anything."""

from __future__ import annotations

from typing import assert_never

from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.warehouse.config import (
    BlockConfig,
    DifferentialDriveConfig,
    HistoryBlock,
    LidarBlock,
    NeighboursBlock,
    PathBlock,
    PositionBlock,
    SelfBlock,
    SpeedLimitBlock,
    TargetBlock,
    WarehouseConfig,
    WindowBlock,
)
from bridge.warehouse.config_communication import CommunicationConfig, MessagesBlock
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.drives.motion_heading import HEADING_MOVE_NAMES
from bridge.warehouse.features import feature_metrics
from bridge.warehouse.jam_watch import jam_metrics
from bridge.warehouse.layout import Layout
from bridge.warehouse.metrics import METRICS
from bridge.warehouse.sensors.neighbours import NEIGHBOUR_FIELDS
from bridge.warehouse.sensors.radio import MESSAGE_METRICS
from bridge.warehouse.sensors.state import state_size
from bridge.warehouse.sensors.window import WINDOW_CHANNELS
from bridge.warehouse.view import MOVE_NAMES

__all__ = ["warehouse_spec"]


def warehouse_spec(config: WarehouseConfig, layout: Layout) -> WorldSpec:
    """What a warehouse looks like; the observations do not depend on ``layout``."""
    turning = config.drive.kind != "grid"
    observation = ObservationLayout(tuple(_block(block, config, turning) for block in config.observation))
    if isinstance(config.drive, DifferentialDriveConfig):
        action = ActionSpec(num_continuous=2, names=("forward_speed", "turn_rate"))
    elif turning:
        action = ActionSpec(discrete_branches=(len(HEADING_MOVE_NAMES),), names=("move",))
    else:
        action = ActionSpec(discrete_branches=(len(MOVE_NAMES),), names=("move",))
    if config.communication is not None:
        action = _with_message(action, config.communication)
    roles = tuple(
        RoleSpec(role.role, tuple(f"{role.role}_{slot}" for slot in range(role.count)), observation, action)
        for role in config.fleet
    )
    messages = MESSAGE_METRICS if config.communication else ()
    metrics = (*METRICS, *jam_metrics(config), *messages, *feature_metrics(config))
    return WorldSpec(roles, state_size(config.num_robots), metrics, seconds_per_step(config.drive))


def _block(block: BlockConfig, config: WarehouseConfig, turning: bool) -> ObservationBlock:
    match block:
        case SelfBlock():
            return _self_block(config, turning)
        case TargetBlock():
            return _target_block(block, config, turning)
        case PathBlock():
            return _path_block(block, turning)
        case WindowBlock():
            edge = 2 * block.radius + 1
            return ObservationBlock(
                "window",
                len(WINDOW_CHANNELS) * edge * edge,
                low=0.0,
                high=1.0,
                description=f"Maps of {edge} x {edge} cells around the robot, "
                f"{'the row ahead' if turning else 'top row'} first: racks and walls; other "
                "robots; 1/4 per other robot whose shortest way leads into the cell next.",
            )
        case LidarBlock():
            return ObservationBlock(
                "lidar",
                block.beams,
                unit=f"{block.range_m:g} m",
                low=0.0,
                high=1.0,
                description="Distance from the robot's centre to the nearest rack, wall or footprint of another robot "
                f"along {block.beams} beams, counter-clockwise from straight ahead; 1 for nothing in range.",
            )
        case NeighboursBlock():
            return _neighbours_block(block, turning)
        case MessagesBlock():
            assert config.communication is not None, "WarehouseConfig refuses the block without communication"
            return _messages_block(block, config.communication)
        case PositionBlock():
            return ObservationBlock(
                "position",
                2,
                unit=f"{block.range_m:g} m",
                low=0.0,
                high=1.0,
                fields=("x", "y"),
                description="Where on the floor the robot is, from the bottom left corner.",
            )
        case SpeedLimitBlock():
            return ObservationBlock(
                "speed_limit",
                1,
                low=0.0,
                high=1.0,
                fields=("share",),
                description="The speed limit where the robot is, over its largest speed; 1 where there is none.",
            )
        case HistoryBlock():
            size = sum(_block(other, config, turning).size for other in config.observation if other.block in block.of)
            return ObservationBlock(
                "history",
                block.steps * size,
                unit=f"as in {', '.join(block.of)}",
                low=-1.0,
                high=1.0,
                description=f"The blocks {', '.join(block.of)} as the robot saw them at its last {block.steps} "
                "decisions, newest first; zeros before its life began.",
            )
    assert_never(block)


def _self_block(config: WarehouseConfig, turning: bool) -> ObservationBlock:
    fields: tuple[str, ...] = ("loaded", "charge", "battery_empty", "refused", "urgency")
    if turning:
        fields = ("forward_speed", "turn_rate", *fields)
    if config.charges:
        fields += ("charging",)
    if config.tasks.service is not None:
        fields += ("being_served",)
    if config.contact.rule == "stop":
        fields += ("stopped",)
    if config.has_pickers:
        fields += ("partner_is_there",)
    return ObservationBlock(
        "self",
        len(fields),
        low=-1.0 if turning else 0.0,
        high=1.0,
        fields=fields,
        description="The robot itself: "
        + ("speed and turn rate over their limits, " if turning else "")
        + "load, charge, empty battery, whether its last motion was refused, and t / (t + 32) for the t steps since "
        "it last reached a station"
        + ("; whether it is being charged" if config.charges else "")
        + ("; whether a station is serving it" if config.tasks.service else "")
        + ("; whether it is stopped after a refused motion" if config.contact.rule == "stop" else "")
        + ("; whether a picker stands by, or a carrier stands where it is called to" if config.has_pickers else "")
        + ".",
    )


def _target_block(block: TargetBlock, config: WarehouseConfig, turning: bool) -> ObservationBlock:
    direction = ("cos", "sin") if turning else ("dx", "dy")
    frame = "bearing in the body frame" if turning else "offset to the right and up"
    fields: tuple[str, ...] = (*direction, "distance", "to_pickup", "to_delivery", "to_parking")
    if config.charges:
        fields += ("to_charger",)
    if config.has_pickers:
        fields += ("to_meeting",)
    return ObservationBlock(
        "target",
        len(fields),
        unit=f"{block.range_m:g} m",
        low=-1.0,
        high=1.0,
        fields=fields,
        description=f"Where the robot has to go: {frame}, distance as the crow flies, and what waits there.",
    )


def _path_block(block: PathBlock, turning: bool) -> ObservationBlock:
    if turning:
        fields: tuple[str, ...] = ("next_cos", "next_sin", "second_cos", "second_sin")
        text = "Bearings of the next two way-points of the shortest path in the body frame, and its length."
    else:
        fields = MOVE_NAMES[1:]
        text = "For each move 1 if it shortens the shortest path, -1 if a rack or wall is there, else 0; its length."
    return ObservationBlock(
        "path", 5, unit=f"{block.range_m:g} m", low=-1.0, high=1.0, fields=(*fields, "distance"), description=text
    )


def _neighbours_block(block: NeighboursBlock, turning: bool) -> ObservationBlock:
    fields = tuple(f"{name}_{place}" for place in range(block.count) for name in NEIGHBOUR_FIELDS)
    velocity = "relative velocity over twice the largest speed" if turning else "last move"
    return ObservationBlock(
        "neighbours",
        len(fields),
        unit=f"{block.range_m:g} m",
        low=-1.0,
        high=1.0,
        fields=fields,
        description=f"The {block.count} nearest robots within {block.range_m:g} m, nearest first, zeros for none: "
        f"offset, {velocity} and direction of the shortest way in the body frame, load, and 1 if it has the right of "
        "way, -1 if not.",
    )


def _messages_block(block: MessagesBlock, communication: CommunicationConfig) -> ObservationBlock:
    parts = ("valid", "age", *(f"message_{index}" for index in range(communication.size)))
    fields = tuple(f"{name}_{place}" for place in range(block.count) for name in parts)
    said = "values" if communication.kind == "continuous" else "symbol (one-hot)"
    return ObservationBlock(
        "messages",
        len(fields),
        unit=f"{communication.hold_steps} steps",
        low=-1.0,
        high=1.0,
        fields=fields,
        description=f"The last message held of each of the {block.count} nearest robots within "
        f"{communication.range_m:g} m, nearest first, zeros for none: 1 if there is one, its age over "
        f"{communication.hold_steps} steps, its {said}.",
    )


def _with_message(action: ActionSpec, communication: CommunicationConfig) -> ActionSpec:
    """The action of a robot that also speaks."""
    moves, branches = action.names[: action.num_continuous], action.names[action.num_continuous :]
    if communication.kind == "discrete":
        sizes = (*action.discrete_branches, communication.size)
        return ActionSpec(action.num_continuous, sizes, (*moves, *branches, "message"))
    said = tuple(f"message_{index}" for index in range(communication.size))
    return ActionSpec(action.num_continuous + communication.size, action.discrete_branches, (*moves, *said, *branches))
