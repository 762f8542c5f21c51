"""Foreign PettingZoo environments as rosters: spaces, roles, masks, seeds, ends."""

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

from bridge.errors import ActionError, CallOrderError, SpecMismatchError
from bridge.foreign_spaces import AgentCodec
from bridge.foreign_spec import spec_of_parallel_env
from bridge.parallel_roster import ParallelRoster
from bridge.seeding import episode_seed
from bridge.specs import ActionSpec


class Foreign(ParallelEnv):
    """Gives what it is told to give; remembers what it was given."""

    def __init__(self, observation_spaces, action_spaces, script=()):
        self.metadata = {"name": "foreign"}
        self.possible_agents = list(observation_spaces)
        self.agents = []
        self._observation_spaces, self._action_spaces = observation_spaces, action_spaces
        self.script = list(script)
        self.actions, self.seeds, self.closed = [], [], 0

    def observation_space(self, agent):
        return self._observation_spaces[agent]

    def action_space(self, agent):
        return self._action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.seeds.append(seed)
        self.agents = list(self.possible_agents)
        self._at = 0
        return {a: self._see(a) for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions):
        self.actions.append(actions)
        outcome = {"agents": self.agents, "silent": (), "infos": {}, "terminated": (), "truncated": ()}
        outcome |= self.script[self._at] if self._at < len(self.script) else {}
        self._at += 1
        lived, self.agents = self.agents, list(outcome["agents"])
        seen = {a: self._see(a) for a in {*lived, *self.agents} if a not in outcome["silent"]}
        infos = {a: outcome["infos"].get(a, {}) for a in seen}
        ends = [{a: a in outcome[flag] for a in lived} for flag in ("terminated", "truncated")]
        return seen, dict.fromkeys(lived, 1.0), *ends, infos

    def _see(self, agent):
        space = self.observation_space(agent)
        if isinstance(space, spaces.Box):
            return np.full(space.shape, 1 + self._at, space.dtype)
        return space.sample()

    def close(self):
        self.closed += 1


def box(size=2, low=-np.inf, high=np.inf, dtype=np.float64):
    return spaces.Box(low, high, (size,), dtype)


def uniform(agents, observation=None, action=None, script=()):
    observations = {a: observation or box() for a in agents}
    actions = {a: action or spaces.Discrete(3) for a in agents}
    return Foreign(observations, actions, script)


def roster_over(env, num_envs=1, **kwargs):
    spec = spec_of_parallel_env(env)
    env.seeds.clear()
    return ParallelRoster(lambda: env, spec, num_envs, **kwargs)


# Roles.


def roles_of(env, grouping="by_space"):
    return {role.name: role.agent_ids for role in spec_of_parallel_env(env, grouping).roles}


def test_agents_form_a_role_by_prefix_when_their_spaces_are_equal():
    env = uniform(["guard_0", "guard_1", "thief0", "judge"])
    assert roles_of(env) == {"guard": ("guard_0", "guard_1"), "thief": ("thief0",), "judge": ("judge",)}


@pytest.mark.parametrize(
    ("observations", "actions", "names"),
    [
        ((9, 8, 9), (2, 2, 2), {"agent_obs9": ("agent_0", "agent_2"), "agent_obs8": ("agent_1",)}),
        ((4, 4, 4), (2, 5, 5), {"agent_discrete2": ("agent_0",), "agent_discrete5": ("agent_1", "agent_2")}),
        ((4, 3, 4), (2, 5, 2), {"agent_obs4_discrete2": ("agent_0", "agent_2"), "agent_obs3_discrete5": ("agent_1",)}),
    ],
)
def test_roles_say_what_differs_when_agents_of_a_prefix_have_other_spaces(observations, actions, names):
    env = Foreign(
        {f"agent_{i}": box(size) for i, size in enumerate(observations)},
        {f"agent_{i}": spaces.Discrete(size) for i, size in enumerate(actions)},
    )
    assert roles_of(env) == names


