"""Scenarios on variants of their floor plan that nobody was trained on."""

from __future__ import annotations

import pytest

from bridge.adapters.warehouse import WarehouseWorld
from bridge.errors import ScenarioError
from bridge.layout_seed import with_layout_seed
from bridge.registry import open_world
from bridge.scenario import load_scenario


def _drawings(seed: int | None) -> set[str]:
    scenario = load_scenario("warehouse_varied")
    world = open_world(scenario if seed is None else with_layout_seed(scenario, seed))
    assert isinstance(world, WarehouseWorld)
    return {"\n".join(variant.layout.to_drawing()) for variant in world.variants}


def test_another_layout_seed_gives_other_variants_of_the_same_hall() -> None:
    own, other = _drawings(None), _drawings(7)
    assert (len(own), len(other)) == (8, 8)
    assert not own & other
    assert with_layout_seed(load_scenario("warehouse_varied"), 7).name == "warehouse_varied_layouts_7"


def test_with_layout_seed_refuses_what_has_no_other_variants() -> None:
    with pytest.raises(ScenarioError, match=r"small.yaml: layout seed: expected a warehouse with randomisation.layout"):
        with_layout_seed(load_scenario("warehouse_small"), 7)
    with pytest.raises(ScenarioError, match=r"expected a warehouse with randomisation.layout, got none"):
        with_layout_seed(load_scenario("mpe_spread"), 7)
    with pytest.raises(ScenarioError, match=r"layout seed: expected another one than the scenario's own, got 0\."):
        with_layout_seed(load_scenario("warehouse_varied"), 0)
