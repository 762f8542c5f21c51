"""Warehouses as documents for a scene."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.errors import ScenarioError
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.unity.scenario_document import scenario_document
from bridge.warehouse.loading import load_layout


@pytest.mark.parametrize("name", ["warehouse_small", "warehouse_drive", "warehouse_kiva"])
def test_document_is_the_same_world_without_any_other_file(tmp_path: Path, name: str) -> None:
    scenario = load_scenario(name)
    document = json.loads(json.dumps(scenario_document(scenario), allow_nan=False))
    path = tmp_path / f"{name}.yaml"
    path.write_text(json.dumps(document))
    again = load_scenario(path)
    assert again.config.model_copy(update={"layout": None}) == scenario.config.model_copy(update={"layout": None})
    assert (
        load_layout(again.config, tmp_path).to_drawing() == load_layout(scenario.config, scenario.folder).to_drawing()
    )
    assert open_world(again).spec == open_world(scenario).spec
    assert scenario_document(again) == document


def test_document_is_refused_when_the_scenario_is_no_warehouse() -> None:
    with pytest.raises(ScenarioError, match=r"expected a warehouse to send to a scene, got a world of kind 'unity'"):
        scenario_document(load_scenario("warehouse_small_unity"))
