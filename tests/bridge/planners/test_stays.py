"""How long robots stay in cells: against the simulator's own zones and delays, and where it can be worked out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridge.planners.stays import Stays, make_stays, standing_steps
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.config_randomisation import ExecutionDelayConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.simulator import WarehouseSimulator

ROWS = ["P...S", "....E"]
DELAYS: dict[str, dict[str, Any]] = {
    "rare": {"probability": 0.02, "min_steps": 2, "max_steps": 12},
    "often": {"probability": 0.3, "min_steps": 1, "max_steps": 4},
    "poisson": {"probability": 0.4, "events": "poisson", "min_steps": 3, "max_steps": 3},
    "gaussian": {"probability": 0.1, "min_steps": 2, "max_steps": 9, "duration": "gaussian"},
    "skewed": {
        "probability": 0.1,
        "min_steps": 2,
        "max_steps": 9,
        "duration": "gaussian",
        "mean_ratio": 0.2,
        "std_ratio": 0.35,
    },
    "mean": {"probability": 0.1, "min_steps": 2, "max_steps": 9, "duration": "gaussian", "std_ratio": 0.0},
}


def _warehouse(limit_mps: float | None = None, **section: Any) -> tuple[WarehouseConfig, Layout]:
    data = {"layout": {"grid": "\n".join(ROWS)}, "fleet": ({"role": "carrier", "count": 1},), **section}
    layout = Layout.from_drawing(ROWS, 1.0, "test")
    if limit_mps is not None:
        layout = replace(layout, speed_limit_mps=np.full(10, limit_mps, np.float32))
    return WarehouseConfig.model_validate(data), layout


def _steps_per_move(config: WarehouseConfig, layout: Layout) -> float:
    """Mean of a robot that drives up and down whenever it can."""
    simulator = WarehouseSimulator(config, layout, 256)
    simulator.reset(4)
    moves = 0
    for _ in range(1000):
        up = simulator.cells >= 5
        simulator.arrays.roles["carrier"].discrete_actions[..., 0] = np.where(up, 1, 3)
        simulator.step()
        moves += int((simulator.outcome.moved_m > 0).sum())
    return 256 * 1000 / moves


@pytest.mark.parametrize("limit_mps", [None, 0.5, 0.15])
@pytest.mark.parametrize("name", DELAYS)
def test_stays_are_those_of_robots_that_drive_whenever_they_can(name: str, limit_mps: float | None) -> None:
    section = {"randomisation": {"execution_delays": DELAYS[name]}, "episode_steps": 1001}
    config, layout = _warehouse(limit_mps, **section)
    stays = make_stays(config, layout)
    assert stays.through[0] == pytest.approx(_steps_per_move(config, layout), rel=0.02)
    assert stays.turn <= stays.through[0]


def test_stays_are_whole_steps_without_delays_and_those_of_zones() -> None:
    config, layout = _warehouse()
    plain = make_stays(config, layout)
    assert plain.are_single
    assert plain.longest == plain.overdue == 0.0
    slow = make_stays(*_warehouse(0.3))
    assert (slow.through == 4.0).all()
    assert slow.longest == 3.0
    assert slow.turn == 1.0


def test_standing_steps_count_holds_that_are_too_long_for_the_table_themselves() -> None:
    delays = ExecutionDelayConfig(probability=0.1, min_steps=4, max_steps=4)
    few, many = standing_steps(delays, np.array([10], np.int32)), standing_steps(delays, np.array([10, 2_000_000_000]))
    assert few[0] == many[0] > 10.0
    assert many[1] == 2_000_000_000


def test_standing_steps_never_fall_with_the_hold() -> None:
    for delay in DELAYS.values():
        steps = standing_steps(ExecutionDelayConfig.model_validate(delay), np.arange(200, dtype=np.int32))
        assert (np.diff(steps) > 0.0).all()
        assert (steps > np.arange(200)).all()


def _held(stays: Stays) -> tuple[float, float]:
    return float(stays.pickups[0]), float(stays.deliveries[0])


def test_stations_hold_robots_for_what_a_service_leaves_of_their_zone() -> None:
    assert _held(make_stays(*_warehouse(0.2))) == (4.0, 4.0)
    service = {"service": {"pick_s": 1.0, "drop_s": 7.0}}
    assert _held(make_stays(*_warehouse(0.2, tasks=service))) == (3.0, 0.0)
    # The longest of the services that are drawn: 3 of 2.
    drawn = {"service": {"pick_s": 2.0, "drop_s": 2.0, "spread": 0.5}}
    assert _held(make_stays(*_warehouse(0.2, tasks=drawn))) == (1.0, 1.0)


@pytest.mark.parametrize(
    "section",
    [{"contact": {"rule": "despawn"}}, {"deadlock": {"resolve": "relocate"}}],
)
def test_stays_count_neither_delays_nor_holds_at_stations_that_robots_leave_otherwise(section: dict[str, Any]) -> None:
    random = {"execution_delays": DELAYS["often"]}
    stays = make_stays(*_warehouse(0.2, randomisation=random, **section))
    assert (stays.through == 5.0).all()
    assert _held(stays) == (0.0, 0.0)
    assert stays.overdue == 0.0


def test_stays_of_the_luckiest_robot_are_those_of_zones_alone() -> None:
    config, layout = _warehouse(0.5, randomisation={"execution_delays": DELAYS["often"]})
    stays = make_stays(config, layout, at_least=True)
    assert (stays.through == 2.0).all()
    assert _held(stays) == (0.0, 0.0)


def test_stations_that_are_parking_places_or_served_twice_hold_nobody() -> None:
    config, layout = _warehouse(0.2)
    assert _held(make_stays(config, replace(layout, parking=layout.pickups))) == (0.0, 4.0)
    assert _held(make_stays(config, replace(layout, deliveries=layout.pickups))) == (0.0, 0.0)
    assert _held(make_stays(*_warehouse(0.2, tasks={"errands": 2}))) == (0.0, 4.0)
