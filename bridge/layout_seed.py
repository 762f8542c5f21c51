"""A scenario on other variants of its floor plan than those that it names."""

from __future__ import annotations

from dataclasses import replace

from bridge.errors import ScenarioError
from bridge.scenario import Scenario
from bridge.warehouse.config import WarehouseConfig

__all__ = ["with_layout_seed"]


def with_layout_seed(scenario: Scenario, seed: int) -> Scenario:
    """The same warehouse on the variants of another seed: halls that no policy has been trained in.

    Its name tells the seed, so that figures are kept apart.

    Raises:
        ScenarioError: The scenario is no warehouse with ``randomisation.layout``, or the seed is the one it has.
    """
    config = scenario.config
    random = config.randomisation if isinstance(config, WarehouseConfig) else None
    if not isinstance(config, WarehouseConfig) or random is None or random.layout is None:
        raise ScenarioError(
            f"{scenario.path}: layout seed: expected a warehouse with randomisation.layout, got none. "
            "There are no variants of the floor plan to draw."
        )
    if seed == random.layout.seed:
        raise ScenarioError(
            f"{scenario.path}: layout seed: expected another one than the scenario's own, got {seed}. "
            "A policy may have been trained on these variants."
        )
    varied = random.model_copy(update={"layout": random.layout.model_copy(update={"seed": seed})})
    return replace(
        scenario,
        name=f"{scenario.name}_layouts_{seed}",
        config=config.model_copy(update={"randomisation": varied}),
    )
