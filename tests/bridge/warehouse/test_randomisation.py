"""Randomisation: what each item does, that it is reproducible, and that no item changes another one's numbers."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.warehouse.config import (
    BatteryConfig,
    ChargingConfig,
    ContactConfig,
    DifferentialDriveConfig,
    LidarBlock,
    NeighboursBlock,
    RoleConfig,
    SelfBlock,
    TargetBlock,
)
from bridge.warehouse.config_randomisation import ExecutionDelayConfig, RandomisationConfig
from bridge.warehouse.disturbances import ExecutionDelays, LateActions, SlipperyFloor
from bridge.warehouse.random_streams import Purpose, uniform
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.view import STAY

FLOOR = """
S..P....E
.##..##..
.##..##..
....P...S
E..P.....
"""
BLOCKS = (SelfBlock(), TargetBlock(), LidarBlock(beams=12), NeighboursBlock(count=2))
DELAYS = ExecutionDelayConfig(probability=0.05, min_steps=2, max_steps=6)
EVERYTHING: dict[str, Any] = {
    "min_fleet_share": 0.4,
    "start": "anywhere",
    "lidar_noise_m": 0.05,
    "lidar_dropout": 0.1,
    "position_noise_m": 0.2,
    "neighbour_dropout": 0.2,
    "max_action_delay_steps": 2,
    "execution_delays": DELAYS,
}


def _make(make_warehouse: Any, num_envs: int = 3, first_env: int = 0, **section: Any) -> WarehouseSimulator:
    section.setdefault("observation", BLOCKS)
    section.setdefault("fleet", (RoleConfig(role="carrier", count=4), RoleConfig(role="picker", count=2)))
    random = section.pop("random", None)
    if random is not None:
        section["randomisation"] = RandomisationConfig(**random)
    config, layout = make_warehouse(FLOOR, **section)
    simulator = WarehouseSimulator(config, layout, num_envs, first_env=first_env)
    simulator.reset(seed=11)
    return simulator


def _act(simulator: WarehouseSimulator, step: int) -> None:
    for values in simulator.arrays.roles.values():
        for env, index in enumerate(simulator._envs):
            rng = np.random.default_rng([step, int(index)])
            values.discrete_actions[env] = rng.integers(0, 5, values.discrete_actions[env].shape)
            values.continuous_actions[env] = rng.uniform(-1, 1, values.continuous_actions[env].shape)


def _feature(simulator: WarehouseSimulator, kind: type) -> Any:
    return next(feature for feature in simulator._features if isinstance(feature, kind))


@pytest.mark.parametrize("drive", ["grid", "differential"])
def test_randomised_episodes_are_equal_however_environments_are_split(make_warehouse: Any, drive: str) -> None:
    section: dict[str, Any] = {"random": dict(EVERYTHING), "episode_steps": 25}
    if drive == "differential":
        section["drive"] = DifferentialDriveConfig()
        section["random"] |= {"min_speed_factor": 0.5, "min_traction_factor": 0.5}
    whole = _make(make_warehouse, **section)
    parts = [_make(make_warehouse, 1, 0, **section), _make(make_warehouse, 2, 1, **section)]
    for step in range(60):
        for simulator in (whole, *parts):
            _act(simulator, step)
            simulator.step()
        for name in ("carrier", "picker"):
            for array in ("observations", "rewards", "agent_mask"):
                got = np.concatenate([getattr(part.arrays.roles[name], array) for part in parts])
                np.testing.assert_array_equal(got, getattr(whole.arrays.roles[name], array), err_msg=array)


def _traces(simulator: WarehouseSimulator) -> dict[str, np.ndarray]:
    """What each item of a simulator draws over some steps, whatever robots do meanwhile."""
    fleet, num = simulator._fleet, simulator.config.num_robots
    traces: dict[str, list[np.ndarray]] = {"left": []}
    drawn: dict[str, np.ndarray] = {"present": fleet.alive.copy()}
    for feature in simulator._features:
        if isinstance(feature, LateActions):
            drawn["delay"] = feature.delay.copy()
        if isinstance(feature, ExecutionDelays):
            for _ in range(20):
                simulator.step()
                traces["left"].append(feature.left[:, :num].copy())
    if traces["left"]:
        drawn["left"] = np.stack(traces["left"])
    return drawn


def test_adding_an_item_changes_the_numbers_of_no_other_one(make_warehouse: Any) -> None:
    items = ("lidar_noise_m", "position_noise_m", "max_action_delay_steps", "execution_delays", "neighbour_dropout")
    alone = {item: _traces(_make(make_warehouse, random={item: EVERYTHING[item]})) for item in items}
    for pair in combinations(items, 2):
        both = _traces(_make(make_warehouse, random={item: EVERYTHING[item] for item in pair}))
        for item in pair:
            for name, values in alone[item].items():
                np.testing.assert_array_equal(values, both[name], err_msg=f"{pair}: {name}")


def test_noise_changes_what_is_seen_and_nothing_that_happens(make_warehouse: Any) -> None:
    clear = _make(make_warehouse)
    noisy = _make(make_warehouse, random={"lidar_noise_m": 0.1, "position_noise_m": 0.1})
    for step in range(30):
        for simulator in (clear, noisy):
            _act(simulator, step)
            simulator.step()
        np.testing.assert_array_equal(clear.cells, noisy.cells)
        np.testing.assert_array_equal(clear.goal_cells, noisy.goal_cells)
        np.testing.assert_array_equal(clear.arrays.state, noisy.arrays.state)
        seen = [simulator.arrays.roles["carrier"].observations for simulator in (clear, noisy)]
        own = clear.spec.roles[0].observation.slice_of("self")
        np.testing.assert_array_equal(seen[0][..., own], seen[1][..., own])
        assert not np.array_equal(*seen)


def test_absent_robots_are_the_last_of_their_role_and_vary(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, num_envs=200, random={"min_fleet_share": 0.5}, observation=(SelfBlock(),))
    carriers, pickers = simulator.alive[:, :4], simulator.alive[:, 4:]
    for present, count in ((carriers, 4), (pickers, 2)):
        number = present.sum(axis=1)
        np.testing.assert_array_equal(present, np.arange(count) < number[:, None])
        assert set(number.tolist()) == set(range(count // 2, count + 1))
    assert (simulator.arrays.roles["carrier"].agent_mask == carriers).all()
    for _ in range(3):
        simulator.step()
    np.testing.assert_array_equal(simulator.alive[:, :4], carriers)


def test_figures_are_taken_over_the_robots_that_take_part(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, num_envs=20, random={"min_fleet_share": 0.5}, episode_steps=5)
    for _ in range(5):
        simulator.step()
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics.T, strict=True))
    # With a backlog every robot always has a task.
    np.testing.assert_allclose(metrics["utilisation"], 1.0)


def test_start_anywhere_uses_cells_that_are_no_parking_place(make_warehouse: Any) -> None:
    fleet = (RoleConfig(role="carrier", count=2),)
    parked = _make(make_warehouse, 100, fleet=fleet)
    anywhere = _make(make_warehouse, 100, fleet=fleet, random={"start": "anywhere"})
    parking = parked.layout.parking
    assert np.isin(parked.cells, parking).all()
    assert len(np.unique(anywhere.cells)) > 20
    assert (anywhere.cells[:, 0] != anywhere.cells[:, 1]).all()


def test_late_actions_are_carried_out_after_the_delay(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, num_envs=1, random={"max_action_delay_steps": 3})
    delay = _feature(simulator, LateActions).delay[0].copy()
    assert len(set(delay.tolist())) > 1
    told = np.random.default_rng(0).integers(0, 5, (12, 6))
    for step, moves in enumerate(told):
        simulator.arrays.roles["carrier"].discrete_actions[0, :, 0] = moves[:4]
        simulator.arrays.roles["picker"].discrete_actions[0, :, 0] = moves[4:]
        simulator.step()
        due = [told[step - late, robot] if step >= late else STAY for robot, late in enumerate(delay)]
        assert simulator._parts.moves[0].tolist() == due


@pytest.mark.parametrize("drive", ["grid", "differential"])
@pytest.mark.parametrize("respawn_after_s", [0.0, 2.0])
def test_new_robot_carries_out_no_action_of_the_one_that_left(
    make_warehouse: Any, respawn_after_s: float, drive: str
) -> None:
    section: dict[str, Any] = {"contact": ContactConfig(rule="despawn", respawn_after_s=respawn_after_s)}
    if drive == "differential":
        section["drive"] = DifferentialDriveConfig(decision_steps=10)
    simulator = _make(make_warehouse, random={"max_action_delay_steps": 5}, **section)
    delay, parts = _feature(simulator, LateActions).delay, simulator._parts
    born, checked = np.zeros_like(delay), 0
    for step in range(80):
        was_alive = simulator.alive.copy()
        _act(simulator, step)
        simulator.step()
        waits = was_alive & (step - born < delay)
        told = parts.moves != STAY if drive == "grid" else parts.commands.any(axis=-1)
        assert not told[waits].any()
        checked += int((waits & (born > 0)).sum())
        came = simulator.alive & (~was_alive | simulator.outcome.leaving)
        born[came] = step + 1
    assert checked > 10


def test_new_robot_does_not_serve_the_delay_of_the_one_that_left(make_warehouse: Any) -> None:
    delays = ExecutionDelayConfig(probability=0.0)
    contact = ContactConfig(rule="despawn", respawn_after_s=0.0)
    simulator = _make(make_warehouse, num_envs=1, random={"execution_delays": delays}, contact=contact)
    feature = _feature(simulator, ExecutionDelays)
    left = 0
    for step in range(60):
        feature.left[:], simulator._fleet.held[:] = 9, 0
        _act(simulator, step)
        simulator.step()
        leaving = simulator.outcome.leaving
        np.testing.assert_array_equal(feature.left, np.where(leaving, 0, 8))
        left += int(leaving.sum())
    assert left > 3


def test_nothing_is_kept_for_robots_that_are_absent(make_warehouse: Any) -> None:
    battery = BatteryConfig(initial_min=0.1, initial_max=0.1, charging=ChargingConfig())
    fleet = (RoleConfig(role="carrier", count=4, battery=battery),)
    config, layout = make_warehouse(
        "C.P..S\n.##.#.\nC.P..E", fleet=fleet, randomisation=RandomisationConfig(min_fleet_share=0.1)
    )
    simulator = WarehouseSimulator(config, layout, 20)
    simulator.reset(seed=0)
    for _ in range(3):
        present = simulator.alive.sum(axis=1)
        assert set(present.tolist()) == {1, 2, 3, 4}
        # Two chargers, and a parking place for whoever finds none free.
        np.testing.assert_array_equal(simulator._pool.claimed.sum(axis=1), present)
        simulator.step()


@pytest.mark.parametrize("duration", ["uniform", "gaussian"])
@pytest.mark.parametrize("events", ["bernoulli", "poisson"])
def test_execution_delays_hold_robots_as_often_and_long_as_asked(
    make_warehouse: Any, duration: str, events: str
) -> None:
    delays = ExecutionDelayConfig(probability=0.2, events=events, duration=duration, min_steps=2, max_steps=8)
    simulator = _make(make_warehouse, 30, random={"execution_delays": delays}, episode_steps=10_000)
    feature = _feature(simulator, ExecutionDelays)
    lengths, chances = [], []
    for step in range(120):
        before, free = feature.left.copy(), feature.left <= 1
        cells = simulator.cells.copy()
        _act(simulator, step)
        simulator.step()
        assert (simulator.cells == cells)[before > 0].all()
        chances.append((feature.left > 0)[free])
        lengths.extend(feature.left[free & (feature.left > 0)].tolist())
        np.testing.assert_array_equal(feature.left[~free], before[~free] - 1)
    assert {*lengths} == {*range(2, 9)}
    chance = 0.2 if events == "bernoulli" else 1 - np.exp(-0.2)
    assert np.concatenate(chances).mean() == pytest.approx(chance, abs=0.02)
    assert np.mean(lengths) == pytest.approx(5.0, abs=0.15)
    assert np.std(lengths) == pytest.approx(2.0 if duration == "uniform" else 0.22 * 6, abs=0.15)


@pytest.mark.parametrize(
    ("mean_ratio", "std_ratio", "mean", "deviation"), [(0.4, 0.1, 42.0, 10.0), (0.75, 0.0, 77.0, 0.0)]
)
def test_gaussian_delays_lie_where_their_ratios_say(
    make_warehouse: Any, mean_ratio: float, std_ratio: float, mean: float, deviation: float
) -> None:
    delays = ExecutionDelayConfig(
        probability=1.0, duration="gaussian", min_steps=2, max_steps=102, mean_ratio=mean_ratio, std_ratio=std_ratio
    )
    simulator = _make(make_warehouse, 30, random={"execution_delays": delays})
    lengths = []
    for seed in range(50):
        simulator.reset(seed=seed)
        lengths.append(_feature(simulator, ExecutionDelays).left.copy())
    assert np.mean(lengths) == pytest.approx(mean, abs=0.5)
    assert np.std(lengths) == pytest.approx(deviation, abs=0.5)


def test_sensor_noise_has_the_asked_size_and_drops_the_asked_share(make_warehouse: Any) -> None:
    random = {"lidar_noise_m": 0.1, "lidar_dropout": 0.2, "position_noise_m": 0.1, "neighbour_dropout": 0.3}
    clear = _make(make_warehouse, 60)
    noisy = _make(make_warehouse, 60, random=random)
    layout = clear.spec.roles[0].observation
    beams, missing, offsets, dropped = [], [], [], []
    for step in range(8):
        for simulator in (clear, noisy):
            _act(simulator, step)
            simulator.step()
        one, other = (simulator.arrays.roles["carrier"].observations for simulator in (clear, noisy))
        true, seen = one[..., layout.slice_of("lidar")], other[..., layout.slice_of("lidar")]
        middle = (true > 0.15) & (true < 0.8)
        missing.append((seen == 1.0)[middle])
        beams.append((seen - true)[middle & (seen < 1.0)] * 8.0)
        target, noisy_target = (values[..., layout.slice_of("target")] for values in (one, other))
        offsets.append((noisy_target - target)[..., :2].ravel() * 30.0)
        np.testing.assert_allclose(
            noisy_target[..., 2], np.hypot(noisy_target[..., 0], noisy_target[..., 1]), atol=1e-6
        )
        np.testing.assert_array_equal(noisy_target[..., 3:], target[..., 3:])
        true, seen = (values[..., layout.slice_of("neighbours")].reshape(60, 4, 2, -1) for values in (one, other))
        there = true[..., 0] == 1.0
        dropped.append((seen[..., 0] == 0.0)[there])
        assert not seen[there & (seen[..., 0] == 0.0)].any()
    assert np.concatenate(missing).mean() == pytest.approx(0.2, abs=0.02)
    assert np.concatenate(beams).std() == pytest.approx(0.1, abs=0.01)
    assert abs(np.concatenate(beams).mean()) < 0.01
    assert np.concatenate(offsets).std() == pytest.approx(0.1, abs=0.01)
    assert np.concatenate(dropped).mean() == pytest.approx(0.3, abs=0.03)


def test_noise_of_a_beam_is_the_published_transform_of_its_own_counter(make_warehouse: Any) -> None:
    clear, noisy = _make(make_warehouse), _make(make_warehouse, random={"lidar_noise_m": 0.1})
    place = clear.spec.roles[0].observation.slice_of("lidar")
    robot, env = 1, 2
    for step in range(1, 4):
        for simulator in (clear, noisy):
            simulator.step()
        key = noisy._keys[Purpose.LIDAR_NOISE, env]
        true, seen = (s.arrays.roles["carrier"].observations[env, robot, place] for s in (clear, noisy))
        for beam in np.flatnonzero((true > 0.1) & (true < 0.9)):
            counter = (step * 6 + robot) * 12 + int(beam)
            radius = np.sqrt(-2 * np.log(1 - uniform(key, 2 * counter)))
            error = 0.1 / 8.0 * radius * np.cos(2 * np.pi * uniform(key, 2 * counter + 1))
            assert seen[beam] == pytest.approx(true[beam] + error, abs=1e-6)


def test_slippery_floor_limits_speed_and_its_change(make_warehouse: Any) -> None:
    drive = DifferentialDriveConfig()
    random = {"min_speed_factor": 0.3, "min_traction_factor": 0.2}
    simulator = _make(make_warehouse, 20, drive=drive, random=random, fleet=(RoleConfig(role="carrier", count=1),))
    floor = _feature(simulator, SlipperyFloor)
    assert floor.speed_factor.min() < 0.5 < 0.9 < floor.speed_factor.max() + 0.05
    carriers = simulator.arrays.roles["carrier"]
    rng = np.random.default_rng(1)
    for _ in range(60):
        before, turned = simulator._pose.speed[:, 0].copy(), simulator._pose.turn_rate[:, 0].copy()
        carriers.continuous_actions[:, 0] = np.sign(rng.uniform(-1, 1, (20, 2)))
        simulator.step()
        speed, refused = simulator._pose.speed[:, 0], simulator.outcome.refused[:, 0]
        assert (speed <= floor.speed_factor * 1.5 + 1e-6).all()
        most = np.where(before > 0, 1.2, 1.2) * 0.2 * floor.traction_factor
        assert (np.abs(speed - before)[~refused] <= most[~refused] + 1e-6).all()
        change = np.abs(simulator._pose.turn_rate[:, 0] - turned)
        assert (change <= 2.0 * 0.2 * floor.traction_factor + 1e-6).all()


def test_scenario_without_randomisation_has_no_such_part(make_warehouse: Any) -> None:
    assert _make(make_warehouse)._features == ()
    assert _make(make_warehouse, random={})._features == ()


@pytest.mark.parametrize(
    ("random", "message"),
    [
        ({"min_speed_factor": 0.5}, "expected no min_speed_factor or min_traction_factor with drive 'grid'"),
        ({"lidar_noise_m": 0.1}, "expected a block 'lidar' with lidar_noise_m or lidar_dropout, got none"),
        (
            {"position_noise_m": 0.1},
            "expected one of the blocks neighbours, position, target with position_noise_m",
        ),
        (
            {"odometry_noise": 0.1},
            "expected a block 'self' and robots with a speed in it with odometry_noise",
        ),
        ({"neighbour_dropout": 0.1}, "expected a block 'neighbours' with neighbour_dropout, got none"),
    ],
)
def test_randomisation_that_does_not_fit_is_refused(make_warehouse: Any, random: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _make(make_warehouse, random=random, observation=(SelfBlock(),))
    with pytest.raises(ValidationError, match="expected min_steps <= max_steps, got min_steps=5 > max_steps=4"):
        ExecutionDelayConfig(min_steps=5, max_steps=4)
    with pytest.raises(ValidationError, match=r"expected no std_ratio with duration 'uniform', got 0\.35"):
        ExecutionDelayConfig(std_ratio=0.35)
