"""Messages between robots against a plain simulation of the stated rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.errors import ActionError
from bridge.planners import PibtHeadingPolicy, PibtPolicy, TokenPassingPolicy
from bridge.warehouse.config import (
    ContactConfig,
    DifferentialDriveConfig,
    GridConfig,
    HeadingGridConfig,
    PathBlock,
    SelfBlock,
)
from bridge.warehouse.config_communication import BurstConfig, CommunicationConfig, MessagesBlock
from bridge.warehouse.config_monitoring import MetricsConfig
from bridge.warehouse.random_streams import Purpose, uniform
from bridge.warehouse.simulator import WarehouseSimulator

FLOOR = """
S..P....E
.##..##..
.##..##..
....P...S
E..P.....
"""
BLOCKS = (SelfBlock(), PathBlock(), MessagesBlock(count=2))


def _simulator(
    make_warehouse: Any, count: int = 5, num_envs: int = 1, first_env: int = 0, **section: Any
) -> WarehouseSimulator:
    section.setdefault("communication", CommunicationConfig())
    section.setdefault("observation", BLOCKS)
    config, layout = make_warehouse(FLOOR, count, **section)
    simulator = WarehouseSimulator(config, layout, num_envs, first_env=first_env)
    simulator.reset(seed=5)
    return simulator


def _act(simulator: WarehouseSimulator, seed: int) -> None:
    """Random moves and messages that depend on the environment's own index."""
    for values in simulator.arrays.roles.values():
        for env, index in enumerate(simulator._envs):
            rng = np.random.default_rng([seed, int(index)])
            values.continuous_actions[env] = rng.uniform(-1, 1, values.continuous_actions[env].shape)
            for branch, size in enumerate(simulator.spec.roles[0].action.discrete_branches):
                values.discrete_actions[env, :, branch] = rng.integers(0, size, values.discrete_actions.shape[1])


def _block(simulator: WarehouseSimulator, final: bool = False) -> np.ndarray:
    """(E, A, K, 2 + size) the block of the only role."""
    role = simulator.spec.roles[0]
    values = simulator.arrays.roles[role.name]
    seen = values.final_observations if final else values.observations
    part = seen[..., role.observation.slice_of("messages")]
    return part.reshape(*part.shape[:2], 2, -1)


