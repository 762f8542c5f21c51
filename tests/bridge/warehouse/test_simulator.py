"""The simulator as a roster: resets, ends of lives and episodes, reproducibility, refusals."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bridge.errors import ActionError, CallOrderError
from bridge.policy import RandomPolicy
from bridge.roster import Roster, RosterArrays
from bridge.warehouse.config import (
    BatteryConfig,
    ContactConfig,
    DifferentialDriveConfig,
    LidarBlock,
    NeighboursBlock,
    PathBlock,
    RewardConfig,
    RoleConfig,
    SelfBlock,
    TargetBlock,
    TaskConfig,
    WindowBlock,
)
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.view import LEFT, RIGHT, STAY, UP, WarehouseView

FLOOR = """
S..P....E
.##..##..
.##..##..
....P...S
E..P.....
"""
CROWDED = {
    "contact": ContactConfig(rule="despawn", respawn_after_s=3.0),
    "reward": RewardConfig(progress=0.1, collision=-1.0),
    "episode_steps": 40,
}
ALL_BLOCKS = (SelfBlock(), TargetBlock(), PathBlock(), WindowBlock(), LidarBlock(), NeighboursBlock())
NO_WINDOW = tuple(block for block in ALL_BLOCKS if block.block != "window")


def _make(make_warehouse: Any, count: int = 4, num_envs: int = 2, **section: Any) -> WarehouseSimulator:
    options = {key: section.pop(key) for key in ("first_env", "arrays", "respawn") if key in section}
    config, layout = make_warehouse(FLOOR, count, **section)
    return WarehouseSimulator(config, layout, num_envs, **options)


def _everything(arrays: RosterArrays) -> dict[str, np.ndarray]:
    """Copies of all arrays, by name."""
    copies = {f.name: getattr(arrays, f.name).copy() for f in fields(arrays) if f.name != "roles"}
    for name, role in arrays.roles.items():
        copies |= {f"{name}/{f.name}": getattr(role, f.name).copy() for f in fields(role)}
    return copies


def _play(simulator: WarehouseSimulator, steps: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Play at random with actions that depend on the environment's own index; what every step left."""
    trace = [_everything(simulator.arrays)]
    first = int(simulator._envs[0])
    rngs = [np.random.default_rng([seed, first + env]) for env in range(simulator.arrays.num_envs)]
    for _ in range(steps):
        for values in simulator.arrays.roles.values():
            for env, rng in enumerate(rngs):
                values.discrete_actions[env] = rng.integers(0, 5, values.discrete_actions[env].shape)
                values.continuous_actions[env] = rng.uniform(-1, 1, values.continuous_actions[env].shape)
        simulator.step()
        trace.append(_everything(simulator.arrays))
    return trace


def test_simulator_is_a_roster_and_a_view(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse)
    assert isinstance(simulator, Roster)
    view: WarehouseView = simulator
    simulator.reset(seed=0)
    assert view.cells.shape == view.goal_cells.shape == (2, 4)
    assert view.positions_m.shape == (2, 4, 2)
    assert len(np.unique(view.priority[0])) == 4


@pytest.mark.parametrize("kind", ["grid", "differential"])
def test_simulator_gives_the_same_bits_however_environments_are_split(make_warehouse: Any, kind: str) -> None:
    section: dict[str, Any] = {**CROWDED, "observation": ALL_BLOCKS, "tasks": TaskConfig(arrival="poisson")}
    section["fleet"] = (RoleConfig(role="carrier", count=3), RoleConfig(role="picker", count=2, radius_m=0.25))
    if kind == "differential":
        section |= {"observation": NO_WINDOW, "drive": DifferentialDriveConfig()}
    whole = _make(make_warehouse, num_envs=5, **section)
    whole.reset(seed=9)
    traces = _play(whole, 90)
    for first, stop in ((0, 2), (2, 5)):
        part = _make(make_warehouse, num_envs=stop - first, first_env=first, **section)
        part.reset(seed=9)
        for expected, got in zip(traces, _play(part, 90), strict=True):
            for name, values in got.items():
                if not name.endswith(("final_observations", "final_state", "metrics")):
                    np.testing.assert_array_equal(values, expected[name][first:stop], err_msg=name)
    assert any(trace["carrier/terminated"].any() for trace in traces)


