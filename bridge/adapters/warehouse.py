"""``world: warehouse``: the built-in simulator behind rosters and PettingZoo's parallel API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.errors import SpecMismatchError
from bridge.policy import FleetPolicy, PolicyFactory
from bridge.roster import Roster, RosterArrays
from bridge.specs import WorldSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.loading import load_layout
from bridge.warehouse.spec import warehouse_spec
from bridge.warehouse.validation import check_warehouse

if TYPE_CHECKING:
    from pettingzoo import ParallelEnv

    from bridge.planners.bound import ThroughputBound
    from bridge.warehouse.simulator import WarehouseSimulator

__all__ = ["WarehouseConfig", "WarehouseWorld"]


class WarehouseWorld:
    """One warehouse scenario; a :class:`bridge.registry.World`.

    Args:
        config: The ``warehouse:`` section.
        folder: Folder of the scenario file.

    Raises:
        ScenarioError: The layout cannot be read, or tasks cannot be done on it.
    """

    def __init__(self, config: WarehouseConfig, folder: Path) -> None:
        self._config = config
        self._layout = load_layout(config, folder)
        check_warehouse(config, self._layout, "warehouse")
        self._spec = warehouse_spec(config, self._layout)

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        return self._spec

    @property
    def config(self) -> WarehouseConfig:
        """The ``warehouse:`` section."""
        return self._config

    @property
    def layout(self) -> Layout:
        """The floor plan."""
        return self._layout

    def roster(self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None) -> WarehouseSimulator:
        """``num_envs`` warehouses stepped together; see :class:`bridge.registry.World`."""
        from bridge.warehouse.simulator import WarehouseSimulator

        return WarehouseSimulator(self._config, self._layout, num_envs, first_env=first_env, arrays=arrays)

    @property
    def planners(self) -> dict[str, PolicyFactory]:
        """PIBT where robots move from cell to cell; token passing where the floor is well-formed, too."""
        if self._config.drive.kind == "grid_heading":
            return {"pibt": _pibt_heading}
        if self._config.drive.kind != "grid":
            return {}
        from bridge.planners.well_formed import well_formed_faults

        faults = well_formed_faults(self._layout, self._config.num_robots)
        return {"pibt": _pibt} if faults else {"pibt": _pibt, "token_passing": _token_passing}

    def throughput_bound(self) -> ThroughputBound:
        """How much could be delivered at most; see :func:`bridge.planners.bound.throughput_bound`."""
        from bridge.planners.bound import throughput_bound

        return throughput_bound(self._config, self._layout)

    def parallel_env(self, render_mode: str | None = None) -> ParallelEnv[str, Any, Any]:
        """One warehouse behind PettingZoo's parallel API; robots that left come back at the next reset.

        ``render_mode`` is None or ``"rgb_array"``.
        """
        from bridge.parallel_env import RosterParallelEnv
        from bridge.warehouse.render import render_rgb
        from bridge.warehouse.simulator import WarehouseSimulator

        simulator = WarehouseSimulator(self._config, self._layout, 1, respawn=False)
        return RosterParallelEnv(
            simulator, name="warehouse", render=lambda: render_rgb(simulator, 0), render_mode=render_mode
        )


def _pibt(roster: Roster) -> FleetPolicy:
    from bridge.planners.pibt import PibtPolicy

    return PibtPolicy(_simulator(roster, "pibt"))


def _pibt_heading(roster: Roster) -> FleetPolicy:
    from bridge.planners.pibt_heading import PibtHeadingPolicy

    return PibtHeadingPolicy(_simulator(roster, "pibt"))


def _token_passing(roster: Roster) -> FleetPolicy:
    from bridge.planners.token_passing import TokenPassingPolicy

    return TokenPassingPolicy(_simulator(roster, "token_passing"))


def _simulator(roster: Roster, planner: str) -> WarehouseSimulator:
    from bridge.warehouse.simulator import WarehouseSimulator

    if not isinstance(roster, WarehouseSimulator):
        raise SpecMismatchError(
            f"planner {planner!r}: expected a WarehouseSimulator to look into, got {type(roster).__name__}. "
            "Give it the roster of a warehouse world."
        )
    return roster
