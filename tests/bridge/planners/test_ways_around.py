"""Ways of PIBT around robots with an empty battery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.planners import PibtHeadingPolicy, PibtPolicy
from bridge.planners.ways_around import WaysAround
from bridge.warehouse.config import (
    BatteryConfig,
    GridConfig,
    HeadingGridConfig,
    LayoutConfig,
    RoleConfig,
    WarehouseConfig,
)
from bridge.warehouse.layout import Layout
from bridge.warehouse.simulator import WarehouseSimulator

# Two pick-ups, of which the second has one free neighbour.
HALL = "S....E\n......\n#####.\nS....."


def _simulator(drawing: str = HALL, count: int = 3, num_envs: int = 1, **section: Any) -> WarehouseSimulator:
    section.setdefault("fleet", (RoleConfig(role="carrier", count=count),))
    config = WarehouseConfig(layout=LayoutConfig(grid=drawing), **section)
    simulator = WarehouseSimulator(config, Layout.from_drawing(drawing.split("\n"), 1.0, "test"), num_envs)
    simulator.reset(seed=1)
    return simulator


def _by_hand(simulator: WarehouseSimulator, goal: int, walls: set[int]) -> list[int]:
    """Cells from everywhere to a goal that avoid ``walls``, -1 for no way: a plain flood."""
    distance = [-1] * len(simulator.moves)
    distance[goal], front = 0, [goal]
    while front:
        cell = front.pop(0)
        for other in simulator.moves[cell, 1:].tolist():
            if other not in walls and distance[other] < 0:
                distance[other] = distance[cell] + 1
                front.append(other)
    return distance


def _strand(simulator: WarehouseSimulator, env: int, robot: int, cell: int) -> None:
    simulator.cells[env, robot] = cell
    simulator.charge[env, robot] = 0.0


def _give_goals(simulator: WarehouseSimulator, env: int, cells: list[int]) -> list[int]:
    """Rows of the cells, which the robots of an environment go to from now on."""
    rows = np.searchsorted(np.unique(np.concatenate([simulator.layout.pickups, simulator.layout.deliveries])), cells)
    simulator.goal_index[env] = rows
    return [int(row) for row in rows]


def test_ways_around_finds_nothing_to_lead_around_while_all_robots_are_charged() -> None:
    ways = WaysAround(_simulator())
    assert list(ways.around_flat_robots()) == []


def test_ways_around_equals_a_flood_that_avoids_the_flat_robots_of_the_environment() -> None:
    simulator = _simulator(num_envs=2)
    ways = WaysAround(simulator)
    usual = ways.distance.copy()
    rows = _give_goals(simulator, 1, [0, 5, 5])
    _strand(simulator, 1, 2, 3)
    ((env, around),) = ways.around_flat_robots()
    assert env == 1
    for row, goal in zip(rows[:2], (0, 5), strict=True):
        by_hand = _by_hand(simulator, goal, {3})
        others = [cell for cell in range(len(by_hand)) if cell != 3]
        assert around[row, others].tolist() == [by_hand[cell] for cell in others]
    assert around[rows[0], 4] == 6
    assert usual[rows[0], 4] == 4
    assert np.array_equal(ways.distance, usual)


def test_ways_around_leads_up_to_a_flat_robot_that_stands_on_the_goal() -> None:
    simulator = _simulator()
    ways = WaysAround(simulator)
    (row, *_) = _give_goals(simulator, 0, [0, 0, 0])
    _strand(simulator, 0, 1, 0)
    ((_, around),) = ways.around_flat_robots()
    assert around[row].tolist() == ways.distance[row].tolist()


def test_ways_around_leads_nearest_to_flat_robots_that_cut_the_goal_off() -> None:
    simulator = _simulator()
    ways = WaysAround(simulator)
    (row, *_) = _give_goals(simulator, 0, [18, 18, 18])
    _strand(simulator, 0, 1, 19)
    ((_, around),) = ways.around_flat_robots()
    assert around[row, 20] < around[row, 21] < around[row, 5]
    assert around[row, 18] == 0
    assert (around[row][[0, 5, 20]] > len(simulator.moves)).all()
    assert (around[row, 12:17] == -1).all()


def test_ways_around_follows_robots_that_run_flat_and_come_to_life_again() -> None:
    simulator = _simulator()
    ways = WaysAround(simulator)
    (row, *_) = _give_goals(simulator, 0, [0, 0, 0])
    _strand(simulator, 0, 1, 3)
    assert [int(around[row, 4]) for _, around in ways.around_flat_robots()] == [6]
    _strand(simulator, 0, 2, 9)
    assert [int(around[row, 4]) > len(simulator.moves) for _, around in ways.around_flat_robots()] == [True]
    simulator.charge[0, 1] = 0.5
    assert [int(around[row, 4]) for _, around in ways.around_flat_robots()] == [4]
    simulator.charge[0, 2] = 0.5
    assert list(ways.around_flat_robots()) == []


@pytest.mark.parametrize(("drive", "policy"), [(GridConfig(), PibtPolicy), (HeadingGridConfig(), PibtHeadingPolicy)])
@pytest.mark.parametrize("drawing", ["S.....P.....E\n.............", ".............\nS.....P.....E\n............."])
def test_pibt_drives_around_a_robot_that_ran_flat_in_an_open_hall(drive: Any, policy: Any, drawing: str) -> None:
    empty = BatteryConfig(initial_min=0.0, initial_max=0.0)
    fleet = (RoleConfig(role="flat", count=1, battery=empty), RoleConfig(role="carrier", count=2))
    simulator = _simulator(drawing, fleet=fleet, drive=drive, episode_steps=200)
    assert simulator.layout.parking.tolist() == simulator.cells[0, :1].tolist(), "in the middle of the straight way"
    planner = policy(simulator)
    while not simulator.arrays.episode_over[0]:
        planner.act(simulator.arrays)
        simulator.step()
    figures = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True))
    assert figures["deliveries"] >= 8
    assert figures["livelocks"] == figures["deadlocks"] == figures["collisions"] == 0
