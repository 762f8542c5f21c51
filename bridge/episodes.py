"""Plays whole episodes of a policy and adds up what came of them.

Every environment plays a fixed number of episodes. Taking the first to finish
instead would favour short episodes, and would depend on timing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bridge.errors import WorldTimeoutError
from bridge.policy import FleetPolicy
from bridge.roster import Roster, RosterArrays
from bridge.specs import WorldSpec

__all__ = ["EpisodeResult", "RobotFigures", "RoleReturn", "run_episodes"]


@runtime_checkable
class RobotFigures(Protocol):
    """A roster that has figures of each robot, too."""

    @property
    def robot_metric_names(self) -> tuple[str, ...]:
        """Names of the K figures."""
        ...

    @property
    def robot_metrics(self) -> NDArray[np.float64]:
        """(E, N, K) float64, of each robot in slot order, in the episode of each environment that ended last."""
        ...


@dataclass(frozen=True)
class RoleReturn:
    """The undiscounted rewards of one role in one episode.

    Attributes:
        total: Sum over all robots of the role.
        per_agent: That sum divided by the number of slots.
    """

    total: float
    per_agent: float


@dataclass(frozen=True)
class EpisodeResult:
    """What came of one episode.

    Attributes:
        env: Index of the environment in the roster.
        episode: Number of the episode since the seeded reset, from 0.
        steps: Length of the episode.
        returns: Rewards by role name.
        metrics: The world's figures by name.
        robots: Figures of each robot by agent id and name; empty where the roster has none (:class:`RobotFigures`).
        decision_ms: Time that the policy took to choose actions, per robot that was asked, in ms; the mean over all
            steps and environments of the run but the first step, which may compile. NaN if nobody was asked.
    """

    env: int
    episode: int
    steps: int
    returns: dict[str, RoleReturn]
    metrics: dict[str, float]
    robots: dict[str, dict[str, float]] = field(default_factory=dict)
    decision_ms: float = field(default=math.nan, compare=False)


def run_episodes(
    roster: Roster, policy: FleetPolicy, *, seed: int, num_episodes: int, max_steps: int = 1_000_000
) -> list[EpisodeResult]:
    """Play episodes until every environment has finished its share.

    Environment ``e`` of E plays ``num_episodes // E`` episodes, one more if ``e`` is below the
    remainder. The result depends on seed, policy, E and number of episodes alone, but for the time that decisions took.

    Args:
        roster: The environments, a vector environment or any other roster; it is reset first and not closed.
        policy: What drives the fleet.
        seed: Seed of the episodes.
        num_episodes: Number of episodes of all environments together.
        max_steps: Give up after so many steps of the roster.

    Returns:
        One result per episode, by environment and episode.

    Raises:
        WorldTimeoutError: An environment did not finish its share within ``max_steps`` steps.
    """
    num_envs = roster.arrays.num_envs
    quota = np.full(num_envs, num_episodes // num_envs)
    quota[: num_episodes % num_envs] += 1
    tally = _Tally(roster.spec, num_envs)
    watch = _DecisionWatch()
    results: list[EpisodeResult] = []
    finished = np.zeros(num_envs, np.int64)
    roster.reset(seed)
    step = 0
    while (finished < quota).any():
        if step == max_steps:
            late = np.flatnonzero(finished < quota).tolist()
            raise WorldTimeoutError(
                f"run_episodes: expected {num_episodes} episodes within {max_steps} steps, got {len(results)}; "
                f"environments {late} are not done. Raise max_steps, or limit the length of an episode."
            )
        watch.act(policy, roster.arrays)
        roster.step()
        step += 1
        tally.add(roster.arrays)
        for env in np.flatnonzero(roster.arrays.episode_over).tolist():
            if finished[env] < quota[env]:
                result = tally.result(env, int(finished[env]), roster.arrays)
                results.append(replace(result, robots=_robots(roster, env)))
            finished[env] += 1
            tally.clear(env)
    timed = [replace(result, decision_ms=watch.mean_ms) for result in results]
    return sorted(timed, key=lambda result: (result.env, result.episode))


def _robots(roster: Roster, env: int) -> dict[str, dict[str, float]]:
    """Figures of each robot in the episode of ``env`` that has just ended."""
    if not isinstance(roster, RobotFigures):
        return {}
    agents = [agent for role in roster.spec.roles for agent in role.agent_ids]
    names, rows = roster.robot_metric_names, roster.robot_metrics[env].tolist()
    return {agent: dict(zip(names, row, strict=True)) for agent, row in zip(agents, rows, strict=True)}


class _DecisionWatch:
    """Measures how long a policy takes to decide."""

    def __init__(self) -> None:
        self._steps, self._decisions, self._seconds = 0, 0, 0.0

    def act(self, policy: FleetPolicy, arrays: RosterArrays) -> None:
        """Let the policy act."""
        asked = sum(int(values.decision_mask.sum()) for values in arrays.roles.values())
        start = perf_counter()
        policy.act(arrays)
        seconds = perf_counter() - start
        self._steps += 1
        if self._steps > 1:
            self._decisions += asked
            self._seconds += seconds

    @property
    def mean_ms(self) -> float:
        """Per decision."""
        return 1e3 * self._seconds / self._decisions if self._decisions else math.nan


class _Tally:
    """Running sums of the episodes under way."""

    def __init__(self, spec: WorldSpec, num_envs: int) -> None:
        self._spec = spec
        self._steps = np.zeros(num_envs, np.int64)
        self._totals = {role.name: np.zeros(num_envs) for role in spec.roles}

    def add(self, arrays: RosterArrays) -> None:
        """Count one step."""
        self._steps += 1
        for name, total in self._totals.items():
            total += arrays.roles[name].rewards.sum(axis=1, dtype=np.float64)

    def result(self, env: int, episode: int, arrays: RosterArrays) -> EpisodeResult:
        """What the episode that has just ended comes to."""
        returns = {}
        for role in self._spec.roles:
            total = float(self._totals[role.name][env])
            returns[role.name] = RoleReturn(total, total / role.num_slots)
        metrics = dict(zip(self._spec.metric_names, arrays.metrics[env].tolist(), strict=True))
        return EpisodeResult(env, episode, int(self._steps[env]), returns, metrics)

    def clear(self, env: int) -> None:
        """Begin an episode."""
        self._steps[env] = 0
        for total in self._totals.values():
            total[env] = 0.0
