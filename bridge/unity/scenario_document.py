"""A warehouse scenario as one document, as it is sent to a scene that swaps warehouses."""

from __future__ import annotations

import json
from typing import Any

from bridge.errors import ScenarioError
from bridge.scenario import Scenario
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.loading import load_layout

__all__ = ["scenario_document"]


def scenario_document(scenario: Scenario) -> dict[str, Any]:
    """The scenario with all its defaults and with its layout drawn inside, without the ``train`` section.

    Args:
        scenario: A warehouse.

    Returns:
        What a scenario file with the same meaning would hold; everything in it has a form in JSON.

    Raises:
        ScenarioError: It is no warehouse, or its layout has what no drawing can show.
    """
    config = scenario.config
    if not isinstance(config, WarehouseConfig):
        raise ScenarioError(
            f"{scenario.path}: expected a warehouse to send to a scene, got a world of kind {scenario.world!r}."
        )
    layout = load_layout(config, scenario.folder)
    if layout.exits is not None or layout.speed_limit_mps is not None:
        raise ScenarioError(
            f"{scenario.path}: expected a layout without one-way lanes and speed limits, got one with them. "
            "A drawing does not show them, so that a scene would play another warehouse."
        )
    section = json.loads(config.model_dump_json(by_alias=True, exclude_none=True))
    section["layout"] = {"grid": "\n".join(layout.to_drawing()), "cell_size_m": layout.cell_size_m}
    return {"schema": 1, "name": scenario.name, "world": scenario.world, scenario.world: section}
