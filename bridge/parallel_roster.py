"""Any PettingZoo ``ParallelEnv`` as a roster.

Each environment keeps its own rows of the arrays: agents that come and go
become masks, an episode's end is followed by a reset in the same step, and
every episode is seeded from (seed, environment, episode).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from bridge.actions import require_valid_actions
from bridge.errors import CallOrderError, SpecMismatchError
from bridge.foreign_spaces import AgentCodec
from bridge.roster import RoleArrays, RosterArrays
from bridge.seeding import episode_seed
from bridge.specs import WorldSpec

__all__ = ["ParallelRoster"]

ForeignEnv: TypeAlias = ParallelEnv[str, Any, Any]


class ParallelRoster:
    """Steps ``num_envs`` copies of a PettingZoo environment one after the other.

    Where an environment breaks PettingZoo's rules, the life at hand ends in the
    mildest way: an agent that leaves ``agents`` without a flag was despawned
    (``terminated``, zeros as last observation unless one is given), a living
    agent without an observation is not asked and keeps its last one.
    """

    def __init__(
        self,
        make_env: Callable[[], ForeignEnv],
        spec: WorldSpec,
        num_envs: int,
        *,
        first_env: int = 0,
        arrays: RosterArrays | None = None,
        episode_steps: int | None = None,
    ) -> None:
        """Make the environments.

        Args:
            make_env: Makes one environment.
            spec: Spec of the environment, from :func:`bridge.foreign_spec.spec_of_parallel_env`.
            num_envs: Number of environments E.
            first_env: Index of the first one among all environments of the run.
            arrays: Where to write; allocated if None.
            episode_steps: Truncate episodes after this many steps; None leaves it to the environment.
        """
        self._spec = spec
        self._arrays = RosterArrays.allocate(spec, num_envs) if arrays is None else arrays
        self._first_env = first_env
        self._closed = False
        self._rows: list[_Row] = []
        self._resources = ExitStack()
        with ExitStack() as opened:
            for index in range(num_envs):
                env = make_env()
                opened.callback(env.close)
                row_arrays = self._arrays.envs(index, index + 1)
                self._rows.append(_Row(env, spec, row_arrays, first_env + index, episode_steps))
            self._resources = opened.pop_all()

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        return self._spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill."""
        return self._arrays

    def reset(self, seed: int | None = None, env_mask: NDArray[np.bool_] | None = None) -> None:
        """See :meth:`bridge.roster.Roster.reset`."""
        self._require_open("reset")
        rows = [row for index, row in enumerate(self._rows) if env_mask is None or env_mask[index]]
        if seed is None and any(row.seed is None for row in rows):
            raise CallOrderError("ParallelRoster.reset: expected a seed at the first reset, got None. Pass seed=...")
        for row in rows:
            row.reset(seed)

    def step(self) -> None:
        """See :meth:`bridge.roster.Roster.step`."""
        self._require_open("step")
        if any(row.seed is None for row in self._rows):
            raise CallOrderError("ParallelRoster.step: expected a reset before the first step, got none. Call reset.")
        require_valid_actions(self._spec, self._arrays, "ParallelRoster.step", self._first_env)
        for row in self._rows:
            row.step()

    def render(self, index: int = 0) -> NDArray[np.uint8]:
        """What the environment of this index draws: (H, W, 3) uint8, if it was made with ``rgb_array``."""
        self._require_open("render")
        return np.asarray(self._rows[index].env.render(), np.uint8)

    def close(self) -> None:
        """Close every environment; may be called twice."""
        self._closed = True
        self._resources.close()

    def _require_open(self, call: str) -> None:
        if self._closed:
            raise CallOrderError(f"ParallelRoster.{call}: expected an open roster, got a closed one. Make a new one.")


class _Place(NamedTuple):
    """Where an agent's values lie: row 0 of its role's arrays, at its slot."""

    codec: AgentCodec
    values: RoleArrays
    slot: tuple[int, int]


