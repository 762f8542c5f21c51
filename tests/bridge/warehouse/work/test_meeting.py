"""Carriers and pickers: nobody fetches alone, who is called where, what is paid, seen, counted and refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.adapters.warehouse import WarehouseWorld
from bridge.episodes import run_episodes
from bridge.errors import LayoutError
from bridge.planners import PibtHeadingPolicy, PibtPolicy, throughput_bound
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.warehouse.config import (
    BatteryConfig,
    ChargingConfig,
    ContactConfig,
    DifferentialDriveConfig,
    HeadingGridConfig,
    RewardConfig,
    RoleConfig,
    ServiceConfig,
    TaskConfig,
    TransportConfig,
    WarehouseConfig,
)
from bridge.warehouse.config_randomisation import LayoutVariationConfig, RandomisationConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.layout_variation import layout_variants
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.validation import check_warehouse
from bridge.warehouse.view import LEFT, RIGHT, STAY
from bridge.warehouse.work.meeting import Meeting
from bridge.warehouse.work.meeting_places import with_meeting_places
from bridge.warehouse.work.picker_calls import HELPED
from bridge.warehouse.work.tasks import DELIVERED, PICKED_UP

HALL = """
P.P.P.P.P
.........
..##.##..
S.......E
..##.##..
S.......E
..##.##..
.........
"""
# The carrier starts at P with a task at S; the picker beside the other P.
LINE = """
.....P
PS...E
.....P
"""


def _fleet(carriers: int = 1, pickers: int = 1, **picker: Any) -> tuple[RoleConfig, ...]:
    return (
        RoleConfig(role="carrier", count=carriers),
        RoleConfig(role="picker", count=pickers, job="pick", **picker),
    )


def _make(make_warehouse: Any, drawing: str, num_envs: int = 1, **section: Any) -> WarehouseSimulator:
    section.setdefault("fleet", _fleet())
    config, layout = make_warehouse(drawing, **section)
    layout = with_meeting_places(layout, "test")
    check_warehouse(config, layout, "test")
    simulator = WarehouseSimulator(config, layout, num_envs)
    simulator.reset(seed=1)
    return simulator


def _put(simulator: WarehouseSimulator, *cells: tuple[int, int]) -> None:
    """Put the robots of environment 0 onto cells, and let everybody stand for a step: tasks and calls are given."""
    parts = simulator._parts
    for robot, (row, column) in enumerate(cells):
        cell = row * parts.layout.width + column
        parts.fleet.cell[0, robot] = cell
        parts.pose.x[0, robot], parts.pose.y[0, robot] = parts.floor.x[cell], parts.floor.y[cell]
    _step(simulator, *[STAY] * len(cells))


def _step(simulator: WarehouseSimulator, *moves: int) -> None:
    for role, place in simulator.role_slices.items():
        simulator.arrays.roles[role].discrete_actions[0, :, 0] = moves[place]
    simulator.step()


def _cell(simulator: WarehouseSimulator, robot: int) -> tuple[int, int]:
    row, column = divmod(int(simulator.goal_cells[0, robot]), simulator.layout.width)
    return row, column


def _figure(simulator: WarehouseSimulator, name: str) -> float:
    return float(simulator.arrays.metrics[0, simulator.spec.metric_names.index(name)])


def _feature(simulator: WarehouseSimulator) -> Meeting:
    return next(feature for feature in simulator._features if isinstance(feature, Meeting))


def test_a_carrier_is_served_only_while_a_picker_stands_beside_its_station(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, LINE)
    _put(simulator, (1, 2), (1, 5))
    assert _cell(simulator, 0) == (1, 1)
    _step(simulator, LEFT, STAY)
    for _ in range(5):
        _step(simulator, STAY, STAY)
        assert not simulator.loaded[0, 0]
    # The picker comes along row 1; on the cell beside the station, and not before, the load is taken.
    for column in (4, 3, 2):
        assert not simulator.loaded[0, 0]
        _step(simulator, STAY, LEFT)
        assert simulator._parts.fleet.cell[0, 1] == 6 + column
    assert simulator.loaded[0, 0]
    assert simulator.outcome.served[0].tolist() == [PICKED_UP, HELPED]


@pytest.mark.parametrize("where", [(0, 0), (2, 2), (0, 2)])
def test_a_picker_at_a_corner_of_the_station_does_not_help(make_warehouse: Any, where: tuple[int, int]) -> None:
    simulator = _make(make_warehouse, LINE)
    _put(simulator, (1, 1), where)
    for _ in range(4):
        _step(simulator, STAY, STAY)
    assert not simulator.loaded[0, 0]


@pytest.mark.parametrize("where", [(0, 1), (1, 0), (1, 2), (2, 1)])
def test_a_picker_on_any_side_of_the_station_helps(make_warehouse: Any, where: tuple[int, int]) -> None:
    simulator = _make(make_warehouse, LINE)
    _put(simulator, (1, 1), where)
    _step(simulator, STAY, STAY)
    assert simulator.loaded[0, 0]


def test_deliveries_need_no_picker_and_pickers_get_no_task(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, LINE, fleet=_fleet(1, 2))
    _put(simulator, (1, 1), (1, 0), (2, 4))
    _step(simulator, STAY, STAY, STAY)
    for _ in range(3):
        _step(simulator, RIGHT, STAY, STAY)
    _step(simulator, RIGHT, STAY, STAY)
    assert simulator.outcome.served[0, 0] == DELIVERED
    assert not simulator.has_task[0, 1:].any()


def test_one_picker_helps_one_carrier_at_a_time(make_warehouse: Any) -> None:
    floor = """
        P....E
        .S.S..
        ......
        P.P.P.
    """
    simulator = _make(make_warehouse, floor, fleet=_fleet(2, 1), tasks=TaskConfig(open=12))
    _put(simulator, (1, 1), (1, 3), (3, 5))
    parts = simulator._parts
    # Both carriers stand at a pick-up of their own, the picker between the two.
    parts.fleet.goal[0, :2] = parts.fleet.pickup[0, :2] = np.sort(parts.floor.pickups)
    parts.fleet.cell[0, 2] = 8
    parts.pose.x[0, 2], parts.pose.y[0, 2] = parts.floor.x[8], parts.floor.y[8]
    _step(simulator, STAY, STAY, STAY)
    assert simulator.loaded[0, :2].tolist() == [True, False]
    _step(simulator, STAY, STAY, STAY)
    assert simulator.loaded[0, :2].tolist() == [True, True]


def test_a_called_picker_is_sent_beside_the_station_and_parks_afterwards(make_warehouse: Any) -> None:
    transports = (TransportConfig(pickups=((1, 1),), delivery=(1, 5), release_s=2),)
    simulator = _make(make_warehouse, LINE, tasks=TaskConfig(arrival="list", transports=transports))
    _put(simulator, (1, 3), (2, 4))
    parking = {(0, 5), (1, 0), (2, 5)}
    assert _cell(simulator, 1) in parking
    _step(simulator, STAY, STAY)  # The task is released, ...
    _step(simulator, STAY, STAY)  # ... the carrier has it, ...
    _step(simulator, STAY, STAY)  # ... and the picker is called.
    meeting = divmod(int(simulator.layout.meeting[0]), 6)  # type: ignore[index]
    assert abs(meeting[0] - 1) + abs(meeting[1] - 1) == 1
    assert _cell(simulator, 1) == meeting
    claimed = simulator._parts.pool.claimed[0]
    assert not claimed.any()
    _put(simulator, (1, 1), meeting)
    assert simulator.loaded[0, 0]
    _step(simulator, RIGHT, STAY)
    assert _cell(simulator, 1) in parking
    assert claimed.sum() == 1


def test_the_carrier_that_has_stood_for_longest_is_called_for_first(make_warehouse: Any) -> None:
    floor = """
        P.......P
        .........
        S...S...S
        ....E....
        P.......P
    """
    transports = tuple(TransportConfig(pickups=((2, column),), delivery=(3, 4)) for column in (0, 4, 8))
    tasks = TaskConfig(arrival="list", transports=transports)
    simulator = _make(make_warehouse, floor, fleet=_fleet(3, 1), tasks=tasks)
    _put(simulator, (2, 0), (1, 4), (2, 8), (4, 5))
    goals = [_cell(simulator, robot)[1] for robot in range(3)]
    assert sorted(goals) == [0, 4, 8]
    feature = _feature(simulator)
    station = int(feature._state.station[0, 3])
    # Nobody stands at a station yet but the outer two; the picker is called to one of them, not to the near one.
    _step(simulator, STAY, STAY, STAY, STAY)
    station = int(feature._state.station[0, 3])
    assert simulator._parts.floor.goal_cell[station] % 9 in (0, 8)


def test_the_nearest_free_picker_is_sent_and_others_park(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, HALL, fleet=_fleet(1, 3))
    _put(simulator, (1, 4), (7, 8), (1, 1), (7, 4))
    _step(simulator, STAY, STAY, STAY, STAY)
    station = _feature(simulator)._state.station[0]
    assert (station >= 0).sum() == 1
    called = int(np.argmax(station))
    ways = simulator.goal_distances[simulator.goal_index[0, called]][simulator._parts.fleet.cell[0, 1:]]
    assert called == 1 + int(np.argmin(ways))


def test_a_picker_has_the_right_of_way_once_its_carrier_stands_at_the_station(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, LINE, fleet=_fleet(2, 1))
    _put(simulator, (1, 2), (0, 2), (2, 5))
    _step(simulator, STAY, STAY, STAY)
    assert simulator.priority[0].argmax() != 2
    _step(simulator, LEFT, STAY, STAY)
    _step(simulator, STAY, STAY, STAY)
    assert simulator.priority[0].argmax() == 2


def test_a_carrier_that_waits_for_its_picker_gives_way_and_lets_others_through(make_warehouse: Any) -> None:
    """The pick-up lies in a lane that everybody has to pass, and the only picker has an empty battery."""
    floor = """
        P.P####P.P
        ....S....E
        S.P####P.P
    """
    transports = (
        TransportConfig(pickups=((1, 4),), delivery=(1, 9)),
        TransportConfig(pickups=((2, 0),), delivery=(1, 9)),
    )
    tasks = TaskConfig(arrival="list", transports=transports)
    fleet = _fleet(2, 1, battery=BatteryConfig(initial_min=0.0, initial_max=0.0))
    simulator = _make(make_warehouse, floor, fleet=fleet, tasks=tasks)
    # The picker stands beside the pick-up of the second carrier, and can help it there alone.
    _put(simulator, (1, 4), (2, 0), (1, 0))
    simulator._parts.fleet.charge[0, 2] = 1e-3
    policy = PibtPolicy(simulator)
    delivered = np.zeros(2, bool)
    for _ in range(40):
        policy.act(simulator.arrays)
        simulator.arrays.roles["picker"].discrete_actions[:] = STAY
        simulator.step()
        delivered |= simulator.outcome.served[0, :2] == DELIVERED
    assert delivered.tolist() == [False, True]


def test_services_begin_with_the_picker_and_hold_it_until_the_load_is_taken(make_warehouse: Any) -> None:
    service = ServiceConfig(pick_s=3, drop_s=1)
    simulator = _make(make_warehouse, LINE, tasks=TaskConfig(service=service))
    _put(simulator, (1, 1), (1, 4))
    for _ in range(4):
        _step(simulator, STAY, STAY)
    assert simulator.movable[0].tolist() == [True, True]
    _step(simulator, STAY, LEFT)
    _step(simulator, STAY, LEFT)  # It has come: the service begins.
    assert simulator.movable[0].tolist() == [False, False]
    for _ in range(2):
        _step(simulator, STAY, RIGHT)  # It would leave, and is held.
        assert not simulator.loaded[0, 0]
    _step(simulator, STAY, RIGHT)
    assert simulator.loaded[0, 0]
    assert simulator._parts.fleet.cell[0, 1] == 6 + 2
    assert simulator.outcome.served[0].tolist() == [PICKED_UP, HELPED]
    _step(simulator, STAY, RIGHT)
    assert simulator._parts.fleet.cell[0, 1] == 6 + 3


@pytest.mark.parametrize("service", [None, ServiceConfig(pick_s=2, drop_s=2)])
def test_a_carrier_is_never_served_when_no_picker_can_come(make_warehouse: Any, service: ServiceConfig | None) -> None:
    fleet = _fleet(3, 1, battery=BatteryConfig(initial_min=0.0, initial_max=0.0))
    config, layout = make_warehouse(HALL, fleet=fleet, tasks=TaskConfig(service=service), episode_steps=150)
    simulator = WarehouseSimulator(config, with_meeting_places(layout, "test"), 2)
    results = run_episodes(simulator, PibtPolicy(simulator), seed=4, num_episodes=2)
    assert [result.metrics["pickups"] for result in results] == [0, 0]
    assert all(result.metrics["meetings"] == 0 for result in results)
    assert all(result.metrics["meeting_wait_s"] > 100 for result in results)


@pytest.mark.parametrize("drive", ["grid", "grid_heading"])
@pytest.mark.parametrize("service", [None, ServiceConfig(pick_s=3, drop_s=2, spread=0.3)])
def test_pibt_delivers_and_every_load_was_fetched_with_a_picker(
    make_warehouse: Any, drive: str, service: ServiceConfig | None
) -> None:
    section: dict[str, Any] = {"drive": HeadingGridConfig()} if drive == "grid_heading" else {}
    config, layout = make_warehouse(
        HALL, fleet=_fleet(4, 2), tasks=TaskConfig(service=service, open=6), episode_steps=300, **section
    )
    layout = with_meeting_places(layout, "test")
    simulator = WarehouseSimulator(config, layout, 3)
    policy = PibtHeadingPolicy(simulator) if drive == "grid_heading" else PibtPolicy(simulator)
    simulator.reset(seed=4)
    pickups = np.zeros(3, int)
    while not simulator.arrays.episode_over.any():
        before = simulator.loaded.copy()
        policy.act(simulator.arrays)
        simulator.step()
        for env in range(3):
            fetched = np.flatnonzero(simulator.outcome.served[env] == PICKED_UP)
            helped = np.flatnonzero(simulator.outcome.served[env] == HELPED)
            assert len(fetched) == len(helped)
            assert not before[env, fetched].any()
            pickups[env] += len(fetched)
    assert simulator.arrays.metrics[:, simulator.spec.metric_names.index("meetings")].tolist() == pickups.tolist()
    assert (simulator.arrays.metrics[:, simulator.spec.metric_names.index("deliveries")] > 10).all()
    assert _figure(simulator, "collisions") == 0
    assert 0 < _figure(simulator, "picker_busy_share") <= 1


def test_a_queue_in_front_of_a_station_does_not_keep_the_picker_out(make_warehouse: Any) -> None:
    """Three carriers that want the one pick-up fill the cells around it before the picker has come."""
    floor = """
        PPPPPP.......P
        ..............
        S............E
        ..............
    """
    config, layout = make_warehouse(floor, fleet=_fleet(6, 1), episode_steps=400)
    simulator = WarehouseSimulator(config, with_meeting_places(layout, "test"), 4)
    results = run_episodes(simulator, PibtPolicy(simulator), seed=2, num_episodes=4)
    assert min(result.metrics["deliveries"] for result in results) > 10


def test_drives_meet_too(make_warehouse: Any) -> None:
    """Scripted: two robots with differential drive that stand where they should be served, slowly enough."""
    drive = DifferentialDriveConfig(station_radius_m=0.4)
    service = ServiceConfig(pick_s=1.0)
    simulator = _make(make_warehouse, LINE, drive=drive, tasks=TaskConfig(service=service))
    parts = simulator._parts

    def stand(picker: int) -> None:
        for robot, cell in enumerate((7, picker)):
            parts.fleet.cell[0, robot] = cell
            parts.pose.x[0, robot], parts.pose.y[0, robot] = parts.floor.x[cell], parts.floor.y[cell]
        for _ in range(12):
            for values in simulator.arrays.roles.values():
                values.continuous_actions[:] = 0.0
            simulator.step()

    stand(picker=10)
    assert not simulator.loaded[0, 0]
    stand(picker=8)
    assert simulator.loaded[0, 0]


def test_pickers_are_paid_for_help_and_carriers_for_fetching(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, LINE, reward=RewardConfig(delivery=8.0, pickup=2.0, help=0.25))
    _put(simulator, (1, 1), (1, 3))
    _step(simulator, STAY, LEFT)
    rewards = [float(values.rewards[0, 0]) for values in simulator.arrays.roles.values()]
    assert rewards == [2.0, 0.25]


def test_observations_tell_who_is_there_and_where_a_picker_is_called(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, LINE, tasks=TaskConfig(service=ServiceConfig(pick_s=2)))
    columns = [simulator._parts.column(*name) for name in (("self", "partner_is_there"), ("target", "to_meeting"))]
    parking = simulator._parts.column("target", "to_parking")

    def seen(role: str) -> list[float]:
        values = simulator.arrays.roles[role].observations[0, 0]
        return [float(values[column]) for column in (*columns, parking)]

    _put(simulator, (1, 3), (1, 5))
    _step(simulator, STAY, STAY)
    assert seen("carrier") == [0.0, 0.0, 0.0]
    assert seen("picker") == [0.0, 1.0, 0.0]
    _step(simulator, LEFT, STAY)
    _step(simulator, LEFT, STAY)
    assert seen("picker") == [1.0, 1.0, 0.0]
    for _ in range(3):
        assert seen("carrier") == [0.0, 0.0, 0.0]
        _step(simulator, STAY, LEFT)
    assert seen("carrier") == [1.0, 0.0, 0.0]


def test_pickers_charge_and_help_again(make_warehouse: Any) -> None:
    battery = BatteryConfig(
        initial_min=0.5,
        initial_max=0.5,
        time_factor=200,
        charging=ChargingConfig(rate_per_h=2.0, below=0.3, until=0.6),
    )
    floor = HALL.replace("P.P.P.P.P", "P.P.C.P.P")
    config, layout = make_warehouse(floor, fleet=_fleet(2, 1, battery=battery), episode_steps=600)
    simulator = WarehouseSimulator(config, with_meeting_places(layout, "test"), 2)
    results = run_episodes(simulator, PibtPolicy(simulator), seed=4, num_episodes=2)
    for result in results:
        assert result.metrics["charging_share"] > 0.01
        assert result.metrics["stranded"] == 0
        assert result.metrics["deliveries"] > 10


def test_a_picker_that_leaves_and_comes_back_is_called_again(make_warehouse: Any) -> None:
    contact = ContactConfig(rule="despawn", respawn_after_s=0.0)
    simulator = _make(make_warehouse, HALL, fleet=_fleet(2, 2), contact=contact, episode_steps=10_000)
    rng, policy = np.random.default_rng(0), PibtPolicy(simulator)
    helped, left = 0, 0
    for step in range(1500):
        policy.act(simulator.arrays)
        for values in simulator.arrays.roles.values():
            drunk = rng.random(values.discrete_actions.shape) < 0.2
            values.discrete_actions[drunk] = rng.integers(0, 5, drunk.sum())
        simulator.step()
        left += int(simulator.outcome.leaving[0, 2:].sum())
        helped += int((simulator.outcome.served == HELPED).sum()) * (step > 500)
        state = _feature(simulator)._state
        called = state.station[0][state.station[0] >= 0]
        assert len(set(called.tolist())) == len(called)
        assert sorted(called.tolist()) == np.flatnonzero(state.called[0]).tolist()
        assert not state.demand.any()
        assert not state.awaited.any()
    assert left > 10
    assert helped > 10


def test_meeting_places_lie_beside_pickups_apart_and_unmarked() -> None:
    layout = Layout.from_drawing(["P.S.S.", ".#..##", "..S.E."], 1.0, "test")
    meeting = with_meeting_places(layout, "test").meeting
    assert meeting is not None
    assert len(set(meeting.tolist())) == 3
    for place, pickup in zip(meeting.tolist(), layout.pickups.tolist(), strict=True):
        assert abs(place // 6 - pickup // 6) + abs(place % 6 - pickup % 6) == 1
        assert layout.to_drawing()[place // 6][place % 6] == "."


def test_meeting_places_are_moved_over_when_another_pickup_has_no_other() -> None:
    # The right pick-up has one free side, which would be the best place for the left one.
    layout = Layout.from_drawing([".#####", ".S.S#E", ".#####"], 1.0, "test")
    meeting = with_meeting_places(layout, "test").meeting
    assert meeting is not None
    assert meeting.tolist() == [6, 8]


def test_a_pickup_without_a_free_side_is_refused() -> None:
    layout = Layout.from_drawing(["P#P", "ESE"], 1.0, "test")
    with pytest.raises(LayoutError, match=r"test: expected a free cell .* got none for row 1, column 1\. Leave a cell"):
        with_meeting_places(layout, "test")


def test_variants_of_the_floor_plan_leave_meeting_places_free(make_warehouse: Any) -> None:
    variation = LayoutVariationConfig(variants=12, max_blocked_cells=8, max_rack_offset_cells=2)
    config, layout = make_warehouse(HALL, fleet=_fleet(), randomisation=RandomisationConfig(layout=variation))
    layout = with_meeting_places(layout, "test")
    for variant in layout_variants(config, layout, "test"):
        assert not variant.layout.blocked.ravel()[layout.meeting].any()


def test_fleets_of_pickers_alone_and_pickers_with_payloads_are_refused() -> None:
    section: dict[str, Any] = {"layout": {"grid": "P.S\n..E"}}
    with pytest.raises(ValidationError, match=r"expected a role with job 'carry' in fleet, got pickers alone"):
        WarehouseConfig(**section, fleet=_fleet()[1:])
    with pytest.raises(ValidationError, match=r"expected no payload_kg with job 'pick', got one in role 'picker'"):
        WarehouseConfig(**section, fleet=_fleet(1, 1, payload_kg=5.0))


def test_scenarios_without_pickers_have_no_meeting_places_fields_or_figures() -> None:
    world = open_world(load_scenario("warehouse_two_roles"))
    assert isinstance(world, WarehouseWorld)
    assert world.layout.meeting is None
    assert "meetings" not in world.spec.metric_names
    fields = [name for block in world.spec.roles[0].observation.blocks for name in block.fields]
    assert not {"to_meeting", "partner_is_there"} & set(fields)


@pytest.mark.parametrize("planner", ["pibt", "token_passing"])
def test_the_shipped_scenario_is_driven_by_planners_below_the_bound_of_its_carriers(planner: str) -> None:
    world = open_world(load_scenario("warehouse_picking"))
    assert isinstance(world, WarehouseWorld)
    assert set(world.planners) == {"pibt", "token_passing"}
    bound = world.throughput_bound().deliveries_per_h
    everybody = tuple(role.model_copy(update={"job": "carry"}) for role in world.config.fleet)
    assert bound < throughput_bound(world.config.model_copy(update={"fleet": everybody}), world.layout).deliveries_per_h
    roster = world.roster(2)
    results = run_episodes(roster, world.planners[planner](roster), seed=3, num_episodes=4)
    throughput = np.mean([result.metrics["deliveries_per_h"] for result in results])
    assert 0.4 * bound < throughput <= bound
    assert all(result.metrics["meetings"] == result.metrics["pickups"] > 0 for result in results)
    assert sum(result.metrics["collisions"] for result in results) == 0