def _sees(blocked: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """By dense sampling of lines a little to each side: a touched corner is in the way."""
    height = blocked.shape[0]
    for shift in ([0.001, -0.001], [-0.001, 0.001], [0.001, 0.001], [-0.001, -0.001]):
        points = a + (b - a) * np.linspace(0, 1, 5000)[:, None] + shift
        rows, columns = height - 1 - np.floor(points[:, 1]).astype(int), np.floor(points[:, 0]).astype(int)
        if blocked[rows, columns].any():
            return False
    return True


class Plain:
    """Who hears whom, one message at a time."""

    def __init__(self, simulator: WarehouseSimulator) -> None:
        self.simulator = simulator
        self.radio = simulator.config.communication
        assert self.radio is not None
        self.said: dict[tuple[int, int], np.ndarray] = {}
        self.newest: dict[tuple[int, int], int] = {}
        self.bad = dict.fromkeys(range(simulator.config.num_robots), False)
        self.offered = self.arrived = 0
        self.keys = {purpose: simulator._keys[purpose, 0] for purpose in Purpose}

    def say(self, step: int, values: np.ndarray, asked: np.ndarray) -> None:
        assert self.radio is not None
        if step % self.radio.period_steps == 0:
            for robot in np.flatnonzero(asked):
                self.said[step, int(robot)] = values[robot].copy()

    def exchange(self, step: int) -> np.ndarray:
        """After the motion of a step: what every robot sees."""
        radio, simulator = self.radio, self.simulator
        assert radio is not None
        num, alive, place = simulator.config.num_robots, simulator.alive[0], simulator.positions_m[0]
        shown = np.zeros((num, 2, 2 + radio.size), np.float32)
        for gone in np.flatnonzero(simulator.outcome.leaving[0]).tolist():
            # Whoever comes next in its slot is another robot.
            self.newest = {key: sent for key, sent in self.newest.items() if gone not in key}
            self.said = {key: values for key, values in self.said.items() if gone != key[1]}
        for me in range(num):
            self._move_burst(step, me)
            if not alive[me]:
                continue
            near = []
            for other in range(num):
                gap = float(np.hypot(*(place[other] - place[me])))
                if other == me or not alive[other] or gap > radio.range_m:
                    continue
                if radio.line_of_sight and not _sees(simulator.layout.blocked, place[me], place[other]):
                    continue
                near.append((round(gap, 6), other))
                for sent in range(step + 1):
                    self._try(step, sent, me, other)
            for row, (_, other) in zip(shown[me], sorted(near), strict=False):
                sent_at = self.newest.get((me, other))
                if sent_at is not None and step - sent_at <= radio.hold_steps:
                    row[:] = [1.0, (step - sent_at) / radio.hold_steps, *self.said[sent_at, other]]
        return shown

    def _move_burst(self, step: int, me: int) -> None:
        assert self.radio is not None
        burst = self.radio.burst
        if burst is None:
            return
        chance = uniform(self.keys[Purpose.MESSAGE_BURST], step * len(self.bad) + me)
        if step == 0:
            self.bad[me] = chance < burst.enter / (burst.enter + burst.leave)
        else:
            self.bad[me] = chance >= burst.leave if self.bad[me] else chance < burst.enter

    def _try(self, step: int, sent: int, me: int, other: int) -> None:
        radio = self.radio
        assert radio is not None
        if (sent, other) not in self.said:
            return
        counter = (sent * len(self.bad) + other) * len(self.bad) + me
        latency = radio.latency_steps
        if radio.latency_jitter_steps:
            share = uniform(self.keys[Purpose.MESSAGE_LATENCY], counter)
            latency += int(share * (radio.latency_jitter_steps + 1))
        if sent + latency != step:
            return
        self.offered += 1
        lost = radio.loss > 0 and uniform(self.keys[Purpose.MESSAGE_LOSS], 2 * counter) < radio.loss
        if self.bad[me] and radio.burst is not None:
            lost = lost or uniform(self.keys[Purpose.MESSAGE_LOSS], 2 * counter + 1) < radio.burst.loss
        if not lost:
            self.arrived += 1
            self.newest[me, other] = max(self.newest.get((me, other), -1), sent)


RADIOS = {
    "ideal": CommunicationConfig(range_m=100.0),
    "short range": CommunicationConfig(range_m=3.0, size=3),
    "slow": CommunicationConfig(period_steps=3, latency_steps=2, hold_steps=4),
    "late": CommunicationConfig(latency_steps=1, latency_jitter_steps=3, loss=0.3),
    "bursts": CommunicationConfig(loss=0.1, burst=BurstConfig(enter=0.2, leave=0.4, loss=0.9)),
    "sight": CommunicationConfig(range_m=100.0, line_of_sight=True),
}


@pytest.mark.parametrize("respawn_after_s", [0.0, 3.0])
@pytest.mark.parametrize("name", RADIOS)
def test_messages_arrive_as_in_a_plain_simulation(make_warehouse: Any, name: str, respawn_after_s: float) -> None:
    contact = ContactConfig(rule="despawn", respawn_after_s=respawn_after_s) if name != "ideal" else ContactConfig()
    simulator = _simulator(make_warehouse, communication=RADIOS[name], contact=contact, episode_steps=60)
    plain = Plain(simulator)
    assert not _block(simulator).any()
    seen = 0
    for step in range(60):
        _act(simulator, step)
        carriers = simulator.arrays.roles["carrier"]
        plain.say(step, carriers.continuous_actions[0], carriers.decision_mask[0])
        simulator.step()
        if step == 59:
            break
        block = _block(simulator)[0]
        np.testing.assert_allclose(block, plain.exchange(step), atol=1e-6, err_msg=f"step {step}")
        seen += int(block[..., 0].sum())
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics[0], strict=True))
    assert seen > 30
    assert 0 <= metrics["messages_offered"] - plain.offered <= 20 * 4
    assert 0 <= metrics["messages_arrived"] - plain.arrived <= 20 * 4


