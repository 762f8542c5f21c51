"""Token passing: paths that never meet, on floors where nobody can be locked in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridge.adapters.warehouse import WarehouseWorld
from bridge.episodes import run_episodes
from bridge.errors import SpecMismatchError
from bridge.fleet_size import with_fleet
from bridge.planners.token_passing import TokenPassingPolicy, token_passing_faults
from bridge.planners.well_formed import well_formed_faults
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import ALL_EXITS, EXIT_LEFT, EXIT_RIGHT, Layout
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.work.meeting_places import with_meeting_places


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


YARD = ["P.P.P.P.P", ".........", "S..#.#..E", "...#.#...", "S..#.#..E", "........."]


def test_token_passing_plans_through_the_pick_up_to_the_delivery() -> None:
    simulator = _simulator(YARD, 3, tasks={"dispatch": "token", "service": {"pick_s": 3.0, "drop_s": 2.0}})
    simulator.reset(3)
    policy = TokenPassingPolicy(simulator)
    planned = through = 0
    for _ in range(200):
        policy.act(simulator.arrays)
        token, busy = policy._tokens[0], simulator.has_task[0]
        # Nobody's task ends where that of another robot does.
        ends = simulator.delivery_index[0][busy]
        assert len(set(ends.tolist())) == len(ends)
        empty = busy & ~simulator.loaded[0] & simulator.movable[0]
        whole = token.planned[empty] == simulator.delivery_index[0][empty]
        assert (token.passes[empty][whole] == simulator.goal_index[0][empty][whole]).all()
        planned, through = planned + int(empty.sum()), through + int(whole.sum())
        simulator.step()
        assert not simulator.outcome.refused.any()
    # All but those whose delivery is about to be left.
    assert planned > 100
    assert through > 0.8 * planned


@pytest.mark.parametrize("dispatch", ["nearest", "fifo", "token"])
@pytest.mark.parametrize(
    "section",
    [
        {},
        {"tasks": {"service": {"pick_s": 3.0, "drop_s": 2.0}}},
        {"tasks": {"service": {"pick_s": 6.0, "drop_s": 3.0, "spread": 0.8}}},
        {"tasks": {"errands": 3}},
        {"tasks": {"errands": 2, "service": {"pick_s": 2.0, "drop_s": 2.0}}},
        {"tasks": {"timeout_s": 6.0}},
        {"tasks": {"arrival": "poisson", "rate_per_h": 400.0}},
    ],
    ids=["plain", "services", "drawn services", "errands", "served errands", "timeouts", "arrivals"],
)
def test_token_passing_delivers_without_a_refused_move_with_every_kind_of_work(
    section: dict[str, Any], dispatch: str
) -> None:
    tasks = {"dispatch": dispatch, **section.get("tasks", {})}
    simulator = _simulator(YARD, 5, 2, tasks=tasks)
    simulator.reset(6)
    assert _run(simulator, TokenPassingPolicy(simulator), 300) > 20


def test_token_passing_takes_the_shortest_way_through_a_service() -> None:
    # Four cells there, four back, three steps at the pick-up, two at the delivery: thirteen steps.
    simulator = _simulator(["S...E", "P...."], 1, tasks={"service": {"pick_s": 3.0, "drop_s": 2.0}})
    simulator.reset(0)
    assert _run(simulator, TokenPassingPolicy(simulator), 133) == 10


def test_token_passing_leaves_a_station_that_was_faster_than_it_might_have_been() -> None:
    tasks = {"service": {"pick_s": 20.0, "drop_s": 0.0, "spread": 0.9}}
    simulator = _simulator(["S...E", "P...."], 1, tasks=tasks)
    simulator.reset(0)
    # Eight cells and 20 steps in the mean; 38 at the longest.
    assert _run(simulator, TokenPassingPolicy(simulator), 2000) > 2000 / 32


def test_token_passing_plans_with_the_time_that_slow_zones_take() -> None:
    rows = ["P.P.P.P.P", ".........", "S.......E", "........."]
    data: dict[str, Any] = {"layout": {"grid": "\n".join(rows)}, "tasks": {"dispatch": "token"}}
    data["fleet"] = ({"role": "carrier", "count": 4},)
    limits = np.full(36, np.nan, np.float32)
    limits[[4, 13, 22, 31]] = 0.3
    layout = replace(Layout.from_drawing(rows, 1.0, "test"), speed_limit_mps=limits)
    simulator = WarehouseSimulator(WarehouseConfig.model_validate(data), layout, 1)
    simulator.reset(1)
    policy = TokenPassingPolicy(simulator)
    anew = 0
    for step in range(200):
        before = policy._tokens[0].ends.copy()
        assert _run(simulator, policy, 1) >= 0
        # All paths end at once where the token begins anew.
        anew += step > 0 and bool((policy._tokens[0].ends < before).all())
    assert anew == 0
    # A round takes 8 + 8 cells, two of which take three steps more.
    data["fleet"] = ({"role": "carrier", "count": 1},)
    alone = WarehouseSimulator(WarehouseConfig.model_validate(data), layout, 1)
    alone.reset(1)
    assert _run(alone, TokenPassingPolicy(alone), 223) == 10


def test_token_passing_keeps_robots_apart_when_some_stop_for_a_while() -> None:
    random = {"execution_delays": {"probability": 0.02, "min_steps": 2, "max_steps": 15}}
    simulator = _simulator(YARD, 5, 2, randomisation=random)
    simulator.reset(6)
    assert _run(simulator, TokenPassingPolicy(simulator), 300) > 20


def test_token_passing_drives_one_way_aisles() -> None:
    rows = ["P.P.P.P", ".......", "S.###.E", ".......", "......."]
    layout = Layout.from_drawing(rows, 1.0, "test")
    exits = np.full((5, 7), ALL_EXITS, np.uint8)
    # Row 1 leads to the right, row 3 to the left.
    exits[1] &= ~np.uint8(EXIT_LEFT)
    exits[3] &= ~np.uint8(EXIT_RIGHT)
    layout = replace(layout, exits=exits.ravel())
    data = {"layout": {"grid": "\n".join(rows)}, "fleet": ({"role": "carrier", "count": 3},)}
    simulator = WarehouseSimulator(WarehouseConfig.model_validate(data), layout, 1)
    simulator.reset(2)
    assert _run(simulator, TokenPassingPolicy(simulator), 300) > 30


def test_token_passing_goes_to_chargers() -> None:
    battery = {"initial_min": 0.25, "initial_max": 0.6, "time_factor": 200.0, "charging": {"below": 0.3, "until": 0.5}}
    fleet = ({"role": "carrier", "count": 4, "battery": battery},)
    rows = ["P.P.P.P.P", ".........", "S..#.#..E", "C..#.#..C", ".........", "S..#.#..E", "........."]
    simulator = _simulator(rows, 4, fleet=fleet, episode_steps=300)
    simulator.reset(2)
    assert _run(simulator, TokenPassingPolicy(simulator), 300) > 10
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    assert metrics["charging_share"] > 0
    assert metrics["stranded"] == 0


def test_token_passing_refuses_what_it_cannot_promise() -> None:
    rows = ["P...S", "E...."]
    with pytest.raises(SpecMismatchError, match=r"a parking place for each of 2 robots, got 1\. .*or use PIBT\."):
        TokenPassingPolicy(_simulator(rows, 2))
    TokenPassingPolicy(_simulator(rows, 2), require_well_formed=False)
    with pytest.raises(SpecMismatchError, match=r"TokenPassingPolicy: expected drive 'grid', got 'differential'"):
        TokenPassingPolicy(_simulator(rows, 1, drive={"kind": "differential"}))
    late = {"max_action_delay_steps": 2}
    with pytest.raises(SpecMismatchError, match=r"carried out at once, got max_action_delay_steps 2\. Use PIBT"):
        TokenPassingPolicy(_simulator(rows, 1, randomisation=late), require_well_formed=False)


PICKING = ["P.P.P.P.P", ".........", "..##.##..", "S.......E", "..##.##..", "S.......E", "..##.##..", "........."]


def _with_pickers(carriers: int, pickers: int, **section: Any) -> tuple[WarehouseConfig, Layout]:
    fleet = ({"role": "carrier", "count": carriers}, {"role": "picker", "count": pickers, "job": "pick"})
    data = {"layout": {"grid": "\n".join(PICKING)}, "fleet": fleet, **section}
    layout = with_meeting_places(Layout.from_drawing(PICKING, 1.0, "test"), "test")
    return WarehouseConfig.model_validate(data), layout


@pytest.mark.parametrize("dispatch", ["nearest", "fifo", "token"])
@pytest.mark.parametrize(
    "tasks",
    [
        {},
        {"service": {"pick_s": 3.0, "drop_s": 2.0, "spread": 0.5}},
        {"errands": 2},
        {"timeout_s": 20.0},
    ],
    ids=["plain", "services", "errands", "timeouts"],
)
@pytest.mark.parametrize(("carriers", "pickers"), [(4, 1), (2, 3)])
def test_token_passing_lets_carriers_and_pickers_meet_again_and_again(
    carriers: int, pickers: int, tasks: dict[str, Any], dispatch: str
) -> None:
    config, layout = _with_pickers(carriers, pickers, tasks={**tasks, "dispatch": dispatch}, episode_steps=1000)
    assert token_passing_faults(config, layout) == []
    simulator = WarehouseSimulator(config, layout, 2)
    simulator.reset(6)
    policy = TokenPassingPolicy(simulator)
    for _ in range(3):
        helped = 0
        for _ in range(100):
            assert _run(simulator, policy, 1) >= 0
            helped += int((simulator.outcome.served == 3).sum())
        # At any time, not just until they have locked each other in.
        assert helped > 6


def test_token_passing_keeps_the_picker_of_a_pick_up_off_other_ways() -> None:
    # The only way in leads over the place where the picker stands.
    rows = ["P.P.P.P", "......E", "####.##", "####S##"]
    layout = with_meeting_places(Layout.from_drawing(rows, 1.0, "test"), "test")
    assert well_formed_faults(replace(layout, meeting=None), 3) == []
    assert "row 3, column 4" in str(well_formed_faults(layout, 3))


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


def test_well_formed_faults_look_at_chargers_and_at_one_way_cells() -> None:
    rows = ["P.....E", "#.###.#", "#SCS..#"]
    layout = Layout.from_drawing(rows, 1.0, "test")
    assert well_formed_faults(layout, 1) == []
    assert "row 2, column 2" in str(well_formed_faults(layout, 1, charges=True))
    # A ring that leads round one way: no way back past the delivery.
    ring = Layout.from_drawing(["S..", "P#E", "..."], 1.0, "test")
    assert well_formed_faults(ring, 1) == []
    exits = np.full(9, ALL_EXITS, np.uint8).reshape(3, 3)
    exits[0] &= ~np.uint8(EXIT_LEFT)
    exits[2] &= ~np.uint8(EXIT_RIGHT)
    assert len(well_formed_faults(replace(ring, exits=exits.ravel()), 1)) == 1
