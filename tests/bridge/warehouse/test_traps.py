"""Floor that robots could never leave again is closed to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.adapters.warehouse import WarehouseWorld
from bridge.policy import RandomPolicy
from bridge.warehouse.config import (
    DifferentialDriveConfig,
    GridConfig,
    HeadingGridConfig,
    LayoutConfig,
    OneWayConfig,
    RewardConfig,
    RoleConfig,
    WarehouseConfig,
)
from bridge.warehouse.config_randomisation import LayoutVariationConfig, RandomisationConfig
from bridge.warehouse.floor import make_moves
from bridge.warehouse.layout import distances_from

# The column on the right leads down into a corner without a way back.
DRAWING = "P.S.P..\n.###.#.\nP.E.P..\n......."
LANES = (
    OneWayConfig(first=(0, 6), last=(2, 6), exits=("down",)),
    OneWayConfig(first=(3, 6), last=(3, 6), exits=("right",)),
)
TRAPS = [6, 13, 20, 27]


def _world(**section: Any) -> WarehouseWorld:
    layout = LayoutConfig(grid=DRAWING, one_way=section.pop("one_way", LANES))
    fleet = section.pop("fleet", (RoleConfig(role="carrier", count=3, radius_m=0.3),))
    return WarehouseWorld(WarehouseConfig(layout=layout, fleet=fleet, **section), Path())


@pytest.mark.parametrize("drive", [GridConfig(), HeadingGridConfig(), DifferentialDriveConfig()])
def test_robots_never_enter_a_trap_and_never_lose_their_way(drive: Any) -> None:
    world = _world(drive=drive, reward=RewardConfig(progress=1.0), episode_steps=1_000)
    roster = world.roster(4)
    policy = RandomPolicy(world.spec, 0)
    roster.reset(seed=0)
    rewards, rightmost = [], 0
    for _ in range(300):
        policy.act(roster.arrays)
        roster.step()
        assert not np.isin(roster.cells, TRAPS).any()
        rightmost = max(rightmost, int((roster.cells % 7).max()))
        rewards.append(roster.arrays.roles["carrier"].rewards.copy())
    # They came beside it, and a way of thousands of cells never showed.
    assert rightmost == 5
    assert np.abs(rewards).max() < 30.0


def test_traps_are_told_and_named() -> None:
    world = _world()
    assert world.layout.traps is not None
    assert world.layout.traps.tolist() == TRAPS
    assert (distances_from(world.layout, 0)[TRAPS] < 0).all()
    assert world.warnings[0] == (
        "warehouse.layout: no station can be reached from 4 cells that one-way cells lead to (row 0, column 6; row 1, "
        "column 6; row 2, column 6; and 1 more). Robots are kept out of them. Give them an exit, or close them."
    )


def test_floor_without_traps_stays_as_it_is() -> None:
    world = _world(one_way=(OneWayConfig(first=(0, 6), last=(2, 6), exits=("down",)),))
    assert world.layout.traps is not None
    assert world.layout.traps.size == 0
    assert world.warnings == ()
    moves = make_moves(world.layout)
    assert moves[5, 2] == 6
    assert moves[6, 3] == 13


def test_rack_across_a_one_way_lane_makes_a_trap_of_it_in_that_variant() -> None:
    variation = LayoutVariationConfig(variants=40, max_blocked_cells=2)
    one_way = (OneWayConfig(first=(0, 6), last=(2, 6), exits=("down",)),)
    world = _world(one_way=one_way, randomisation=RandomisationConfig(layout=variation))
    layouts = [variant.layout for variant in world.variants]
    blocked = [layout for layout in layouts if layout.blocked[1, 6] and not layout.blocked[0, 5]]
    assert blocked
    for layout in blocked:
        # Above it nothing leads on; below it the lane can still be reached from the side.
        assert layout.traps is not None
        assert layout.traps.tolist() == [6]
