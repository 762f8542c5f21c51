"""The part of the conformance kit that plays a PettingZoo environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from pettingzoo import ParallelEnv

from bridge.testing_roster import require

__all__ = ["MaskObeyingEnv", "play_parallel_env"]

Env: TypeAlias = ParallelEnv[str, Any, Any]


class MaskObeyingEnv(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """An environment that replaces actions by allowed ones where it has given a mask.

    For callers that do not know masks in infos, such as PettingZoo's own tests. The
    replacement comes from the agent's action space, so that it is reproducible.
    """

    def __init__(self, env: Env) -> None:
        """Wrap an environment, which then belongs to this object."""
        self._env = env
        self._masks: dict[str, Any] = {}
        self.metadata = env.metadata
        self.possible_agents = env.possible_agents

    @property
    def agents(self) -> list[str]:
        """The living agents."""
        return list(self._env.agents)

    def observation_space(self, agent: str) -> Any:
        """See the environment."""
        return self._env.observation_space(agent)

    def action_space(self, agent: str) -> Any:
        """See the environment."""
        return self._env.action_space(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """See the environment."""
        observations, infos = self._env.reset(seed=seed, options=options)
        self._masks = _masks(observations, infos)
        return observations, infos

    def step(self, actions: Mapping[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """See the environment."""
        allowed = {
            agent: self.action_space(agent).sample(mask=self._masks[agent]) if agent in self._masks else action
            for agent, action in actions.items()
        }
        outcome = self._env.step(allowed)
        self._masks = _masks(outcome[0], outcome[4])
        return outcome  # type: ignore[no-any-return]

    def state(self) -> Any:
        """See the environment."""
        return self._env.state()

    def close(self) -> None:
        """See the environment."""
        self._env.close()


def play_parallel_env(make_env: Callable[[], Env], num_cycles: int, seed: int, deterministic: bool) -> None:
    """Play three episodes, the first two with the same seed, and check what PettingZoo's tests leave out.

    Raises:
        AssertionError: A rule is broken.
    """
    env = make_env()
    possible = list(env.possible_agents)
    first = _play_episode(env, num_cycles, seed)
    second = _play_episode(env, num_cycles, seed)
    if deterministic:
        require(
            data_equivalence(first, second),
            "check_parallel_env: expected the same episode after two resets with the same seed, got another.",
        )
    env.reset()
    _play_episode(env, min(num_cycles, 20), None)
    found = list(env.possible_agents)
    require(found == possible, f"check_parallel_env: expected possible_agents to stay {possible}, got {found}.")
    env.close()
    env.close()


def _play_episode(env: Env, num_cycles: int, seed: int | None) -> list[Any]:
    """Random allowed actions until all agents have gone; gives everything that was seen."""
    observations, infos = env.reset(seed=seed)
    has_mask = {agent: "action_mask" in infos[agent] for agent in env.agents}
    _check_members(env, observations, infos, env.agents, has_mask, "reset")
    for number, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(number)
    seen: list[Any] = [observations, infos]
    for cycle in range(num_cycles):
        if not env.agents:
            break
        before = list(env.agents)
        masks = _masks(observations, infos)
        actions = {agent: env.action_space(agent).sample(mask=masks.get(agent)) for agent in before}
        observations, rewards, terminations, truncations, infos = env.step(actions)
        where = f"step {cycle}"
        _check_members(env, observations, infos, [*before, *env.agents], has_mask, where)
        for agent in before:
            _check_flags(agent, rewards, terminations, truncations, agent in env.agents, where)
        _check_state(env, where)
        seen.append([observations, rewards, terminations, truncations, infos])
    return seen


def _check_members(
    env: Env,
    observations: Mapping[str, Any],
    infos: Mapping[str, Any],
    agents: list[str],
    has_mask: dict[str, bool],
    where: str,
) -> None:
    order = [agent for agent in env.possible_agents if agent in env.agents]
    require(
        list(env.agents) == order,
        f"check_parallel_env: {where}: expected agents in slot order {order}, got {env.agents}.",
    )
    for agent in agents:
        space = env.observation_space(agent)
        require(
            agent in observations and agent in infos,
            f"check_parallel_env: {where}: agent {agent!r}: expected an observation and an info, got none.",
        )
        if not space.contains(observations[agent]):
            raise AssertionError(
                f"check_parallel_env: {where}: agent {agent!r}: expected an observation in {space}, "
                f"got {observations[agent]!r}."
            )
        masked = "action_mask" in infos[agent]
        require(
            masked == has_mask.setdefault(agent, masked),
            f"check_parallel_env: {where}: agent {agent!r}: expected an action mask always or never, got both.",
        )


def _check_flags(
    agent: str,
    rewards: Mapping[str, Any],
    terminations: Mapping[str, Any],
    truncations: Mapping[str, Any],
    stays: bool,
    where: str,
) -> None:
    place = f"check_parallel_env: {where}: agent {agent!r}"
    require(bool(np.isfinite(rewards[agent])), f"{place}: expected a finite reward, got {rewards[agent]}.")
    flags = (terminations[agent], truncations[agent])
    require(not all(flags), f"{place}: expected one end flag, got both.")
    found = "stays" if stays else "is gone"
    require(any(flags) != stays, f"{place}: expected to leave exactly when it ends, got flags {flags} and it {found}.")


def _check_state(env: Env, where: str) -> None:
    space = getattr(env, "state_space", None)
    if space is not None:
        state = env.state()
        if not space.contains(state):
            raise AssertionError(f"check_parallel_env: {where}: expected a state in {space}, got {state!r}.")


def _masks(observations: Mapping[str, Any], infos: Mapping[str, Any]) -> dict[str, Any]:
    """Action masks by agent, from the observations or the infos; without entry where there is none."""
    masks = {}
    for agent, observation in observations.items():
        if isinstance(observation, Mapping) and "action_mask" in observation:
            masks[agent] = observation["action_mask"]
        elif "action_mask" in infos.get(agent, {}):
            masks[agent] = infos[agent]["action_mask"]
    return masks
