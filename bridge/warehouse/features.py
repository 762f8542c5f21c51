"""Which features a scenario uses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bridge.specs import MetricSpec
from bridge.warehouse.config import (
    DifferentialDriveConfig,
    HeadingGridConfig,
    HistoryBlock,
    PositionBlock,
    SpeedLimitBlock,
    WarehouseConfig,
    WindowBlock,
)
from bridge.warehouse.contact_watch import NEAR_MISS_METRICS, STOP_METRICS, NearMisses, ProtectiveStops
from bridge.warehouse.disturbances import AbsentRobots, ExecutionDelays, LateActions, SlipperyFloor
from bridge.warehouse.drives.speed_zones import SpeedLimitView, SpeedZones, steps_per_cell
from bridge.warehouse.feature import Feature, Parts
from bridge.warehouse.layout import Layout
from bridge.warehouse.sensors.heading_window import HeadingWindow
from bridge.warehouse.sensors.memory_blocks import History, Position
from bridge.warehouse.sensors.sensor_noise import SensorNoise
from bridge.warehouse.work.charging import CHARGING_METRICS, Charging
from bridge.warehouse.work.errands import Errands
from bridge.warehouse.work.list_times import LIST_METRICS, ListTimes
from bridge.warehouse.work.loads import LOAD_METRICS, LoadCounter
from bridge.warehouse.work.meeting import MEETING_METRICS, Meeting
from bridge.warehouse.work.service import SERVICE_METRICS, Service
from bridge.warehouse.work.stranding import BATTERY_METRICS, Stranding, can_run_empty, looks_at_batteries
from bridge.warehouse.work.timeouts import TIMEOUT_METRICS, Timeouts
from bridge.warehouse.work.turned_away import ARRIVAL_METRICS, TurnedAway
from bridge.warehouse.work.yielding import YIELD_METRICS, Yielding

__all__ = ["feature_metrics", "has_pauses", "has_slow_cells", "holds_robots", "make_features"]


def feature_metrics(config: WarehouseConfig) -> tuple[MetricSpec, ...]:
    """The figures of the features that a scenario uses, in the order of :func:`make_features`."""
    metrics: tuple[MetricSpec, ...] = ()
    if config.has_pickers:
        metrics += MEETING_METRICS
    if config.tasks.has_loads:
        metrics += LOAD_METRICS
    if config.tasks.service is not None:
        metrics += SERVICE_METRICS
    if config.tasks.arrival == "poisson":
        metrics += ARRIVAL_METRICS
    if config.tasks.arrival == "list":
        metrics += LIST_METRICS
    if config.tasks.timeout_s is not None:
        metrics += TIMEOUT_METRICS
    if config.tasks.idle_yield_s is not None:
        metrics += YIELD_METRICS
    if config.contact.rule == "stop":
        metrics += STOP_METRICS
    if config.contact.near_miss_m is not None:
        metrics += NEAR_MISS_METRICS
    if looks_at_batteries(config):
        metrics += BATTERY_METRICS
    if config.charges:
        metrics += CHARGING_METRICS
    return metrics


def make_features(parts: Parts) -> tuple[Feature, ...]:
    """The features that a scenario uses, in the order in which they act."""
    features: list[Feature] = []
    tasks, random = parts.config.tasks, parts.config.randomisation
    if random is not None and random.min_fleet_share < 1.0:
        # First: nothing is kept for robots that are not there.
        features.append(AbsentRobots(parts, random.min_fleet_share))
    service = None if tasks.service is None else Service(parts, tasks.service)
    if parts.config.has_pickers:
        # Before the stations: they are told who may be served.
        features.append(Meeting(parts, np.ones(parts.fleet.cell.shape, np.bool_) if service is None else service.ready))
    if tasks.has_loads:
        features.append(LoadCounter(parts))
    if service is not None:
        features.append(service)
    if tasks.has_errands:
        features.append(Errands(parts))
    if tasks.arrival == "poisson":
        features.append(TurnedAway(parts))
    if tasks.arrival == "list":
        features.append(ListTimes(parts))
    if tasks.timeout_s is not None:
        features.append(Timeouts(parts, tasks.timeout_s))
    if tasks.idle_yield_s is not None:
        features.append(Yielding(parts, tasks.idle_yield_s))
    contact = parts.config.contact
    if contact.rule == "stop":
        features.append(ProtectiveStops(parts, contact.stop_s))
    if contact.near_miss_m is not None:
        features.append(NearMisses(parts, contact.near_miss_m))
    if has_slow_cells(parts.config, parts.layout):
        features.append(SpeedZones(parts))
    if looks_at_batteries(parts.config):
        # Before the chargers: who is stranded gets none.
        features.append(Stranding(parts))
    if parts.config.charges:
        features.append(Charging(parts))
    # Before its noise.
    features += [Position(parts, block) for block in parts.config.observation if isinstance(block, PositionBlock)]
    return (*features, *_disturbances(parts), *_memories(parts))


def _disturbances(parts: Parts) -> Iterator[Feature]:
    random, drive = parts.config.randomisation, parts.config.drive
    if random is None:
        return
    if random.max_action_delay_steps > 0:
        yield LateActions(parts, random.max_action_delay_steps)
    if isinstance(drive, DifferentialDriveConfig) and min(random.min_speed_factor, random.min_traction_factor) < 1.0:
        yield SlipperyFloor(parts, random.min_speed_factor, random.min_traction_factor)
    if random.execution_delays is not None:
        yield ExecutionDelays(parts, random.execution_delays)
    noises = (random.lidar_noise_m, random.lidar_dropout, random.position_noise_m, random.odometry_noise)
    if max(*noises, random.neighbour_dropout) > 0.0:
        yield SensorNoise(parts, random)


def _memories(parts: Parts) -> Iterator[Feature]:
    for block in parts.config.observation:
        if isinstance(block, WindowBlock) and isinstance(parts.config.drive, HeadingGridConfig):
            yield HeadingWindow(parts, block)
        if isinstance(block, SpeedLimitBlock):
            yield SpeedLimitView(parts)
    # Last: it remembers what all others have written.
    for block in parts.config.observation:
        if isinstance(block, HistoryBlock):
            yield History(parts, block)


def has_slow_cells(config: WarehouseConfig, layout: Layout) -> bool:
    """Robots that move from cell to cell may not drive a cell per step everywhere."""
    drive = config.drive
    if isinstance(drive, DifferentialDriveConfig):
        return False
    return bool((steps_per_cell(layout, drive.step_s) > 1).any())


def holds_robots(config: WarehouseConfig, layout: Layout) -> bool:
    """Some feature lets robots stand whatever they are told."""
    random = config.randomisation
    delays = random is not None and random.execution_delays is not None
    stands = config.tasks.service is not None or config.contact.rule == "stop" or config.charges
    return stands or delays or has_slow_cells(config, layout)


def has_pauses(config: WarehouseConfig, layout: Layout) -> bool:
    """Some robot may stand for a reason that ``pauses`` knows of: it turns, is held, or has no charge."""
    turns = isinstance(config.drive, DifferentialDriveConfig | HeadingGridConfig)
    return turns or holds_robots(config, layout) or can_run_empty(config)
