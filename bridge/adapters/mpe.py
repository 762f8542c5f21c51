"""The multi-agent particle environments (package ``mpe2``, extra ``mpe``)."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

from pettingzoo import ParallelEnv
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from bridge.adapters.foreign_world import ForeignWorld
from bridge.errors import ScenarioError
from bridge.foreign_spec import Grouping

__all__ = ["MpeConfig", "MpeWorld"]


class MpeConfig(BaseModel):
    """The ``mpe:`` section of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    env: str = Field(
        pattern=r"^[a-z][a-z0-9_]*_v\d+$", max_length=64, description="Name of the environment, e.g. simple_spread_v3."
    )
    kwargs: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Keyword arguments of the environment, e.g. {N: 3, max_cycles: 25, continuous_actions: true}.",
    )
    roles: Grouping = Field(
        "by_space",
        description="by_space: agents with equal names and spaces form a role; "
        "padded: all agents form one role, their observations padded with zeros.",
    )


class MpeWorld(ForeignWorld):
    """One particle environment."""

    def __init__(self, config: MpeConfig, folder: Path) -> None:
        """Import the environment and make one.

        Raises:
            ScenarioError: There is no such environment, or it does not take the arguments.
            ModuleNotFoundError: ``mpe2`` is not installed.
        """
        package = import_module("mpe2")
        known = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if "_v" in module.name)
        if config.env not in known:
            raise ScenarioError(f"mpe.env: expected one of {', '.join(known)}, got {config.env!r}.")
        module = import_module(f"mpe2.{config.env}")

        def make_env(render_mode: str | None) -> ParallelEnv[str, Any, Any]:
            try:
                return module.parallel_env(**config.kwargs, render_mode=render_mode)
            except TypeError as error:
                raise ScenarioError(f"mpe.kwargs: expected arguments of {config.env}, got: {error}.") from error

        super().__init__(config.env, make_env, section="mpe", roles=config.roles)
