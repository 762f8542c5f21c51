"""Nothing that drives a warehouse delivers more than the bound, and some deliver almost as much."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridge.adapters.warehouse import WarehouseWorld
from bridge.planners.bound import throughput_bound
from bridge.planners.pibt import PibtPolicy
from bridge.planners.pibt_heading import PibtHeadingPolicy
from bridge.planners.token_passing import TokenPassingPolicy
from bridge.policy import FleetPolicy
from bridge.registry import open_world
from bridge.roster import RosterArrays
from bridge.scenario import load_scenario, shipped_scenarios
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.layout import Layout
from bridge.warehouse.simulator import WarehouseSimulator


class Chaser:
    """Drives every robot of a differential drive to its next way-point as if it were alone.

    Args:
        simulator: What is driven.
        fastest: Share of the largest speed.
        reverses: Robots whose way-point is behind them drive backwards.
    """

    def __init__(self, simulator: WarehouseSimulator, fastest: float = 0.6, reverses: bool = False) -> None:
        self._simulator, self._fastest, self._reverses = simulator, fastest, reverses

    def act(self, arrays: RosterArrays) -> None:
        """See ``FleetPolicy``."""
        pose, fleet = self._simulator._pose, self._simulator._fleet
        for role, slots in self._simulator.role_slices.items():
            dx, dy = fleet.way_x[:, slots] - pose.x[:, slots], fleet.way_y[:, slots] - pose.y[:, slots]
            error = np.arctan2(dy, dx) - pose.heading[:, slots]
            behind = self._reverses & (np.cos(error) < 0)
            error = (error + np.where(behind, np.pi, 0.0) + np.pi) % (2 * np.pi) - np.pi
            speed = np.where(np.abs(error) < 0.25, self._fastest, 0.0)
            arrays.roles[role].continuous_actions[..., 0] = np.where(behind, -speed, speed)
            arrays.roles[role].continuous_actions[..., 1] = np.clip(2.0 * error, -1, 1)


PLANNERS: dict[str, Any] = {"grid": PibtPolicy, "grid_heading": PibtHeadingPolicy, "differential": Chaser}


def _deliveries_per_h(
    config: WarehouseConfig, layout: Layout, make_policy: Any = None, num_envs: int = 4, seed: int = 5
) -> float:
    """Mean over environments of one episode."""
    simulator = WarehouseSimulator(config, layout, num_envs)
    simulator.reset(seed)
    policy: FleetPolicy = (make_policy or PLANNERS[config.drive.kind])(simulator)
    while not simulator.arrays.episode_over.any():
        policy.act(simulator.arrays)
        simulator.step()
    column = simulator.spec.metric_names.index("deliveries_per_h")
    return float(simulator.arrays.metrics[:, column].mean())


def _efficiency(config: WarehouseConfig, layout: Layout, make_policy: Any = None, num_envs: int = 4) -> float:
    """Share of the bound; where that is the number of arrivals, less three standard deviations of their mean."""
    bound = throughput_bound(config, layout)
    delivered = _deliveries_per_h(config, layout, make_policy, num_envs)
    if config.tasks.arrival == "poisson" and bound.deliveries_per_h == bound.arrivals_per_h:
        hours = (config.episode_steps * seconds_per_step(config.drive) - config.metrics.warm_up_s) / 3600.0 * num_envs
        delivered -= 3.0 * np.sqrt(config.tasks.rate_per_h / hours)
    return delivered / bound.deliveries_per_h


WAREHOUSES = sorted(name for name, path in shipped_scenarios().items() if load_scenario(path).world == "warehouse")


@pytest.mark.parametrize("name", WAREHOUSES)
def test_efficiency_is_between_nothing_and_one_on_shipped_warehouses(name: str) -> None:
    world = open_world(load_scenario(name))
    assert isinstance(world, WarehouseWorld)
    at_least = 0.01 if world.config.drive.kind == "differential" else 0.3
    assert at_least < _efficiency(world.config, world.layout) <= 1.0


HALL = """
P.P.P.P.P.P.
............
E.##.##.##.S
..##.##.##..
............
E.##.##.##.S
............
"""

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "services": {"tasks": {"service": {"pick_s": 3.0, "drop_s": 5.0}}},
    "drawn services": {"tasks": {"service": {"pick_s": 4.0, "drop_s": 2.0, "spread": 0.9}}},
    "errands": {"tasks": {"errands": 3}},
    "served errands": {"tasks": {"errands": 2, "service": {"pick_s": 2.0, "drop_s": 2.0}}},
    "first come": {"tasks": {"dispatch": "fifo", "open": 1}},
    "much choice": {"tasks": {"open": 64}},
    "arrivals": {"tasks": {"arrival": "poisson", "rate_per_h": 300.0}},
    "many arrivals": {"tasks": {"arrival": "poisson", "rate_per_h": 20_000.0, "open": 16}},
    "warm-up": {"metrics": {"warm_up_s": 20.0}},
    "warm arrivals": {"metrics": {"warm_up_s": 20.0}, "tasks": {"arrival": "poisson", "rate_per_h": 500.0}},
    "absent robots": {"randomisation": {"min_fleet_share": 0.3}},
    "delays": {"randomisation": {"execution_delays": {"probability": 0.05, "min_steps": 2, "max_steps": 12}}},
    "slow aisles": {"slow": ((2, 4, 7, 7, 0.4),)},
    "slow stations": {"slow": ((2, 0, 6, 1, 0.3), (4, 11, 6, 11, 0.5))},
    "slow services": {"slow": ((2, 0, 6, 1, 0.2),), "tasks": {"service": {"pick_s": 2.0, "drop_s": 3.0}}},
    "slow and delayed": {
        "slow": ((2, 4, 7, 7, 0.4), (2, 0, 6, 1, 0.3)),
        "randomisation": {
            "execution_delays": {"probability": 0.05, "min_steps": 2, "max_steps": 12},
            "min_fleet_share": 0.5,
        },
        "tasks": {"errands": 2, "service": {"pick_s": 2.0, "drop_s": 3.0, "spread": 0.5}},
        "metrics": {"warm_up_s": 20.0},
    },
    "slow and despawning": {
        "slow": ((2, 4, 7, 7, 0.4), (2, 0, 6, 1, 0.3)),
        "randomisation": {"execution_delays": {"probability": 0.05, "min_steps": 2, "max_steps": 12}},
        "contact": {"rule": "despawn", "respawn_after_s": 0.0},
    },
    "slow and relocated": {
        "slow": ((2, 4, 7, 7, 0.4), (2, 0, 6, 1, 0.3)),
        "randomisation": {"execution_delays": {"probability": 0.05, "min_steps": 2, "max_steps": 12}},
        "deadlock": {"resolve": "relocate", "cycle_s": 4.0, "no_progress_s": 8.0},
    },
    "listed": {
        "tasks": {
            "arrival": "list",
            "transports": tuple(
                {
                    "pickups": ((2 + 3 * (k % 2), 11),) * (1 + k % 3),
                    "delivery": (5 - 3 * (k % 2), 0),
                    "release_s": 2.0 * k,
                }
                for k in range(60)
            ),
        }
    },
}
DRIVES: dict[str, dict[str, Any]] = {
    "grid": {},
    "grid_heading": {"drive": {"kind": "grid_heading"}},
    "differential": {"drive": {"kind": "differential"}},
}


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_efficiency_is_at_most_one_with_every_kind_of_work(variant: str, drive: str) -> None:
    steps = 600 if drive == "differential" else 200
    section = {**DRIVES[drive], **VARIANTS[variant], "episode_steps": steps}
    config, layout = _warehouse(HALL, 1, section)
    alone = _efficiency(config, layout, num_envs=8)
    assert alone <= 1.0
    assert alone > 0.05 or config.tasks.arrival == "poisson"
    # Robots that drive as if they were alone block each other.
    assert _efficiency(*_warehouse(HALL, 6, section), num_envs=8) <= 1.0


def test_efficiency_is_at_most_one_with_every_option_of_differential_drive() -> None:
    section: dict[str, Any] = {
        "fleet": ({"role": "forklift", "count": 3, "length_m": 0.6, "width_m": 0.5},),
        "drive": {"kind": "differential", "lag_s": 0.1, "protective_field": {"margin_m": 0.02}},
        "tasks": {"service": {"pick_s": 2.0, "drop_s": 2.0}},
        "randomisation": {"min_speed_factor": 0.8, "min_traction_factor": 0.5},
        "contact": {"near_miss_m": 0.1},
        "episode_steps": 1000,
    }
    efficiency = _efficiency(*_warehouse(HALL, 3, section), num_envs=8)
    assert 0.01 < efficiency <= 1.0


def _warehouse(drawing: str, count: int, section: dict[str, Any]) -> tuple[WarehouseConfig, Layout]:
    """A scenario; of ``section``, ``slow`` has zones: rows and columns of two corners, and a limit in m/s."""
    rows = drawing.strip().splitlines()
    section = {"fleet": ({"role": "carrier", "count": count},), **section}
    layout = Layout.from_drawing(rows, 1.0, "test")
    zones = section.pop("slow", ())
    if zones:
        limits = np.full(layout.blocked.shape, np.nan, np.float32)
        for top, left, bottom, right, limit in zones:
            limits[top : bottom + 1, left : right + 1] = limit
        layout = replace(layout, speed_limit_mps=limits.ravel())
    return WarehouseConfig.model_validate({"layout": {"grid": "\n".join(rows)}, **section}), layout


TRACK = "\n".join(["." * 40, "S" + "." * 38 + "E", "." * 40])


@pytest.mark.parametrize(
    ("section", "at_least"),
    [
        ({}, 0.98),
        ({"tasks": {"service": {"pick_s": 5.0, "drop_s": 9.0}}}, 0.98),
        ({"tasks": {"errands": 2}}, 0.98),
        ({"tasks": {"arrival": "poisson", "rate_per_h": 20.0, "open": 200}}, 0.5),
        ({"drive": {"kind": "grid_heading"}}, 0.9),
        ({"slow": ((0, 10, 2, 20, 0.3),)}, 0.98),
        ({"slow": ((0, 0, 2, 3, 0.5), (0, 39, 2, 39, 0.1))}, 0.98),
        ({"slow": ((0, 0, 2, 3, 0.2),), "tasks": {"service": {"pick_s": 2.0, "drop_s": 9.0}}}, 0.98),
        ({"randomisation": {"execution_delays": {"probability": 0.1, "max_steps": 6}}}, 0.9),
    ],
)
def test_bound_is_almost_reached_by_a_single_robot_on_the_grid(section: dict[str, Any], at_least: float) -> None:
    assert at_least < _efficiency(*_warehouse(TRACK, 1, {**section, "episode_steps": 7200})) <= 1.0


@pytest.mark.parametrize("service", [None, {"pick_s": 5.0, "drop_s": 5.0}])
def test_bound_is_almost_reached_by_a_single_robot_that_drives_to_and_fro(service: dict[str, float] | None) -> None:
    drive = {"kind": "differential", "max_reverse_mps": 1.5, "max_deceleration_mps2": 4.0}
    section = {"drive": drive, "tasks": {"service": service}, "episode_steps": 9_000}
    config, layout = _warehouse(TRACK, 1, section)
    efficiency = _efficiency(config, layout, lambda simulator: Chaser(simulator, 1.0, reverses=True), num_envs=1)
    assert 0.9 < efficiency <= 1.0


def test_bound_of_a_station_is_almost_reached_by_robots_in_a_queue() -> None:
    # Robots go round: past the pick-up, past the delivery, which takes nine seconds, and back.
    rows = "........\n.######.\nS......E\n.######.\n........"
    section = {"tasks": {"service": {"pick_s": 0.0, "drop_s": 9.0}}, "episode_steps": 3000}
    config, layout = _warehouse(rows, 8, section)
    bound = throughput_bound(config, layout)
    assert bound.deliveries_per_h == bound.stations_per_h
    assert 0.85 < _deliveries_per_h(config, layout) / bound.stations_per_h <= 1.0


ROUND = "........\n.######.\nS......E\n.######.\n........\nP.P.P.P."
HINDRANCES: dict[str, dict[str, Any]] = {
    "slow aisle": {"slow": ((2, 1, 2, 6, 0.4),)},
    "slow stations": {"slow": ((2, 0, 2, 0, 0.3), (2, 7, 2, 7, 0.2))},
    "rare delays": {"randomisation": {"execution_delays": {"probability": 0.02, "min_steps": 5, "max_steps": 20}}},
    "many delays": {"randomisation": {"execution_delays": {"probability": 0.3, "min_steps": 1, "max_steps": 3}}},
    "both": {
        "slow": ((2, 1, 2, 6, 0.5),),
        "randomisation": {"execution_delays": {"probability": 0.05, "min_steps": 2, "max_steps": 9}},
        "tasks": {"service": {"pick_s": 2.0, "drop_s": 3.0}},
    },
}


@pytest.mark.parametrize("hindrance", HINDRANCES)
def test_bound_of_hindered_robots_is_tighter_and_holds_for_pibt_and_token_passing_over_seeds(hindrance: str) -> None:
    section = {"episode_steps": 240, **HINDRANCES[hindrance]}
    for count in (1, 4):
        config, layout = _warehouse(ROUND, count, section)
        bound = throughput_bound(config, layout).deliveries_per_h
        unhindered = config.model_copy(update={"randomisation": None})
        assert bound < 0.99 * throughput_bound(unhindered, replace(layout, speed_limit_mps=None)).deliveries_per_h
        for planner in (PibtPolicy, TokenPassingPolicy):
            for seed in range(3):
                delivered = _deliveries_per_h(config, layout, planner, 6, seed=seed)
                assert (0.3 if count == 1 else 0.1) * bound < delivered <= bound
