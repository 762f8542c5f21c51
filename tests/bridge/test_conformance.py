"""The conformance kit: every shipped scenario passes it, and it catches every planted fault."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from bridge.errors import MissingExtraError
from bridge.foreign_spec import spec_of_parallel_env
from bridge.parallel_env import RosterParallelEnv
from bridge.parallel_roster import ParallelRoster
from bridge.policy import RandomPolicy
from bridge.registry import open_world
from bridge.roster import RosterArrays
from bridge.scenario import load_scenario, shipped_scenarios
from bridge.testing import check_parallel_env, check_roster, check_world

WORLDS = Path(__file__).parent / "worlds"


@pytest.mark.parametrize("name", shipped_scenarios())
def test_world_conforms_when_it_is_shipped(name):
    scenario = load_scenario(name)
    try:
        world = open_world(scenario)
    except MissingExtraError as error:
        pytest.skip(str(error))
    check_world(world, num_steps=length_of_first_episode(world) + 20)


@pytest.mark.parametrize("name", [name for name in shipped_scenarios() if name.startswith("warehouse")])
def test_pettingzoos_own_tests_pass_on_the_view_itself_when_it_is_a_warehouse(name, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of PettingZoo's test package about itself
        from pettingzoo.test import parallel_api_test, parallel_seed_test
    world = open_world(load_scenario(name))
    env = world.parallel_env()
    parallel_api_test(env, num_cycles=60)
    env.close()
    parallel_seed_test(world.parallel_env, num_cycles=20)


def length_of_first_episode(world):
    roster = world.roster(1)
    policy = RandomPolicy(world.spec, 1)
    roster.reset(20)
    steps = 0
    while not roster.arrays.episode_over[0]:
        policy.act(roster.arrays)
        roster.step()
        steps += 1
        assert steps <= 2000, "shipped scenarios have episodes of at most 2000 steps"
    roster.close()
    return steps


@pytest.fixture
def tiny_fleet(monkeypatch):
    monkeypatch.syspath_prepend(str(WORLDS))
    yield __import__("tiny_fleet").TinyFleet
    sys.modules.pop("tiny_fleet")


class Faulty(ParallelRoster):
    """A roster that goes wrong in a chosen way."""

    def __init__(self, fleet, fault, num_envs, first_env=0, arrays=None):
        self._fault = fault
        self._age = 0
        spec = spec_of_parallel_env(fleet(respawn=True))
        given = None if fault == "other arrays" else arrays
        super().__init__(lambda: fleet(respawn=True), spec, num_envs, first_env=first_env, arrays=given)
        self.porters = self.arrays.roles["porter"]

    def reset(self, seed=None, env_mask=None):
        if self._fault == "reset without seed" and seed is None and not self._age:
            seed = 0
        if self._fault == "mask ignored" and env_mask is not None:
            env_mask = None
        kept = self.porters.rewards.copy()
        super().reset(None if self._fault == "seed ignored" and self._age else seed, env_mask)
        self._age += 1
        if self._fault == "stale rewards":
            self.porters.rewards[:] = np.where(np.isnan(kept), 1.0, kept)
        if self._fault == "poison left":
            self.porters.observations[0, 0, 1] = np.nan

    def step(self):
        lived = self.porters.agent_mask.copy()
        before = self.porters.observations.copy()
        if self._fault == "no order" and not self._age:
            return
        super().step()
        self._age += 1
        empty, ended = ~self.porters.agent_mask, self.porters.terminated | self.porters.truncated
        plant = {
            "empty slot seen": lambda: self.porters.observations.__setitem__(empty, 0.5),
            "empty slot asked": lambda: self.porters.decision_mask.__setitem__(empty, True),
            "empty slot paid": lambda: self.porters.rewards.__setitem__(~lived, 1.0),
            "two flags": lambda: (
                self.porters.truncated.__setitem__(ended, True) or self.porters.terminated.__setitem__(ended, True)
            ),
            "flag twice": lambda: self.porters.terminated.__setitem__(~lived, True),
            "no flag": lambda: self.porters.terminated.fill(False),
            "no cut at the end": lambda: self.porters.truncated.fill(False),
            "out of range": lambda: self.porters.observations.__setitem__(
                (0, 0, 3), 101.0 * self.porters.agent_mask[0, 0]
            ),
            "final not finite": lambda: self.porters.final_observations.__setitem__(ended, np.nan),
            "state not finite": lambda: self.arrays.state.fill(np.inf),
            "nothing allowed": lambda: self.porters.action_mask.fill(False),
            "episode stuck": lambda: self.arrays.episode.fill(0),
            "not asked but seeing": lambda: (
                self.porters.decision_mask.__setitem__(lived & ~empty, False) or self.porters.action_mask.fill(True)
            ),
            "not deterministic": lambda: self.porters.rewards.__imul__(1 + 1e-6 * self._age),
            "new arrays": lambda: setattr(self, "_arrays", RosterArrays.allocate(self.spec, self.arrays.num_envs)),
            "env index ignored": lambda: self.porters.rewards.__imul__(1 + self.arrays.num_envs),
        }
        plant.get(self._fault, lambda: before)()

    def close(self):
        if self._fault == "stays open":
            return
        super().close()


FAULTS = {
    "other arrays": "expected the arrays that were given, got others",
    "no order": "expected CallOrderError for step before reset",
    "reset without seed": "expected CallOrderError for a first reset without a seed",
    "poison left": "step 0: environment 0, agent 'porter_0': expected finite observations",
    "stale rewards": "step 0: .*: expected cleared rewards after reset",
    "empty slot seen": "expected zero observations in a slot without a robot",
    "empty slot asked": "expected no decision of a slot without a robot",
    "empty slot paid": "expected zero reward where nobody lived",
    "two flags": "expected one flag for the end of a life, got both",
    "flag twice": "expected no end flag where nobody lived before the step",
    "no flag": "expected (a flag for the end of a life, got a robot that vanished|the end of every life)",
    "no cut at the end": "expected the end of every life at the end of the episode",
    "out of range": r"expected observations of block 'observation' in \[-100.0, 100.0\]",
    "final not finite": "expected finite final_observations",
    "state not finite": "expected a finite state",
    "nothing allowed": "expected (an allowed action in branch 0|all actions allowed)",
    "episode stuck": r"expected episodes \[.*1.*\], got \[0, 0\]",
    "not asked but seeing": "expected a robot that is not asked to keep its observation",
    "new arrays": "expected the arrays to stay the same objects",
    "mask ignored": "expected episodes|an environment outside env_mask",
    "seed ignored": "a second run with the same seed in the same roster, step 0: expected equal",
    "not deterministic": "a second run with the same seed in the same roster, step 1: expected equal porter/rewards",
    "env index ignored": "environment 1 alone in a roster, step 1: expected equal porter/rewards",
    "stays open": "expected CallOrderError for step after close",
}


def test_roster_check_passes_when_nothing_is_wrong(tiny_fleet):
    check_roster(lambda n, **kwargs: Faulty(tiny_fleet, "none", n, **kwargs), num_steps=60)


@pytest.mark.parametrize("fault", FAULTS)
def test_roster_check_catches_a_fault_when_planted(tiny_fleet, fault):
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        check_roster(lambda n, **kwargs: Faulty(tiny_fleet, fault, n, **kwargs), num_steps=60)


class FaultyParallelEnv(RosterParallelEnv):
    """A PettingZoo environment that goes wrong in a chosen way."""

    def __init__(self, fleet, fault):
        spec = spec_of_parallel_env(fleet())
        super().__init__(ParallelRoster(fleet, spec, 1), name="faulty")
        self._planted = fault
        self._closes = 0

    def reset(self, seed=None, options=None):
        observations, infos = super().reset(None if self._planted == "seed ignored" else seed, options)
        if self._planted == "order of agents":
            self.agents.reverse()
        return observations, infos

    def step(self, actions):
        before = list(self.agents)
        observations, rewards, terminations, truncations, infos = super().step(actions)
        if self._planted == "outside space":
            observations = {a: o.astype(np.float64) for a, o in observations.items()}
        if self._planted == "agent stays":
            self.agents = before
        if self._planted == "both flags" and not self.agents:
            terminations = truncations = dict.fromkeys(before, True)
        if self._planted == "mask lost":
            infos = {a: {} for a in infos}
        if self._planted == "reward not finite":
            rewards = dict.fromkeys(rewards, float("nan"))
        return observations, rewards, terminations, truncations, infos

    def observation_space(self, agent):
        space = super().observation_space(agent)
        return type(space)(space.low, space.high, dtype=space.dtype) if self._planted == "new spaces" else space

    def close(self):
        self._closes += 1
        if self._planted == "close once" and self._closes > 1:
            raise AssertionError("closed twice")
        super().close()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("seed ignored", "Incorrect|expected the same episode after two resets"),
        ("order of agents", "reset: expected agents in slot order"),
        ("outside space", "agent 'porter_0': expected an observation in Box"),
        ("agent stays", r"!=|has not|agent cannot"),
        ("both flags", "expected one end flag, got both"),
        ("mask lost", "masked|expected an action mask always or never"),
        ("reward not finite", "expected a finite reward|Incorrect values for rewards"),
        ("new spaces", "observation_space should return the exact same space object"),
        ("close once", "closed twice"),
    ],
)
def test_parallel_check_catches_a_fault_when_planted(tiny_fleet, fault, message):
    with pytest.raises(Exception, match=message):
        check_parallel_env(lambda: FaultyParallelEnv(tiny_fleet, fault), num_cycles=30)


def test_parallel_check_passes_when_nothing_is_wrong(tiny_fleet):
    check_parallel_env(lambda: FaultyParallelEnv(tiny_fleet, "none"), num_cycles=30)
