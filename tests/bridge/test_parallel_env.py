"""A roster behind PettingZoo's parallel API."""

import copy
import re

import numpy as np
import pytest
from gymnasium import spaces

from bridge.actions import require_valid_actions
from bridge.errors import ActionError, CallOrderError, SpecMismatchError
from bridge.parallel_env import RosterParallelEnv
from bridge.roster import RosterArrays
from bridge.specs import ActionSpec, MetricSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec

LAYOUT = ObservationLayout(
    (ObservationBlock("self", 2, low=-1.0, high=1.0), ObservationBlock("load", 1, unit="kg", low=0.0))
)


class PlainRoster:
    """Writes what it is told to: robot ``i`` sees ``i / 10``, and episodes have three steps.

    Keeps the actions of every step and the seeds of every reset.
    """

    def __init__(self, action, num_slots=2, state_size=0, metrics=(), num_envs=1, mask=None):
        ids = tuple(f"carrier_{i}" for i in range(num_slots))
        self.spec = WorldSpec((RoleSpec("carrier", ids, LAYOUT, action),), state_size, metrics)
        self.arrays = RosterArrays.allocate(self.spec, num_envs)
        self.values = self.arrays.roles["carrier"]
        self.mask = mask
        self.seeds, self.continuous, self.discrete, self.closed = [], [], [], 0
        self.steps = 0

    def reset(self, seed=None, env_mask=None):
        self.seeds.append(seed)
        self.values.terminated[:] = self.values.truncated[:] = False
        self.values.rewards[:] = 0
        self.arrays.episode_over[:] = False
        self._begin()

    def _begin(self):
        self.steps = 0
        self.values.agent_mask[:] = self.values.decision_mask[:] = True
        self.values.action_mask[:] = True if self.mask is None else self.mask
        self._look()

    def _look(self):
        seen = np.arange(self.values.rewards.shape[1]) / 10
        self.values.observations[..., 0] = np.where(self.values.agent_mask, seen, 0)
        self.arrays.state[:] = self.steps

    def step(self):
        self.continuous.append(self.values.continuous_actions.copy())
        self.discrete.append(self.values.discrete_actions.copy())
        self.steps += 1
        self.values.rewards[:] = np.where(self.values.agent_mask, self.steps, 0)
        over = self.steps == 3
        self.arrays.episode_over[:] = over
        self.values.truncated[:] = over & self.values.agent_mask
        self._look()
        if over:
            self.values.final_observations[:] = self.values.observations
            self.values.final_observations[..., 2] = 9
            self.arrays.final_state[:] = self.steps
            self.arrays.metrics[:] = 42
            self._begin()

    def close(self):
        self.closed += 1


def make_env(action=None, **kwargs):
    roster = PlainRoster(ActionSpec(discrete_branches=(4,)) if action is None else action, **kwargs)
    return RosterParallelEnv(roster, name="plain"), roster


def test_spaces_follow_the_spec_when_continuous():
    env, _ = make_env(ActionSpec(num_continuous=2))
    assert env.possible_agents == ["carrier_0", "carrier_1"]
    assert env.action_space("carrier_0") == spaces.Box(-1, 1, (2,), np.float32)
    space = env.observation_space("carrier_1")
    assert space is env.observation_space("carrier_1")
    assert space.dtype == np.float32
    assert space.low.tolist() == [-1, -1, 0]
    assert space.high.tolist() == [1, 1, np.inf]


@pytest.mark.parametrize(
    ("action", "space"),
    [
        (ActionSpec(0, (5,)), spaces.Discrete(5)),
        (ActionSpec(0, (5, 2)), spaces.MultiDiscrete([5, 2])),
        (
            ActionSpec(1, (3,)),
            spaces.Dict({"continuous": spaces.Box(-1, 1, (1,), np.float32), "discrete": spaces.Discrete(3)}),
        ),
    ],
)
def test_action_space_follows_the_spec_when_discrete_or_hybrid(action, space):
    assert make_env(action)[0].action_space("carrier_0") == space


@pytest.mark.parametrize(
    "action", [ActionSpec(0, (4,)), ActionSpec(0, (2, 3)), ActionSpec(2, (4,)), ActionSpec(1, (2, 3))]
)
def test_action_mask_is_what_the_action_space_samples_with_at_reset_and_in_every_step(action):
    mask = np.zeros(action.mask_size, bool)
    mask[np.cumsum((0, *action.discrete_branches[:-1]))] = True  # the first choice of each branch
    env, roster = make_env(action, mask=mask)
    _, infos = env.reset(seed=1)
    for _ in range(2):
        actions = {a: env.action_space(a).sample(mask=infos[a]["action_mask"]) for a in env.agents}
        *_, infos = env.step(actions)
        assert roster.discrete[-1].max() == 0
    assert infos["carrier_0"]["asked"] is True


