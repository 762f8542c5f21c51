"""Where the processes of a world write their logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import BaseModel

from bridge.scenario import Scenario
from bridge.scenario_mix import ScenarioMix

__all__ = ["WritesLogs", "keep_logs"]


@runtime_checkable
class WritesLogs(Protocol):
    """The section of a world that runs processes which write logs."""

    def with_log_folder(self, folder: Path) -> BaseModel:
        """The same section with logs in ``folder``, unless it names a folder itself."""
        ...


def keep_logs(played: Scenario | ScenarioMix, folder: Path) -> Scenario | ScenarioMix:
    """The same scenario, or mix of scenarios, with the logs of its processes kept in ``folder``.

    Args:
        played: What is about to be played.
        folder: Folder of the logs, made when the first one is written; a mix has a folder in it per scenario.
    """
    if isinstance(played, Scenario):
        return _with_logs(played, folder)
    return replace(played, scenarios=tuple(_with_logs(member, folder / member.name) for member in played.scenarios))


def _with_logs(scenario: Scenario, folder: Path) -> Scenario:
    config = scenario.config
    return replace(scenario, config=config.with_log_folder(folder)) if isinstance(config, WritesLogs) else scenario
