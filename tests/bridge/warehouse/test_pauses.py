"""Who stood for a reason of its own, and what such steps count as."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridge.planners import PibtHeadingPolicy, PibtPolicy
from bridge.warehouse.config import (
    BatteryConfig,
    ContactConfig,
    DifferentialDriveConfig,
    HeadingGridConfig,
    RoleConfig,
    ServiceConfig,
    TaskConfig,
)
from bridge.warehouse.config_randomisation import ExecutionDelayConfig, RandomisationConfig
from bridge.warehouse.feature import HELD_DELAYED, HELD_HELPING, HELD_SERVED, HELD_SLOW, HELD_STOPPED
from bridge.warehouse.features import has_pauses
from bridge.warehouse.fleet import make_fleet, make_outcome, make_pose
from bridge.warehouse.pauses import DRIVES, HALTED, SERVED, note_pauses
from bridge.warehouse.simulator import WarehouseSimulator

HALL = """
S..P..E
.##.##.
.##.##.
E..P..S
"""


@pytest.mark.parametrize(
    ("moved_m", "held", "charge", "turn_rate", "pause"),
    [
        (1.0, 0, 1.0, 0.0, 0),
        (1.0, HELD_SERVED, 0.0, 1.0, 0),
        (0.0, 0, 1.0, 0.0, 0),
        (0.0, 0, 1.0, -0.5, DRIVES),
        (0.0, HELD_SLOW, 1.0, 0.0, DRIVES),
        (0.0, HELD_SLOW | HELD_DELAYED, 1.0, 0.0, DRIVES),
        (0.0, HELD_DELAYED, 1.0, 0.0, HALTED),
        (0.0, HELD_STOPPED, 1.0, 0.0, HALTED),
        (0.0, HELD_SLOW, 0.0, 0.0, HALTED),
        (0.0, HELD_SERVED | HELD_DELAYED, 0.0, 0.0, SERVED),
        (0.0, HELD_HELPING, 1.0, 0.0, SERVED),
    ],
)
def test_note_pauses_tells_why_a_robot_stood(
    moved_m: float, held: int, charge: float, turn_rate: float, pause: int
) -> None:
    fleet, pose, outcome = make_fleet(1, 1), make_pose(1, 1), make_outcome(1, 1)
    fleet.held[:], fleet.charge[:] = held, charge
    outcome.moved_m[:], outcome.pause[:] = moved_m, 9
    pose.turn_rate[:] = turn_rate
    note_pauses(fleet, pose, outcome)
    assert outcome.pause[0, 0] == pause


def _figures(
    make_warehouse: Any, policy: Any, count: int = 1, limit_mps: float | None = None, **section: Any
) -> dict[str, float]:
    section.setdefault("tasks", TaskConfig(service=ServiceConfig(pick_s=3.0, drop_s=2.0)))
    config, layout = make_warehouse(HALL, count, episode_steps=300, **section)
    if limit_mps is not None:
        layout = replace(layout, speed_limit_mps=np.full(layout.blocked.size, limit_mps, np.float32))
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=2)
    driver = policy(simulator)
    for _ in range(300):
        driver.act(simulator.arrays)
        simulator.step()
    figures = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True))
    assert figures["deliveries"] > 3
    return figures


def test_a_lone_robot_that_turns_and_is_served_never_waits(make_warehouse: Any) -> None:
    figures = _figures(make_warehouse, PibtHeadingPolicy, drive=HeadingGridConfig())
    assert figures["waiting_share"] == figures["stops"] == figures["traffic_wait_s"] == figures["halted_s"] == 0.0


def test_a_lone_robot_in_a_slow_zone_never_waits(make_warehouse: Any) -> None:
    # A zone of half the speed on the whole floor: every other step is spent in a cell.
    tasks = TaskConfig(service=ServiceConfig())
    figures = _figures(make_warehouse, PibtPolicy, limit_mps=0.5, tasks=tasks)
    assert figures["waiting_share"] == figures["stops"] == figures["traffic_wait_s"] == figures["halted_s"] == 0.0


def test_many_robots_do_wait_also_where_they_turn(make_warehouse: Any) -> None:
    figures = _figures(make_warehouse, PibtHeadingPolicy, count=6, drive=HeadingGridConfig())
    assert figures["waiting_share"] > 0.0
    assert figures["stops"] > 0.0
    assert figures["queue_wait_s"] + figures["traffic_wait_s"] > 0.0


def test_delays_of_a_lone_robot_are_halts_and_no_traffic(make_warehouse: Any) -> None:
    delays = ExecutionDelayConfig(probability=0.1, min_steps=2, max_steps=4)
    figures = _figures(make_warehouse, PibtPolicy, randomisation=RandomisationConfig(execution_delays=delays))
    assert figures["halted_s"] > 1.0
    assert figures["waiting_share"] == figures["stops"] == figures["traffic_wait_s"] == 0.0


def test_has_pauses_where_a_robot_may_stand_for_a_reason_of_its_own(make_warehouse: Any) -> None:
    def answer(**section: Any) -> bool:
        return has_pauses(*make_warehouse(HALL, **section))

    assert not answer()
    assert answer(drive=HeadingGridConfig())
    assert answer(drive=DifferentialDriveConfig())
    assert answer(tasks=TaskConfig(service=ServiceConfig()))
    assert answer(contact=ContactConfig(rule="stop"))
    battery = BatteryConfig(initial_min=0.0)
    assert answer(fleet=(RoleConfig(role="carrier", count=1, battery=battery),))