@pytest.mark.parametrize("action", [ActionSpec(0, (4,)), ActionSpec(0, (2, 3)), ActionSpec(2, (4,))])
def test_action_space_draws_allowed_actions_when_sampled_without_a_mask(action):
    mask = np.zeros(action.mask_size, bool)
    mask[np.cumsum(action.discrete_branches) - 1] = True  # the last choice of each branch
    env, roster = make_env(action, mask=mask)
    space = env.action_space("carrier_0")
    space.sample()  # before the first reset there is no mask to obey
    env.reset(seed=1)
    for _ in range(2):
        env.step({a: env.action_space(a).sample() for a in env.agents})
    assert np.array(roster.discrete).tolist() == [[[[n - 1 for n in action.discrete_branches]] * 2]] * 2
    for stranger in (copy.deepcopy(space), copy.copy(space)):
        assert stranger == space
        stranger.seed(0)
        drawn = [stranger.sample() for _ in range(30)]
        choices = [np.ravel(d["discrete"] if isinstance(d, dict) else d).tolist() for d in drawn]
        assert len({str(c) for c in choices}) > 1


def test_masks_are_int8_and_allow_everything_in_the_last_step_when_the_agent_has_ended():
    env, _ = make_env(mask=np.array([True, False, True, True]))
    _, infos = env.reset(seed=1)
    assert infos["carrier_1"]["action_mask"].tolist() == [1, 0, 1, 1]
    assert infos["carrier_1"]["action_mask"].dtype == np.int8
    for _ in range(3):
        *_, infos = env.step(dict.fromkeys(env.agents, 0))
    assert infos["carrier_1"]["action_mask"].tolist() == [1, 1, 1, 1]
    assert infos["carrier_1"]["asked"] is False


def test_hybrid_action_reaches_the_arrays_when_given_as_dict():
    env, roster = make_env(ActionSpec(2, (3, 4)))
    env.reset(seed=1)
    action = {"continuous": np.array([0.5, -1.0]), "discrete": np.array([2, 3])}
    env.step({"carrier_0": action, "carrier_1": {"continuous": np.zeros(2), "discrete": np.zeros(2, int)}})
    assert roster.continuous[0][0].tolist() == [[0.5, -1.0], [0.0, 0.0]]
    assert roster.discrete[0][0].tolist() == [[2, 3], [0, 0]]


def test_time_limit_gives_final_observation_state_and_metrics_when_the_roster_has_reset_itself():
    env, roster = make_env(state_size=1, metrics=(MetricSpec("deliveries"),))
    env.reset(seed=1)
    for _ in range(3):
        observations, rewards, terminations, truncations, infos = env.step(dict.fromkeys(env.agents, 0))
    assert env.agents == []
    assert observations["carrier_1"].tolist() == pytest.approx([0.1, 0, 9])
    assert rewards == {"carrier_0": 3.0, "carrier_1": 3.0}
    assert terminations == {"carrier_0": False, "carrier_1": False}
    assert truncations == {"carrier_0": True, "carrier_1": True}
    assert infos["carrier_0"]["metrics"] == {"deliveries": 42.0}
    assert env.state().tolist() == [3.0]
    env.reset()
    assert env.state().tolist() == [0.0]
    assert roster.seeds == [1]  # the roster's own reset was enough


def test_reset_begins_the_next_episode_when_called_in_mid_episode_and_draws_a_seed_when_it_has_none():
    env, roster = make_env()
    env.reset()
    assert isinstance(roster.seeds[0], int)
    env.step(dict.fromkeys(env.agents, 0))
    env.reset()
    env.reset(seed=np.int64(5))
    assert roster.seeds[1:] == [None, 5]
    other, other_roster = make_env()
    other.reset()
    assert other_roster.seeds != roster.seeds[:1]


def test_returned_arrays_stay_the_same_when_the_roster_goes_on():
    env, roster = make_env()
    observations, _ = env.reset(seed=1)
    before = observations["carrier_1"].copy()
    roster.values.observations[:] = 7
    assert observations["carrier_1"].tolist() == before.tolist()


def test_agent_joins_when_it_appears_for_the_first_time_in_mid_episode():
    env, roster = make_env()
    roster._begin = lambda: (PlainRoster._begin(roster), roster.values.agent_mask.__setitem__((0, 1), False))
    env.reset(seed=1)
    assert env.agents == ["carrier_0"]
    roster.values.agent_mask[0, 1] = True
    roster.values.decision_mask[0, 1] = False
    observations, _, terminations, _, infos = env.step({"carrier_0": 1})
    assert env.agents == ["carrier_0", "carrier_1"]
    assert observations["carrier_1"][0] == pytest.approx(0.1)
    assert terminations["carrier_1"] is False
    assert infos["carrier_1"]["asked"] is False
    env.step({"carrier_0": 1})  # the action of the one that is not asked may be left out


