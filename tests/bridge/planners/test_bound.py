"""The bound on the deliveries, on floors where it can be worked out by hand."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from bridge.adapters.warehouse import WarehouseWorld
from bridge.planners.bound import throughput_bound
from bridge.planners.cut import crossings_per_step
from bridge.planners.straight_ways import straight_ways
from bridge.registry import open_world
from bridge.scenario import load_scenario, shipped_scenarios
from bridge.warehouse.config import TaskConfig, WarehouseConfig
from bridge.warehouse.layout import Layout, distances_from
from bridge.warehouse.simulator import WarehouseSimulator

CORRIDOR = ["P..S.....E", ".........."]


def _config(rows: list[str], **changes: object) -> tuple[WarehouseConfig, Layout]:
    data = {"layout": {"grid": "\n".join(rows)}, "fleet": ({"role": "carrier", "count": 1},), **changes}
    return WarehouseConfig.model_validate(data), Layout.from_drawing(rows, 1.0, "test")


def test_throughput_bound_is_the_work_of_the_fleet_divided_by_the_way_of_a_transport() -> None:
    # One kind of transport: 6 cells from the delivery to the pick-up, and 6 back. The first empty leg is
    # granted: 6 more steps.
    bound = throughput_bound(*_config(CORRIDOR, episode_steps=1194))
    assert bound.fleet_per_h == pytest.approx(100 / (1194 / 3600))
    assert bound.deliveries_per_h == bound.fleet_per_h


def test_throughput_bound_grows_with_the_fleet_and_falls_with_the_time_of_a_step() -> None:
    alone = throughput_bound(*_config(CORRIDOR)).fleet_per_h
    fleet = ({"role": "carrier", "count": 3}, {"role": "tugger", "count": 2})
    assert throughput_bound(*_config(CORRIDOR, fleet=fleet)).fleet_per_h == pytest.approx(5 * alone)
    slow = throughput_bound(*_config(CORRIDOR, drive={"kind": "grid", "step_s": 2.0})).fleet_per_h
    assert slow == pytest.approx(alone / 2)


@pytest.mark.parametrize("kind", ["grid", "grid_heading"])
def test_throughput_bound_keeps_no_table_of_the_floor_for_each_station(kind: str) -> None:
    rows = ["S" * 298 + "EE", *["." * 300] * 79]
    config, layout = _config(rows, drive={"kind": kind})
    throughput_bound(*_config(CORRIDOR, drive={"kind": kind}))
    tracemalloc.start()
    throughput_bound(config, layout)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 298 * layout.blocked.size * 4


def test_throughput_bound_lets_the_dearest_transports_wait() -> None:
    rows = ["PS......S", "........E"]
    few = throughput_bound(*_config(rows, tasks=TaskConfig(open=1))).fleet_per_h
    many = throughput_bound(*_config(rows, tasks=TaskConfig(open=100))).fleet_per_h
    assert few < many


def test_throughput_bound_is_one_robot_per_step_and_station_when_the_fleet_is_large() -> None:
    fleet = ({"role": "carrier", "count": 19},)
    bound = throughput_bound(*_config(["SE........"] * 2, fleet=fleet, episode_steps=1000))
    assert bound.stations_per_h == 2 * 3600
    assert bound.deliveries_per_h == bound.stations_per_h


def test_throughput_bound_is_the_rate_of_arrivals_that_are_early_enough_when_there_is_little_to_do() -> None:
    tasks = TaskConfig(arrival="poisson", rate_per_h=12.0)
    bound = throughput_bound(*_config(CORRIDOR, tasks=tasks, episode_steps=3600))
    # Who comes in the last 6 steps is not delivered any more: one to be served at the pick-up, 6 to drive.
    assert bound.deliveries_per_h == pytest.approx(12.0 * 3594 / 3600)
    # After a warm-up others are on their way already; never more than have come.
    warm = throughput_bound(*_config(CORRIDOR, tasks=tasks, episode_steps=3600, metrics={"warm_up_s": 1800.0}))
    assert warm.arrivals_per_h == pytest.approx(2 * min(12.0 * 3594 / 3600, 12.0 * 1793 / 3600 + 9))


def test_throughput_bound_of_a_list_counts_what_arrives_early_enough() -> None:
    transports = tuple({"pickups": ((0, 3),), "delivery": (0, 9), "release_s": due} for due in (0.0, 50.0, 92.0, 93.0))
    tasks = {"arrival": "list", "transports": transports}
    bound = throughput_bound(*_config(CORRIDOR, tasks=tasks, episode_steps=100))
    # 93 + 1 step to be served at the pick-up + 6 to drive is the end; 94 would be too late.
    assert bound.arrivals_per_h == 4 * 36
    late = {"arrival": "list", "transports": ({**transports[0], "release_s": 94.0},)}
    assert throughput_bound(*_config(CORRIDOR, tasks=late, episode_steps=100)).deliveries_per_h == 0.0
    # The fleet: 12 steps each, the first empty leg granted.
    many = {"arrival": "list", "transports": transports[:1] * 20}
    assert throughput_bound(*_config(CORRIDOR, tasks=many, episode_steps=100)).deliveries_per_h == 8 * 36


def test_throughput_bound_counts_every_pick_up_of_a_transport() -> None:
    rows = ["S...S....E", ".........."]
    legs = throughput_bound(*_config(rows)).mean_transport_s
    assert legs == (9 + 5) / 2 * 2
    # From one pick-up to the next: 4 steps to the other one, 1 to be served at the same one again.
    errands = throughput_bound(*_config(rows, tasks={"errands": 3})).mean_transport_s
    assert errands == legs + 2 * (4 + 1) / 2
    listed = {"arrival": "list", "transports": ({"pickups": ((0, 4), (0, 0), (0, 0)), "delivery": (0, 9)},)}
    assert throughput_bound(*_config(rows, tasks=listed)).mean_transport_s == 5 + 4 + 1 + 9


def test_throughput_bound_counts_the_time_of_services() -> None:
    tasks = {"service": {"pick_s": 3.0, "drop_s": 8.0}}
    served = throughput_bound(*_config(CORRIDOR, tasks=tasks, episode_steps=10_000))
    assert served.mean_transport_s == 12 + 3 + 8
    assert served.fleet_per_h == pytest.approx(3600 / 23, rel=1e-3)
    # One delivery: eight steps for a robot, one for the next to take its place.
    assert served.stations_per_h == pytest.approx(3600 / 9, rel=1e-3)
    drawn = {"service": {"pick_s": 3.0, "drop_s": 8.0, "spread": 0.5}}
    # Rounded up to whole steps: 2, 3, 4 or 5, and 5 to 12, all equally likely.
    assert throughput_bound(*_config(CORRIDOR, tasks=drawn)).mean_transport_s == pytest.approx(12 + 3.5 + 8.5)


def test_throughput_bound_counts_the_turns_of_robots_with_heading() -> None:
    heading = {"kind": "grid_heading"}
    # Straight there; back it has to turn, but may face any side at the beginning of a leg.
    assert throughput_bound(*_config(CORRIDOR, drive=heading)).mean_transport_s == 12
    around = ["S.", ".E"]
    assert throughput_bound(*_config(around, drive=heading)).mean_transport_s == 2 * (2 + 1)
    assert throughput_bound(*_config(around)).mean_transport_s == 4


def test_throughput_bound_counts_the_robots_that_take_part() -> None:
    fleet = ({"role": "carrier", "count": 8},)
    all_of_them = throughput_bound(*_config(CORRIDOR, fleet=fleet, episode_steps=100_000)).fleet_per_h
    some = throughput_bound(
        *_config(CORRIDOR, fleet=fleet, episode_steps=100_000, randomisation={"min_fleet_share": 0.5})
    )
    assert some.fleet_per_h == pytest.approx(all_of_them * 6 / 8, rel=1e-3)


def test_throughput_bound_is_almost_reached_by_a_single_robot_that_drives_straight() -> None:
    rows = ["S...E", "....."]
    config, layout = _config(rows, episode_steps=400)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(0)
    values = simulator.arrays.roles["carrier"]
    while not simulator.arrays.episode_over[0]:
        distance = simulator.goal_distances[simulator.goal_index[0, 0]]
        values.discrete_actions[0, 0, 0] = np.argmin(distance[simulator.moves[simulator.cells[0, 0]]])
        simulator.step()
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    bound = throughput_bound(config, layout).deliveries_per_h
    assert 0.97 * bound < metrics["deliveries_per_h"] <= bound


def test_throughput_bound_counts_the_narrowest_place_there_and_back() -> None:
    # Four pick-ups and four deliveries, but a door of one cell.
    rows = ["S.#.E", "S.#.E", "S...E", "S.#.E"]
    fleet = ({"role": "carrier", "count": 8},)
    bound = throughput_bound(*_config(rows, fleet=fleet, episode_steps=100_000))
    assert bound.cut_per_h == pytest.approx(3600 / 2, rel=1e-3)
    wide = throughput_bound(*_config([row.replace("#", ".") for row in rows], fleet=fleet, episode_steps=100_000))
    assert wide.cut_per_h == pytest.approx(4 * 3600 / 2, rel=1e-3)
    # Where robots leave the floor and come back anywhere, no way back is needed.
    contact = {"rule": "despawn"}
    gone = throughput_bound(*_config(rows, fleet=fleet, contact=contact, episode_steps=100_000))
    assert gone.cut_per_h == pytest.approx(3600, rel=1e-3)


def test_throughput_bound_lets_a_station_serve_both_ways_in_one_step() -> None:
    bound = throughput_bound(*_config(["SE", ".."], episode_steps=100_000))
    assert bound.cut_per_h == pytest.approx(3600, rel=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_crossings_per_step_equals_the_smallest_cut_found_by_trying_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.choice(list("...#"), (3, 4))
    cells.flat[rng.choice(12, 4, replace=False)] = list("SSEE")
    layout = Layout.from_drawing(["".join(row) for row in cells], 1.0, "test")
    weights = np.ones(12)
    weights[layout.pickups] = weights[layout.deliveries] = 2
    free = np.flatnonzero(~layout.blocked.ravel())

    def connected(removed: set[int]) -> bool:
        for cell in layout.pickups:
            if int(cell) in removed:
                continue
            blocked = layout.blocked.copy()
            blocked.flat[list(removed)] = True
            reached = distances_from(replace(layout, blocked=blocked), int(cell))
            if any(reached[d] >= 0 and int(d) not in removed for d in layout.deliveries):
                return True
        return False

    smallest = min(
        sum(weights[cell] for cell in chosen)
        for size in range(len(free) + 1)
        for chosen in combinations(free.tolist(), size)
        if size <= 4 and not connected(set(chosen))
    )
    assert crossings_per_step(layout, 2) == smallest


def test_straight_ways_go_around_racks_along_their_corners() -> None:
    layout = Layout.from_drawing(["S.....", "..##..", "..##.E"], 2.0, "test")
    ways = straight_ways(layout, layout.pickups, layout.deliveries)
    around = math.hypot(3.5, 0.5) + math.hypot(1.5, 1.5)
    assert ways[0, 0] == pytest.approx(2.0 * around)
    open_floor = Layout.from_drawing(["S.....", "......", ".....E"], 2.0, "test")
    assert straight_ways(open_floor, open_floor.pickups, open_floor.deliveries)[0, 0] == pytest.approx(
        2.0 * math.hypot(5, 2)
    )


@pytest.mark.parametrize("seed", range(10))
def test_straight_ways_are_between_the_straight_line_and_the_path_over_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.choice(list("....#"), (9, 9))
    cells[0, 0], cells[8, 8], cells[0, 8] = "S", "E", "E"
    layout = Layout.from_drawing(["".join(row) for row in cells], 1.0, "test")
    ways = straight_ways(layout, layout.pickups, layout.deliveries)[0]
    steps = distances_from(layout, int(layout.pickups[0]))[layout.deliveries]
    for way, path, straight in zip(ways, steps, (8.0, math.hypot(8, 8)), strict=True):
        assert way >= straight - 1e-9
        assert path < 0 or way <= path + 1e-9


def test_throughput_bound_of_differential_drive_is_the_way_between_the_discs_of_stations_at_full_speed() -> None:
    # 6 m there and back, less the discs of 0.6 m around both ends, at 1.5 m/s.
    bound = throughput_bound(*_config(CORRIDOR, drive={"kind": "differential"}, episode_steps=100_000))
    assert bound.mean_transport_s == pytest.approx(2 * 4.8 / 1.5)
    assert bound.fleet_per_h == pytest.approx(3600 / bound.mean_transport_s, rel=1e-3)


def test_throughput_bound_of_differential_drive_counts_speeding_up_after_a_service() -> None:
    tasks = {"service": {"pick_s": 2.0, "drop_s": 4.0}}
    drive = {"kind": "differential", "step_s": 0.1, "max_acceleration_mps2": 1.0}
    bound = throughput_bound(*_config(CORRIDOR, drive=drive, tasks=tasks, episode_steps=100_000))
    # From 0 at 1 m/s2 it takes 15 ticks to 1.5 m/s, which cover 1.2 m, and 24 more for the other 3.6 m: 20 decisions.
    assert bound.mean_transport_s == pytest.approx(2 * 4.0 + 6.0)
    limited = replace(_config(CORRIDOR)[1], speed_limit_mps=np.full(20, 0.5, np.float32))
    slow = throughput_bound(_config(CORRIDOR, drive=drive)[0], limited)
    assert slow.mean_transport_s == pytest.approx(2 * 4.8 / 0.5)


def _charged(**battery: object) -> tuple[dict[str, object], ...]:
    return ({"role": "carrier", "count": 1, "battery": battery},)


def test_throughput_bound_lets_robots_drive_no_longer_than_their_batteries() -> None:
    drains = {"drain_idle_per_h": 1.0, "drain_moving_per_h": 3.0, "initial_min": 0.5, "initial_max": 0.5}
    hour = {"episode_steps": 3600}
    assert throughput_bound(*_config(CORRIDOR, **hour)).availability == 1.0
    empty = throughput_bound(*_config(CORRIDOR, fleet=_charged(**drains), **hour))
    assert empty.availability == pytest.approx(0.5 / 4.0)
    charging = {**drains, "charging": {"rate_per_h": 2.0}}
    assert throughput_bound(*_config(CORRIDOR, fleet=_charged(**charging), **hour)).availability == pytest.approx(
        (0.5 + 2.0) / (2.0 + 4.0)
    )
    # In the long run a robot drives for 1 / (1 + drain / gain) of the time.
    long = throughput_bound(*_config(CORRIDOR, fleet=_charged(**charging), episode_steps=3_600_000))
    assert long.availability == pytest.approx(1 / (1 + 4.0 / 2.0), rel=1e-3)


def test_throughput_bound_grants_what_began_before_the_warm_up_ended() -> None:
    cold = throughput_bound(*_config(CORRIDOR, episode_steps=200))
    warm = throughput_bound(*_config(CORRIDOR, episode_steps=300, metrics={"warm_up_s": 100.0}))
    # The same window; a robot may come into it one cell before its delivery, and what waits then may be cheap.
    assert cold.fleet_per_h < warm.fleet_per_h <= cold.fleet_per_h + 9 * 3600 / 200


def test_throughput_bound_lets_an_operator_carry_robots_that_are_stuck() -> None:
    rows = ["P" + "." * 38 + "S", "E" + "." * 39]
    relocated = {"deadlock": {"resolve": "relocate", "cycle_s": 10.0}}
    assert throughput_bound(*_config(rows)).mean_transport_s == 40 + 40
    # To the delivery in one step from the parking place, instead of forty; from there to the pick-up in 39.
    assert throughput_bound(*_config(rows, **relocated)).mean_transport_s == 40 + 10 + 1
    # A robot that has been served has stood still long enough.
    served = {**relocated, "tasks": {"service": {"pick_s": 1.0, "drop_s": 1.0}}}
    assert throughput_bound(*_config(rows, **served)).mean_transport_s == 39 + 1 + 2


def _slow(rows: list[str], cells: dict[tuple[int, int], float], **changes: object) -> tuple[WarehouseConfig, Layout]:
    """A warehouse with a limit in some cells."""
    config, layout = _config(rows, **changes)
    limits = np.full(layout.blocked.shape, np.nan, np.float32)
    for (row, column), limit in cells.items():
        limits[row, column] = limit
    return config, replace(layout, speed_limit_mps=limits.ravel())


def test_throughput_bound_counts_the_time_in_slow_zones_or_the_way_around_them() -> None:
    # Three steps for each of two cells on the way, both ways; the way around is longer by two cells.
    both = {(row, column): 0.4 for row in (0, 1) for column in (5, 6)}
    assert throughput_bound(*_slow(CORRIDOR, both)).mean_transport_s == 12 + 2 * 4
    upper = {(0, column): 0.4 for column in (5, 6)}
    assert throughput_bound(*_slow(CORRIDOR, upper)).mean_transport_s == 12 + 2 * 2
    heading = {"kind": "grid_heading"}
    # Down, along, up: four quarter turns and two cells. Straight through costs four.
    assert throughput_bound(*_slow(CORRIDOR, upper, drive=heading)).mean_transport_s == 12 + 2 * 4
    snail = {(0, column): 0.1 for column in (5, 6)}
    assert throughput_bound(*_slow(CORRIDOR, snail, drive=heading)).mean_transport_s == 12 + 2 * (2 + 4 - 2)


def test_throughput_bound_counts_the_hold_at_a_slow_station_once_per_visit() -> None:
    # Who has come to the delivery can leave it after four steps; a service of three of them leaves one.
    stations = {(0, 9): 0.25}
    assert throughput_bound(*_slow(CORRIDOR, stations)).mean_transport_s == 12 + 3
    served = {"service": {"pick_s": 0.0, "drop_s": 2.0}}
    assert throughput_bound(*_slow(CORRIDOR, stations, tasks=served)).mean_transport_s == 12 + 2 + 1
    alone = throughput_bound(*_slow(CORRIDOR, stations, episode_steps=100_000))
    assert alone.stations_per_h == pytest.approx(3600 / 4, rel=1e-3)
    # The soonest delivery is the one on arrival.
    tasks = TaskConfig(arrival="poisson", rate_per_h=12.0)
    arrivals = throughput_bound(*_slow(CORRIDOR, stations, tasks=tasks, episode_steps=3600)).arrivals_per_h
    assert arrivals == pytest.approx(12.0 * 3594 / 3600)


def test_throughput_bound_counts_what_fits_through_a_slow_door() -> None:
    rows = ["S.#.E", "S.#.E", "S...E", "S.#.E"]
    fleet = ({"role": "carrier", "count": 8},)
    door = {(2, 2): 0.2}
    bound = throughput_bound(*_slow(rows, door, fleet=fleet, episode_steps=100_000))
    assert bound.cut_per_h == pytest.approx(3600 / 2 / 5, rel=1e-3)


DELAYED = {"execution_delays": {"probability": 0.1, "min_steps": 4, "max_steps": 8}}
MEAN_DELAY = 0.1 / 0.9 * 6.0


def test_throughput_bound_counts_the_mean_delay_after_every_move() -> None:
    bound = throughput_bound(*_config(CORRIDOR, randomisation=DELAYED, episode_steps=10_000))
    assert bound.mean_transport_s == pytest.approx(12 * (1 + MEAN_DELAY))
    assert bound.fleet_per_h == pytest.approx(3600 / bound.mean_transport_s, rel=5e-3)
    # Who comes in time does so without a delay.
    tasks = TaskConfig(arrival="poisson", rate_per_h=12.0)
    arrivals = throughput_bound(*_config(CORRIDOR, tasks=tasks, randomisation=DELAYED, episode_steps=3600))
    assert arrivals.arrivals_per_h == pytest.approx(12.0 * 3594 / 3600)
    # A long service hides the delay that followed the move to the station; another one may go on when it ends.
    served = {"service": {"pick_s": 0.0, "drop_s": 60.0}}
    long = throughput_bound(*_config(CORRIDOR, tasks=served, randomisation=DELAYED)).mean_transport_s
    assert 12 + 11 * MEAN_DELAY + 60 < long < 12 + 11 * MEAN_DELAY + 60 + 0.1 * 19 / 1.5 + MEAN_DELAY


def test_throughput_bound_of_a_list_with_delays_lies_between_those_of_whole_transports() -> None:
    transports = ({"pickups": ((0, 3),), "delivery": (0, 9)},) * 50
    tasks = {"arrival": "list", "transports": transports}
    plain = throughput_bound(*_config(CORRIDOR, tasks=tasks, episode_steps=360))
    delayed = throughput_bound(*_config(CORRIDOR, tasks=tasks, randomisation=DELAYED, episode_steps=360))
    assert plain.fleet_per_h == 10 * 30
    # 360 steps, what the last delay leaves, and the first empty leg.
    overdue = 0.1 * np.mean([length * (length + 1) / 2 for length in range(4, 9)])
    step = 1 + MEAN_DELAY
    assert delayed.fleet_per_h == pytest.approx(10 * (360 + overdue + 6 * step) / (12 * step))


def test_throughput_bound_of_batteries_counts_neither_turns_nor_holds() -> None:
    drains = {"drain_idle_per_h": 1.0, "drain_moving_per_h": 3.0, "initial_min": 0.1, "initial_max": 0.1}
    section: dict[str, object] = {"fleet": _charged(**drains), "episode_steps": 3600}
    plain = throughput_bound(*_config(CORRIDOR, **section))
    assert plain.fleet_per_h == pytest.approx((3600 * 0.1 / 4 + 6) / 12)
    random = {"execution_delays": {"probability": 0.1}}
    heading = {"kind": "grid_heading"}
    slow = {(row, 5): 0.5 for row in (0, 1)}
    others = throughput_bound(*_slow(CORRIDOR, slow, drive=heading, randomisation=random, **section))
    assert others.fleet_per_h == pytest.approx(plain.fleet_per_h)


def _shipped_warehouses() -> list[str]:
    loaded = {name: load_scenario(path) for name, path in shipped_scenarios().items()}
    return [name for name, scenario in loaded.items() if isinstance(scenario.config, WarehouseConfig)]


@pytest.mark.parametrize("name", _shipped_warehouses())
def test_throughput_bound_of_shipped_warehouses_is_finite(name: str) -> None:
    world = open_world(load_scenario(name))
    assert isinstance(world, WarehouseWorld)
    bound = world.throughput_bound()
    assert 0.0 < bound.deliveries_per_h < math.inf
