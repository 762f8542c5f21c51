"""A tiny world with a known optimum, as a vector environment, for everything in this folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from bridge.actions import require_valid_actions
from bridge.roster import RosterArrays
from bridge.specs import ActionSpec, MetricSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec


@dataclass(frozen=True)
class TinyRules:
    """What the tiny world does.

    Every robot sees a target and is paid for hitting it: one-hot targets per
    branch (1 per hit, shared out over branches), or values in [-0.8, 0.8] (minus the squared distance).
    """

    action: ActionSpec = ActionSpec(discrete_branches=(4,))  # noqa: RUF009
    num_slots: int = 2
    episode_steps: int = 10
    ask_every: int = 1
    forbid_others: bool = False
    kill_on_miss: bool = False
    respawn_after: int = 2
    has_state: bool = True
    own_target: bool = False


class TinyWorld:
    """E copies of the game; steps at once in this process."""

    def __init__(self, rules: TinyRules, num_envs: int) -> None:
        self.rules = rules
        size = rules.num_slots if rules.own_target else rules.action.mask_size + rules.action.num_continuous
        layout = ObservationLayout((ObservationBlock("goal", size), ObservationBlock("clock", 1)))
        ids = tuple(f"robot_{slot}" for slot in range(rules.num_slots))
        role = RoleSpec("robot", ids, layout, rules.action)
        state_size = rules.num_slots * (size + 1) if rules.has_state else 0
        self.spec = WorldSpec((role,), state_size, (MetricSpec("hits_per_step"),))
        self.arrays = RosterArrays.allocate(self.spec, num_envs)
        self._values = self.arrays.roles["robot"]
        self._clock = np.zeros(num_envs, np.int64)
        self._dead_for = np.zeros((num_envs, rules.num_slots), np.int64)
        self._owed = np.zeros((num_envs, rules.num_slots), np.float32)
        self._paid = np.zeros(num_envs)
        self._rng = np.random.default_rng(0)

    def reset(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.arrays.episode[:] = 0
        self._start(np.ones(len(self._clock), np.bool_))
        for flags in (self._values.terminated, self._values.truncated, self.arrays.episode_over):
            flags[:] = False
        self._values.rewards[:] = 0.0

    def step_async(self) -> None:
        require_valid_actions(self.spec, self.arrays, "TinyWorld.step")

    def step_wait(self) -> None:
        values, rules = self._values, self.rules
        asked, lived = values.decision_mask.copy(), values.agent_mask.copy()
        gain = np.where(asked, self._score(), 0.0).astype(np.float32)
        # With pauses the wages of a decision come one step late, when the robot is not asked.
        paid = gain if rules.ask_every == 1 else self._owed
        values.rewards[:] = np.where(lived, paid, 0.0)
        self._owed = gain
        self._paid += values.rewards.sum(axis=-1)
        self._clock += 1
        values.terminated[:] = lived & asked & (gain < 1.0) if rules.kill_on_miss else False
        over = self._clock >= rules.episode_steps
        values.truncated[:] = lived & over[:, np.newaxis] & ~values.terminated
        values.final_observations[:] = values.observations
        values.final_observations[..., -1] = (self._clock / rules.episode_steps)[:, np.newaxis]
        self.arrays.final_state[:] = self._global(values.final_observations)
        self.arrays.metrics[:, 0] = self._paid / rules.episode_steps
        self._dead_for = np.where(values.terminated, rules.respawn_after, np.maximum(self._dead_for - 1, 0))
        self.arrays.episode_over[:] = over
        self._look(np.ones_like(over))
        self.arrays.episode[over] += 1
        self._start(over)

    def step(self) -> None:
        self.step_async()
        self.step_wait()

    def close(self) -> None:
        pass

    def _start(self, envs: np.ndarray) -> None:
        self._clock[envs] = 0
        self._dead_for[envs] = 0
        self._owed[envs] = 0.0
        self._paid[envs] = 0.0
        self._look(envs)

    def _look(self, envs: np.ndarray) -> None:
        """New targets for robots that are asked; what is not asked keeps its view."""
        values, rules, action = self._values, self.rules, self.rules.action
        alive = self._dead_for == 0
        asked = alive & (self._clock % rules.ask_every == 0)[:, np.newaxis]
        goals, targets = [], []
        for size in action.discrete_branches:
            target = self._rng.integers(size, size=alive.shape)
            goals.append(np.eye(size, dtype=np.float32)[target])
            targets.append(target)
        if action.num_continuous:
            goals.append(self._rng.uniform(-0.8, 0.8, (*alive.shape, action.num_continuous)).astype(np.float32))
        if rules.own_target:
            goals = [np.zeros((*alive.shape, rules.num_slots), np.float32)]
        clock = np.broadcast_to((self._clock / rules.episode_steps)[:, np.newaxis, np.newaxis], (*alive.shape, 1))
        fresh = np.concatenate([*goals, clock], axis=-1).astype(np.float32)
        fresh = np.where(asked[..., np.newaxis], fresh, values.observations)
        fresh = np.where(alive[..., np.newaxis], fresh, 0.0)
        values.observations[envs] = fresh[envs]
        values.agent_mask[envs] = alive[envs]
        values.decision_mask[envs] = asked[envs]
        if rules.forbid_others and len(targets) == 1:
            # Only the target and its neighbour are allowed.
            size = action.discrete_branches[0]
            one_hot = np.eye(size, dtype=np.bool_)
            allowed = one_hot[targets[0]] | one_hot[(targets[0] + 1) % size]
            values.action_mask[envs] = np.where(asked[..., np.newaxis], allowed, True)[envs]
        else:
            values.action_mask[:] = True
        self.arrays.state[envs] = self._global(values.observations)[envs]

    def _global(self, observations: np.ndarray) -> np.ndarray:
        return observations.reshape(len(observations), -1)[:, : self.spec.state_size]

    def _score(self) -> np.ndarray:
        values, action = self._values, self.rules.action
        if self.rules.own_target:
            return (values.discrete_actions[..., 0] == np.arange(self.rules.num_slots)).astype(np.float32)
        score, start = np.zeros(values.rewards.shape), 0
        for branch, size in enumerate(action.discrete_branches):
            target = values.observations[..., start : start + size].argmax(axis=-1)
            score += (values.discrete_actions[..., branch] == target) / len(action.discrete_branches)
            start += size
        if action.num_continuous:
            target = values.observations[..., start : start + action.num_continuous]
            score -= np.square(values.continuous_actions - target).sum(axis=-1)
        return score


@pytest.fixture
def tiny_world() -> Callable[..., TinyWorld]:
    """Makes a world from keyword rules and a number of environments."""

    def make(num_envs: int = 8, seed: int = 5, **rules: Any) -> TinyWorld:
        world = TinyWorld(TinyRules(**rules), num_envs)
        world.reset(seed)
        return world

    return make


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """One torch thread: results do not depend on the machine, tests do not fight for cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
