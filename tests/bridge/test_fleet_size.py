"""Scenarios with another number of robots."""

from __future__ import annotations

import pytest

from bridge.errors import ScenarioError
from bridge.fleet_size import fleet_size, with_fleet
from bridge.registry import open_world
from bridge.scenario import load_scenario


@pytest.mark.parametrize(("num_robots", "counts"), [(2, [1, 1]), (3, [2, 1]), (8, [5, 3]), (16, [10, 6]), (9, [5, 4])])
def test_with_fleet_shares_robots_out_over_the_roles(num_robots: int, counts: list[int]) -> None:
    scenario = load_scenario("warehouse_two_roles")
    world = open_world(with_fleet(scenario, num_robots))
    assert [role.num_slots for role in world.spec.roles] == counts
    assert fleet_size(with_fleet(scenario, num_robots)) == num_robots
    assert fleet_size(scenario) == 8


def test_with_fleet_keeps_everything_else() -> None:
    scenario = load_scenario("warehouse_two_roles")
    assert with_fleet(scenario, 8) == scenario


def test_with_fleet_refuses_what_makes_no_fleet() -> None:
    scenario = load_scenario("warehouse_two_roles")
    with pytest.raises(ScenarioError, match=r"expected at least one robot for each of 2 roles, got 1\."):
        with_fleet(scenario, 1)
    with pytest.raises(ScenarioError, match=r"warehouse_two_roles.yaml: .*fleet: expected at most \d+ robots"):
        open_world(with_fleet(scenario, 1000))
    other = load_scenario("mpe_spread")
    assert fleet_size(other) is None
    with pytest.raises(ScenarioError, match=r"expected a scenario of world 'warehouse', got 'mpe'"):
        with_fleet(other, 3)
