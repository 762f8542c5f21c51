"""Multi-agent MuJoCo (``gymnasium_robotics.mamujoco_v1``, extra ``mamujoco``).

One simulated body, split into agents that each drive some of its joints. The
agents' observations may differ in length; ``roles`` says what becomes of that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from pettingzoo import ParallelEnv
from pydantic import BaseModel, ConfigDict, Field

from bridge.adapters.foreign_world import ForeignWorld
from bridge.errors import ScenarioError
from bridge.foreign_spec import Grouping

__all__ = ["MamujocoConfig", "MamujocoWorld"]

_log = logging.getLogger(__name__)


class MamujocoConfig(BaseModel):
    """The ``mamujoco:`` section of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    scenario: Literal[
        "Ant",
        "HalfCheetah",
        "Hopper",
        "Humanoid",
        "HumanoidStandup",
        "InvertedDoublePendulum",
        "InvertedPendulum",
        "ManySegmentAnt",
        "ManySegmentSwimmer",
        "Pusher",
        "Reacher",
        "Swimmer",
        "Walker2d",
    ] = Field(description="Body to drive.")
    partition: str | None = Field(
        max_length=32, description="How the joints are split, e.g. 6x1 (6 agents with 1 joint each); null: one agent."
    )
    agent_obsk: int = Field(1, ge=0, le=32, description="Each agent observes its joints and those up to k joints away.")
    roles: Grouping = Field(
        "by_space",
        description="by_space: agents with observations of equal length form a role; "
        "padded: all agents form one role, shorter observations are padded with zeros.",
    )
    episode_steps: int | None = Field(
        None, ge=1, le=1_000_000, description="Steps until an episode is truncated; null: the body's own limit."
    )


class MamujocoWorld(ForeignWorld):
    """One partitioned body."""

    def __init__(self, config: MamujocoConfig, folder: Path) -> None:
        """Import MuJoCo and make one environment.

        Raises:
            ScenarioError: The body cannot be partitioned like that.
            ModuleNotFoundError: ``gymnasium_robotics`` or ``mujoco`` is not installed.
        """
        mujoco = import_module("mujoco")
        mamujoco = import_module("gymnasium_robotics").mamujoco_v1
        limit = {} if config.episode_steps is None else {"max_episode_steps": config.episode_steps}

        def make_env(render_mode: str | None) -> ParallelEnv[str, Any, Any]:
            with _model_warnings_logged(mujoco):
                return mamujoco.parallel_env(
                    config.scenario, config.partition, agent_obsk=config.agent_obsk, render_mode=render_mode, **limit
                )

        name = f"{config.scenario} {config.partition or 'whole'}"
        try:
            probe = make_env(None)
        except Exception as error:  # the package raises bare Exception for a partition that it does not know
            raise ScenarioError(
                f"mamujoco: expected a partition of {config.scenario}, got {name!r}: {error}"
            ) from error
        step_s = float(probe.single_agent_env.unwrapped.dt)
        probe.close()
        super().__init__(name, make_env, section="mamujoco", roles=config.roles, step_s=step_s)


@contextmanager
def _model_warnings_logged(mujoco: Any) -> Iterator[None]:
    """Log what MuJoCo says about the packages' model files.

    It would otherwise print it and append it to ``MUJOCO_LOG.TXT`` in the
    working directory, for every environment.
    """
    previous = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: _log.info("MuJoCo: %s", message))
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(previous)
