"""The figures of an episode against a plain count over everything that happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.planners.pibt import PibtPolicy
from bridge.policy import RandomPolicy
from bridge.warehouse.config import ContactConfig, DifferentialDriveConfig, RoleConfig, TaskConfig
from bridge.warehouse.config_monitoring import MetricsConfig
from bridge.warehouse.metrics import ROBOT_METRICS, make_clock, make_tally, metric_values
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.work.meeting_places import with_meeting_places
from bridge.warehouse.work.tasks import DELIVERED

FLOOR = """
S..P....E
.##..##..
.##..##..
....P...S
E..P.....
"""


HALL = """
P.P.P.P.P
.........
E.......S
..##.##..
E.......S
..##.##..
E..S.S..S
"""


class Count:
    """A plain count of one environment's episode, step by step."""

    def __init__(self, simulator: WarehouseSimulator, warm_up: int) -> None:
        self.simulator, self.warm_up = simulator, warm_up
        num = simulator.config.num_robots
        self.sums = {metric.name: np.zeros(num) for metric in ROBOT_METRICS}
        self.flows: list[int] = []
        self.moved = np.zeros(num, bool)
        self.released: dict[int, int] = {}
        self.note_tasks(0)
        self.ages: list[int] = []

    def note_tasks(self, step: int) -> None:
        fleet, pool = self.simulator._fleet, self.simulator._pool
        waiting = pool.number[0, : pool.num_waiting[0]].tolist()
        carried = fleet.number[0][fleet.pickup[0] >= 0].tolist()
        for number in (*waiting, *carried):
            self.released.setdefault(number, step)
        self.open_tasks = {*waiting, *carried}

    def step(self, loaded: np.ndarray, had_task: np.ndarray, numbers: np.ndarray) -> None:
        out, step = self.simulator.outcome, int(self.simulator.steps[0])
        for robot in range(len(self.moved)):
            if not out.lived[0, robot]:
                self.moved[robot] = False
                continue
            moved = out.moved_m[0, robot] > 0
            if step > self.warm_up:
                sums = {name: values[robot : robot + 1] for name, values in self.sums.items()}
                sums["distance_m"] += out.moved_m[0, robot]
                sums["loaded_distance_m"] += out.moved_m[0, robot] * loaded[robot]
                sums["present_s"] += 1
                sums["deliveries"] += out.served[0, robot] == 2
                sums["pickups"] += out.served[0, robot] == 1
                sums["blocked_moves"] += out.refused[0, robot]
                sums["robot_contacts"] += out.robot_contacts[0, robot]
                sums["rack_contacts"] += out.rack_contacts[0, robot]
                sums["despawns"] += out.leaving[0, robot]
                busy = had_task[robot] and not out.leaving[0, robot]
                sums["busy_s"] += busy
                sums["waiting_s"] += busy and not moved
                sums["stops"] += busy and not moved and self.moved[robot]
                if out.served[0, robot] == 2:
                    self.flows.append(step - self.released[int(numbers[robot])])
            self.moved[robot] = moved


def _play(simulator: WarehouseSimulator, policy: Any, steps: int, warm_up: int) -> Count:
    simulator.reset(seed=3)
    count = Count(simulator, warm_up)
    for step in range(1, steps):
        loaded, had_task = simulator.loaded[0].copy(), simulator.has_task[0].copy()
        numbers = simulator._fleet.number[0].copy()
        policy.act(simulator.arrays)
        simulator.step()
        count.step(loaded, had_task, numbers)
        count.note_tasks(step)
    return count


@pytest.mark.parametrize(("driver", "errands"), [("pibt", 1), ("pibt", 3), ("random", 1)])
@pytest.mark.parametrize("warm_up", [0, 50])
def test_metrics_equal_a_plain_count(make_warehouse: Any, driver: str, errands: int, warm_up: int) -> None:
    contact = ContactConfig() if driver == "pibt" else ContactConfig(rule="despawn", respawn_after_s=5.0)
    config, layout = make_warehouse(
        FLOOR,
        4,
        episode_steps=10_000,
        contact=contact,
        tasks=TaskConfig(arrival="poisson", rate_per_h=500.0, errands=errands),
        metrics=MetricsConfig(warm_up_s=float(warm_up)),
    )
    simulator = WarehouseSimulator(config, layout, 1)
    policy = PibtPolicy(simulator) if driver == "pibt" else RandomPolicy(simulator.spec, 0)
    count = _play(simulator, policy, 300, warm_up)
    envs = np.ones(1, np.bool_)
    clock = simulator._clock
    values = metric_values(simulator._tally, simulator._fleet, simulator._pool, simulator._steps, envs, clock)[0]
    got = dict(zip(simulator.spec.metric_names, values, strict=False))
    from bridge.warehouse.metrics import robot_metric_values

    per_robot = robot_metric_values(simulator._tally, envs, clock)[0]
    for index, metric in enumerate(ROBOT_METRICS):
        np.testing.assert_allclose(per_robot[:, index], count.sums[metric.name], err_msg=metric.name)
    total = {name: values.sum() for name, values in count.sums.items()}
    counted = 299 - warm_up
    assert got["deliveries_per_h"] == pytest.approx(total["deliveries"] * 3600 / counted)
    assert got["stops"] == total["stops"]
    assert got["distance_per_delivery_m"] == pytest.approx(total["distance_m"] / max(total["deliveries"], 1))
    assert got["utilisation"] == pytest.approx(total["busy_s"] / (4 * counted))
    assert got["robot_collisions_per_h"] == pytest.approx(0.5 * total["robot_contacts"] * 3600 / counted)
    assert got["rack_collisions_per_h"] == pytest.approx(total["rack_contacts"] * 3600 / counted)
    flows = sorted(count.flows)
    ages = [299 - count.released[number] for number in count.open_tasks]
    assert got["max_task_age_s"] == max([*flows, *ages])
    if driver == "pibt":
        assert len(flows) > 20 // errands
        assert got["flow_time_mean_s"] == pytest.approx(np.mean(flows))
        assert got["flow_time_max_s"] == flows[-1]
        # Bins of three steps in an episode of 10,000.
        assert 0 <= got["flow_time_p95_s"] - flows[int(np.ceil(0.95 * len(flows))) - 1] < clock.bin_steps
        assert got["empty_share"] == pytest.approx(1 - total["loaded_distance_m"] / total["distance_m"])
        deliveries = count.sums["deliveries"]
        gini = np.abs(deliveries[:, None] - deliveries).sum() / (2 * 4 * deliveries.sum())
        assert got["delivery_gini"] == pytest.approx(gini)