@pytest.mark.parametrize(
    ("action", "given", "message"),
    [
        (ActionSpec(2), np.zeros(3, np.float32), r"agent 'carrier_1': expected an action of shape \(2,\), got \(3,\)"),
        (ActionSpec(2), np.zeros(2, int), r"agent 'carrier_1': expected an action of floats, got dtype int64"),
        (
            ActionSpec(2),
            np.array([0, 1.5]),
            r"agent 'carrier_1': expected continuous values in \[-1, 1\], got \[0.0, 1.5\]",
        ),
        (
            ActionSpec(2),
            np.array([0, np.nan]),
            r"agent 'carrier_1': expected continuous values in \[-1, 1\], got .*nan",
        ),
        (None, 4, r"agent 'carrier_1': expected branch 0 in \[0, 3\], got 4"),
        (None, 2**32 + 1, r"agent 'carrier_1': expected branch 0 in \[0, 3\], got 2147483647"),
        (None, -1, r"agent 'carrier_1': expected branch 0 in \[0, 3\], got -1"),
        (None, 1.0, r"agent 'carrier_1': expected an action of integers, got dtype float64"),
        (None, True, r"agent 'carrier_1': expected an action of integers, got dtype bool"),
        (None, np.array([1]), r"agent 'carrier_1': expected an action of shape \(\), got \(1,\)"),
        (None, 3, r"agent 'carrier_1': expected branch 0 to be one of the allowed \[0, 1, 2\], got the masked 3"),
        (
            ActionSpec(1, (2,)),
            1,
            r"agent 'carrier_1': expected a dict with the keys 'continuous' and 'discrete', got 1",
        ),
    ],
)
def test_step_names_the_agent_when_an_action_is_wrong(action, given, message):
    mask = None if action is not None else np.array([True, True, True, False])
    env, roster = make_env(action, mask=mask)
    env.reset(seed=1)
    good = {"continuous": np.zeros(1), "discrete": 0} if action and action.num_branches else np.zeros(2)
    with pytest.raises(ActionError, match=rf"^RosterParallelEnv.step: {message}"):
        env.step({"carrier_0": 0 if action is None else good, "carrier_1": given})
    assert roster.discrete == []  # the world has not moved


def test_step_names_the_agent_when_its_action_is_missing_or_nobody_waits_for_it():
    env, _ = make_env()
    env.reset(seed=1)
    with pytest.raises(ActionError, match="agent 'carrier_1': expected an action, got none"):
        env.step({"carrier_0": 0})
    with pytest.raises(ActionError, match=r"living agents carrier_0, carrier_1, got one of 'carrier_7'"):
        env.step({"carrier_0": 0, "carrier_1": 0, "carrier_7": 0})


def test_calls_raise_when_they_are_out_of_order():
    env, roster = make_env(state_size=1)
    with pytest.raises(CallOrderError, match=r"step: expected a running episode, got a call before the first reset"):
        env.step({})
    with pytest.raises(CallOrderError, match=r"state: expected an episode, got a call before the first reset"):
        env.state()
    env.reset(seed=1)
    for _ in range(3):
        env.step(dict.fromkeys(env.agents, 0))
    with pytest.raises(CallOrderError, match=r"got a call after an episode .*Call reset"):
        env.step({})
    env.close()
    env.close()
    assert roster.closed == 1
    for call in (lambda: env.step({}), env.reset, env.state):
        with pytest.raises(CallOrderError, match="close"):
            call()


def test_state_is_not_implemented_when_the_world_has_none():
    env, _ = make_env()
    env.reset(seed=1)
    with pytest.raises(NotImplementedError, match="no global state"):
        env.state()
    assert not hasattr(env, "state_space")


def test_render_gives_the_picture_when_asked_for_at_construction():
    roster = PlainRoster(ActionSpec(1))
    picture = np.zeros((2, 3, 3), np.uint8)
    env = RosterParallelEnv(roster, name="plain", render=lambda: picture, render_mode="rgb_array")
    with pytest.raises(CallOrderError, match="before the first reset"):
        env.render()
    env.reset(seed=1)
    assert env.render() is picture
    assert env.metadata["render_modes"] == ["rgb_array"]
    silent = RosterParallelEnv(roster, name="plain", render=lambda: picture)
    with pytest.raises(CallOrderError, match=re.escape("expected render_mode='rgb_array', got None")):
        silent.render()


@pytest.mark.parametrize("mode", ["human", "rgb_array"])
def test_construction_refuses_a_render_mode_when_the_world_cannot_draw(mode):
    with pytest.raises(SpecMismatchError, match=rf"one of \[None\], got '{mode}'"):
        RosterParallelEnv(PlainRoster(ActionSpec(1)), name="plain", render_mode=mode)


def test_construction_refuses_a_roster_when_it_has_several_environments():
    with pytest.raises(SpecMismatchError, match="expected a roster with 1 environment, got 2"):
        RosterParallelEnv(PlainRoster(ActionSpec(1), num_envs=2), name="plain")


def test_action_check_names_the_environment_when_there_are_several():
    roster = PlainRoster(ActionSpec(0, (4,)), num_envs=3)
    roster.reset(1)
    roster.values.discrete_actions[2, 1] = 4
    with pytest.raises(ActionError, match=r"^here: agent 'carrier_1' of environment 12: expected branch 0"):
        require_valid_actions(roster.spec, roster.arrays, "here", first_env=10)
    roster.values.decision_mask[2, 1] = False
    require_valid_actions(roster.spec, roster.arrays, "here")  # nobody asked for it
