"""A world made of a PettingZoo ``ParallelEnv``; what the adapters of such worlds share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from pettingzoo import ParallelEnv

from bridge.errors import ScenarioError, SpecMismatchError
from bridge.foreign_spec import Grouping, spec_of_parallel_env
from bridge.parallel_env import RosterParallelEnv
from bridge.parallel_roster import ParallelRoster
from bridge.policy import PolicyFactory
from bridge.roster import RosterArrays
from bridge.specs import WorldSpec

__all__ = ["EnvFactory", "ForeignWorld"]

EnvFactory: TypeAlias = Callable[[str | None], ParallelEnv[str, Any, Any]]


class ForeignWorld:
    """Opens rosters and PettingZoo views of a foreign environment.

    The view is a roster's, like that of every world: float32 observations,
    continuous actions in [-1, 1], and the end rules of ``docs/semantics.md``,
    whatever the environment itself does.
    """

    def __init__(
        self,
        name: str,
        make_env: EnvFactory,
        *,
        section: str,
        roles: Grouping,
        episode_steps: int | None = None,
        step_s: float | None = None,
    ) -> None:
        """Make one environment to learn its spec.

        Args:
            name: Name of the environment.
            make_env: Makes one environment, given the render mode.
            section: Section of the scenario file, for messages.
            roles: How agents form roles.
            episode_steps: Truncate episodes after this many steps; None leaves it to the environment.
            step_s: Simulated time of a step, or None.

        Raises:
            ScenarioError: The environment has spaces that a roster cannot carry.
        """
        self._name = name
        self._make_env = make_env
        self._episode_steps = episode_steps
        env = make_env(None)
        try:
            self._spec = spec_of_parallel_env(env, roles, step_s=step_s)
            self._can_render = "rgb_array" in getattr(env, "metadata", {}).get("render_modes", [])
        except SpecMismatchError as error:
            raise ScenarioError(f"{section}: {name}: {error}") from error
        finally:
            env.close()

    @property
    def spec(self) -> WorldSpec:
        """See :attr:`bridge.registry.World.spec`."""
        return self._spec

    def roster(self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None) -> ParallelRoster:
        """See :meth:`bridge.registry.World.roster`."""
        return self._roster(num_envs, first_env, arrays, None)

    @property
    def planners(self) -> dict[str, PolicyFactory]:
        """None; see :attr:`bridge.registry.World.planners`."""
        return {}

    def parallel_env(self, render_mode: str | None = None) -> RosterParallelEnv:
        """See :meth:`bridge.registry.World.parallel_env`."""
        roster = self._roster(1, 0, None, render_mode if self._can_render else None)
        render = roster.render if self._can_render else None
        return RosterParallelEnv(roster, name=self._name, render=render, render_mode=render_mode)

    def _roster(
        self, num_envs: int, first_env: int, arrays: RosterArrays | None, render_mode: str | None
    ) -> ParallelRoster:
        return ParallelRoster(
            partial(self._make_env, render_mode),
            self._spec,
            num_envs,
            first_env=first_env,
            arrays=arrays,
            episode_steps=self._episode_steps,
        )
