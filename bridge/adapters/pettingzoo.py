"""Any PettingZoo ``ParallelEnv`` that a Python function makes.

The scenario names the function, so **reading such a scenario runs code**: whoever
writes ``factory:`` decides which installed module is imported and called. Treat
``world: pettingzoo`` scenarios of others as you would treat their programs.
The factory must be importable (installed, or on ``PYTHONPATH``); the scenario's
own folder is not searched.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pettingzoo import ParallelEnv
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from bridge.adapters.foreign_world import ForeignWorld
from bridge.errors import ScenarioError
from bridge.foreign_spec import Grouping

__all__ = ["PettingZooConfig", "PettingZooWorld"]


class PettingZooConfig(BaseModel):
    """The ``pettingzoo:`` section of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    factory: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$",
        max_length=256,
        description="Function that makes a ParallelEnv, as `module:function`. It is imported and called: "
        "use only scenarios whose author you trust.",
    )
    kwargs: dict[str, JsonValue] = Field(
        default_factory=dict, description="Keyword arguments of the function; `render_mode` is added where asked for."
    )
    roles: Grouping = Field(
        "by_space",
        description="by_space: agents with equal names and spaces form a role; "
        "padded: all agents form one role, their observations padded with zeros.",
    )
    episode_steps: int | None = Field(
        None, ge=1, description="Steps until an episode is truncated; null leaves it to the environment."
    )


class PettingZooWorld(ForeignWorld):
    """A world from a factory function."""

    def __init__(self, config: PettingZooConfig, folder: Path) -> None:
        """Import the factory and make one environment.

        Raises:
            ScenarioError: The factory cannot be imported, makes no ParallelEnv, or one whose spaces
                a roster cannot carry.
        """
        factory = _import_factory(config.factory)

        def make_env(render_mode: str | None) -> ParallelEnv[str, Any, Any]:
            extra = {} if render_mode is None else {"render_mode": render_mode}
            env = factory(**config.kwargs, **extra)
            if not isinstance(env, ParallelEnv):
                raise ScenarioError(
                    f"pettingzoo.factory: expected {config.factory!r} to make a pettingzoo.ParallelEnv, "
                    f"got {type(env).__name__}. An AECEnv becomes one with pettingzoo.utils.aec_to_parallel."
                )
            return env

        super().__init__(
            config.factory,
            make_env,
            section="pettingzoo.factory",
            roles=config.roles,
            episode_steps=config.episode_steps,
        )


def _import_factory(reference: str) -> Callable[..., Any]:
    module_name, _, function_name = reference.partition(":")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise ScenarioError(
            f"pettingzoo.factory: expected an importable module, got {module_name!r} ({error}). "
            "Install it or put it on PYTHONPATH."
        ) from error
    factory: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(factory):
        raise ScenarioError(
            f"pettingzoo.factory: expected a function of the module {module_name!r}, got {function_name!r}."
        )
    return factory
