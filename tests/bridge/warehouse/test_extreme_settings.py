"""Settings far from what anybody means: refused where they cannot work, harmless where they can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.warehouse.config import (
    ContactConfig,
    DifferentialDriveConfig,
    GridConfig,
    LayoutConfig,
    LidarBlock,
    NeighboursBlock,
    PathBlock,
    PositionBlock,
    RoleConfig,
    SelfBlock,
    SpeedZoneConfig,
    TargetBlock,
    TaskConfig,
    TransportConfig,
)
from bridge.warehouse.config_communication import CommunicationConfig, MessagesBlock
from bridge.warehouse.config_monitoring import DeadlockConfig
from bridge.warehouse.config_randomisation import RandomisationConfig
from bridge.warehouse.durations import NEVER_STEPS, steps_of
from bridge.warehouse.sensors.buckets import make_buckets
from bridge.warehouse.simulator import WarehouseSimulator

FLOOR = "S.P.P.E\n......."


def test_steps_of_a_time_are_rounded_up_and_end_at_never() -> None:
    assert [steps_of(time_s, 0.1) for time_s in (0.0, 0.05, 0.3, 60.0, 60.01)] == [0, 1, 3, 600, 601]
    assert steps_of(1e300, 0.001) == steps_of(float(NEVER_STEPS) * 2, 1.0) == NEVER_STEPS


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        (NeighboursBlock, "range_m", 1e-300),
        (LidarBlock, "range_m", 1e-300),
        (TargetBlock, "range_m", 1e-300),
        (PathBlock, "range_m", 1e-300),
        (PositionBlock, "range_m", 1e-300),
        (CommunicationConfig, "range_m", 1e-300),
        (GridConfig, "step_s", 1e-12),
        (DifferentialDriveConfig, "max_deceleration_mps2", 1e-300),
        (DifferentialDriveConfig, "max_speed_mps", 1e9),
        (RandomisationConfig, "min_traction_factor", 1e-300),
        (RandomisationConfig, "min_speed_factor", 1e-300),
    ],
)
def test_numbers_that_no_robot_has_are_refused(section: Any, key: str, value: float) -> None:
    with pytest.raises(ValidationError, match=r"should be (greater|less) than or equal to"):
        section(**{key: value})


def test_limits_of_a_role_are_refused_like_those_of_the_drive() -> None:
    with pytest.raises(ValidationError, match=r"greater than or equal to 0\.001"):
        RoleConfig(role="carrier", count=1, max_deceleration_mps2=1e-300)
    with pytest.raises(ValidationError, match=r"greater than or equal to 0\.001"):
        SpeedZoneConfig(first=(0, 0), last=(0, 0), limit_mps=1e-300)
    with pytest.raises(ValidationError, match=r"greater than or equal to 0\.01"):
        LayoutConfig(grid=FLOOR, cell_size_m=1e-3)


@pytest.mark.parametrize(
    "section",
    [
        {"tasks": TaskConfig(timeout_s=1e300)},
        {"tasks": TaskConfig(idle_yield_s=1e300)},
        {"contact": ContactConfig(rule="stop", stop_s=1e300)},
        {"contact": ContactConfig(rule="despawn", respawn_after_s=1e300)},
        {"deadlock": DeadlockConfig(cycle_s=1e300, no_progress_s=1e300)},
        {
            "tasks": TaskConfig(
                arrival="list", transports=(TransportConfig(pickups=((0, 0),), delivery=(0, 6), release_s=1e300),)
            )
        },
        {
            "communication": CommunicationConfig(range_m=0.01, handover_window_s=3600.0),
            "observation": (SelfBlock(), MessagesBlock()),
        },
    ],
)
def test_times_beyond_every_episode_mean_never(make_warehouse: Any, section: Any) -> None:
    config, layout = make_warehouse(FLOOR, 2, episode_steps=20, **section)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        simulator.arrays.roles["carrier"].discrete_actions[..., 0] = rng.integers(0, 5, (1, 2))
        simulator.step()
    assert simulator.arrays.episode_over.all()
    figures = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    for name in ("timeouts", "idle_yields", "deadlocks", "livelocks", "messages_arrived"):
        assert figures.get(name, 0) == 0
    if simulator.inbox is not None:
        # An hour of steps would be remembered otherwise.
        assert simulator.inbox.offered_then.shape[1] == 20


def test_short_range_on_a_large_floor_takes_no_bucket_for_every_square_of_it() -> None:
    buckets = make_buckets(1, 10, 0.01, 2_000.0, 1_000.0)
    assert buckets.columns * buckets.rows < 2_000
    assert buckets.per_m * 0.01 < 1.0
