"""``world: warehouse``: the built-in simulator behind rosters and PettingZoo's parallel API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.errors import SpecMismatchError
from bridge.policy import FleetPolicy, PolicyFactory
from bridge.roster import Roster, RosterArrays
from bridge.specs import WorldSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.dead_ends import dead_end_warnings
from bridge.warehouse.layout import Layout
from bridge.warehouse.layout_variation import LayoutVariant, layout_variants
from bridge.warehouse.loading import load_layout
from bridge.warehouse.spec import warehouse_spec
from bridge.warehouse.traps import trap_warnings
from bridge.warehouse.validation import check_warehouse, parking_warnings

if TYPE_CHECKING:
    from pettingzoo import ParallelEnv

    from bridge.planners.bound import ThroughputBound
    from bridge.warehouse.simulator import WarehouseSimulator
    from bridge.warehouse.variant_roster import VariantRoster

__all__ = ["WarehouseConfig", "WarehouseWorld"]


class WarehouseWorld:
    """One warehouse scenario; a :class:`bridge.registry.World`.

    Args:
        config: The ``warehouse:`` section.
        folder: Folder of the scenario file.

    Raises:
        ScenarioError: The layout cannot be read, or tasks cannot be done on it or on variants of it.
    """

    def __init__(self, config: WarehouseConfig, folder: Path) -> None:
        self._config = config
        self._layout = load_layout(config, folder)
        check_warehouse(config, self._layout, "warehouse")
        self._variants = layout_variants(config, self._layout, "warehouse")
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
        """The floor plan of the scenario."""
        return self._layout

    @property
    def variants(self) -> tuple[LayoutVariant, ...]:
        """The variants of the floor plan that episodes are played on; none where they are played on the plan itself."""
        return self._variants

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed in this warehouse, but seldom meant; each sentence begins with the dotted key."""
        config, layout = self._config, self._layout
        found = (*trap_warnings(layout), *parking_warnings(config, layout), *dead_end_warnings(config, layout))
        return tuple(f"warehouse.{line}" for line in found)

    def roster(
        self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None
    ) -> WarehouseSimulator | VariantRoster:
        """``num_envs`` warehouses stepped together; see :class:`bridge.registry.World`."""
        return self._roster(num_envs, first_env=first_env, arrays=arrays)

    def _roster(
        self, num_envs: int, *, first_env: int = 0, arrays: RosterArrays | None = None, respawn: bool = True
    ) -> WarehouseSimulator | VariantRoster:
        from bridge.warehouse.simulator import WarehouseSimulator
        from bridge.warehouse.variant_roster import VariantRoster

        config, layouts = self._config, self._layouts
        if self._variants:
            return VariantRoster(config, layouts, num_envs, first_env=first_env, arrays=arrays, respawn=respawn)
        return WarehouseSimulator(config, layouts[0], num_envs, first_env=first_env, arrays=arrays, respawn=respawn)

    @property
    def _layouts(self) -> list[Layout]:
        """Every floor plan that episodes are played on."""
        return [variant.layout for variant in self._variants] or [self._layout]

    @property
    def planners(self) -> dict[str, PolicyFactory]:
        """PIBT where robots move from cell to cell; token passing where it is sure to finish, too."""
        pibt = _pibt_heading if self._config.drive.kind == "grid_heading" else _pibt
        known: dict[str, PolicyFactory] = {"pibt": pibt, "token_passing": _token_passing}
        left_out = self.planners_left_out()
        return {name: factory for name, factory in known.items() if name not in left_out}

    def planners_left_out(self) -> dict[str, str]:
        """Why the other planners do not drive this warehouse, by name."""
        from bridge.planners.token_passing import token_passing_faults

        left_out = {}
        if self._config.drive.kind == "differential":
            left_out["pibt"] = "expected robots that move from cell to cell, got drive 'differential'"
        for layout in self._layouts:
            if faults := token_passing_faults(self._config, layout):
                left_out["token_passing"] = "; ".join(faults)
                break
        return left_out

    def throughput_bound(self) -> ThroughputBound:
        """How much could be delivered at most; see :func:`bridge.planners.bound.throughput_bound`.

        With variants of the floor plan it is the largest of their bounds: none of them can beat it.
        """
        from bridge.planners.bound import throughput_bound

        bounds = [throughput_bound(self._config, layout) for layout in self._layouts]
        return max(bounds, key=lambda bound: bound.deliveries_per_h)

    def parallel_env(self, render_mode: str | None = None) -> ParallelEnv[str, Any, Any]:
        """One warehouse behind PettingZoo's parallel API; robots that left come back at the next reset.

        ``render_mode`` is None or ``"rgb_array"``.
        """
        from bridge.parallel_env import RosterParallelEnv
        from bridge.warehouse.render import render_rgb
        from bridge.warehouse.variant_roster import simulator_of

        roster = self._roster(1, respawn=False)
        return RosterParallelEnv(
            roster, name="warehouse", render=lambda: render_rgb(simulator_of(roster, 0)), render_mode=render_mode
        )


def _pibt(roster: Roster) -> FleetPolicy:
    from bridge.planners.pibt import PibtPolicy

    return _planner(roster, "pibt", PibtPolicy)


def _pibt_heading(roster: Roster) -> FleetPolicy:
    from bridge.planners.pibt_heading import PibtHeadingPolicy

    return _planner(roster, "pibt", PibtHeadingPolicy)


def _token_passing(roster: Roster) -> FleetPolicy:
    from bridge.planners.token_passing import TokenPassingPolicy

    return _planner(roster, "token_passing", TokenPassingPolicy)


def _planner(roster: Roster, name: str, make: Callable[[WarehouseSimulator], FleetPolicy]) -> FleetPolicy:
    """A planner that looks into a warehouse, or into every variant of one."""
    from bridge.planners.each_variant import EachVariantPolicy
    from bridge.warehouse.simulator import WarehouseSimulator
    from bridge.warehouse.variant_roster import VariantRoster

    if isinstance(roster, VariantRoster):
        return EachVariantPolicy(roster, make)
    if not isinstance(roster, WarehouseSimulator):
        raise SpecMismatchError(
            f"planner {name!r}: expected a WarehouseSimulator to look into, got {type(roster).__name__}. "
            "Give it the roster of a warehouse world."
        )
    return make(roster)