def test_simulator_repeats_itself_after_a_reset_with_the_same_seed(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, **CROWDED)
    simulator.reset(seed=3)
    first = _play(simulator, 60)
    simulator.reset(seed=3)
    for one, other in zip(first[1:], _play(simulator, 60)[1:], strict=True):
        np.testing.assert_array_equal(one["carrier/observations"], other["carrier/observations"])
        np.testing.assert_array_equal(one["carrier/rewards"], other["carrier/rewards"])


def test_simulator_starts_differently_in_every_environment_episode_and_seed(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, num_envs=6)
    starts = set()
    for seed in (1, 2):
        simulator.reset(seed=seed)
        starts |= {cells.tobytes() for cells in np.hstack([simulator.cells, simulator.goal_cells])}
        simulator.reset()
        starts |= {cells.tobytes() for cells in np.hstack([simulator.cells, simulator.goal_cells])}
    assert len(starts) > 20


def test_reset_starts_robots_on_parking_places_first_and_never_two_in_one_cell(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, count=7, num_envs=20)
    simulator.reset(seed=0)
    parking = set(simulator.layout.parking.tolist())
    stations = set(np.concatenate([simulator.layout.pickups, simulator.layout.deliveries]).tolist())
    for cells in simulator.cells.tolist():
        assert len(set(cells)) == 7
        assert parking <= set(cells)
        assert not stations & set(cells)


def test_reset_draws_the_charge_between_its_bounds(make_warehouse: Any) -> None:
    battery = BatteryConfig(initial_min=0.3, initial_max=0.6)
    fleet = (RoleConfig(role="carrier", count=4), RoleConfig(role="picker", count=2, battery=battery))
    simulator = _make(make_warehouse, num_envs=50, fleet=fleet)
    simulator.reset(seed=0)
    charge = simulator.charge[:, simulator.role_slices["picker"]]
    assert charge.min() >= 0.3
    assert charge.max() <= 0.6
    assert charge.std() > 0.05
    assert simulator.charge[:, simulator.role_slices["carrier"]].min() >= 0.8


def test_reset_of_some_environments_leaves_the_others_alone(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, num_envs=3)
    simulator.reset(seed=5)
    _play(simulator, 5)
    before = _everything(simulator.arrays)
    simulator.reset(env_mask=np.array([False, True, False]))
    after = _everything(simulator.arrays)
    for name in before:
        np.testing.assert_array_equal(before[name][[0, 2]], after[name][[0, 2]], err_msg=name)
    assert simulator.arrays.episode.tolist() == [0, 1, 0]
    assert simulator.steps.tolist() == [5, 0, 5]
    assert not after["carrier/rewards"][1].any()


def test_reset_without_a_seed_before_any_seeded_one_is_refused(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse)
    with pytest.raises(CallOrderError, match="expected a seed at the first reset, got none"):
        simulator.reset()
    simulator.reset(seed=0, env_mask=np.array([True, False]))
    with pytest.raises(CallOrderError, match="expected a reset first"):
        simulator.step()


def test_simulator_refuses_calls_after_close(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse)
    simulator.reset(seed=0)
    simulator.close()
    simulator.close()
    with pytest.raises(CallOrderError, match=r"WarehouseSimulator.step: expected an open simulator"):
        simulator.step()
    with pytest.raises(CallOrderError, match=r"WarehouseSimulator.reset: expected an open simulator"):
        simulator.reset(seed=0)


def test_step_truncates_at_the_time_limit_and_shows_the_next_episode_at_once(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, episode_steps=6, num_envs=1)
    twin = _make(make_warehouse, episode_steps=7, num_envs=1)
    simulator.reset(seed=2)
    twin.reset(seed=2)
    trace, twin_trace = _play(simulator, 6), _play(twin, 6)
    last, uncut = trace[-1], twin_trace[-1]
    assert last["episode_over"].tolist() == [True]
    assert last["episode"].tolist() == [1]
    assert last["carrier/truncated"].all()
    assert not last["carrier/terminated"].any()
    np.testing.assert_array_equal(last["carrier/rewards"], uncut["carrier/rewards"])
    np.testing.assert_array_equal(last["carrier/final_observations"], uncut["carrier/observations"])
    np.testing.assert_array_equal(last["final_state"][:, :-1], uncut["state"][:, :-1])
    assert last["final_state"][0, -1] == 0.0
    fresh = _make(make_warehouse, episode_steps=6, num_envs=1)
    fresh.reset(seed=2)
    fresh.reset()
    np.testing.assert_array_equal(last["carrier/observations"], fresh.arrays.roles["carrier"].observations)
    np.testing.assert_array_equal(last["state"], fresh.arrays.state)
    assert not any(step["episode_over"].any() for step in trace[:-1])