def test_percentile_is_exact_in_episodes_of_usual_length() -> None:
    clock = make_clock(0.0, 4096, 1.0)
    assert clock.bin_steps == 1
    assert make_tally(2, 3, 10_000_000).flow_bins.shape == (2, 4097)


def test_robot_metrics_are_those_of_the_episode_that_ended(make_warehouse: Any) -> None:
    config, layout = make_warehouse(FLOOR, 4, episode_steps=120)
    simulator = WarehouseSimulator(config, layout, 2)
    policy = PibtPolicy(simulator)
    simulator.reset(seed=1)
    for _ in range(150):
        policy.act(simulator.arrays)
        simulator.step()
    names = [metric.name for metric in ROBOT_METRICS]
    figures = simulator.robot_metrics
    assert figures.shape == (2, 4, len(names))
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics.T, strict=True))
    for name in ("deliveries", "pickups", "distance_m", "stops"):
        np.testing.assert_allclose(figures[..., names.index(name)].sum(axis=1), metrics[name])
    assert (figures[..., names.index("present_s")] == 120).all()
    figures[:] = -1
    assert (simulator.robot_metrics >= 0).all()


def test_pickers_are_left_out_of_how_busy_and_how_fair_carriers_are(make_warehouse: Any) -> None:
    fleet = (RoleConfig(role="carrier", count=4), RoleConfig(role="picker", count=2, job="pick"))
    config, layout = make_warehouse(HALL, fleet=fleet, tasks=TaskConfig(open=6), episode_steps=200)
    simulator = WarehouseSimulator(config, with_meeting_places(layout, "test"), 1)
    policy = PibtPolicy(simulator)
    simulator.reset(seed=4)
    empty_m = total_m = 0.0
    deliveries = np.zeros(4)
    for _ in range(200):
        loaded, places = simulator.loaded[0, :4].copy(), simulator.positions_m[0, :4].copy()
        policy.act(simulator.arrays)
        simulator.step()
        deliveries += simulator.outcome.served[0, :4] == DELIVERED
        if not simulator.arrays.episode_over[0]:
            way_m = np.abs(simulator.positions_m[0, :4] - places).sum(axis=1)
            total_m += way_m.sum()
            empty_m += way_m[~loaded].sum()
    figures = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    # A backlog: no carrier is ever without a task, whatever the pickers do.
    assert figures["busy_share"] == figures["utilisation"] == 1.0
    # But for the way of the last step.
    assert figures["empty_share"] == pytest.approx(empty_m / total_m, abs=0.01)
    gini = np.abs(deliveries[:, None] - deliveries).sum() / (2 * 4 * deliveries.sum())
    assert figures["delivery_gini"] == pytest.approx(gini)
    busy_s = simulator.robot_metrics[0, :, simulator.robot_metric_names.index("busy_s")]
    assert busy_s.tolist() == [200.0] * 4 + [0.0] * 2


def test_way_of_a_load_counts_to_where_its_robot_left_the_floor(make_warehouse: Any) -> None:
    config, layout = make_warehouse(
        FLOOR,
        6,
        drive=DifferentialDriveConfig(decision_steps=10),
        contact=ContactConfig(rule="despawn", respawn_after_s=1.0),
        episode_steps=300,
    )
    simulator = WarehouseSimulator(config, layout, 1)
    policy = RandomPolicy(simulator.spec, 0)
    simulator.reset(seed=0)
    rng, way_m, lost_m = np.random.default_rng(0), 0.0, 0.0
    for _ in range(300):
        simulator._fleet.loaded[0] |= simulator.has_task[0] & (rng.random(6) < 0.3)
        loaded = simulator.loaded[0].copy()
        policy.act(simulator.arrays)
        simulator.step()
        moved_m = simulator.outcome.moved_m[0] * loaded
        way_m += float(moved_m.sum())
        lost_m += float(moved_m[simulator.outcome.leaving[0]].sum())
    figures = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    assert lost_m > 0.5
    assert figures["empty_share"] == pytest.approx(1 - way_m / figures["distance_m"], abs=1e-6)
