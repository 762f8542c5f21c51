"""A PettingZoo environment small enough to reason about, whose agents leave, return and do harm on request."""

import os
import signal
import time
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

NUM_HARMLESS = 3
RAISE, HANG, DIE = 3, 4, 5


class TinyFleet(ParallelEnv):
    """Porters and a scout that walk at random and may be removed by the task.

    Actions 0 to 2 are steps; 3 raises, 4 hangs and 5 kills the process, unless masked.
    """

    metadata: ClassVar = {"name": "tiny_fleet", "render_modes": ["rgb_array"]}

    def __init__(self, num_porters=3, limit=12, death=0.08, harm=False, respawn=False, render_mode=None):
        self.possible_agents = [*(f"porter_{i}" for i in range(num_porters)), "scout_0"]
        self.agents: list[str] = []
        self.render_mode = render_mode
        self._limit, self._death, self._harm, self._respawn = limit, death, harm, respawn
        self._observation_space = spaces.Box(-100.0, 100.0, (4,), np.float64)
        self._action_spaces = {a: spaces.Discrete(6 if a[0] == "p" else 4) for a in self.possible_agents}
        self.closed = 0

    def observation_space(self, agent):
        return self._observation_space

    def action_space(self, agent):
        return self._action_spaces[agent]

    def reset(self, seed=None, options=None):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._steps = 0
        self._position = {a: self._rng.uniform(-1, 1) for a in self.agents}
        return self._observations(self.agents), self._infos(self.agents)

    def step(self, actions):
        for agent, action in actions.items():
            self._do_harm(agent, action)
        self._steps += 1
        lived = list(self.agents)
        rewards = {}
        for agent in lived:
            self._position[agent] += actions[agent] - 1 + self._rng.normal() * 0.1
            rewards[agent] = self._position[agent]
        terminations = {a: bool(self._rng.random() < self._death) for a in lived}
        late = self._steps >= self._limit
        truncations = {a: late and not terminations[a] for a in lived}
        self.agents = [] if late else [a for a in lived if not terminations[a]]
        observations = self._observations(lived)
        infos = self._infos(lived)
        if self._respawn and self.agents:
            born = [a for a in self.possible_agents if a not in lived]
            self.agents = [a for a in self.possible_agents if a in self.agents or a in born]
            observations |= self._observations(born)
            infos |= self._infos(born)
        return observations, rewards, terminations, truncations, infos

    def state(self):
        return np.array([self._position[a] for a in self.possible_agents])

    def render(self):
        return np.full((4, 4, 3), self._steps, np.uint8)

    def close(self):
        self.closed += 1

    def _observations(self, agents):
        return {a: np.array([self._position[a], self._steps, len(self.agents), 1.0]) for a in agents}

    def _infos(self, agents) -> dict[str, dict[str, Any]]:
        masks = {a: np.ones(self._action_spaces[a].n, np.int8) for a in agents}
        for mask in masks.values():
            mask[NUM_HARMLESS:] = self._harm
        return {a: {"action_mask": mask} for a, mask in masks.items()}

    @staticmethod
    def _do_harm(agent, action):
        if action == RAISE:
            raise ZeroDivisionError(f"{agent} divided by zero")
        if action == HANG:
            time.sleep(3600)
        if action == DIE:
            os.kill(os.getpid(), signal.SIGKILL)