def test_step_ends_a_life_once_and_leaves_an_empty_slot(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, num_envs=1, count=3, contact=ContactConfig(rule="despawn"))
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    before = carriers.observations.copy()
    top = int(np.argmin(simulator.cells[0]))
    carriers.discrete_actions[0, :, 0] = STAY
    carriers.discrete_actions[0, top, 0] = UP
    simulator.step()
    flags = np.arange(3) == top
    assert carriers.terminated[0].tolist() == flags.tolist()
    assert not carriers.truncated.any()
    assert carriers.agent_mask[0].tolist() == carriers.decision_mask[0].tolist() == (~flags).tolist()
    np.testing.assert_array_equal(carriers.final_observations[0, top], before[0, top])
    assert not carriers.observations[0, top].any()
    assert carriers.action_mask.all()
    carriers.discrete_actions[0, top, 0] = 99
    carriers.discrete_actions[0, ~flags, 0] = STAY
    simulator.step()
    assert not carriers.terminated.any()
    assert carriers.rewards[0, top] == 0.0


def test_step_brings_a_robot_back_after_the_stated_time_on_a_free_place(make_warehouse: Any) -> None:
    contact = ContactConfig(rule="despawn", respawn_after_s=4.0)
    simulator = _make(make_warehouse, num_envs=1, count=3, contact=contact)
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    top = int(np.argmin(simulator.cells[0]))
    carriers.discrete_actions[0, :, 0] = STAY
    carriers.discrete_actions[0, top, 0] = UP
    simulator.step()
    carriers.discrete_actions[0, :, 0] = STAY
    alive = []
    for _ in range(5):
        simulator.step()
        alive.append(bool(carriers.agent_mask[0, top]))
    assert alive == [False, False, False, True, True]
    assert carriers.observations[0, top].any()
    assert len(set(simulator.cells[0].tolist())) == 3
    assert not carriers.terminated.any()


def test_step_brings_a_robot_back_in_the_same_step_when_told_to_wait_no_time(make_warehouse: Any) -> None:
    contact = ContactConfig(rule="despawn", respawn_after_s=0.0)
    simulator = _make(make_warehouse, num_envs=1, count=3, contact=contact, episode_steps=2)
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    for step in range(2):
        top = int(np.argmin(simulator.cells[0]))
        carriers.discrete_actions[0, :, 0] = STAY
        carriers.discrete_actions[0, top, 0] = UP
        simulator.step()
        assert carriers.terminated[0, top]
        assert carriers.agent_mask.all()
        # In the last step of an episode it does not come back, so nothing of it is truncated.
        assert carriers.truncated[0].tolist() == [step == 1 and robot != top for robot in range(3)]
        if np.argmin(simulator.cells[0]) >= 9:
            break


def test_step_keeps_robots_off_the_floor_until_the_next_episode_without_respawn(make_warehouse: Any) -> None:
    section = {**CROWDED, "contact": ContactConfig(rule="despawn", respawn_after_s=1.0)}
    simulator = _make(make_warehouse, count=6, num_envs=1, respawn=False, **section)
    simulator.reset(seed=1)
    trace = _play(simulator, 60)
    assert any(step["carrier/terminated"].any() for step in trace)
    for before, after in pairwise(trace):
        came = after["carrier/agent_mask"] & ~before["carrier/agent_mask"]
        assert not came.any() or after["episode_over"].all()


