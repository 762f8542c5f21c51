"""The recorder against the simulator that it watches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from bridge.errors import SpecMismatchError
from bridge.policy import FleetPolicy, RandomPolicy
from bridge.registry import open_world
from bridge.replay import Recording, ReplayEvent, RobotField, record_episode
from bridge.roster import RosterArrays
from bridge.scenario import load_scenario
from bridge.warehouse.config_monitoring import DeadlockConfig, MetricsConfig
from bridge.warehouse.pauses import SERVED
from bridge.warehouse.simulator import WarehouseSimulator

Record = Callable[..., tuple[Path, Recording]]
Policies = Callable[[WarehouseSimulator, str], FleetPolicy]

SCENARIOS = [("warehouse_two_roles", "pibt"), ("warehouse_small_despawn", "random"), ("warehouse_drive", "driver")]


def open_simulator(name: str, num_envs: int = 1, more_steps: int = 0) -> WarehouseSimulator:
    world = open_world(load_scenario(name))
    config = world.config.model_copy(update={"episode_steps": world.config.episode_steps + more_steps})
    return WarehouseSimulator(config, world.layout, num_envs)


def events_of(recording: Recording, kind: str) -> list[tuple[int, list[int]]]:
    events = recording.events
    start = np.concatenate([[0], events.end[:-1]])
    return [
        (int(events.step[i]), events.robots[start[i] : events.end[i]].tolist())
        for i in np.flatnonzero(events.kind == events.kinds.index(kind))
    ]


@pytest.mark.parametrize(("scenario", "policy"), SCENARIOS)
def test_recording_holds_the_state_after_every_step_of_the_episode(
    scenario: str, policy: str, record: Record, policies: Policies
) -> None:
    """Beside a simulator whose episode is longer, so that the last state of the recorded one can be seen in it."""
    _, recording = record(scenario, policy)
    simulator = open_simulator(scenario, more_steps=2)
    driver = policies(simulator, policy)
    simulator.reset(5)
    assert recording.num_steps == simulator.config.episode_steps - 2
    for step in range(recording.num_steps + 1):
        last = step == recording.num_steps
        # Nobody comes back in an episode's last step.
        same = recording.alive[step] if last else simulator.alive[0]
        assert not (recording.alive[step] & ~simulator.alive[0]).any()
        np.testing.assert_array_equal(recording.alive[step], same)
        np.testing.assert_allclose(recording.positions_m[step][same], simulator.positions_m[0][same], atol=1e-4)
        turn = recording.heading_rad[step][same] - simulator.heading_rad[0][same]
        np.testing.assert_allclose(np.sin(turn), 0.0, atol=1e-5)
        np.testing.assert_array_equal(recording.loaded[step][same], simulator.loaded[0][same])
        np.testing.assert_array_equal(recording.has_task[step][same], simulator.has_task[0][same])
        np.testing.assert_allclose(recording.charge[step][same], simulator.charge[0][same])
        goals = np.where(simulator.goal_index[0] >= 0, simulator.goal_cells[0], -1)
        np.testing.assert_array_equal(recording.goal_cells[step][same], goals[same])
        driver.act(simulator.arrays)
        simulator.step()


@pytest.mark.parametrize(("scenario", "policy"), SCENARIOS)
def test_recording_adds_up_to_the_figures_of_the_episode(scenario: str, policy: str, record: Record) -> None:
    _, recording = record(scenario, policy)
    figures = {name: value for name, _, value in recording.figures}
    counted = {kind: sum(len(robots) for _, robots in events_of(recording, kind)) for kind in recording.events.kinds}
    assert counted["delivery"] == figures["deliveries"]
    assert counted["pickup"] == figures["pickups"]
    assert counted["despawn"] == figures["despawns"]
    assert recording.num_half_contacts.sum() == 2 * figures["collisions"]
    assert recording.num_refused.sum() == figures["blocked_moves"]
    np.testing.assert_array_equal(recording.refused.sum(axis=1), recording.num_refused)
    assert figures["deliveries"] + figures["despawns"] + figures["blocked_moves"] > 0


def test_recording_marks_robots_that_leave_and_come_back(record: Record) -> None:
    _, recording = record("warehouse_small_despawn", "random")
    left, returned = events_of(recording, "despawn"), events_of(recording, "respawn")
    assert left
    assert returned
    for step, robots in left:
        assert recording.alive[step - 1, robots].all()
        assert not recording.alive[step, robots].any()
    for step, robots in returned:
        assert not recording.alive[step - 1, robots].any()
        assert recording.alive[step, robots].all()
    assert {step for step, _ in events_of(recording, "collision")} == {step for step, _ in left}


def test_recording_marks_a_robot_that_comes_back_in_the_step_it_left_as_jumped() -> None:
    world = open_world(load_scenario("warehouse_small_despawn"))
    contact = world.config.contact.model_copy(update={"respawn_after_s": 0.0})
    simulator = WarehouseSimulator(world.config.model_copy(update={"contact": contact}), world.layout, 1)
    policy = RandomPolicy(simulator.spec, 3)
    recording = record_episode(simulator, policy, seed=5, max_steps=100, scenario_name="x")
    left = events_of(recording, "despawn")
    assert left
    for step, robots in left:
        np.testing.assert_array_equal(recording.jumped[step, robots], recording.alive[step, robots])
    assert recording.jumped.any()
    assert recording.figures == ()


def test_recording_keeps_the_scans_that_robots_saw(record: Record, policies: Policies) -> None:
    _, recording = record("warehouse_drive", "driver")
    simulator = open_simulator("warehouse_drive", more_steps=2)
    driver = policies(simulator, "driver")
    place = simulator.spec.roles[0].observation.slice_of("lidar")
    assert recording.lidar is not None
    assert (recording.lidar.stride, recording.lidar.range_m) == (1, 8.0)
    simulator.reset(5)
    for step in range(recording.num_steps + 1):
        seen = simulator.arrays.roles["carrier"].observations[0, :, place]
        np.testing.assert_allclose(recording.lidar.values[step], seen, atol=1e-6)
        driver.act(simulator.arrays)
        simulator.step()


def test_recording_keeps_fewer_scans_when_there_would_be_too_many(
    monkeypatch: pytest.MonkeyPatch, policies: Policies
) -> None:
    monkeypatch.setattr("bridge.replay.recorder._MAX_LIDAR_VALUES", 4 * 36 * 20)
    simulator = open_simulator("warehouse_drive")
    recording = record_episode(simulator, policies(simulator, "driver"), seed=5, max_steps=50, scenario_name="x")
    assert recording.lidar is not None
    assert recording.lidar.stride == 3
    assert len(recording.lidar.values) == 17  # steps 0, 3, ..., 48


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_recording_keeps_what_robots_said_and_what_they_see_of_it(kind: Literal["continuous", "discrete"]) -> None:
    """The block ``messages`` of every step, put together again from what is kept."""
    world = open_world(load_scenario("warehouse_messages"))
    section = world.config.communication.model_copy(
        update={"kind": kind, "size": 3, "period_steps": 2, "loss": 0.3, "hold_steps": 4}
    )
    simulator = WarehouseSimulator(world.config.model_copy(update={"communication": section}), world.layout, 1)
    blocks: list[np.ndarray] = []

    def keep(simulator: WarehouseSimulator, env: int) -> list[ReplayEvent]:
        role = simulator.spec.roles[0]
        seen = simulator.arrays.roles["carrier"].observations[env, :, role.observation.slice_of("messages")]
        blocks.append(seen.reshape(8, 3, 5).copy())
        return []

    policy = RandomPolicy(simulator.spec, 3)
    recording = record_episode(simulator, policy, seed=5, max_steps=60, scenario_name="x", read_events=keep)
    simulator.close()
    record = recording.messages
    assert record is not None
    assert (record.discrete, record.size, record.num_shown) == (kind == "discrete", 3, 3)
    assert np.isnan(record.said[0::2]).all()
    assert not np.isnan(record.said[1::2]).any()
    for step, block in enumerate(blocks, 1):
        for robot, place in np.ndindex(8, 3):
            valid, age, *values = block[robot, place]
            kept = int(record.age[step, robot, place])
            assert (kept >= 0) == bool(valid)
            if valid:
                assert age == pytest.approx(kept / 4)
                said = record.said[step - kept, record.heard_from[step, robot, place]]
                expected = np.eye(3)[int(said[0])] if kind == "discrete" else said
                np.testing.assert_allclose(values, expected, atol=1e-6)
    ages = record.age[1:]
    assert set(np.unique(ages)) == {-1, 0, 1, 2, 3, 4}


def test_recording_keeps_the_first_values_and_senders_when_there_would_be_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bridge.replay.message_tape._MAX_SAID", 8 * 21)
    monkeypatch.setattr("bridge.replay.message_tape._MAX_HEARD", 8 * 21 * 2 + 7)
    simulator = open_simulator("warehouse_messages")
    recording = record_episode(simulator, RandomPolicy(simulator.spec, 3), seed=5, max_steps=20, scenario_name="x")
    simulator.close()
    assert recording.messages is not None
    assert recording.messages.said.shape == (21, 8, 1)
    assert recording.messages.heard_from.shape == (21, 8, 2)
    assert (recording.messages.size, recording.messages.num_shown) == (2, 3)


def test_recording_shows_the_environment_that_is_asked_for(policies: Policies) -> None:
    simulator = open_simulator("warehouse_small", num_envs=3)
    policy = policies(simulator, "pibt")
    recording = record_episode(simulator, policy, seed=5, max_steps=20, env=2, scenario_name="x")
    np.testing.assert_array_equal(recording.positions_m[-1], simulator.positions_m[2])
    assert (recording.positions_m[-1] != simulator.positions_m[0]).any()


def test_recording_knows_which_moves_lead_out_of_a_cell(record: Record) -> None:
    _, recording = record("warehouse_two_roles", "pibt")
    layout = recording.layout
    free = np.pad(~layout.blocked, 1)
    up, right, down, left = free[:-2, 1:-1], free[1:-1, 2:], free[2:, 1:-1], free[1:-1, :-2]
    bits = up + 2 * right.astype(int) + 4 * down.astype(int) + 8 * left.astype(int)
    np.testing.assert_array_equal(recording.open_moves[~layout.blocked.ravel()], bits[~layout.blocked])


def short_episode(**more: Any) -> Recording:
    simulator = open_simulator("warehouse_small")
    policy = RandomPolicy(simulator.spec, 3)
    return record_episode(simulator, policy, seed=5, scenario_name="x", **{"max_steps": 10, **more})


def test_recording_takes_further_fields_to_the_last_step_of_the_episode() -> None:
    field = RobotField("waited", "Waited", lambda simulator, env: simulator.priority[env], unit="steps")
    vector = RobotField("place", "Place", lambda simulator, env: simulator.positions_m[env], resolution=0.1)
    recording = short_episode(fields=[field, vector], max_steps=1_000)
    assert [one.values.shape for one in recording.fields] == [(401, 8), (401, 8, 2)]
    np.testing.assert_array_equal(recording.fields[1].values, recording.positions_m)


def test_recording_tells_who_was_told_of_ends_before_and_stops_listening(policies: Policies) -> None:
    simulator = open_simulator("warehouse_small", num_envs=2)
    told: list[list[bool]] = []
    hook = simulator.on_episode_end = lambda over: told.append(over.tolist())
    policy = policies(simulator, "pibt")
    recording = record_episode(simulator, policy, seed=5, max_steps=1_000, env=1, scenario_name="x")
    assert recording.num_steps == simulator.config.episode_steps
    assert told == [[True, True]]
    assert simulator.on_episode_end is hook
    field = RobotField("a", "A", lambda simulator, env: simulator.cells)
    with pytest.raises(SpecMismatchError, match="replay: field 'a'"):
        record_episode(simulator, policy, seed=5, scenario_name="x", fields=[field])
    assert simulator.on_episode_end is hook


def test_recording_knows_why_robots_stood_and_whom_pickers_helped(policies: Policies) -> None:
    simulator = open_simulator("warehouse_picking")
    recording = record_episode(simulator, policies(simulator, "pibt"), seed=5, scenario_name="x")
    figures = {name: value for name, _, value in recording.figures}
    assert sum(len(robots) for _, robots in events_of(recording, "help")) == figures["meetings"] > 10
    stood = (np.diff(recording.positions_m, axis=0) == 0).all(axis=2)
    served = recording.pauses[1:] == SERVED
    assert stood[served].all()
    assert served.any(axis=0).sum() > 6
    simulator.close()


def test_recording_takes_events_that_others_find() -> None:
    def find(simulator: WarehouseSimulator, env: int) -> list[ReplayEvent]:
        step = int(simulator.steps[env])
        return [ReplayEvent(step - 2, "deadlock", (3, 1))] if step == 7 else []

    recording = short_episode(read_events=find)
    assert events_of(recording, "deadlock") == [(5, [3, 1])]
    assert (np.diff(recording.events.step) >= 0).all()
    assert recording.events.end[-1] == len(recording.events.robots)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": 1}, r"replay: expected an env from 0 to 0, got 1\."),
        ({"max_steps": 0}, r"replay: expected max_steps >= 1, got 0\."),
        (
            {"fields": [RobotField("a", "A", lambda simulator, env: simulator.cells)]},
            r"replay: field 'a': expected values of shape \(8,\) or \(8, K\) in every step, got \(1, 8\)\.",
        ),
        (
            {"fields": [RobotField("a", "A", lambda simulator, env: simulator.cells[env])] * 2},
            r"replay: expected fields of distinct names, got a, a\.",
        ),
        (
            {"fields": [RobotField("a", "A", lambda simulator, env: simulator.cells[env], resolution=0.0)]},
            r"replay: field 'a': expected resolution > 0, got 0\.0\.",
        ),
        (
            {"read_events": lambda simulator, env: [ReplayEvent(11, "deadlock", ())]},
            r"replay: event 'deadlock': expected a step from 0 to 10, got 11\.",
        ),
        (
            {"read_events": lambda simulator, env: [ReplayEvent(2, "deadlock", (1, 8))]},
            r"replay: event 'deadlock' in step 2: expected robots from 0 to 7, got \(1, 8\)\.",
        ),
    ],
)
def test_record_episode_refuses_what_makes_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecMismatchError, match=message):
        short_episode(**arguments)


def test_record_episode_refuses_worlds_that_are_no_warehouse() -> None:
    roster = open_world(load_scenario("mpe_spread")).roster(1)
    with pytest.raises(SpecMismatchError, match=r"replay: expected the built-in warehouse simulator, got \w+, which"):
        record_episode(roster, RandomPolicy(roster.spec, 0), seed=0, scenario_name="x")
    roster.close()


def test_recording_keeps_the_deadlocks_and_livelocks_that_the_simulator_finds() -> None:
    world = open_world(load_scenario("warehouse_small"))
    deadlock = DeadlockConfig(cycle_s=5.0, no_progress_s=20.0)
    # The figures leave out the warm-up, the recording does not.
    changed = {"deadlock": deadlock, "metrics": MetricsConfig(warm_up_s=100.0), "mask_blocked_moves": False}
    simulator = WarehouseSimulator(world.config.model_copy(update=changed), world.layout, 1)
    recording = record_episode(simulator, _Push(simulator), seed=1, scenario_name="x")
    counted = [kind for kind in ("deadlock", "livelock") for step, _ in events_of(recording, kind) if step > 100]
    jams = [*events_of(recording, "deadlock"), *events_of(recording, "livelock")]
    figures = {name: value for name, _, value in recording.figures}
    assert len(events_of(recording, "livelock")) > 2
    assert counted.count("deadlock") == figures["deadlocks"]
    assert counted.count("livelock") == figures["livelocks"]
    assert len(jams) > len(counted)
    assert recording.num_refused[101:].sum() == figures["blocked_moves"]
    for _, robots in events_of(recording, "deadlock"):
        assert len(robots) >= 2


class _Push:
    """Every robot pushes along its shortest way and never yields."""

    def __init__(self, simulator: WarehouseSimulator) -> None:
        self._simulator = simulator

    def act(self, arrays: RosterArrays) -> None:
        """See ``FleetPolicy``."""
        view = self._simulator
        for robot in range(view.config.num_robots):
            distance = view.goal_distances[view.goal_index[0, robot], view.moves[view.cells[0, robot]]]
            arrays.roles["carrier"].discrete_actions[0, robot, 0] = int(np.argmin(distance))