def test_padded_role_puts_zeros_behind_shorter_observations_when_sizes_differ():
    env = Foreign({"a_0": box(3, 1, 5), "a_1": box(2, -2, 9)}, {"a_0": spaces.Discrete(2), "a_1": spaces.Discrete(2)})
    spec = spec_of_parallel_env(env, "padded")
    (role,) = spec.roles
    assert (role.name, role.agent_ids) == ("a", ("a_0", "a_1"))
    blocks = [(b.name, b.size, b.low, b.high) for b in role.observation.blocks]
    assert blocks == [("observation", 2, -2.0, 9.0), ("padding", 1, 0.0, 5.0)]
    roster = ParallelRoster(lambda: env, spec, 1)
    roster.reset(1)
    assert roster.arrays.roles["a"].observations[0].tolist() == [[1, 1, 1], [1, 1, 0]]


def test_padded_role_is_refused_when_actions_differ():
    env = Foreign({"a_0": box(), "b_0": box()}, {"a_0": spaces.Discrete(2), "b_0": box(1, -1, 1, np.float32)})
    with pytest.raises(SpecMismatchError, match=r"action of 'a_0' \(discrete2\), got box1 for 'b_0'.*by_space"):
        spec_of_parallel_env(env, "padded")


def test_agents_are_refused_when_they_are_not_named_by_strings():
    with pytest.raises(SpecMismatchError, match="expected agents named by strings, got 0"):
        spec_of_parallel_env(uniform([0, 1]))


# Spaces.


@pytest.mark.parametrize(
    ("space", "action", "continuous", "discrete", "expected"),
    [
        (spaces.Discrete(3, start=5), ActionSpec(0, (3,)), [], [2], 7),
        (spaces.MultiDiscrete([3, 4]), ActionSpec(0, (3, 4)), [], [2, 3], [2, 3]),
        (spaces.MultiBinary(3), ActionSpec(0, (2, 2, 2)), [], [1, 0, 1], [1, 0, 1]),
        (spaces.Box(-1, 1, (2,), np.float32), ActionSpec(2), [0.1, -1], [], np.float32([0.1, -1])),
        (spaces.Box(0, 1, (2, 1), np.float32), ActionSpec(2), [-1, 1], [], [[0], [1]]),
        (spaces.Box(np.float32([-2, 10]), np.float32([2, 30])), ActionSpec(2), [0.5, -0.5], [], [1, 15]),
    ],
)
def test_actions_arrive_in_the_environments_own_terms(space, action, continuous, discrete, expected):
    codec = AgentCodec(uniform(["a_0"], action=space), "a_0")
    assert codec.action == action
    got = codec.decode_action(np.array(continuous, np.float32), np.array(discrete, np.int32))
    assert space.contains(got)
    np.testing.assert_array_equal(got, expected)


def test_scaled_actions_stay_inside_the_bounds_when_they_cannot_be_rounded_exactly():
    space = spaces.Box(np.float32(-0.1), np.float32(0.7), (1,))
    codec = AgentCodec(uniform(["a_0"], action=space), "a_0")
    for value in (-1.0, 1.0):
        assert space.contains(codec.decode_action(np.array([value], np.float32), np.zeros(0, np.int32)))


def test_composite_actions_are_taken_apart_and_put_together_when_dicts_and_tuples_are_nested():
    space = spaces.Dict(
        {
            "move": spaces.Tuple([spaces.Box(0, 4, (1,), np.float32), spaces.Discrete(2)]),
            "wave": spaces.MultiDiscrete([3, 2]),
        }
    )
    codec = AgentCodec(uniform(["a_0"], action=space), "a_0")
    assert codec.action == ActionSpec(1, (2, 3, 2))
    got = codec.decode_action(np.array([0.5], np.float32), np.array([1, 2, 0], np.int32))
    assert space.contains(got)
    assert got["move"][0].tolist() == [3.0]
    assert got["move"][1] == 1
    assert got["wave"].tolist() == [2, 0]
    mask = {"move": (None, np.array([1, 0])), "wave": (np.array([0, 0, 1]), np.array([1, 1]))}
    assert codec.read_action_mask(None, {"action_mask": mask}).tolist() == [1, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (box(2, -np.inf, 1, np.float32), r"'a_0': expected an action Box with finite bounds.*Box\(-inf"),
        (spaces.Box(0, 9, (1,), np.int64), "'a_0': expected an action Box of floats"),
        (spaces.Text(4), "'a_0': expected an action space of Box, Discrete, MultiDiscrete or MultiBinary.*Text"),
    ],
)
def test_action_spaces_are_refused_by_name_when_they_cannot_be_carried_over(space, message):
    with pytest.raises(SpecMismatchError, match=message):
        AgentCodec(uniform(["a_0"], action=space), "a_0")


