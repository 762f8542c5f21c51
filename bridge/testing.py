"""The conformance kit: what every world must do, checked on any world.

For authors of worlds (``docs/adding_a_world.md``). Every check plays with random
allowed actions and raises ``AssertionError`` with the place and the rule that
was broken::

    def test_my_world_conforms():
        check_world(open_world(load_scenario("my_world.yaml")))

``check_roster`` holds a roster to ``bridge/roster.py``, ``check_parallel_env``
holds an environment to PettingZoo's own tests and to the rules that those leave
out; ``check_world`` does both and compares the two.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from bridge.errors import ActionError, CallOrderError
from bridge.policy import RandomPolicy
from bridge.registry import World
from bridge.roster import Roster, RosterArrays, array_shapes
from bridge.specs import WorldSpec
from bridge.testing_parallel import MaskObeyingEnv, play_parallel_env
from bridge.testing_roster import RosterWatch, copy_arrays, require, require_equal_arrays

__all__ = ["RosterFactory", "check_parallel_env", "check_roster", "check_world"]

_SEED = 20
_SHORT = 100


class RosterFactory(Protocol):
    """Makes rosters; :meth:`bridge.registry.World.roster` is one."""

    def __call__(self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None) -> Roster:
        """See :meth:`bridge.registry.World.roster`."""
        ...


def check_world(world: World, *, num_steps: int = 600, deterministic: bool = True) -> None:
    """Check a world's spec, its rosters, its PettingZoo view, and that the two agree.

    Args:
        world: The world.
        num_steps: Steps to play with each roster; more than an episode, so that its end is seen.
        deterministic: Whether equal seeds must give equal episodes.

    Raises:
        AssertionError: A rule is broken.
    """
    agents = [agent for role in world.spec.roles for agent in role.agent_ids]
    require(bool(agents), "check_world: expected at least one agent, got none.")
    require(len(set(agents)) == len(agents), f"check_world: expected distinct agent ids, got {agents}.")
    check_roster(world.roster, num_steps=num_steps, deterministic=deterministic)
    check_parallel_env(world.parallel_env, num_cycles=num_steps, deterministic=deterministic)
    _check_views_agree(world, deterministic)


def check_parallel_env(
    make_env: Callable[[], ParallelEnv[str, Any, Any]], *, num_cycles: int = 600, deterministic: bool = True
) -> None:
    """Check a PettingZoo environment: PettingZoo's API and seed tests, and what they leave out.

    PettingZoo's tests do not know masks in infos; here a masked action of theirs is replaced by an allowed one.

    Args:
        make_env: Makes the environment.
        num_cycles: Longest episode to play; PettingZoo's own tests play at most the first 100 steps of it.
        deterministic: Whether equal seeds must give equal episodes.

    Raises:
        AssertionError: A rule is broken.
        Warning: PettingZoo warns; its warnings count as errors.
    """
    api_test, seed_test = _pettingzoo_tests()
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("error")
        # Agents may be absent for a whole episode. That those who are there end is checked below.
        warnings.filterwarnings("ignore", "No agents present but not all possible_agents are terminated or truncated")
        env = MaskObeyingEnv(make_env())
        try:
            api_test(env, num_cycles=min(num_cycles, _SHORT))
        finally:
            env.close()
        if deterministic:
            seed_test(lambda: MaskObeyingEnv(make_env()), num_cycles=min(num_cycles, _SHORT))
        play_parallel_env(make_env, num_cycles, _SEED, deterministic)


def check_roster(make_roster: RosterFactory, *, num_steps: int = 600, deterministic: bool = True) -> None:
    """Check a roster against the contract of ``bridge/roster.py``.

    Args:
        make_roster: Makes rosters of any number of environments.
        num_steps: Steps to play; more than an episode, so that its end is seen.
        deterministic: Whether equal seeds must give equal episodes, for any division of the environments.

    Raises:
        AssertionError: A rule is broken.
    """
    roster = make_roster(2)
    try:
        _poison(roster.arrays)
        _check_refuses_before_reset(roster)
        history = _play(roster, num_steps)
        _check_resets(roster)
        if deterministic:
            _replay(roster, history, slice(0, 2), "a second run with the same seed in the same roster")
        _check_refuses_wrong_action(roster)
    finally:
        roster.close()
    roster.close()
    _check_refuses_after_close(roster)
    given = RosterArrays.allocate(roster.spec, 1)
    _poison(given)
    alone = make_roster(1, first_env=1, arrays=given)
    try:
        require(alone.arrays is given, "check_roster: expected the arrays that were given, got others.")
        if deterministic:
            _replay(alone, history, slice(1, 2), "environment 1 alone in a roster")
    finally:
        alone.close()


def _pettingzoo_tests() -> tuple[Callable[..., None], Callable[..., None]]:
    with warnings.catch_warnings():
        # PettingZoo's test package imports environments of its own in a way that it has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        from pettingzoo.test import parallel_api_test, parallel_seed_test
    return parallel_api_test, parallel_seed_test


def _poison(arrays: RosterArrays) -> None:
    """Fill every array with values that no world gives, so that what is not written shows."""
    blocks = copy_arrays(arrays, view=True)
    for array in blocks.values():
        array.fill(np.nan if array.dtype.kind == "f" else True if array.dtype.kind == "b" else -1)


def _check_refuses_before_reset(roster: Roster) -> None:
    shapes = {key: (array.shape, array.dtype) for key, array in copy_arrays(roster.arrays).items()}
    expected = array_shapes(roster.spec, roster.arrays.num_envs)
    require(shapes == expected, f"check_roster: expected arrays {expected}, got {shapes}.")
    _require_raises(CallOrderError, roster.step, "step before reset")
    _require_raises(CallOrderError, roster.reset, "a first reset without a seed")


def _check_refuses_after_close(roster: Roster) -> None:
    _require_raises(CallOrderError, roster.step, "step after close")
    _require_raises(CallOrderError, lambda: roster.reset(_SEED), "reset after close")


def _require_raises(kind: type[Exception], call: Callable[[], object], what: str) -> Exception:
    try:
        call()
    except kind as error:
        return error
    except Exception as error:  # whatever else it is, it is the wrong one
        raise AssertionError(
            f"check_roster: expected {kind.__name__} for {what}, got {type(error).__name__}: {error}"
        ) from error
    raise AssertionError(f"check_roster: expected {kind.__name__} for {what}, got no error.")


def _play(roster: Roster, num_steps: int) -> list[dict[str, NDArray[np.generic]]]:
    """Watch a run from a seeded reset; gives copies of all arrays, with the actions that led to the next."""
    watch = RosterWatch(roster)
    policy = RandomPolicy(roster.spec, _SEED)
    roster.reset(_SEED)
    watch.after_reset(np.ones(roster.arrays.num_envs, np.bool_), np.zeros(roster.arrays.num_envs, np.int64))
    history = []
    for _ in range(num_steps):
        policy.act(roster.arrays)
        history.append(copy_arrays(roster.arrays))
        watch.before_step()
        roster.step()
        watch.after_step()
    return history


def _check_resets(roster: Roster) -> None:
    """Resets in mid-episode: of one environment (a world that cannot do that refuses), then of all."""
    watch = RosterWatch(roster)
    policy = RandomPolicy(roster.spec, _SEED)
    episode = roster.arrays.episode.copy()
    before = copy_arrays(roster.arrays)
    one, both = np.array([True, False]), np.array([True, True])
    try:
        roster.reset(env_mask=one)
    except CallOrderError:
        require_equal_arrays(copy_arrays(roster.arrays), before, "a refused reset of some environments")
    else:
        episode = episode + one
        watch.after_reset(one, episode)
        others = {key: array[1:] for key, array in before.items()}
        require_equal_arrays(copy_arrays(roster.arrays.envs(1, 2)), others, "an environment outside env_mask")
    roster.reset()
    watch.after_reset(both, episode + both)
    policy.act(roster.arrays)
    watch.before_step()
    roster.step()
    watch.after_step()


def _replay(roster: Roster, history: list[dict[str, NDArray[np.generic]]], envs: slice, what: str) -> None:
    """Give the recorded actions again and compare everything else."""
    roster.reset(_SEED)
    arrays = copy_arrays(roster.arrays, view=True)
    stale = ("final_observations", "final_state", "metrics")
    for step, recorded in enumerate(history):
        for key, array in arrays.items():
            if key.endswith("_actions"):
                array[:] = recorded[key][envs]
        compared = {key: array for key, array in arrays.items() if not key.endswith((*stale, "_actions"))}
        require_equal_arrays(compared, {key: recorded[key][envs] for key in compared}, f"{what}, step {step}")
        if step + 1 < len(history):
            roster.step()


def _check_refuses_wrong_action(roster: Roster) -> None:
    arrays = roster.arrays
    for role in roster.spec.roles:
        values = arrays.roles[role.name]
        asked = np.argwhere(values.decision_mask)
        if not len(asked):
            continue
        RandomPolicy(roster.spec, _SEED).act(arrays)
        env, slot = asked[0]
        if role.action.num_continuous:
            values.continuous_actions[env, slot, 0] = 1.5
        else:
            values.discrete_actions[env, slot, 0] = role.action.discrete_branches[0]
        error = _require_raises(ActionError, roster.step, f"an action out of range of {role.agent_ids[slot]}")
        RandomPolicy(roster.spec, _SEED).act(arrays)  # nothing wrong is left for the checks that follow
        named = role.agent_ids[slot] in str(error)
        require(named, f"check_roster: expected the error to name {role.agent_ids[slot]!r}, got: {error}")
        return


def _check_views_agree(world: World, deterministic: bool) -> None:
    """The PettingZoo view and a roster play the same first episode."""
    env = world.parallel_env()
    roster = world.roster(1)
    try:
        agents = [agent for role in world.spec.roles for agent in role.agent_ids]
        found = list(env.possible_agents)
        require(found == agents, f"check_world: expected possible_agents {agents}, got {found}.")
        observations, _ = env.reset(seed=_SEED)
        roster.reset(_SEED)
        if not deterministic:
            return
        rows = _rows(world.spec, roster.arrays)
        for agent, observation in observations.items():
            values, slot = rows[agent]
            require(
                np.array_equal(observation, values.observations[0, slot]),
                f"check_world: agent {agent!r}: expected the same first observation from parallel_env as from the "
                f"roster, {values.observations[0, slot]}, got {observation}.",
            )
    finally:
        env.close()
        roster.close()


def _rows(spec: WorldSpec, arrays: RosterArrays) -> dict[str, tuple[Any, int]]:
    pairs = (zip(role.agent_ids, itertools.repeat(arrays.roles[role.name])) for role in spec.roles)
    return {agent: (values, slot) for role in pairs for slot, (agent, values) in enumerate(role)}
