"""Token passing: paths that never meet, on floors where nobody can be locked in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.adapters.warehouse import WarehouseWorld
from bridge.episodes import run_episodes
from bridge.errors import SpecMismatchError
from bridge.fleet_size import with_fleet
from bridge.planners.token_passing import TokenPassingPolicy
from bridge.planners.well_formed import well_formed_faults
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.simulator import WarehouseSimulator


def _simulator(rows: list[str], count: int, num_envs: int = 1, **changes: Any) -> WarehouseSimulator:
    data = {"layout": {"grid": "\n".join(rows)}, "fleet": ({"role": "carrier", "count": count},), **changes}
    config = WarehouseConfig.model_validate(data)
    return WarehouseSimulator(config, Layout.from_drawing(rows, 1.0, "test"), num_envs)


def _run(simulator: WarehouseSimulator, policy: TokenPassingPolicy, steps: int) -> int:
    """Step; fails on a refused move or a shared cell. Number of deliveries."""
    delivered = 0
    for _ in range(steps):
        policy.act(simulator.arrays)
        simulator.step()
        assert not simulator.outcome.refused.any()
        for cells, alive in zip(simulator.cells, simulator.alive, strict=True):
            assert len(np.unique(cells[alive])) == alive.sum()
        delivered += int((simulator.outcome.served == 2).sum())
    return delivered


def _world(name: str, num_robots: int | None = None) -> WarehouseWorld:
    scenario = load_scenario(name)
    world = open_world(scenario if num_robots is None else with_fleet(scenario, num_robots))
    assert isinstance(world, WarehouseWorld)
    return world


@pytest.mark.parametrize("name", ["warehouse_one_lane", "warehouse_sorting", "warehouse_crossdock", "warehouse_kiva"])
def test_token_passing_flows_without_contact_or_refused_move_on_shipped_scenarios(name: str) -> None:
    world = _world(name)
    roster = world.roster(2)
    results = run_episodes(roster, world.planners["token_passing"](roster), seed=5, num_episodes=2)
    bound = world.throughput_bound().deliveries_per_h
    for result in results:
        assert result.metrics["collisions"] == result.metrics["blocked_moves"] == 0
        assert 0.25 * bound < result.metrics["deliveries_per_h"] <= bound


def test_token_passing_drives_a_single_robot_along_shortest_paths() -> None:
    # Four cells to the delivery and four back: one delivery in eight steps.
    simulator = _simulator(["S...E", "P...."], 1)
    simulator.reset(0)
    assert _run(simulator, TokenPassingPolicy(simulator), 81) == 10


def test_token_passing_lets_robots_pass_in_a_corridor_with_a_bay() -> None:
    simulator = _simulator(["##P###P##", "S.......E", "##P###P##"], 2)
    simulator.reset(1)
    assert _run(simulator, TokenPassingPolicy(simulator), 400) >= 20


def test_token_passing_repeats_and_does_not_mix_environments() -> None:
    rows = ["P.P.P", ".....", "S...E", "....."]
    many, alone = _simulator(rows, 3, num_envs=3), _simulator(rows, 3)
    many.reset(4)
    alone.reset(4)
    policies = TokenPassingPolicy(many), TokenPassingPolicy(alone)
    for _ in range(60):
        for policy, simulator in zip(policies, (many, alone), strict=True):
            policy.act(simulator.arrays)
            simulator.step()
        np.testing.assert_array_equal(many.cells[0], alone.cells[0])
    assert not np.array_equal(many.cells[0], many.cells[1])


def test_token_passing_begins_anew_when_an_episode_begins_or_a_battery_is_flat() -> None:
    battery = {"initial_min": 0.02, "initial_max": 1.0, "drain_moving_per_h": 10.0}
    fleet = ({"role": "carrier", "count": 3, "battery": battery},)
    simulator = _simulator(["PPP..", ".....", "S...E", "....."], 3, fleet=fleet, episode_steps=60)
    simulator.reset(2)
    assert _run(simulator, TokenPassingPolicy(simulator), 200) > 20
    assert simulator.arrays.episode[0] == 3
    assert (simulator.charge[0] >= 0).all()


def test_token_passing_refuses_what_it_cannot_promise() -> None:
    rows = ["P...S", "E...."]
    with pytest.raises(SpecMismatchError, match=r"a parking place for each of 2 robots, got 1\. .*or use PIBT\."):
        TokenPassingPolicy(_simulator(rows, 2))
    TokenPassingPolicy(_simulator(rows, 2), require_well_formed=False)
    with pytest.raises(SpecMismatchError, match=r"TokenPassingPolicy: expected drive 'grid', got 'differential'"):
        TokenPassingPolicy(_simulator(rows, 1, drive={"kind": "differential"}))


def test_planners_of_a_world_hold_token_passing_only_where_it_is_sure_to_finish() -> None:
    assert set(_world("warehouse_one_lane").planners) == {"pibt", "token_passing"}
    assert set(_world("warehouse_one_lane", 17).planners) == {"pibt"}
    assert _world("warehouse_drive").planners == {}


@pytest.mark.parametrize(
    ("rows", "robots", "fault"),
    [
        (["P.S", "..E"], 1, None),
        (["PSE"], 1, r"row 0, column 0"),
        (["P..", "S#E", "..."], 1, None),
        # Pick-ups in a corridor: the middle one is between the two others.
        (["P.....E", "#.###.#", "#SSS..#"], 1, r"row 2, column 2"),
        (["P.S", "..E"], 2, r"a parking place for each of 2 robots, got 1"),
    ],
)
def test_well_formed_faults_name_enclosed_endpoints(rows: list[str], robots: int, fault: str | None) -> None:
    faults = well_formed_faults(Layout.from_drawing(rows, 1.0, "test"), robots)
    if fault is None:
        assert faults == []
    else:
        assert len(faults) == 1
        assert fault in faults[0]