def test_step_ends_the_episode_when_all_robots_are_gone_for_good(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, num_envs=1, count=1, contact=ContactConfig(rule="despawn"))
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    for _ in range(20):
        carriers.discrete_actions[0, 0, 0] = LEFT
        simulator.step()
        if carriers.terminated[0, 0]:
            break
    assert carriers.terminated[0, 0]
    assert simulator.arrays.episode_over[0]
    assert not carriers.truncated.any()
    assert carriers.agent_mask.all()
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    assert metrics["despawns"] == metrics["collisions"] == 1


def test_metrics_count_one_collision_and_two_despawns_when_two_robots_meet(make_warehouse: Any) -> None:
    config, layout = make_warehouse("S.PP.E", 2, contact=ContactConfig(rule="despawn"))
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    carriers.discrete_actions[0, :, 0] = np.where(simulator.cells[0] == 2, RIGHT, LEFT)
    simulator.step()
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    assert (metrics["collisions"], metrics["despawns"]) == (1, 2)


def test_step_waits_for_robots_that_will_come_back(make_warehouse: Any) -> None:
    contact = ContactConfig(rule="despawn", respawn_after_s=5.0)
    simulator = _make(make_warehouse, num_envs=1, count=1, contact=contact)
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    seen_empty = False
    for _ in range(30):
        carriers.discrete_actions[0, 0, 0] = LEFT
        simulator.step()
        assert not simulator.arrays.episode_over[0]
        seen_empty |= not carriers.agent_mask.any()
    assert seen_empty


def test_step_refuses_a_move_that_does_not_exist_and_changes_nothing(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, first_env=10, num_envs=2)
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    carriers.discrete_actions[:] = RIGHT
    carriers.discrete_actions[1, 2, 0] = 5
    cells = simulator.cells.copy()
    with pytest.raises(
        ActionError,
        match=r"step: action of agent 'carrier_2' in environment 11: expected one of the allowed moves "
        r"\[0, 1, 2, 3, 4\], got 5",
    ):
        simulator.step()
    np.testing.assert_array_equal(simulator.cells, cells)


def test_step_refuses_a_masked_move(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, count=1, num_envs=1, mask_blocked_moves=True)
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    for _ in range(20):
        if not carriers.action_mask[0, 0, UP]:
            break
        carriers.discrete_actions[0, 0, 0] = UP
        simulator.step()
    carriers.discrete_actions[0, 0, 0] = UP
    with pytest.raises(ActionError, match=r"'carrier_0' in environment 0: expected one of the allowed moves .*, got 1"):
        simulator.step()


@pytest.mark.parametrize("value", [1.001, -2.0, np.nan])
def test_step_refuses_a_speed_out_of_range(make_warehouse: Any, value: float) -> None:
    simulator = _make(make_warehouse, drive=DifferentialDriveConfig(), observation=NO_WINDOW)
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    carriers.continuous_actions[0, 3, 1] = value
    with pytest.raises(ActionError, match=r"agent 'carrier_3' in environment 0: expected 2 values in \[-1, 1\], got"):
        simulator.step()


def test_step_writes_into_the_arrays_that_it_was_given(make_warehouse: Any) -> None:
    section: dict[str, Any] = {"fleet": (RoleConfig(role="carrier", count=2), RoleConfig(role="picker", count=1))}
    simulator = _make(make_warehouse, num_envs=2, **section)
    arrays = RosterArrays.allocate(simulator.spec, 4)
    part = _make(make_warehouse, num_envs=2, arrays=arrays.envs(1, 3), **section)
    simulator.reset(seed=1)
    part.reset(seed=1)
    assert not arrays.roles["picker"].observations[[0, 3]].any()
    np.testing.assert_array_equal(
        arrays.roles["picker"].observations[1:3], simulator.arrays.roles["picker"].observations
    )


