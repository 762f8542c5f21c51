"""Pickers and carriers in lanes: everybody comes to where it is called."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.episodes import run_episodes
from bridge.planners import PibtPolicy
from bridge.warehouse.config import RoleConfig
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