def test_observation_space_is_refused_by_name_when_its_size_is_not_fixed():
    with pytest.raises(SpecMismatchError, match="'a_0': expected an observation space of fixed size, got Sequence"):
        AgentCodec(uniform(["a_0"], observation=spaces.Sequence(spaces.Discrete(2))), "a_0")


def test_observations_become_float32_blocks_when_they_are_images_dicts_or_huge():
    image = AgentCodec(uniform(["a_0"], observation=spaces.Box(0, 255, (2, 2), np.uint8)), "a_0")
    assert image.read_observation(np.full((2, 2), 255, np.uint8)).tolist() == [255] * 4
    space = spaces.Dict({"pose": box(2, -1, 1), "cargo": spaces.Discrete(3)})
    parts = AgentCodec(uniform(["a_0"], observation=space), "a_0")
    assert parts.blocks == (("cargo", 3), ("pose", 2))
    assert parts.read_observation({"pose": np.array([0.5, -0.5]), "cargo": 1}).tolist() == [0, 1, 0, 0.5, -0.5]
    huge = AgentCodec(uniform(["a_0"], observation=box(1, -1.7e308, 1.7e308)), "a_0")
    assert huge.low.tolist() == [-np.inf]
    with pytest.raises(SpecMismatchError, match="'a_0': expected an observation of 1 values, got 2"):
        huge.read_observation(np.zeros(2))


# Masks.


def test_mask_in_the_observation_is_taken_out_and_obeyed():
    space = spaces.Dict({"observation": box(2), "action_mask": spaces.Box(0, 1, (3,), np.int8)})
    env = uniform(["a_0"], observation=space)
    env._see = lambda agent: {"observation": np.ones(2), "action_mask": np.array([0, 1, 1], np.int8)}
    roster = roster_over(env)
    roster.reset(1)
    values = roster.arrays.roles["a"]
    assert values.observations.tolist() == [[[1, 1]]]
    assert values.action_mask.tolist() == [[[False, True, True]]]
    with pytest.raises(ActionError, match=r"ParallelRoster.step: agent 'a_0': expected branch 0 .*\[1, 2\].*masked 0"):
        roster.step()
    values.discrete_actions[:] = 2
    roster.step()
    assert env.actions == [{"a_0": 2}]


def test_mask_is_refused_when_it_does_not_fit_the_action_space():
    codec = AgentCodec(uniform(["a_0"]), "a_0")
    with pytest.raises(SpecMismatchError, match="'a_0': expected an action mask of 3 values, got 2"):
        codec.read_action_mask(None, {"action_mask": np.ones(2)})
    assert codec.read_action_mask(None, {}) is None


# Lives.


def test_agent_that_vanishes_without_a_flag_is_terminated_with_its_reward():
    env = uniform(["a_0", "a_1"], script=[{"agents": ["a_0"], "silent": ["a_1"]}])
    roster = roster_over(env)
    roster.reset(1)
    roster.step()
    values = roster.arrays.roles["a"]
    assert values.terminated.tolist() == [[False, True]]
    assert values.truncated.tolist() == [[False, False]]
    assert values.rewards.tolist() == [[1, 1]]
    assert values.agent_mask.tolist() == values.decision_mask.tolist() == [[True, False]]
    assert values.observations[0, 1].tolist() == values.final_observations[0, 1].tolist() == [0, 0]
    roster.step()
    assert env.actions[1] == {"a_0": 0}
    assert values.rewards.tolist() == [[1, 0]]


