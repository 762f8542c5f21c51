"""The tables of docs/semantics.md, replayed."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

from bridge.foreign_spec import spec_of_parallel_env
from bridge.parallel_env import RosterParallelEnv
from bridge.parallel_roster import ParallelRoster

PAGE = Path(__file__).parents[2] / "docs" / "semantics.md"
NOTHING = "\N{EN DASH}"


class ScriptedEnv(ParallelEnv):
    """Two robots; what happens to ``carrier_0`` in step ``t`` is written down.

    The observation of step ``t`` of episode ``e`` (from 1) is ``100 e + t``, every step earns a reward of 1.
    Events: ``end`` (terminated), ``back`` (a new life), ``silent`` (no observation: not asked).
    """

    metadata: ClassVar = {"name": "scripted"}

    def __init__(self, events: dict[int, str], limit: int):
        self.possible_agents = ["carrier_0", "carrier_1"]
        self.agents: list[str] = []
        self._events, self._limit = events, limit
        self._space, self._actions = spaces.Box(0, np.inf, (1,), np.float32), spaces.Discrete(2)
        self._episode = 0

    def observation_space(self, agent):
        return self._space

    def action_space(self, agent):
        return self._actions

    def reset(self, seed=None, options=None):
        self._episode += 1
        self._step = 0
        self.agents = list(self.possible_agents)
        return {a: self._observation() for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions):
        self._step += 1
        event = self._events.get(self._step)
        lived = list(self.agents)
        terminations = {a: a == "carrier_0" and event == "end" for a in lived}
        late = self._step == self._limit
        truncations = {a: late and not terminations[a] for a in lived}
        if event == "end":
            self.agents = ["carrier_1"]
        if event == "back":
            self.agents = list(self.possible_agents)
        if late:
            self.agents = []
        seen = {a: self._observation() for a in {*lived, *self.agents} if a == "carrier_1" or event != "silent"}
        return seen, dict.fromkeys(lived, 1.0), terminations, truncations, {a: {} for a in seen}

    def _observation(self):
        return np.array([100.0 * self._episode + self._step], np.float32)


def make_roster(events, limit):
    spec = spec_of_parallel_env(ScriptedEnv(events, limit))
    return ParallelRoster(lambda: ScriptedEnv(events, limit), spec, 1)


SEQUENCES: dict[str, tuple[dict[int, str], int, list[str]]] = {
    "Time limit": ({}, 3, ["reset", "step", "step", "step", "step"]),
    "Despawn": ({2: "end"}, 4, ["reset", "step", "step", "step", "step"]),
    "Respawn in the same episode": ({2: "end", 3: "back"}, 4, ["reset", "step", "step", "step", "step"]),
    "Reset in mid-episode": ({}, 3, ["reset", "step", "reset", "step"]),
    "A robot that is not asked": ({2: "silent"}, 4, ["reset", "step", "step", "step"]),
}


def tables(heading):
    """The two tables under a heading: rows of cells, without their heads."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    heads = [i for i, row in enumerate(rows) if set("".join(row)) <= set("-: ")]
    assert len(heads) == 2, f"{heading}: expected a roster table and a PettingZoo table"
    return rows[heads[0] + 1 : heads[1] - 1], rows[heads[1] + 1 :]


def number(value):
    return f"{value:g}"


def yes(flag):
    return "True" if flag else "False"


def roster_rows(events, limit, calls):
    roster = make_roster(events, limit)
    values = roster.arrays.roles["carrier"]
    rows = []
    for index, call in enumerate(calls):
        seed = 0 if index == 0 else None
        if call == "step":
            roster.step()
        else:
            roster.reset(seed)
        ended = values.terminated[0, 0] or values.truncated[0, 0]
        rows.append(
            [
                call,
                number(values.observations[0, 0, 0]),
                number(values.rewards[0, 0]),
                yes(values.terminated[0, 0]),
                yes(values.truncated[0, 0]),
                yes(values.agent_mask[0, 0]),
                yes(values.decision_mask[0, 0]),
                number(values.final_observations[0, 0, 0]) if ended else NOTHING,
                yes(roster.arrays.episode_over[0]),
            ]
        )
    return rows


def parallel_rows(events, limit, calls):
    env = RosterParallelEnv(make_roster(events, limit), name="scripted")
    agent = "carrier_0"
    rows = []
    for index, call in enumerate(calls):
        if call == "step" and not env.agents:
            call = "reset"
        if call == "reset":
            observations, _ = env.reset(seed=0 if index == 0 else None)
            outcome = (observations, {}, {}, {})
        else:
            outcome = env.step(dict.fromkeys(env.agents, 0))
        observations, rewards, terminations, truncations = outcome[:4]
        rows.append(
            [
                call,
                number(observations[agent][0]) if agent in observations else NOTHING,
                number(rewards[agent]) if agent in rewards else NOTHING,
                yes(terminations[agent]) if agent in terminations else NOTHING,
                yes(truncations[agent]) if agent in truncations else NOTHING,
                yes(agent in env.agents),
            ]
        )
    return rows


@pytest.mark.parametrize("heading", SEQUENCES)
@pytest.mark.parametrize(("view", "rows"), [(0, roster_rows), (1, parallel_rows)], ids=["roster", "pettingzoo"])
def test_semantics_page_shows_what_happens_when_the_sequence_is_played(heading, view: int, rows: Callable):
    assert tables(heading)[view] == rows(*SEQUENCES[heading])