def test_step_drains_batteries_by_motion_and_load_and_stops_robots_at_zero(make_warehouse: Any) -> None:
    battery = BatteryConfig(drain_idle_per_h=36.0, drain_moving_per_h=72.0, initial_min=0.1, initial_max=0.1)
    simulator = _make(make_warehouse, num_envs=1, fleet=(RoleConfig(role="carrier", count=1, battery=battery),))
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    carriers.discrete_actions[:] = STAY
    simulator.step()
    assert simulator.charge[0, 0] == pytest.approx(0.09)
    moves = np.flatnonzero(simulator.moves[simulator.cells[0, 0]] != simulator.cells[0, 0])
    carriers.discrete_actions[:] = moves[0]
    simulator.step()
    assert simulator.charge[0, 0] == pytest.approx(0.06)
    for _ in range(10):
        carriers.discrete_actions[:] = STAY
        simulator.step()
    assert simulator.charge[0, 0] == 0.0
    cells = simulator.cells.copy()
    for move in range(5):
        carriers.discrete_actions[:] = move
        simulator.step()
    np.testing.assert_array_equal(simulator.cells, cells)


def test_metrics_count_what_the_rewards_pay_for(make_warehouse: Any) -> None:
    reward = RewardConfig(delivery=1.0, pickup=0.001)
    simulator = _make(make_warehouse, num_envs=2, count=3, episode_steps=300, reward=reward)
    simulator.reset(seed=0)
    carriers = simulator.arrays.roles["carrier"]
    total = np.zeros(2)
    while not simulator.arrays.episode_over.any():
        distance = simulator.goal_distances[simulator.goal_index]
        options = simulator.moves[simulator.cells]
        toward = np.take_along_axis(distance, options, axis=2).argmin(axis=2)
        # One robot at a time drives, so that nobody is in the way for long.
        carriers.discrete_actions[:, :, 0] = np.where(np.arange(3) == simulator.steps[0] // 20 % 3, toward, STAY)
        simulator.step()
        total += carriers.rewards.sum(axis=1)
    for env in range(2):
        metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[env], strict=True))
        assert metrics["deliveries"] >= 3
        assert total[env] == pytest.approx(metrics["deliveries"] + 0.001 * metrics["pickups"], abs=1e-4)
        assert metrics["deliveries_per_h"] == pytest.approx(metrics["deliveries"] * 3600 / 300)
        assert metrics["collisions"] == metrics["despawns"] == 0
        assert 0 < metrics["distance_m"] <= 300
        assert metrics["busy_share"] == 1.0
        # Every robot rests for two thirds of the time.
        assert metrics["waiting_share"] == pytest.approx(1 - metrics["distance_m"] / 900)
        assert 10 < metrics["task_time_s"] < 300


def test_state_holds_every_robot_and_the_time_that_is_left(make_warehouse: Any) -> None:
    simulator = _make(make_warehouse, num_envs=1, count=2, episode_steps=10)
    simulator.reset(seed=0)
    simulator.step()
    state = simulator.arrays.state[0]
    assert state.shape == (25,)
    assert state[-1] == pytest.approx(0.9)
    rows = state[:-1].reshape(2, 12)
    np.testing.assert_allclose(rows[:, :2] * 9.0, simulator.positions_m[0], rtol=1e-6)
    goals = simulator.goal_cells[0]
    np.testing.assert_allclose(rows[:, 8] * 9.0, goals % 9 + 0.5, rtol=1e-6)
    np.testing.assert_allclose(rows[:, 9] * 9.0, 5 - goals // 9 - 0.5, rtol=1e-6)
    np.testing.assert_array_equal(rows[:, 10:], 1.0)


@pytest.mark.parametrize("kind", ["grid", "differential"])
def test_observations_stay_within_the_bounds_of_their_blocks(make_warehouse: Any, kind: str) -> None:
    section: dict[str, Any] = {"observation": ALL_BLOCKS, "contact": CROWDED["contact"]}
    if kind == "differential":
        section |= {"observation": NO_WINDOW, "drive": DifferentialDriveConfig()}
    simulator = _make(make_warehouse, count=8, num_envs=4, **section)
    simulator.reset(seed=0)
    policy = RandomPolicy(simulator.spec, 0)
    layout = simulator.spec.roles[0].observation
    for _ in range(100):
        policy.act(simulator.arrays)
        simulator.step()
        observations = simulator.arrays.roles["carrier"].observations
        assert np.isfinite(observations).all()
        for block in layout.blocks:
            values = observations[..., layout.slice_of(block.name)]
            assert block.low is not None
            assert block.high is not None
            assert values.min() >= block.low - 1e-5, block.name
            assert values.max() <= block.high + 1e-5, block.name