def test_message_is_held_with_a_growing_age_when_later_ones_are_lost(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, 2, communication=CommunicationConfig(range_m=100.0, hold_steps=4))
    inbox = simulator.inbox
    assert inbox is not None
    simulator.arrays.roles["carrier"].continuous_actions[0] = [[0.5, -0.5], [0.25, 1.0]]
    simulator.arrays.roles["carrier"].discrete_actions[:] = 0
    simulator.step()
    np.testing.assert_allclose(_block(simulator)[0, 0, 0], [1.0, 0.0, 0.25, 1.0])
    ages = []
    for _ in range(5):
        simulator.step()
        # Lost after the fact: the second robot's next messages never came.
        inbox.newest[0, 0, 1] = 0
        simulator._show_some(simulator._all)
        ages.append(_block(simulator)[0, 0, 0, :2].tolist())
    assert ages == [[1.0, 0.25], [1.0, 0.5], [1.0, 0.75], [1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("drive", ["grid", "differential"])
def test_discrete_messages_are_a_branch_and_seen_one_hot(make_warehouse: Any, drive: str) -> None:
    section: dict[str, Any] = {"communication": CommunicationConfig(kind="discrete", size=4, range_m=100.0)}
    if drive == "differential":
        section["drive"] = DifferentialDriveConfig()
    else:
        section["mask_blocked_moves"] = True
    simulator = _simulator(make_warehouse, 2, **section)
    action = simulator.spec.roles[0].action
    assert action.names[-1] == "message"
    assert action.discrete_branches == ((5, 4) if drive == "grid" else (4,))
    carriers = simulator.arrays.roles["carrier"]
    assert carriers.action_mask[..., -4:].all()
    carriers.discrete_actions[0, :, -1] = [3, 1]
    simulator.step()
    np.testing.assert_array_equal(_block(simulator)[0, :, 0, 2:], np.eye(4)[[1, 3]])
    carriers.discrete_actions[0, 1, -1] = 4
    with pytest.raises(ActionError, match=r"message of agent 'carrier_1' .*expected a symbol in \[0, 3\], got 4"):
        simulator.step()


def test_continuous_message_out_of_range_names_the_robot(make_warehouse: Any) -> None:
    simulator = _simulator(make_warehouse, 2)
    simulator.arrays.roles["carrier"].continuous_actions[0, 1, 1] = np.nan
    with pytest.raises(ActionError, match=r"agent 'carrier_1' .*expected 2 values in \[-1, 1\], got \[0.0, nan"):
        simulator.step()


def test_messages_are_equal_however_environments_are_split(make_warehouse: Any) -> None:
    radio = CommunicationConfig(loss=0.2, latency_jitter_steps=2, burst=BurstConfig(enter=0.1))
    whole = _simulator(make_warehouse, num_envs=4, communication=radio, episode_steps=20)
    parts = [
        _simulator(make_warehouse, num_envs=n, first_env=f, communication=radio, episode_steps=20)
        for f, n in ((0, 1), (1, 3))
    ]
    for step in range(45):
        for simulator in (whole, *parts):
            _act(simulator, step)
            simulator.step()
        np.testing.assert_array_equal(np.concatenate([_block(part) for part in parts]), _block(whole))
        if step == 19:
            np.testing.assert_array_equal(np.concatenate([part.arrays.metrics for part in parts]), whole.arrays.metrics)


def test_messages_change_nothing_else_and_a_burst_no_other_chance(make_warehouse: Any) -> None:
    talking = _simulator(make_warehouse, communication=CommunicationConfig(loss=0.5, latency_jitter_steps=1))
    silent = _simulator(make_warehouse, communication=None, observation=BLOCKS[:2])
    bursting = _simulator(
        make_warehouse,
        communication=CommunicationConfig(loss=0.5, latency_jitter_steps=1, burst=BurstConfig(enter=0.3, loss=0.0)),
    )
    for step in range(40):
        for simulator in (talking, silent, bursting):
            _act(simulator, step)
            rng = np.random.default_rng(step)
            simulator.arrays.roles["carrier"].discrete_actions[0, :, 0] = rng.integers(0, 5, 5)
            simulator.step()
        np.testing.assert_array_equal(talking.cells, silent.cells)
        np.testing.assert_array_equal(talking.goal_cells, silent.goal_cells)
        np.testing.assert_array_equal(_block(talking), _block(bursting))


def test_loss_shares_tend_to_what_was_asked_for_and_windows_are_counted(make_warehouse: Any) -> None:
    radio = CommunicationConfig(range_m=100.0, loss=0.3, handover_window_s=4.0)
    simulator = _simulator(
        make_warehouse, num_envs=8, communication=radio, episode_steps=150, metrics=MetricsConfig(warm_up_s=10.0)
    )
    policy = PibtPolicy(simulator)
    events = 0
    for step in range(150):
        policy.act(simulator.arrays)
        simulator.step()
        events += int((simulator.outcome.served > 0).sum()) if step >= 10 else 0
    metrics = dict(zip(simulator.spec.metric_names, simulator.arrays.metrics.T, strict=True))
    assert (metrics["messages_sent"] == 140 * 5).all()
    assert (metrics["messages_offered"] == 140 * 5 * 4).all()
    assert metrics["message_loss_share"].mean() == pytest.approx(0.3, abs=0.02)
    assert metrics["handover_loss_share"].mean() == pytest.approx(0.3, abs=0.03)
    assert simulator.inbox is not None
    # The mean age of the newest of messages that arrive with 70%: 0.3 / 0.7 steps.
    assert metrics["message_age_s"].mean() == pytest.approx(0.3 / 0.7, abs=0.05)
    assert events > 200


def test_window_before_a_handover_holds_the_messages_of_its_steps(make_warehouse: Any) -> None:
    radio = CommunicationConfig(range_m=100.0, handover_window_s=4.0)
    simulator = _simulator(make_warehouse, 3, communication=radio, episode_steps=500)
    policy = PibtPolicy(simulator)
    expected = 0
    inbox = simulator.inbox
    assert inbox is not None
    for step in range(1, 100):
        policy.act(simulator.arrays)
        simulator.step()
        expected += int((simulator.outcome.served > 0).sum()) * 2 * min(step, 4)
        assert inbox.sums[0, 3] == inbox.sums[0, 4] == expected
    assert expected > 50


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize("planner", [PibtPolicy, PibtHeadingPolicy, TokenPassingPolicy])
def test_planners_say_zeros_or_the_first_symbol(make_warehouse: Any, planner: Any, kind: str) -> None:
    drive = HeadingGridConfig() if planner is PibtHeadingPolicy else GridConfig()
    radio = CommunicationConfig(kind=kind, size=3)
    simulator = _simulator(make_warehouse, 2, communication=radio, drive=drive)
    carriers = simulator.arrays.roles["carrier"]
    carriers.continuous_actions[:] = 0.5
    carriers.discrete_actions[..., 1:] = 2
    planner(simulator).act(simulator.arrays)
    assert not carriers.continuous_actions.any()
    assert not carriers.discrete_actions[..., 1:].any()


def test_communication_and_its_block_need_each_other(make_warehouse: Any) -> None:
    with pytest.raises(ValidationError, match="expected communication with the block 'messages', got none"):
        make_warehouse(FLOOR, 2, observation=BLOCKS)
    with pytest.raises(ValidationError, match="expected a block 'messages' with communication, got none"):
        make_warehouse(FLOOR, 2, communication=CommunicationConfig())
    with pytest.raises(ValidationError, match=r"latency_steps \+ latency_jitter_steps <= hold_steps, got 5 > 4"):
        CommunicationConfig(latency_steps=3, latency_jitter_steps=2, hold_steps=4)
    with pytest.raises(ValidationError, match="expected size >= 2 with kind 'discrete', got 1"):
        CommunicationConfig(kind="discrete", size=1)
