"""Small floors and fleets whose every robot a test places itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from bridge.warehouse.config import LayoutConfig, RoleConfig, WarehouseConfig
from bridge.warehouse.fleet import Fleet, Outcome, Pose, make_fleet, make_outcome, make_pose
from bridge.warehouse.floor import Floor, make_floor
from bridge.warehouse.layout import Layout


@dataclass(frozen=True)
class Scene:
    """A floor and the arrays of some robots on it."""

    layout: Layout
    floor: Floor
    fleet: Fleet
    pose: Pose
    outcome: Outcome

    def place(self, env: int, robot: int, cell: int, heading: float = 0.0) -> None:
        """Put a robot at rest on the centre of a cell."""
        row, column = divmod(cell, self.floor.width)
        self.place_at(
            env,
            robot,
            (column + 0.5) * self.floor.cell_size_m,
            (self.floor.height - row - 0.5) * self.floor.cell_size_m,
            heading,
        )

    def place_at(self, env: int, robot: int, x: float, y: float, heading: float = 0.0) -> None:
        """Put a robot at rest anywhere."""
        size = self.floor.cell_size_m
        self.fleet.cell[env, robot] = (self.floor.height - 1 - int(y / size)) * self.floor.width + int(x / size)
        self.fleet.alive[env, robot] = True
        self.fleet.charge[env, robot] = 1.0
        self.fleet.goal[env, robot] = self.fleet.pickup[env, robot] = self.fleet.delivery[env, robot] = -1
        self.pose.x[env, robot], self.pose.y[env, robot] = x, y
        self.pose.heading[env, robot] = heading
        self.pose.cos[env, robot], self.pose.sin[env, robot] = np.cos(heading), np.sin(heading)
        self.pose.speed[env, robot] = self.pose.turn_rate[env, robot] = 0.0


class Scenes:
    """Makes scenes from drawings."""

    def __call__(self, drawing: str, num_robots: int, num_envs: int = 1, cell_size_m: float = 1.0) -> Scene:
        rows = [row.strip() for row in drawing.strip().splitlines()]
        layout = Layout.from_drawing(rows, cell_size_m, "test")
        return Scene(
            layout,
            make_floor(layout),
            make_fleet(num_envs, num_robots),
            make_pose(num_envs, num_robots),
            make_outcome(num_envs, num_robots),
        )


@pytest.fixture(scope="session")
def make_scene() -> Scenes:
    """``make_scene(drawing, num_robots)``: a floor and robots that are not on it yet."""
    return Scenes()


class Warehouses:
    """Makes checked configurations with their layouts."""

    def __call__(self, drawing: str, count: int = 2, **section: Any) -> tuple[WarehouseConfig, Layout]:
        rows = [row.strip() for row in drawing.strip().splitlines()]
        cell_size_m = section.pop("cell_size_m", 1.0)
        section.setdefault("fleet", (RoleConfig(role="carrier", count=count),))
        layout_section = LayoutConfig(grid="\n".join(rows), cell_size_m=cell_size_m)
        config = WarehouseConfig(layout=layout_section, **section)
        return config, Layout.from_drawing(rows, cell_size_m, "test")


@pytest.fixture(scope="session")
def make_warehouse() -> Warehouses:
    """``make_warehouse(drawing, count, **section)``: configuration and layout."""
    return Warehouses()