def test_life_has_one_flag_when_the_environment_sets_both():
    roster = roster_over(
        uniform(["a_0", "a_1"], script=[{"agents": ["a_1"], "terminated": ["a_0"], "truncated": ["a_0"]}])
    )
    roster.reset(1)
    roster.step()
    values = roster.arrays.roles["a"]
    assert (values.terminated[0, 0], values.truncated[0, 0]) == (True, False)


def test_agent_stays_ended_when_the_environment_goes_on_listing_and_flagging_it():
    step = {"agents": ["a_0", "a_1"], "terminated": ["a_0"]}
    roster = roster_over(uniform(["a_0", "a_1"], script=[step, step]))
    roster.reset(1)
    values = roster.arrays.roles["a"]
    ends = []
    for _ in range(2):
        roster.step()
        ends.append(values.terminated[0, 0])
    assert ends == [True, False]
    assert not values.agent_mask[0, 0]


def test_episode_is_truncated_and_begun_anew_when_it_reaches_its_steps():
    env = uniform(["a_0"])
    roster = roster_over(env, episode_steps=2)
    roster.reset(7)
    values = roster.arrays.roles["a"]
    seen = []
    for _ in range(5):
        roster.step()
        seen.append((bool(values.truncated[0, 0]), int(roster.arrays.episode[0]), values.observations[0, 0, 0].item()))
    assert seen == [(False, 0, 2), (True, 1, 1), (False, 1, 2), (True, 2, 1), (False, 2, 2)]
    assert values.final_observations[0, 0].tolist() == [3, 3]
    assert env.seeds == [episode_seed(7, 0, 0), episode_seed(7, 0, 1), episode_seed(7, 0, 2)]


def test_seeds_are_keyed_by_environment_and_episode_when_some_environments_are_reset():
    envs = [uniform(["a_0"]) for _ in range(2)]
    spec = spec_of_parallel_env(uniform(["a_0"]))
    made = iter(envs)
    roster = ParallelRoster(lambda: next(made), spec, 2, first_env=4)
    roster.reset(7)
    roster.reset(env_mask=np.array([False, True]))
    roster.reset(8, np.array([True, False]))
    roster.reset()
    assert envs[0].seeds == [episode_seed(7, 4, 0), episode_seed(8, 4, 0), episode_seed(8, 4, 1)]
    assert envs[1].seeds == [episode_seed(7, 5, 0), episode_seed(7, 5, 1), episode_seed(7, 5, 2)]
    assert roster.arrays.episode.tolist() == [1, 2]


# Errors.


def test_environments_are_closed_when_one_cannot_be_made():
    envs = []

    def make_env():
        if len(envs) == 2:
            raise OSError("no licence")
        envs.append(uniform(["a_0"]))
        return envs[-1]

    with pytest.raises(OSError, match="no licence"):
        ParallelRoster(make_env, spec_of_parallel_env(uniform(["a_0"])), 3)
    assert [env.closed for env in envs] == [1, 1]


def test_environment_is_refused_when_it_has_other_agents_than_the_spec():
    spec = spec_of_parallel_env(uniform(["a_0"]))
    with pytest.raises(SpecMismatchError, match=r"expected the agents a_0, got \['b_0'\]"):
        ParallelRoster(lambda: uniform(["b_0"]), spec, 1)


def test_calls_raise_when_they_are_out_of_order():
    env = uniform(["a_0"])
    roster = roster_over(env)
    with pytest.raises(CallOrderError, match=r"ParallelRoster.step: expected a reset before the first step"):
        roster.step()
    with pytest.raises(CallOrderError, match=r"ParallelRoster.reset: expected a seed at the first reset"):
        roster.reset()
    roster.close()
    roster.close()
    assert env.closed == 1
    for call in (roster.step, lambda: roster.reset(1), roster.render):
        with pytest.raises(CallOrderError, match="expected an open roster, got a closed one"):
            call()
