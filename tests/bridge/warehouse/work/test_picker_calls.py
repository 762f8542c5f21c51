"""Pickers and carriers in lanes: everybody comes to where it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.episodes import run_episodes
from bridge.planners import PibtPolicy
from bridge.warehouse.config import BatteryConfig, ChargingConfig, RoleConfig, ServiceConfig, TaskConfig
from bridge.warehouse.feature import HELD_HELPING, OFF_CHARGING
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.work.meeting_places import with_meeting_places

# Every two neighbouring cells of these lie on a loop. Pickers that had the right of way over the queue at all times
# pushed carriers to and fro in the lanes, and these them, for ever.
LOOPS = (
    ("P.P.P.P.\n........\nE.##.##.\n..##.##S\nE.......", 3, 2),
    (".E.....#\nS.##.#.#\n..#.....\n..S.P.S.", 3, 2),
    ("E.....###\n.#....###\n.S.######\n.....####\n......###\n##.#.E###\n##S..####", 4, 3),
    ("#.S..\n#.#..\n.E...\n.....\n...P.\n###..", 5, 2),
)


@pytest.mark.parametrize(("floor", "carriers", "pickers"), LOOPS)
def test_carriers_and_pickers_do_not_push_each_other_to_and_fro_in_lanes(
    make_warehouse: Any, floor: str, carriers: int, pickers: int
) -> None:
    fleet = (RoleConfig(role="carrier", count=carriers), RoleConfig(role="picker", count=pickers, job="pick"))
    config, layout = make_warehouse(floor, fleet=fleet, episode_steps=400)
    simulator = WarehouseSimulator(config, with_meeting_places(layout, "test"), 4)
    results = run_episodes(simulator, PibtPolicy(simulator), seed=1, num_episodes=4)
    assert min(result.metrics["deliveries"] for result in results) > 30
    assert sum(result.metrics["livelocks"] + result.metrics["deadlocks"] for result in results) == 0


def test_picker_that_runs_low_while_it_helps_goes_to_its_charger_afterwards(make_warehouse: Any) -> None:
    battery = BatteryConfig(
        drain_idle_per_h=36.0, initial_min=0.5, charging=ChargingConfig(rate_per_h=120.0, below=0.4, until=0.6)
    )
    fleet = (
        RoleConfig(role="carrier", count=2),
        RoleConfig(role="picker", count=2, job="pick", battery=battery),
    )
    tasks = TaskConfig(service=ServiceConfig(pick_s=6.0, drop_s=1.0))
    config, layout = make_warehouse(
        "P.P.P.P\nC.....C\nE.##.##\n..##.##\n...S..S\nE......", fleet=fleet, tasks=tasks, episode_steps=400
    )
    simulator = WarehouseSimulator(config, with_meeting_places(layout, "test"), 4)
    policy = PibtPolicy(simulator)
    simulator.reset(seed=0)
    parts, chargers, sent_while_helping = simulator._parts, simulator._floor.chargers, 0
    for _ in range(399):
        policy.act(simulator.arrays)
        simulator.step()
        goals = parts.fleet.goal[:, 2:]
        to_charger = np.isin(goals, chargers)
        # Who is off duty for a charger has one, of two for two pickers; and no charger is kept for nobody.
        np.testing.assert_array_equal(to_charger, parts.fleet.off_duty[:, 2:] & OFF_CHARGING != 0)
        np.testing.assert_array_equal(parts.pool.claimed[:, chargers].sum(axis=1), to_charger.sum(axis=1))
        sent_while_helping += int((to_charger & (parts.fleet.held[:, 2:] & HELD_HELPING != 0)).sum())
    assert sent_while_helping > 10


def test_picker_does_not_wait_for_a_carrier_that_another_one_without_a_picker_keeps_out(make_warehouse: Any) -> None:
    """Pick-ups in a lane, two errands a task, one picker: its call held on to a carrier that could not come."""
    fleet = (RoleConfig(role="carrier", count=5), RoleConfig(role="picker", count=1, job="pick"))
    floor = """
        P.P.P.P.P.P
        ...........
        E.##.##.##S
        ..##.##.##.
        E.........S
        ..##.##.##.
        ..##.##.##.
        P.P.P.P.P.P
        ...........
    """
    config, layout = make_warehouse(floor, fleet=fleet, tasks=TaskConfig(errands=2), episode_steps=300)
    simulator = WarehouseSimulator(config, with_meeting_places(layout, "test"), 8)
    results = run_episodes(simulator, PibtPolicy(simulator), seed=1, num_episodes=8)
    assert min(result.metrics["deliveries"] for result in results) > 25
