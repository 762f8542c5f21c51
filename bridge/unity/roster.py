"""A Unity player as a roster: training areas are environments, agents are slots.

One step of the roster is one exchange with the player. Roles are behaviors
without their team. Area and slot of an agent are those that the scene announces
on the roster channel; else environments are told apart by the agents' group
ids, in ascending order, where a player has more than one area, and slots are
given in the order in which agents appear (:mod:`bridge.unity.slots`).

The episode of an area is over when all lives that ran in it have ended in one
exchange. A player that reports figures of its episodes through the statistics
channel (``episode/<area>/<figure>``, with the terminals) says it itself: there,
a fleet whose last robot has despawned is not mistaken for an ended episode.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.actions import require_valid_actions
from bridge.errors import (
    CallOrderError,
    SpecMismatchError,
    UnityProtocolError,
    UnityTimeoutError,
    WorldDiedError,
    WorldTimeoutError,
)
from bridge.roster import RosterArrays
from bridge.specs import WorldSpec
from bridge.unity.areas import AreaTable
from bridge.unity.behaviors import require_role
from bridge.unity.decode import AgentBatch, PlayerOutput
from bridge.unity.encode import BehaviorActions
from bridge.unity.figures import EpisodeFigures
from bridge.unity.launch import PlayerCommand
from bridge.unity.link import LinkOptions, LinkTerms, UnityLink
from bridge.unity.lives import RoleLives
from bridge.unity.probe import AskedPlayer
from bridge.unity.rewards import GroupReward, group_metric
from bridge.unity.session import SessionOptions, UnitySession
from bridge.unity.side_channels import Announced

__all__ = ["DEFAULT_SILENCE_LIMIT", "RosterOptions", "UnityRoster"]

DEFAULT_SILENCE_LIMIT = 1000
"""Exchanges without a sign of life after which an agent is taken to have vanished."""


@dataclass(frozen=True)
class RosterOptions:
    """How a player is run as a roster.

    Attributes:
        reports_episodes: The player reports figures at the end of each episode; wait for them.
        first_env: Index of the first environment among all of the run; for messages.
        group_reward: What becomes of a group's reward: added to each member's own, ignored, or kept in
            :attr:`UnityRoster.group_rewards`.
        silence_limit: Exchanges without a sign of life after which an agent is taken to have vanished: its life
            is truncated and its slot is free.
        link: How the player is kept alive.
    """

    reports_episodes: bool = False
    first_env: int = 0
    group_reward: GroupReward = "add"
    silence_limit: int = DEFAULT_SILENCE_LIMIT
    link: LinkOptions = field(default_factory=LinkOptions)


class UnityRoster:
    """Steps the training areas of one player.

    Args:
        command: How to start the player; None waits for one that somebody else starts.
        spec: What it looks like; compared with what it announces.
        session: Number of areas E, time limit, seed of Unity's own random numbers.
        options: Everything else.
        arrays: Where to write; allocated if None.
        asked: A player that is connected already, on the terms of ``session`` and ``options``; closed with the roster.

    Raises:
        UnityPlayerDiedError: The player cannot be started, or ended before it was connected.
        UnityTimeoutError: It did not connect in time.
        UnityVersionError: It speaks another version of the protocol.
    """

    def __init__(
        self,
        command: PlayerCommand | None,
        spec: WorldSpec,
        session: SessionOptions,
        options: RosterOptions,
        arrays: RosterArrays | None = None,
        asked: AskedPlayer | None = None,
    ) -> None:
        self._spec = spec
        self._options = options
        self._timeout_s = session.timeout_s
        self._arrays = RosterArrays.allocate(spec, session.num_areas) if arrays is None else arrays
        self._lives = {
            role.name: RoleLives(role, self._arrays.roles[role.name], options.group_reward, options.silence_limit)
            for role in spec.roles
        }
        self._areas = AreaTable(session.num_areas)
        self._figures = EpisodeFigures(spec.metric_names, session.num_areas)
        names = list(spec.metric_names)
        # (E, R) group rewards of the running episodes, and the columns of those that are metrics of the world.
        self._group_returns = np.zeros((session.num_areas, len(self._lives)))
        self._group_columns = {
            index: names.index(group_metric(role))
            for index, role in enumerate(self._lives)
            if group_metric(role) in names
        }
        self._was_reset = False
        # Agents that have said something before the first reset may have rewards left over.
        self._newest_id = -1 if asked is None else asked.newest_agent_id
        terms = LinkTerms(session, options.link, spec.state_size)
        self._link = UnityLink(command, terms) if asked is None else asked.link

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        return self._spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill."""
        return self._arrays

    @property
    def session(self) -> UnitySession:
        """The session with the player that runs now."""
        return self._link.session

    @property
    def restarts(self) -> int:
        """How often the player was started again after it had failed."""
        return self._link.restarts

    @property
    def group_rewards(self) -> dict[str, NDArray[np.float32]]:
        """(E, A) float32 per role, group rewards of this step where they are kept apart; else zeros.

        For code of one's own in the same process; a vector environment carries only their sums over an episode, as
        metrics that :func:`bridge.unity.rewards.group_metric` names.
        """
        return {name: lives.account.group_rewards for name, lives in self._lives.items()}

    @property
    def unclaimed_rewards(self) -> float:
        """Sum of the rewards that no life could be credited with; see :mod:`bridge.unity.rewards`."""
        return sum(lives.account.unclaimed for lives in self._lives.values())

    def set_scenario(self, scenario: Mapping[str, Any]) -> None:
        """Let the scene play another scenario from the next reset on.

        Args:
            scenario: The resolved scenario; everything in it has a form in JSON. :meth:`reset` raises
                ``ScenarioError`` if the scene refuses it.
        """
        self._link.set_scenario(scenario)

    def reset(self, seed: int | None = None, env_mask: NDArray[np.bool_] | None = None) -> None:
        """Start an episode in every environment, and wait until at least one agent asks for a decision.

        With a seed, slots are given out anew, so that equal seeds give equal arrays. A scene must read
        the environment parameters ``agv_seed_high`` and ``agv_seed_low`` to obey it; Unity has no message
        for it.

        Args:
            seed: In [0, 2**48).
            env_mask: (E,) bool, must be all True: a player resets all of its areas together.

        Raises:
            CallOrderError: No seed at the first reset, a mask that leaves environments out, or after close.
            SpecMismatchError: The player's agents do not fit the spec, or the seed is out of range.
            ScenarioError: The scene refused the scenario.
            UnityPlayerDiedError: The player has ended.
            UnityTimeoutError: It did not answer in time.
            UnityProtocolError: It broke the protocol.
        """
        if env_mask is not None and not np.asarray(env_mask).all():
            raise CallOrderError(
                f"UnityRoster.reset: expected all {self._arrays.num_envs} environments to be reset, got a mask that "
                "leaves some out. A player resets all its areas together: give each environment its own player."
            )
        if seed is None and not self._was_reset:
            raise CallOrderError("UnityRoster.reset: expected a seed at the first reset, got none.")
        if not self._was_reset:
            for behavior in self._link.behaviors.values():  # of a player that was asked before
                require_role(behavior, self._spec.role(behavior.role))
        for lives in self._lives.values():
            lives.begin_reset(self._newest_id, forget_slots=seed is not None)
        self._arrays.episode_over[:] = False
        restarts = self._link.restarts
        output = self._link.reset(seed)
        if self._link.restarts > restarts:
            self._meet_new_player()
        self._take(output)
        self._await_lives("reset")
        self._figures.clear()
        self._group_returns[:] = 0.0
        self._link.stats.take()
        self._take_states()
        self._was_reset = True
        if seed is None:
            self._arrays.episode[:] += 1
        else:
            self._arrays.episode[:] = 0

    def step(self) -> None:
        """Answer the robots that were asked, and take in the next exchange; see :meth:`bridge.roster.Roster.step`.

        A player that fails is started again as often as the options allow: the lives that were open are
        truncated, the episodes are over, and the next ones begin.
        """
        if not self._was_reset:
            raise CallOrderError("UnityRoster.step: expected a reset first, got a step.")
        require_valid_actions(self._spec, self._arrays, "UnityRoster.step", self._options.first_env)
        actions = self._chosen_actions()
        for lives in self._lives.values():
            lives.begin_step()
        self._arrays.episode_over[:] = False
        try:
            self._take(self._link.step(actions))
        except (WorldDiedError, WorldTimeoutError) as error:
            self._cut_episodes()
            self._restart(error)
        except UnityProtocolError:
            self._cut_episodes()
            raise
        else:
            for index, lives in enumerate(self._lives.values()):
                self._group_returns[:, index] += lives.account.group_rewards.sum(axis=1)
            self._end_episodes()
        if self._arrays.episode_over.any():
            self._await_lives("step")
        self._take_states()

    def close(self) -> None:
        """Make the player quit; may be called twice."""
        self._link.close()

    def _chosen_actions(self) -> dict[str, BehaviorActions]:
        chosen = {name: self._lives[b.role].actions(name) for name, b in self._link.behaviors.items()}
        return {name: given for name, given in chosen.items() if given is not None}

    def _cut_episodes(self) -> None:
        """The player has failed: all lives are truncated, and all episodes are over without figures."""
        for lives in self._lives.values():
            lives.truncate_all()
        self._figures.clear()
        self._group_returns[:] = 0.0
        self._arrays.episode_over[:] = True
        self._arrays.metrics[:] = np.nan
        self._arrays.episode[:] += 1

    def _restart(self, error: Exception) -> None:
        output = self._link.restart(error)
        self._meet_new_player()
        self._take(output)

    def _meet_new_player(self) -> None:
        """Its agents have nothing to do with those of the player before, whatever their ids and groups."""
        for lives in self._lives.values():
            lives.begin_restart()
        self._areas = AreaTable(self._arrays.num_envs)
        self._newest_id = -1

    def _await_lives(self, call: str) -> None:
        """Go on while the player has nobody to ask: a scene may start empty, and agents may come back later."""
        deadline = time.monotonic() + self._timeout_s
        while not any(role.agent_mask.any() for role in self._arrays.roles.values()):
            if time.monotonic() > deadline:
                raise UnityTimeoutError(
                    f"UnityRoster.{call}: expected an agent that asks for a decision within {self._timeout_s:g} s, "
                    "got messages of agents that ended. Check that agents come back after their end."
                )
            actions = self._chosen_actions()
            for lives in self._lives.values():
                lives.begin_exchange()
            try:
                self._take(self._link.step(actions))
            except (WorldDiedError, WorldTimeoutError) as error:
                self._restart(error)

    def _take(self, output: PlayerOutput) -> None:
        for behavior in output.new_behaviors.values():
            require_role(behavior, self._spec.role(behavior.role))
        unsteady = {}
        for name, batch in output.batches.items():
            if not self._lives[self._role_of(name)].take_steady(name, batch):
                unsteady[name] = batch
        if unsteady:
            self._take_unsteady(unsteady)
        for lives in self._lives.values():
            lives.truncate_silent()
        self._figures.add(self._link.stats.take())

    def _take_unsteady(self, batches: Mapping[str, AgentBatch]) -> None:
        """Take in behaviors in which a life began or ended, or other agents ask than last time."""
        announced = {name: self._announced(name, batch) for name, batch in batches.items()}
        groups: set[int] = set()
        asking, ending = [], []
        for name, batch in batches.items():
            asking.append(batch.agent_id[~batch.done])
            ending.append(batch.agent_id[batch.done])
            groups.update(np.unique(batch.group_id[~batch.done & ~announced[name].known]).tolist())
            self._newest_id = max(self._newest_id, int(batch.agent_id.max()))
        self._areas.learn(groups, lambda: self._envs_without(set(np.concatenate(ending).tolist())))
        lives = {name: self._lives[self._role_of(name)] for name in batches}
        all_asking = np.concatenate(asking)
        taken = {name: lives[name].take_ends(batch, all_asking) for name, batch in batches.items()}
        for name in sorted(batches):  # as they appear in the message is by chance
            batch, told = batches[name], announced[name]
            envs = np.where(told.known, told.areas, self._areas.envs(batch.group_id))
            lives[name].take(name, batch, taken[name], envs, np.where(told.known, told.slots, -1))

    def _announced(self, behavior: str, batch: AgentBatch) -> Announced:
        """Area and slot of the agents that the scene announced."""
        told = self._link.identities.look_up(batch.agent_id)
        role = self._role_of(behavior)
        wrong = told.known & (told.roles != self._link.identities.role_number(role))
        if wrong.any():
            row = int(wrong.argmax())
            raise SpecMismatchError(
                f"UnityRoster: behavior {behavior!r}: agent {batch.agent_id[row]}: expected to be announced as "
                f"{role!r}, got {self._link.identities.role_name(int(told.roles[row]))!r}. "
                "Correct what the scene sends on the roster channel."
            )
        return told

    def _role_of(self, behavior: str) -> str:
        return self._link.behaviors[behavior].role

    def _envs_without(self, ending: set[int]) -> NDArray[np.bool_]:
        vacant: NDArray[np.bool_] = np.logical_and.reduce([li.envs_without(ending) for li in self._lives.values()])
        return vacant

    def _end_episodes(self) -> None:
        lives_on = np.logical_or.reduce([lives.lives_on for lives in self._lives.values()])
        lived_before = np.logical_or.reduce([lives.lived_before for lives in self._lives.values()])
        over = self._arrays.episode_over
        over[:] = (self._figures.is_reported if self._options.reports_episodes else lived_before) & ~lives_on
        if over.any():
            self._arrays.metrics[over] = self._figures.take(over)
            for index, column in self._group_columns.items():
                self._arrays.metrics[over, column] = self._group_returns[over, index]
            self._group_returns[over] = 0.0
            self._arrays.episode[over] += 1

    def _take_states(self) -> None:
        states = self._link.states
        over = self._arrays.episode_over
        told = over & states.has_final
        self._arrays.final_state[over] = self._arrays.state[over]
        self._arrays.final_state[told] = states.final_states[told]
        self._arrays.state[:] = states.states
