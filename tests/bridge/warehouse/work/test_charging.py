"""Charging: who goes, who queues, how fast, and what is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.errors import ScenarioError
from bridge.planners import PibtHeadingPolicy, PibtPolicy
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.warehouse.config import BatteryConfig, ChargingConfig, DifferentialDriveConfig, RoleConfig
from bridge.warehouse.feature import HELD_CHARGING
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.validation import check_warehouse
from bridge.warehouse.view import RIGHT, STAY

LANE = "C..P.S\n.....E"
HALL = """
C.P.P.P.S
.##.##.#.
.##.##.#.
C.P.P.P.E
"""


def _battery(start: float, **charging: float) -> BatteryConfig:
    rules = {"rate_per_h": 360.0, "below": 0.2, "until": 0.5} | charging
    return BatteryConfig(
        drain_idle_per_h=3.6,
        drain_moving_per_h=0.0,
        drain_loaded_factor=1.0,
        initial_min=start,
        initial_max=start,
        charging=ChargingConfig(**rules),
    )


def _simulator(make_warehouse: Any, drawing: str, count: int, battery: BatteryConfig, **section: Any) -> Any:
    fleet = (RoleConfig(role="carrier", count=count, battery=battery),)
    config, layout = make_warehouse(drawing, fleet=fleet, **section)
    check_warehouse(config, layout, "test")
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    return simulator


def _figures(simulator: WarehouseSimulator) -> dict[str, float]:
    return dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True))


def _field(simulator: WarehouseSimulator, block: str, field: str) -> np.ndarray:
    layout = simulator.spec.roles[0].observation
    place = next(b for b in layout.blocks if b.name == block).fields.index(field)
    return simulator.arrays.roles["carrier"].observations[0, :, layout.slice_of(block).start + place]


def test_charging_follows_the_plain_sum_of_drain_and_gain(make_warehouse: Any) -> None:
    """One robot, one charger: the whole cycle against arithmetic."""
    simulator = _simulator(make_warehouse, LANE, 1, _battery(0.1), episode_steps=20)
    assert simulator.goal_cells[0, 0] == 0
    assert _field(simulator, "target", "to_charger")[0] == 1.0
    assert _field(simulator, "target", "to_parking")[0] == 0.0
    charge, cell, on_duty_again = 0.1, 3, 0
    policy = PibtPolicy(simulator)
    for step in range(20):
        was_off_duty = simulator._fleet.off_duty[0, 0]
        policy.act(simulator.arrays)
        simulator.step()
        if step == 19:
            break
        cell = max(cell - 1, 0) if was_off_duty else cell
        # A step of 1 s drains 0.001; at the charger (cell 0) it gains 0.1.
        charging = cell == 0 and was_off_duty
        charge = min(charge - 0.001 + 0.1 * charging, 1.0)
        assert simulator.charge[0, 0] == pytest.approx(charge, abs=1e-5)
        assert _field(simulator, "self", "charging")[0] == charging
        assert simulator.has_task[0, 0] == (charge >= 0.5 or on_duty_again > 0)
        on_duty_again += charge >= 0.5
    assert on_duty_again > 10
    figures = _figures(simulator)
    assert figures["charging_share"] == pytest.approx(5 / 20)
    assert figures["min_charge"] == pytest.approx(0.1 - 0.003, abs=1e-5)
    assert figures["stranded"] == 0
    assert figures["energy_per_delivery_wh"] == pytest.approx(20 * 0.001 * 1200.0 / max(figures["deliveries"], 1.0))


def test_charging_serves_one_robot_per_charger_and_the_longest_waiting_next(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, HALL, 5, _battery(0.1), episode_steps=200)
    assert simulator._fleet.off_duty.all()
    policy = PibtPolicy(simulator)
    chargers = set(simulator.layout.chargers.tolist())
    order: list[int] = []
    for _ in range(60):
        going = np.flatnonzero(np.isin(simulator.goal_cells[0], list(chargers)) & simulator._fleet.off_duty[0])
        goals = simulator.goal_cells[0][going].tolist()
        assert len(set(goals)) == len(goals) <= 2
        order += [robot for robot in sorted(going.tolist()) if robot not in order]
        # Nobody gets work before it has what it needs.
        assert not (simulator.has_task[0] & simulator._fleet.off_duty[0]).any()
        policy.act(simulator.arrays)
        simulator.step()
    # All went off duty in the same step: the queue is in the order of the slots.
    assert order == [0, 1, 2, 3, 4]
    assert not simulator._fleet.off_duty.any()
    assert simulator.has_task.all()


def test_charging_lets_a_robot_end_its_task_first(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, LANE, 1, _battery(0.2012), episode_steps=200)
    policy = PibtPolicy(simulator)
    seen_low_with_task = False
    while not simulator._fleet.off_duty[0, 0]:
        low = simulator.charge[0, 0] < 0.2
        assert simulator.has_task[0, 0] or not low
        seen_low_with_task |= bool(low)
        policy.act(simulator.arrays)
        simulator.step()
    assert seen_low_with_task
    assert simulator.outcome.served[0, 0] == 2


def test_charging_counts_each_robot_that_runs_empty_once(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, LANE, 1, _battery(0.004, below=0.001, until=0.002), episode_steps=12)
    for _ in range(12):
        simulator.arrays.roles["carrier"].discrete_actions[:] = 0
        simulator.step()
    figures = _figures(simulator)
    assert figures["stranded"] == 1
    assert figures["min_charge"] == 0.0
    # Nothing is drawn from an empty battery; the step in which it becomes empty counts whole.
    assert figures["energy_per_delivery_wh"] == pytest.approx(0.004 * 1200.0, abs=1.3)


def _stand(simulator: WarehouseSimulator) -> None:
    simulator.arrays.roles["carrier"].discrete_actions[:] = 0
    simulator.step()


def test_charging_gives_the_charger_of_a_robot_that_strands_to_the_next(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, "CP.P..S\n......E", 2, _battery(0.1), episode_steps=30)
    keeper = int(np.flatnonzero(simulator.goal_cells[0] == 0)[0])
    other = 1 - keeper
    simulator._fleet.charge[0, keeper] = 0.0005
    assert simulator._fleet.off_duty[0].all()
    _stand(simulator)
    assert simulator.charge[0, keeper] == 0.0
    assert simulator.goal_cells[0, other] == 0
    assert simulator.goal_cells[0, keeper] != 0
    policy = PibtPolicy(simulator)
    for _ in range(29):
        policy.act(simulator.arrays)
        simulator.step()
    figures = _figures(simulator)
    assert figures["stranded"] == 1
    assert figures["charging_share"] > 0.0
    # The other one waited for one step, until the first had stranded; who is stranded waits for nothing.
    assert figures["charger_wait_share"] == pytest.approx(1 / 60)


def test_charging_gives_no_charger_to_a_robot_that_has_stranded_in_the_queue(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, "CP.P.PS\n......E", 3, _battery(0.1), episode_steps=30)
    first = int(np.flatnonzero(simulator.goal_cells[0] == 0)[0])
    second, third = (robot for robot in range(3) if robot != first)
    # The charger's robot has enough at once; next in the queue is the one that has none left.
    simulator._fleet.cell[0, first], simulator._fleet.charge[0, first] = 0, 0.6
    simulator._fleet.charge[0, second] = 0.0
    _stand(simulator)
    assert simulator.goal_cells[0, third] == 0
    assert simulator.goal_cells[0, second] != 0


def test_charging_gives_a_stranded_robot_the_charger_that_it_stands_at(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, "CP.P..S\n......E", 2, _battery(0.1), episode_steps=30)
    keeper = int(np.flatnonzero(simulator.goal_cells[0] == 0)[0])
    crossing = 1 - keeper
    simulator._fleet.cell[0, crossing], simulator._fleet.charge[0, crossing] = 0, 0.0
    _stand(simulator)
    assert simulator.goal_cells[0].tolist().index(0) == crossing
    for _ in range(3):
        _stand(simulator)
    # Nothing is drained from an empty battery: three gains, two drains.
    assert simulator.charge[0, crossing] == pytest.approx(3 * 0.1 - 2 * 0.001, abs=1e-5)
    # The other one is still in the queue, and is next.
    for _ in range(3):
        _stand(simulator)
    assert simulator.goal_cells[0, keeper] == 0


def test_time_factor_drains_and_charges_faster_and_leaves_the_energy_alone(make_warehouse: Any) -> None:
    slow = BatteryConfig(initial_min=0.5, initial_max=0.5, charging=ChargingConfig(below=0.9, until=1.0))
    fast = slow.model_copy(update={"time_factor": 100.0})
    runs = {}
    for name, battery in (("slow", slow), ("fast", fast)):
        simulator = _simulator(make_warehouse, LANE, 1, battery, episode_steps=50)
        policy = PibtPolicy(simulator)
        for _ in range(10):
            policy.act(simulator.arrays)
            simulator.step()
        runs[name] = simulator
    gained = {name: float(run.charge[0, 0]) - 0.5 for name, run in runs.items()}
    assert gained["fast"] == pytest.approx(100 * gained["slow"], rel=0.01)
    sums = [run._features[-1]._state.sums[0, 0] for run in runs.values()]
    assert sums[0] == pytest.approx(sums[1])


def test_charging_goes_to_the_nearest_charger_by_the_way_around_racks(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, "C#P.C.S\n......E", 1, _battery(0.1), episode_steps=50)
    assert simulator.goal_cells[0, 0] == 4


def test_charging_is_not_in_the_observation_unless_used(make_warehouse: Any) -> None:
    config, layout = make_warehouse(LANE, 1)
    plain = WarehouseSimulator(config, layout, 1)
    blocks = {block.name: block.fields for block in plain.spec.roles[0].observation.blocks}
    assert "charging" not in blocks["self"]
    assert "to_charger" not in blocks["target"]
    assert plain._features == ()
    assert "stranded" not in plain.spec.metric_names


def test_check_warehouse_asks_for_chargers_where_robots_charge(make_warehouse: Any) -> None:
    fleet = (RoleConfig(role="carrier", count=1, battery=_battery(0.5)),)
    config, layout = make_warehouse("P.S\n..E", fleet=fleet)
    with pytest.raises(ScenarioError, match="expected a charger for the robots that charge, got none"):
        check_warehouse(config, layout, "warehouse")


def test_charging_refuses_a_threshold_above_the_other() -> None:
    with pytest.raises(ValueError, match=r"expected below < until, got below=0.9 >= until=0.5"):
        ChargingConfig(below=0.9, until=0.5)


def test_an_episode_of_the_shipped_shift_sees_charges() -> None:
    """The clock, batteries and rules of the file, and PIBT at the wheel: robots charge, and none runs flat."""
    simulator = open_world(load_scenario("warehouse_shift")).roster(1)
    assert isinstance(simulator, WarehouseSimulator)
    policy = PibtHeadingPolicy(simulator)
    simulator.reset(seed=0)
    was_low, recharged, worked_again = np.zeros((3, 6), bool)
    while not simulator.arrays.episode_over[0]:
        policy.act(simulator.arrays)
        simulator.step()
        if not simulator.arrays.episode_over[0]:
            was_low |= simulator.charge[0] < 0.3
            recharged |= was_low & (simulator.charge[0] >= 0.6 - 0.01)
            worked_again |= recharged & simulator.has_task[0]
    figures = _figures(simulator)
    assert worked_again.sum() >= 3
    assert figures["charging_share"] > 0.1
    assert figures["stranded"] == 0
    assert figures["min_charge"] < 0.3
    assert figures["deliveries"] > 10


@pytest.mark.parametrize("drive", ["grid", "differential"])
def test_robot_that_runs_flat_at_a_charger_with_its_load_is_charged_and_goes_on(
    make_warehouse: Any, drive: str
) -> None:
    section: dict[str, Any] = {"drive": DifferentialDriveConfig(decision_steps=10)} if drive == "differential" else {}
    simulator = _simulator(make_warehouse, "S.C.E\n.....\nP...P", 2, _battery(1.0), episode_steps=60, **section)
    fleet, pose, pool = simulator._fleet, simulator._pose, simulator._pool
    charger = int(simulator._floor.chargers[0])
    # Both have a load; the first one's battery runs flat as it drives over the charger.
    pose.x[0], pose.y[0] = [1.5 if drive == "grid" else 2.3, 1.5], [2.5, 1.5]
    fleet.cell[0] = [1 if drive == "grid" else 2, 6]
    pose.heading[0], pose.cos[0], pose.sin[0] = 0.0, 1.0, 0.0
    fleet.loaded[0], fleet.charge[0], fleet.goal[0] = True, [5e-4, 1.0], fleet.delivery[0]
    # The other one has been sent to this charger.
    pool.claimed[0, charger] = True
    numbers = fleet.number[0].tolist()
    charges = []
    for _ in range(6):
        # Right, or straight on at full speed; the other one stands.
        simulator.arrays.roles["carrier"].discrete_actions[0, :, :1] = [[RIGHT], [STAY]]
        simulator.arrays.roles["carrier"].continuous_actions[0, :1, :1] = 1.0
        charges.append(float(simulator.charge[0, 0]))
        simulator.step()
        assert (fleet.number[0].tolist(), simulator.has_task[0].all()) == (numbers, True)
        assert _field(simulator, "target", "to_delivery")[0] == 1.0
        assert _field(simulator, "target", "to_charger")[0] == 0.0
    # Empty after a step, then 0.1 less 0.001 in each until it has 0.5, at which it goes.
    assert charges == pytest.approx([5e-4, 0.0, 0.1, 0.199, 0.298, 0.397], abs=1e-5)
    assert simulator.cells[0, 0] == 2
    assert pool.claimed[0, charger]
    assert not simulator.movable[0, 0]
    place = pose.x[0, 0]
    simulator.step()
    assert simulator.movable[0, 0]
    assert not pool.claimed[0, charger]
    assert pose.x[0, 0] == place
    simulator.step()
    assert pose.x[0, 0] > place


def test_charger_that_holds_a_robot_with_a_load_is_given_to_nobody(make_warehouse: Any) -> None:
    """Also not to another one that runs flat beside it, and a new episode forgets all."""
    drive = DifferentialDriveConfig(decision_steps=10)
    fleet = (RoleConfig(role="carrier", count=2, radius_m=0.2, battery=_battery(1.0)),)
    config, layout = make_warehouse("S.C.E\n.....\nP...P", fleet=fleet, drive=drive, episode_steps=9)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    robots, pose = simulator._fleet, simulator._pose
    pose.x[0], pose.y[0], robots.cell[0] = [2.3, 2.75], [2.5, 2.5], 2
    robots.charge[0] = 5e-4
    robots.loaded[0], robots.goal[0] = True, robots.delivery[0]
    held = []
    for _ in range(8):
        simulator.arrays.roles["carrier"].continuous_actions[:] = 0.0
        simulator.step()
        held.append((robots.held[0] & HELD_CHARGING != 0).tolist())
    # Held as its battery runs flat, 0.1 less 0.001 in each step until it has 0.5; then it is the other one's turn.
    assert held == [[True, False]] * 6 + [[False, True]] * 2
    simulator.step()
    assert simulator.arrays.episode_over[0]
    assert not (robots.held[0] & HELD_CHARGING).any()
    assert simulator._pool.claimed[0].sum() == 0
