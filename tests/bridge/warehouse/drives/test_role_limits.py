"""Limits of single roles with differential drive: what they change, and what stays common to all roles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.errors import ScenarioError
from bridge.planners import throughput_bound
from bridge.warehouse.config import DifferentialDriveConfig, GridConfig, ProtectiveFieldConfig, RoleConfig
from bridge.warehouse.drives.drive_limits import make_limits
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.validation import check_warehouse

HALL = "\n".join(["S" + "." * 18 + "E"] * 12)
DRIVE = DifferentialDriveConfig()
OWN = {
    "max_speed_mps": 0.5,
    "max_reverse_mps": 0.2,
    "max_acceleration_mps2": 0.4,
    "max_deceleration_mps2": 0.6,
    "max_turn_rate_radps": 0.25,
    "max_turn_acceleration_radps2": 0.5,
}


def _fleet(**own: float) -> tuple[RoleConfig, ...]:
    return (RoleConfig(role="carrier", count=1), RoleConfig(role="tugger", count=1, **own))


def _drive(make_warehouse: Any, action: tuple[float, float], steps: int, **section: Any) -> WarehouseSimulator:
    """A simulator whose two robots, far from each other, have got the same action in every step."""
    config, layout = make_warehouse(HALL, drive=DRIVE, cell_size_m=2.0, **section)
    check_warehouse(config, layout, "test")
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=0)
    pose = simulator._parts.pose
    for robot, (x, y) in enumerate([(16.0, 6.0), (16.0, 18.0)]):
        pose.x[0, robot], pose.y[0, robot], pose.heading[0, robot] = x, y, 0.0
        simulator.cells[0, robot] = (11 - int(y / 2.0)) * 20 + int(x / 2.0)
    for _ in range(steps):
        for role in simulator.role_slices:
            simulator.arrays.roles[role].continuous_actions[0, 0] = action
        simulator.step()
    return simulator


def test_robots_reach_the_limits_of_their_roles_at_full_action(make_warehouse: Any) -> None:
    ahead = _drive(make_warehouse, (1.0, 1.0), 30, fleet=_fleet(**OWN))._parts.pose
    assert ahead.speed[0].tolist() == [DRIVE.max_speed_mps, 0.5]
    assert ahead.turn_rate[0].tolist() == [DRIVE.max_turn_rate_radps, 0.25]
    back = _drive(make_warehouse, (-1.0, 0.0), 30, fleet=_fleet(**OWN))._parts.pose
    assert back.speed[0].tolist() == [-DRIVE.max_reverse_mps, -0.2]


def test_robots_speed_up_and_turn_as_fast_as_their_roles_allow(make_warehouse: Any) -> None:
    pose = _drive(make_warehouse, (1.0, 1.0), 1, fleet=_fleet(**OWN))._parts.pose
    decision_s = DRIVE.step_s * DRIVE.decision_steps
    assert pose.speed[0] == pytest.approx([0.8 * decision_s, 0.4 * decision_s])
    assert pose.turn_rate[0] == pytest.approx([2.0 * decision_s, min(0.5 * decision_s, 0.25)])


def test_robots_brake_as_their_roles_do(make_warehouse: Any) -> None:
    fleet = _fleet(max_deceleration_mps2=0.3)
    simulator = _drive(make_warehouse, (1.0, 0.0), 20, fleet=fleet)
    for role in simulator.role_slices:
        simulator.arrays.roles[role].continuous_actions[0, 0] = 0.0
    simulator.step()
    decision_s = DRIVE.step_s * DRIVE.decision_steps
    assert simulator._parts.pose.speed[0] == pytest.approx([1.5 - 1.2 * decision_s, 1.5 - 0.3 * decision_s])


def test_a_role_that_states_the_limits_of_the_drive_changes_nothing(make_warehouse: Any) -> None:
    same = {name: getattr(DRIVE, name) for name in OWN}
    plain = _drive(make_warehouse, (0.7, 0.3), 20, fleet=_fleet())
    stated = _drive(make_warehouse, (0.7, 0.3), 20, fleet=_fleet(**same))
    assert make_limits(DRIVE, _fleet(**same)).own is None
    for role in plain.role_slices:
        assert np.array_equal(plain.arrays.roles[role].observations, stated.arrays.roles[role].observations)


@pytest.mark.parametrize(("own", "unit"), [(OWN, 1.5), ({"max_speed_mps": 3.0}, 3.0)])
def test_observations_of_all_roles_are_in_units_of_the_largest_limits(
    make_warehouse: Any, own: dict[str, float], unit: float
) -> None:
    simulator = _drive(make_warehouse, (1.0, 0.0), 30, fleet=_fleet(**own))
    layout = simulator.spec.roles[0].observation
    place = layout.slice_of("self").start
    seen = [simulator.arrays.roles[role].observations[0, 0, place] for role in ("carrier", "tugger")]
    assert seen == pytest.approx(simulator._parts.pose.speed[0] / unit)


def test_protective_fields_count_on_the_weakest_braking_of_the_fleet() -> None:
    drive = DifferentialDriveConfig(protective_field=ProtectiveFieldConfig())
    field = make_limits(drive, _fleet(max_deceleration_mps2=0.4)).field
    assert field is not None
    assert field.deceleration == 0.4


def test_the_bound_counts_on_the_fastest_carriers_and_on_no_picker(make_warehouse: Any) -> None:
    def bound(*fleet: RoleConfig) -> float:
        return throughput_bound(*make_warehouse(HALL, drive=DRIVE, cell_size_m=2.0, fleet=fleet)).deliveries_per_h

    slow, fast = _fleet(max_speed_mps=0.5)[1], _fleet(max_speed_mps=3.0)[1]
    usual = RoleConfig(role="carrier", count=1)
    picker = RoleConfig(role="picker", count=1, job="pick", max_speed_mps=3.0)
    assert (
        bound(slow.model_copy(update={"count": 2})) < bound(usual, slow) == bound(usual.model_copy(update={"count": 2}))
    )
    assert bound(usual, fast) > bound(usual, slow)
    assert bound(usual, picker) == bound(usual)


def test_limits_of_roles_are_refused_on_the_grid(make_warehouse: Any) -> None:
    message = (
        r"expected no limits of its own in role 'tugger' with drive 'grid', got max_speed_mps, max_turn_rate_radps"
    )
    with pytest.raises(ValidationError, match=message):
        make_warehouse(HALL, drive=GridConfig(), fleet=_fleet(max_speed_mps=1.0, max_turn_rate_radps=1.0))


def test_a_role_that_jumps_over_contacts_is_refused_by_its_own_speed(make_warehouse: Any) -> None:
    config, layout = make_warehouse(HALL, drive=DRIVE, cell_size_m=2.0, fleet=_fleet(max_speed_mps=4.0))
    message = r"fleet\[1\]\.radius_m: expected more than the way of one physics step, 0\.4 m"
    with pytest.raises(ScenarioError, match=message):
        check_warehouse(config, layout, "test")
