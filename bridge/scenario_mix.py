"""Several scenarios that one training plays in turn, and what their worlds look like together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bridge.errors import SpecMismatchError
from bridge.scenario import Scenario
from bridge.specs import RoleSpec, WorldSpec

__all__ = ["ScenarioMix", "merge_specs", "require_weights"]

_ADVICE: Final = "One policy drives all of them: give them drives of one kind and equal 'observation' sections."


@dataclass(frozen=True)
class ScenarioMix:
    """Scenarios among which every environment draws at the start of each episode.

    Attributes:
        scenarios: The scenarios, at least one, of distinct names.
        weights: How likely each is, in the same order; they need not add up to 1.
    """

    scenarios: tuple[Scenario, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise SpecMismatchError(
                f"scenario mix: expected distinct names, got {', '.join(self.names)}. List each scenario once, and "
                "give each file its own 'name'."
            )
        require_weights(self.weights, self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scenarios."""
        return tuple(scenario.name for scenario in self.scenarios)


def require_weights(weights: Sequence[float], names: Sequence[str]) -> None:
    """Raise unless there is a weight per scenario, none negative and one positive.

    Raises:
        SpecMismatchError: Names what is wrong.
    """
    if len(weights) != len(names) or not names:
        raise SpecMismatchError(
            f"scenario mix: expected one weight for each of the scenarios {', '.join(names)}, got {list(weights)}."
        )
    if not all(math.isfinite(weight) and weight >= 0.0 for weight in weights) or sum(weights) <= 0.0:
        raise SpecMismatchError(f"scenario mix: expected weights >= 0 of which one is positive, got {list(weights)}.")


def merge_specs(names: Sequence[str], specs: Sequence[WorldSpec]) -> WorldSpec:
    """The world that every world of a mix fits into.

    Each role has the slots of its largest fleet; a smaller fleet leaves the last slots empty. The
    state has the length of the longest one; a shorter one is followed by zeros.

    Args:
        names: Names of the scenarios, for messages.
        specs: Their worlds; one at least.

    Raises:
        SpecMismatchError: Roles, actions, observation blocks, figures or the presence of a state differ;
            names the scenario and the first difference.
    """
    first = specs[0]
    for name, spec in zip(names[1:], specs[1:], strict=True):
        where = f"scenario {name!r} beside {names[0]!r}"
        _require_equal_names(where, "roles", [r.name for r in first.roles], [r.name for r in spec.roles])
        for mine, its in zip(first.roles, spec.roles, strict=True):
            mine.require_same_interface(its, where, _ADVICE)
        _require_equal_names(where, "figures", list(first.metric_names), list(spec.metric_names))
        if (first.state_size == 0) != (spec.state_size == 0):
            raise SpecMismatchError(
                f"{where}: expected {'no' if first.state_size == 0 else 'a'} global state, got a state of "
                f"{spec.state_size} values. Mix worlds of one kind."
            )
    roles = tuple(_largest([spec.roles[index] for spec in specs]) for index in range(len(first.roles)))
    step_s = first.step_s if all(spec.step_s == first.step_s for spec in specs) else None
    return WorldSpec(roles, max(spec.state_size for spec in specs), first.metrics, step_s)


def _largest(roles: list[RoleSpec]) -> RoleSpec:
    """The role with the most slots; the ids of the others must be the first of its own."""
    largest = max(roles, key=lambda role: role.num_slots)
    for role in roles:
        if role.agent_ids != largest.agent_ids[: role.num_slots]:
            raise SpecMismatchError(
                f"scenario mix: role {role.name!r}: expected the agents {largest.agent_ids[: role.num_slots]}, "
                f"got {role.agent_ids}. Name the agents of every world alike."
            )
    return largest


def _require_equal_names(where: str, what: str, expected: list[str], found: list[str]) -> None:
    if expected != found:
        raise SpecMismatchError(
            f"{where}: expected the {what} {expected}, got {found}. Mix scenarios with equal {what}."
        )
