"""Drain by electronics, motion and mass, with numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.planners import PibtPolicy
from bridge.warehouse.config import BatteryConfig, ChargingConfig, LoadConfig, RoleConfig, TaskConfig, TransportConfig
from bridge.warehouse.fleet import make_traits
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.work.battery import drain_batteries, drain_batteries_by_load
from bridge.warehouse.work.loads import NO_LOADS, make_loads

LANE = "P.S..E..C"
# In a step of 1 s: 0.001 for electronics, 0.01 for motion, and three times that for motion with a full load.
BATTERY = BatteryConfig(
    drain_idle_per_h=3.6, drain_moving_per_h=36.0, drain_loaded_factor=3.0, initial_min=1.0, initial_max=1.0
)
RIGHT = 2


def _listed(*masses: float) -> TaskConfig:
    transports = tuple(TransportConfig(pickups=((0, 2),), delivery=(0, 5), load_kg=mass) for mass in masses)
    return TaskConfig(arrival="list", transports=transports)


@pytest.mark.parametrize(
    ("load_kg", "heaviest_kg", "payload_kg", "loaded_step"),
    [
        (50.0, 50.0, 200.0, 0.001 + 0.010 * 1.5),  # 1 + (3 - 1) * 50 / 200
        (200.0, 200.0, 200.0, 0.001 + 0.010 * 3.0),
        (0.0, 200.0, 200.0, 0.001 + 0.010),
        (20.0, 80.0, None, 0.001 + 0.010 * 1.5),  # 1 + (3 - 1) * 20 / 80
        (0.0, 0.0, 200.0, 0.001 + 0.010 * 3.0),  # no load has a mass: each is a full one
    ],
)
def test_drain_of_motion_grows_with_the_mass_that_is_carried(
    make_warehouse: Any, load_kg: float, heaviest_kg: float, payload_kg: float | None, loaded_step: float
) -> None:
    fleet = (RoleConfig(role="carrier", count=1, payload_kg=payload_kg, battery=BATTERY),)
    config, layout = make_warehouse(LANE, fleet=fleet, tasks=_listed(load_kg, heaviest_kg), episode_steps=50)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    charges = [1.0]
    for move in (0, RIGHT, RIGHT, 0, RIGHT, RIGHT, RIGHT):
        simulator.arrays.roles["carrier"].discrete_actions[:] = move
        simulator.step()
        charges.append(float(simulator.charge[0, 0]))
    assert simulator.outcome.served[0, 0] == 2
    # Fetched at the end of the third step; the fourth it stands, whatever it carries.
    expected = [0.001, 0.011, 0.011, 0.001, loaded_step, loaded_step, loaded_step]
    np.testing.assert_allclose(-np.diff(charges), expected, atol=2e-7)


def test_drain_follows_the_masses_that_are_drawn(make_warehouse: Any) -> None:
    """In every step what is left of the charge says what the load of the robot's task weighs."""
    fleet = (
        RoleConfig(role="carrier", count=2, payload_kg=400, battery=BATTERY.model_copy(update={"time_factor": 0.5})),
    )
    tasks = TaskConfig(load=LoadConfig(min_kg=100, max_kg=400), open=2)
    config, layout = make_warehouse("P.S..E\nP....E", fleet=fleet, tasks=tasks, episode_steps=100)
    simulator = WarehouseSimulator(config, layout, 1)
    policy = PibtPolicy(simulator)
    simulator.reset(seed=3)
    weighed = delivered = 0.0
    while not simulator.arrays.episode_over.any():
        before, loaded = simulator.charge[0].astype(np.float64), simulator.loaded[0].copy()
        policy.act(simulator.arrays)
        simulator.step()
        if simulator.arrays.episode_over.any():
            break
        moved = simulator.outcome.moved_m[0] > 0
        extra = (before - simulator.charge[0] - 0.0005) / 0.005 - 1.0  # 2 * load / 400
        assert (np.abs(extra[moved & ~loaded]) < 1e-3).all()
        served = simulator.outcome.served[0] == 2
        weighed += float((extra[served & moved] * 200.0).sum())
        delivered += float((served & moved).sum())
        assert ((extra[moved & loaded] > 0.5 - 1e-3) & (extra[moved & loaded] < 2.0 + 1e-3)).all()
    figures = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True))
    assert delivered == figures["deliveries"] > 10
    assert weighed == pytest.approx(figures["delivered_kg"], rel=1e-3)


def test_energy_figure_counts_what_the_batteries_have_lost(make_warehouse: Any) -> None:
    battery = BATTERY.model_copy(update={"charging": ChargingConfig(below=0.01, until=0.02)})
    fleet = (RoleConfig(role="carrier", count=1, payload_kg=200, battery=battery),)
    config, layout = make_warehouse(LANE, fleet=fleet, tasks=_listed(50.0), episode_steps=7)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    for move in (0, RIGHT, RIGHT, 0, RIGHT, RIGHT, RIGHT):
        simulator.arrays.roles["carrier"].discrete_actions[:] = move
        simulator.step()
    figures = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0].tolist(), strict=True))
    # Two steps on the spot, two empty, three with a quarter of a full load; 1,200 Wh.
    assert figures["energy_per_delivery_wh"] == pytest.approx((2 * 0.001 + 2 * 0.011 + 3 * 0.016) * 1200.0)


def test_drain_without_masses_is_the_same_bit_for_bit(make_scene: Any, make_warehouse: Any) -> None:
    """Scenarios without masses run a kernel that knows nothing of them."""
    config, _ = make_warehouse(LANE, fleet=(RoleConfig(role="carrier", count=64, battery=BATTERY),))
    assert make_loads(config) is NO_LOADS
    traits = make_traits(config, 0.7)
    random = np.random.default_rng(0)
    scene = make_scene(LANE, 64)
    scene.fleet.alive[:] = random.random(64) < 0.9
    scene.fleet.loaded[:] = random.random(64) < 0.5
    scene.fleet.charge[:] = random.random(64) * 0.1
    scene.outcome.moved_m[:] = random.random(64) < 0.5
    other = scene.fleet._replace(charge=scene.fleet.charge.copy())
    for _ in range(5):
        drain_batteries(scene.fleet, scene.outcome, traits)
        drain_batteries_by_load(other, scene.outcome, traits, NO_LOADS, np.zeros(1, np.uint64))
    np.testing.assert_array_equal(scene.fleet.charge, other.charge)
    assert (scene.fleet.charge == 0.0).any()
