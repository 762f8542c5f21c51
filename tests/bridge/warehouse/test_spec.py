"""The spec of a warehouse: sizes and names, and independence of floor and fleet."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from bridge.warehouse.config import (
    DifferentialDriveConfig,
    LidarBlock,
    NeighboursBlock,
    PathBlock,
    RoleConfig,
    SelfBlock,
    TargetBlock,
    WindowBlock,
)
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.spec import warehouse_spec

GRID_BLOCKS = (SelfBlock(), TargetBlock(), PathBlock(), WindowBlock(radius=3), LidarBlock(beams=8), NeighboursBlock())
DRIVE_BLOCKS = (SelfBlock(), TargetBlock(), PathBlock(), LidarBlock(), NeighboursBlock(count=2))


def test_warehouse_spec_on_the_grid(make_warehouse: Any) -> None:
    fleet = (RoleConfig(role="carrier", count=2), RoleConfig(role="picker", count=1))
    spec = warehouse_spec(*make_warehouse("S.E\n...", fleet=fleet, observation=GRID_BLOCKS))
    assert [role.name for role in spec.roles] == ["carrier", "picker"]
    assert spec.role("carrier").agent_ids == ("carrier_0", "carrier_1")
    assert spec.roles[0].action.discrete_branches == (5,)
    assert [(block.name, block.size) for block in spec.roles[0].observation.blocks] == [
        ("self", 5),
        ("target", 6),
        ("path", 5),
        ("window", 3 * 49),
        ("lidar", 8),
        ("neighbours", 4 * 9),
    ]
    assert spec.state_size == 3 * 12 + 1
    assert spec.step_s == 1.0


def test_warehouse_spec_of_differential_drive(make_warehouse: Any) -> None:
    drive = DifferentialDriveConfig(step_s=0.1, decision_steps=3)
    spec = warehouse_spec(*make_warehouse("S.E\n...", drive=drive, observation=DRIVE_BLOCKS))
    role = spec.roles[0]
    assert role.action.num_continuous == 2
    assert not role.action.discrete_branches
    assert [block.size for block in role.observation.blocks] == [7, 6, 5, 36, 18]
    assert seconds_per_step(drive) == pytest.approx(0.3)
    assert spec.step_s == pytest.approx(0.3)


@pytest.mark.parametrize(
    "section", [{"observation": GRID_BLOCKS}, {"observation": DRIVE_BLOCKS, "drive": DifferentialDriveConfig()}]
)
def test_warehouse_spec_describes_every_value(make_warehouse: Any, section: dict[str, Any]) -> None:
    spec = warehouse_spec(*make_warehouse("S.E\n...", **section))
    for block in spec.roles[0].observation.blocks:
        assert block.description
        assert block.unit
        assert block.low is not None
        assert block.high is not None
        assert block.fields or block.name in ("window", "lidar")
    assert all(metric.description for metric in spec.metrics)


def test_warehouse_spec_observation_does_not_depend_on_floor_or_fleet(make_warehouse: Any) -> None:
    small = warehouse_spec(*make_warehouse("S.E\n...", 1, observation=GRID_BLOCKS))
    large = warehouse_spec(*make_warehouse("S......E\n" + "........\n" * 9, 40, observation=GRID_BLOCKS))
    small.roles[0].require_same_interface(large.roles[0], "test")


def test_warehouse_spec_compiles_no_kernel() -> None:
    program = (
        "from bridge.warehouse.config import WarehouseConfig, LayoutConfig, RoleConfig\n"
        "from bridge.warehouse.layout import Layout\n"
        "from bridge.warehouse.spec import warehouse_spec\n"
        "from bridge.warehouse.validation import check_warehouse\n"
        "import numba.core.dispatcher as d, numba.core.compiler as c\n"
        "def refuse(*a, **k): raise AssertionError('compiled')\n"
        "c.compile_extra = refuse\n"
        "d.Dispatcher.compile = refuse\n"
        "config = WarehouseConfig(layout=LayoutConfig(grid='S.E'), fleet=(RoleConfig(role='a', count=1),))\n"
        "layout = Layout.from_drawing(['S.E'], 1.0, 'x')\n"
        "check_warehouse(config, layout, 'x')\n"
        "print(warehouse_spec(config, layout).roles[0].observation.size)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "52\n"), done.stderr
