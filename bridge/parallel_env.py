"""A roster with one environment behind PettingZoo's parallel API.

PettingZoo's rules are narrower than a roster's: an agent that has ended does
not come back before the next reset, and the observation of an ended episode is
the last one, not the next episode's first. :class:`RosterParallelEnv` keeps
them; trainers use the roster itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from bridge.actions import require_valid_actions
from bridge.agent_spaces import action_space, observation_space, sampling_mask, write_action, write_idle_action
from bridge.errors import ActionError, CallOrderError, SpecMismatchError
from bridge.roster import RoleArrays, Roster
from bridge.seeding import fresh_seed
from bridge.specs import RoleSpec

__all__ = ["RosterParallelEnv"]

Float32 = NDArray[np.float32]
Infos = dict[str, dict[str, Any]]


class _Phase(Enum):
    NEW = "before the first reset"
    RUNNING = "in an episode"
    AUTO_RESET = "after an episode whose successor the roster has already begun"
    CLOSED = "after close"


class _Slot(NamedTuple):
    role: RoleSpec
    values: RoleArrays
    number: int


class RosterParallelEnv(ParallelEnv[str, Float32, Any]):  # type: ignore[misc]
    """Plays one environment of a roster agent by agent.

    ``infos[agent]`` always has ``asked`` (whether the agent is asked for an
    action next; the action of one that is not asked may be left out and is
    ignored), and ``action_mask`` where there are discrete actions: whatever
    ``action_space(agent).sample(mask=...)`` takes, int8, 1 = allowed. (Without a
    mask, ``sample()`` draws from the allowed actions too.) In the step that ends
    the episode it also has ``metrics`` where the world has any.

    Attributes:
        possible_agents: All agents of all roles, in slot order.
        agents: The living ones, in slot order.
        state_space: Space of :meth:`state`; only if the world has a state.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        name: str,
        render: Callable[[], NDArray[np.uint8]] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Wrap a roster, which from now on belongs to this object.

        Args:
            roster: One environment (its arrays have E = 1).
            name: Name shown by PettingZoo.
            render: Draws the current state as an (H, W, 3) uint8 image; None if the world cannot.
            render_mode: ``"rgb_array"`` or None.

        Raises:
            SpecMismatchError: The roster has several environments, or the render mode is unknown.
        """
        if roster.arrays.num_envs != 1:
            raise SpecMismatchError(
                f"RosterParallelEnv: expected a roster with 1 environment, got {roster.arrays.num_envs}."
            )
        modes = [] if render is None else ["rgb_array"]
        if render_mode is not None and render_mode not in modes:
            raise SpecMismatchError(
                f"RosterParallelEnv: expected render_mode to be one of {[None, *modes]}, got {render_mode!r}."
            )
        self.metadata = {"name": name, "render_modes": modes, "is_parallelizable": True}
        self.render_mode = render_mode
        self._draw = render
        self._roster = roster
        self._slots = {
            agent: _Slot(role, roster.arrays.roles[role.name], index)
            for role in roster.spec.roles
            for index, agent in enumerate(role.agent_ids)
        }
        self.possible_agents = list(self._slots)
        self.agents: list[str] = []
        self._ended: set[str] = set()
        self._phase = _Phase.NEW
        self.observation_spaces = {a: observation_space(s.role.observation) for a, s in self._slots.items()}
        self.action_spaces = {
            a: action_space(s.role.action, s.values.action_mask[0, s.number]) for a, s in self._slots.items()
        }
        if roster.spec.state_size:
            self.state_space = spaces.Box(-np.inf, np.inf, (roster.spec.state_size,), np.float32)

    def observation_space(self, agent: str) -> spaces.Box:
        """The agent's observation space; always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The agent's action space; always the same object."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Float32], Infos]:
        """Begin an episode.

        Args:
            seed: Seed of this and the following episodes. Without one the next episode of the
                current seed begins; the first reset then draws a seed from the system's entropy.
            options: Ignored; PettingZoo asks for it.

        Raises:
            CallOrderError: After close.
        """
        if self._phase is _Phase.CLOSED:
            raise CallOrderError("RosterParallelEnv.reset: expected an open environment, got a closed one.")
        if seed is None and self._phase is _Phase.NEW:
            seed = fresh_seed()
        if seed is not None:
            self._roster.reset(int(seed))
        elif self._phase is _Phase.RUNNING:
            self._roster.reset()
        self._phase = _Phase.RUNNING
        self._ended.clear()
        self.agents = [agent for agent, slot in self._slots.items() if slot.values.agent_mask[0, slot.number]]
        observations = {agent: self._observation(agent, ended=False) for agent in self.agents}
        return observations, {agent: self._info(agent, ended=False) for agent in self.agents}

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Float32], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Advance by one step.

        Args:
            actions: An action per agent of ``agents`` that is asked.

        Returns:
            Observations, rewards, terminations, truncations and infos, keyed by the agents that lived
            before the step and those that have just come.

        Raises:
            ActionError: An action is missing, superfluous, malformed, out of range or masked; names the agent.
            CallOrderError: Before reset, after the episode's end, or after close.
        """
        if self._phase is not _Phase.RUNNING or not self.agents:
            state = self._phase.value if self._phase is not _Phase.RUNNING else "with no agent left"
            raise CallOrderError(f"RosterParallelEnv.step: expected a running episode, got a call {state}. Call reset.")
        self._write_actions(actions)
        self._roster.step()
        over = bool(self._roster.arrays.episode_over[0])
        self._phase = _Phase.AUTO_RESET if over else _Phase.RUNNING
        present = self.agents if over else [a for a in self._slots if a in self.agents or self._is_born(a)]
        rewards, terminations, truncations = {}, {}, {}
        for agent in present:
            slot = self._slots[agent]
            rewards[agent] = float(slot.values.rewards[0, slot.number])
            terminations[agent] = bool(slot.values.terminated[0, slot.number])
            truncations[agent] = bool(slot.values.truncated[0, slot.number])
        ended = {agent for agent in present if terminations[agent] or truncations[agent]}
        assert not over or len(ended) == len(present), "an episode ended without the end of every life in it"
        self._ended |= ended
        self.agents = [agent for agent in present if agent not in ended]
        observations = {agent: self._observation(agent, agent in ended) for agent in present}
        infos = {agent: self._info(agent, agent in ended) for agent in present}
        return observations, rewards, terminations, truncations, infos

    def state(self) -> Float32:
        """The global state for critics, (S,) float32; the last one after the episode's end.

        Raises:
            NotImplementedError: The world has no state.
            CallOrderError: Before reset, or after close.
        """
        arrays = self._roster.arrays
        if not self._roster.spec.state_size:
            raise NotImplementedError(f"{self.metadata['name']}.state: this world has no global state.")
        if self._phase in (_Phase.NEW, _Phase.CLOSED):
            raise CallOrderError(f"RosterParallelEnv.state: expected an episode, got a call {self._phase.value}.")
        state = arrays.final_state if self._phase is _Phase.AUTO_RESET else arrays.state
        return np.array(state[0])

    def render(self) -> NDArray[np.uint8]:
        """An (H, W, 3) uint8 image of the world now (after the episode's end: of the next one).

        Raises:
            CallOrderError: The environment was made without a render mode, was not reset, or is closed.
        """
        if self._draw is None or self.render_mode is None:
            raise CallOrderError(
                "RosterParallelEnv.render: expected render_mode='rgb_array', got None. Pass it when making the world."
            )
        if self._phase in (_Phase.NEW, _Phase.CLOSED):
            raise CallOrderError(f"RosterParallelEnv.render: expected an episode, got a call {self._phase.value}.")
        return self._draw()

    def close(self) -> None:
        """Release the roster; may be called twice."""
        if self._phase is not _Phase.CLOSED:
            self._phase = _Phase.CLOSED
            self.agents = []
            self._roster.close()

    def _is_born(self, agent: str) -> bool:
        slot = self._slots[agent]
        return agent not in self._ended and bool(slot.values.agent_mask[0, slot.number])

    def _observation(self, agent: str, ended: bool) -> Float32:
        slot = self._slots[agent]
        source = slot.values.final_observations if ended else slot.values.observations
        return np.array(source[0, slot.number])

    def _info(self, agent: str, ended: bool) -> dict[str, Any]:
        slot = self._slots[agent]
        info: dict[str, Any] = {"asked": not ended and bool(slot.values.decision_mask[0, slot.number])}
        if slot.role.action.num_branches:
            mask = slot.values.action_mask[0, slot.number]
            info["action_mask"] = sampling_mask(slot.role.action, np.ones_like(mask) if ended else mask)
        if ended and self._phase is _Phase.AUTO_RESET and self._roster.spec.metrics:
            values = self._roster.arrays.metrics[0].tolist()
            info["metrics"] = dict(zip(self._roster.spec.metric_names, values, strict=True))
        return info

    def _write_actions(self, actions: Mapping[str, Any]) -> None:
        for agent in actions:
            if agent not in self.agents:
                raise ActionError(
                    f"RosterParallelEnv.step: expected actions of the living agents {', '.join(self.agents)}, "
                    f"got one of {agent!r}. Give actions to `agents` only."
                )
        for agent, slot in self._slots.items():
            if not slot.values.decision_mask[0, slot.number]:
                continue
            action = slot.role.action
            continuous = slot.values.continuous_actions[0, slot.number]
            discrete = slot.values.discrete_actions[0, slot.number]
            if agent in actions:
                where = f"RosterParallelEnv.step: agent {agent!r}"
                write_action(where, action, actions[agent], continuous, discrete)
            elif agent in self.agents:
                raise ActionError(f"RosterParallelEnv.step: agent {agent!r}: expected an action, got none.")
            else:  # a new life in the slot, which PettingZoo does not show before the next reset
                write_idle_action(action, slot.values.action_mask[0, slot.number], continuous, discrete)
        require_valid_actions(self._roster.spec, self._roster.arrays, "RosterParallelEnv.step")
