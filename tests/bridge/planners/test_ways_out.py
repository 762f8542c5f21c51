"""Robots that come out of dead ends have the right of way over those that go in."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.episodes import run_episodes
from bridge.layout_seed import with_layout_seed
from bridge.planners.pibt import PibtPolicy
from bridge.planners.pibt_heading import PibtHeadingPolicy
from bridge.planners.ways_out import WaysOut, let_out
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.dead_ends import ways_out
from bridge.warehouse.layout import Layout, distances_to
from bridge.warehouse.simulator import WarehouseSimulator

# A loop with a dead end of five cells, which has a side branch of one.
FLOOR = ["...####", ".#.....", "...##.#"]


def _changed(cells: list[int], goal_cells: list[int], priority: list[int], movable: list[bool]) -> list[int]:
    layout = Layout.from_drawing(FLOOR, 1.0, "test")
    distance = np.stack([distances_to(layout, cell) for cell in goal_cells])
    result = let_out(
        np.array([cells], np.int32),
        np.arange(len(cells), dtype=np.int32)[None],
        np.ones((1, len(cells)), np.bool_),
        np.array([movable]),
        np.array([priority], np.int64),
        distance,
        ways_out(layout),
    )
    return np.argsort(-result[0]).tolist()


def test_ways_out_lead_from_every_cell_of_a_dead_end_to_its_mouth() -> None:
    layout = Layout.from_drawing(FLOOR, 1.0, "test")
    out = ways_out(layout)
    assert np.flatnonzero(out >= 0).tolist() == [10, 11, 12, 13, 19]
    assert out[[10, 11, 12, 13, 19]].tolist() == [9, 10, 11, 12, 12]


@pytest.mark.parametrize(
    ("cells", "goals", "movable", "order"),
    [
        # 0 goes in, 1 comes out: 1 plans first.
        ([10, 11], [13, 0], [True, True], [1, 0]),
        # 1 goes in behind 0, which stands in the mouth: 2 comes out and plans before both.
        ([9, 10, 11], [13, 12, 0], [True] * 3, [2, 0, 1]),
        # Both go in, or the one inside stays there, or cannot move, or there is a cell between them.
        ([10, 11], [12, 13], [True, True], [0, 1]),
        ([10, 11], [13, 11], [True, True], [0, 1]),
        ([10, 11], [13, 0], [True, False], [0, 1]),
        ([10, 12], [13, 0], [True, True], [0, 1]),
        # Both come out; or they meet on the loop.
        ([10, 11], [0, 2], [True, True], [0, 1]),
        ([1, 2], [9, 0], [True, True], [0, 1]),
        # From one branch to the other, past the one that goes in.
        ([11, 12], [13, 10], [True, True], [1, 0]),
    ],
)
def test_let_out_puts_who_comes_out_against_another_robot_before_everybody(
    cells: list[int], goals: list[int], movable: list[bool], order: list[int]
) -> None:
    assert _changed(cells, goals, list(range(len(cells), 0, -1)), movable) == order


DEAD_END = """
P.P.P.P.P
.........
E.......E
####.####
####.####
####.####
S.......S
"""


@pytest.mark.parametrize(("drive", "at_least"), [("grid", 50), ("grid_heading", 25)])
def test_pibt_works_where_all_pickups_lie_in_a_dead_end(drive: str, at_least: int) -> None:
    rows = DEAD_END.strip().splitlines()
    section = {
        "layout": {"grid": "\n".join(rows)},
        "fleet": ({"role": "carrier", "count": 3},),
        "drive": {"kind": drive},
        "deadlock": {"cycle_s": 10.0, "no_progress_s": 200.0},
        "episode_steps": 800,
    }
    layout = Layout.from_drawing(rows, 1.0, "test")
    simulator = WarehouseSimulator(WarehouseConfig.model_validate(section), layout, 4)
    policy = PibtPolicy(simulator) if drive == "grid" else PibtHeadingPolicy(simulator)
    for result in run_episodes(simulator, policy, seed=5, num_episodes=4):
        assert result.metrics["deliveries"] > at_least
        assert result.metrics["deadlocks"] == result.metrics["collisions"] == result.metrics["blocked_moves"] == 0


def test_pibt_works_in_halls_with_blocked_aisles() -> None:
    world = open_world(with_layout_seed(load_scenario("warehouse_varied"), 4))
    roster = world.roster(8)
    results = run_episodes(roster, world.planners["pibt"](roster), seed=1_000_000, num_episodes=8)
    roster.close()
    assert min(result.metrics["deliveries_per_h"] for result in results) > 900
    assert sum(result.metrics["deadlocks"] for result in results) == 0


def test_ways_out_leave_priorities_alone_where_there_are_no_dead_ends() -> None:
    roster = open_world(load_scenario("warehouse_small")).roster(2)
    roster.reset(3)
    assert isinstance(roster, WarehouseSimulator)
    np.testing.assert_array_equal(WaysOut(roster).priority(slice(None), roster.goal_distances), roster.priority)
    roster.close()
