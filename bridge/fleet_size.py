"""A scenario with another number of robots."""

from __future__ import annotations

from dataclasses import replace

from bridge.errors import ScenarioError
from bridge.scenario import Scenario
from bridge.warehouse.config import WarehouseConfig

__all__ = ["fleet_size", "with_fleet"]


def fleet_size(scenario: Scenario) -> int | None:
    """Number of robots of a warehouse; None for other worlds, which fix it elsewhere."""
    return scenario.config.num_robots if isinstance(scenario.config, WarehouseConfig) else None


def with_fleet(scenario: Scenario, num_robots: int) -> Scenario:
    """The same warehouse with ``num_robots`` robots, shared out over the roles as before.

    Shares are rounded by largest remainders, and every role keeps one robot at least. Whether they find
    room on the floor is checked when the world is opened.

    Raises:
        ScenarioError: The scenario is no warehouse, or there are fewer robots than roles.
    """
    config = scenario.config
    if not isinstance(config, WarehouseConfig):
        raise ScenarioError(
            f"{scenario.path}: fleet size: expected a scenario of world 'warehouse', got {scenario.world!r}. "
            "Other worlds fix their fleet in their own section."
        )
    if num_robots < len(config.fleet):
        raise ScenarioError(
            f"{scenario.path}: fleet size: expected at least one robot for each of {len(config.fleet)} roles, "
            f"got {num_robots}."
        )
    counts = _share_out(num_robots, [role.count for role in config.fleet])
    fleet = tuple(role.model_copy(update={"count": count}) for role, count in zip(config.fleet, counts, strict=True))
    return replace(scenario, config=config.model_copy(update={"fleet": fleet}))


def _share_out(total: int, counts: list[int]) -> list[int]:
    """``total`` in the proportions of ``counts``, each at least 1."""
    spare = total - len(counts)
    shares = [spare * count / sum(counts) for count in counts]
    given = [int(share) for share in shares]
    by_remainder = sorted(range(len(counts)), key=lambda index: given[index] - shares[index])
    for index in by_remainder[: spare - sum(given)]:
        given[index] += 1
    return [1 + share for share in given]
