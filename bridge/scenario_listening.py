"""Where a world listens for processes that connect to it, as the command line says."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

from pydantic import BaseModel

from bridge.errors import ScenarioError
from bridge.scenario import Scenario
from bridge.scenario_mix import ScenarioMix

__all__ = ["Listens", "all_listen_on", "listen_on"]


@runtime_checkable
class Listens(Protocol):
    """The section of a world that listens for processes."""

    def with_listen_address(self, address: str) -> BaseModel:
        """The same section, listening on another address.

        Raises:
            ValueError: Nothing can listen there, or nobody would be heard; says why.
        """
        ...


def listen_on(scenario: Scenario, address: str | None) -> Scenario:
    """The same scenario, listening on another address; None changes nothing.

    Raises:
        ScenarioError: Its world does not listen for anybody, or cannot listen there.
    """
    if address is None:
        return scenario
    if not isinstance(scenario.config, Listens):
        raise ScenarioError(
            f"{scenario.path}: --listen {address}: expected a world that listens for players (world: unity), got "
            f"world {scenario.world!r}. Leave --listen out."
        )
    try:
        return replace(scenario, config=scenario.config.with_listen_address(address))
    except ValueError as error:
        raise ScenarioError(f"{scenario.path}: --listen: {error}") from error


def all_listen_on(played: Scenario | ScenarioMix, address: str | None) -> Scenario | ScenarioMix:
    """As :func:`listen_on`, with every scenario of a mix; all of them must be of worlds that listen.

    Raises:
        ScenarioError: As :func:`listen_on`.
    """
    if isinstance(played, Scenario):
        return listen_on(played, address)
    return replace(played, scenarios=tuple(listen_on(member, address) for member in played.scenarios))