class _Row:
    """One environment and its rows of the arrays."""

    def __init__(
        self, env: ForeignEnv, spec: WorldSpec, arrays: RosterArrays, number: int, episode_steps: int | None
    ) -> None:
        self.env = env
        self.seed: int | None = None
        self._spec = spec
        self._arrays = arrays
        self._number = number
        self._episode_steps = episode_steps
        self._episode = 0
        self._steps = 0
        self._alive: set[str] = set()
        agents = [agent for role in spec.roles for agent in role.agent_ids]
        if set(env.possible_agents) != set(agents):
            raise SpecMismatchError(
                f"ParallelRoster: expected the agents {', '.join(agents)}, got {env.possible_agents}. "
                "Make every environment with the same arguments."
            )
        self._places = {
            agent: _Place(AgentCodec(env, agent), arrays.roles[role.name], (0, slot))
            for role in spec.roles
            for slot, agent in enumerate(role.agent_ids)
        }

    def reset(self, seed: int | None) -> None:
        """Begin episode 0 of a seed, or the next episode of the current one."""
        self._episode = 0 if seed is not None else self._episode + 1
        self.seed = self.seed if seed is None else seed
        self._arrays.episode_over[0] = False
        for place in self._places.values():
            self._write_outcome(place, 0.0, False, False)
        self._begin()

    def step(self) -> None:
        """Advance by one step, and into the next episode where this one ends."""
        observations, rewards, terminations, truncations, infos = self.env.step(self._actions())
        self._steps += 1
        cut = self._episode_steps is not None and self._steps >= self._episode_steps
        listed = set(self.env.agents)
        alive: set[str] = set()
        for agent, place in self._places.items():
            lived = agent in self._alive
            terminated = bool(terminations.get(agent, False))
            truncated = bool(truncations.get(agent, False))
            if agent in listed and not (terminated or truncated or cut):
                alive.add(agent)
            elif lived and agent not in listed and not truncated:
                terminated = True  # it vanished, with or without a flag
            truncated = (truncated or cut) and not terminated
            self._write_outcome(
                place, rewards.get(agent, 0.0) if lived else 0.0, lived and terminated, lived and truncated
            )
            if lived and agent not in alive:
                self._write_observation(place, place.values.final_observations, observations.get(agent))
        self._alive = alive
        self._arrays.episode_over[0] = not alive
        if alive:
            self._write_present(observations, infos)
            self._write_state(self._arrays.state)
        else:
            self._write_state(self._arrays.final_state)
            self._episode += 1
            self._begin()

    def _begin(self) -> None:
        assert self.seed is not None
        observations, infos = self.env.reset(seed=episode_seed(self.seed, self._number, self._episode))
        self._steps = 0
        self._alive = set(self.env.agents)
        self._arrays.episode[0] = self._episode
        for place in self._places.values():
            place.values.agent_mask[place.slot] = False
        self._write_present(observations, infos)
        self._write_state(self._arrays.state)

    def _actions(self) -> dict[str, Any]:
        return {
            agent: place.codec.decode_action(
                place.values.continuous_actions[place.slot], place.values.discrete_actions[place.slot]
            )
            for agent, place in self._places.items()
            if place.values.decision_mask[place.slot]
        }

    def _write_outcome(self, place: _Place, reward: float, terminated: bool, truncated: bool) -> None:
        place.values.rewards[place.slot] = reward
        place.values.terminated[place.slot] = terminated
        place.values.truncated[place.slot] = truncated

    def _write_present(self, observations: dict[str, Any], infos: dict[str, Any]) -> None:
        for agent, place in self._places.items():
            values, slot = place.values, place.slot
            alive, seen = agent in self._alive, agent in observations
            newly = alive and not values.agent_mask[slot]
            if not alive or seen or newly:
                self._write_observation(place, values.observations, observations[agent] if alive and seen else None)
            values.agent_mask[slot] = alive
            values.decision_mask[slot] = alive and seen
            mask = place.codec.read_action_mask(observations[agent], infos.get(agent, {})) if alive and seen else None
            values.action_mask[slot] = True if mask is None else mask

    def _write_observation(self, place: _Place, array: NDArray[np.float32], observation: Any) -> None:
        """Write an observation and the zeros behind it; all zeros if there is none."""
        row = array[place.slot]
        size = 0 if observation is None else place.codec.size
        if observation is not None:
            row[:size] = place.codec.read_observation(observation)
        row[size:] = 0.0

    def _write_state(self, array: NDArray[np.float32]) -> None:
        if self._spec.state_size:
            array[0] = np.asarray(self.env.state(), np.float32).ravel()
