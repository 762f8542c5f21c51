"""What the options make of a scenario: each role's sensors, and when its agents ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.errors import AgvBridgeError
from bridge.roster import Roster
from bridge.specs import ObservationLayout, RoleSpec, WorldSpec
from bridge.unity.player.camera import CameraSensor, TopView
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.requests import DecisionRequests, OnDemandRequests, PeriodicRequests
from bridge.unity.player.sensors import NEIGHBOURS_BLOCK, Sensor, block_sensor, buffer_sensor, layout_sensor
from bridge.warehouse.neighbours import NEIGHBOUR_FIELDS

if TYPE_CHECKING:
    from bridge.warehouse.simulator import WarehouseSimulator

__all__ = ["Scene", "require_fitting"]

_FIRST_CHANNELS_FIRST = 3  # major version of the C# package


class Scene:
    """Builds the parts of agents over a roster.

    Args:
        roster: The simulator.
        options: Of the player, accepted by :func:`require_fitting`.

    Raises:
        AgvBridgeError: An option looks into a simulator, and there is one per variant of the floor plan.
    """

    def __init__(self, roster: Roster, options: PlayerOptions) -> None:
        self._roster = roster
        self._options = options
        self._view = None if options.visual is None else TopView(self._simulator, options.visual)

    def new_frame(self) -> None:
        """The simulator has moved on."""
        if self._view is not None:
            self._view.new_frame()

    def sensors(self, role: RoleSpec) -> list[Sensor]:
        """The sensors of a role's agents."""
        options, layout = self._options, role.observation
        sensors = [layout_sensor(layout)]
        if options.buffer_neighbours:
            sensors.append(buffer_sensor(layout, options.buffer_neighbours))
        if options.goal_signal is not None:
            sensors.append(block_sensor(layout, options.goal_signal))
        if options.visual is not None and self._view is not None:
            first = self._simulator.role_slices[role.name].start
            sensors.append(CameraSensor(self._view, first, options.visual, _channels_first(options.package_version)))
        return sensors

    def requests(self, role: RoleSpec) -> DecisionRequests:
        """When a role's agents ask."""
        if self._options.on_demand:
            return OnDemandRequests(self._simulator, self._simulator.role_slices[role.name])
        return PeriodicRequests(self._options.role_periods.get(role.name, self._options.decision_period))

    @property
    def _simulator(self) -> WarehouseSimulator:
        from bridge.warehouse.simulator import WarehouseSimulator

        if not isinstance(self._roster, WarehouseSimulator):
            raise AgvBridgeError(
                "player: --on-demand, --visual: expected a scenario whose episodes all have one floor plan, got one "
                "with randomisation.layout. Leave out the option, or the section."
            )
        return self._roster


def require_fitting(options: PlayerOptions, world: str, spec: WorldSpec) -> None:
    """Refuse options that a scenario has nothing for.

    Args:
        options: Of the player.
        world: Kind of world.
        spec: What the world looks like.

    Raises:
        AgvBridgeError: Names the option.
    """
    roles = [role.name for role in spec.roles]
    for option, named in (("--decision-period", options.role_periods), ("--late", options.late)):
        for name in named:
            if name not in roles:
                raise AgvBridgeError(f"player: {option}: expected one of the roles {', '.join(roles)}, got {name!r}.")
    for option, given in (("--on-demand", options.on_demand), ("--visual", options.visual is not None)):
        if given and world != "warehouse":
            raise AgvBridgeError(f"player: {option}: expected a scenario with world 'warehouse', got {world!r}.")
    for role in spec.roles:
        _require_blocks(options, role.observation)


def _require_blocks(options: PlayerOptions, layout: ObservationLayout) -> None:
    if options.goal_signal is not None:
        layout.slice_of(options.goal_signal)
    if options.buffer_neighbours:
        place = layout.slice_of(NEIGHBOURS_BLOCK)
        seen = (place.stop - place.start) // len(NEIGHBOUR_FIELDS)
        if options.buffer_neighbours > seen:
            raise AgvBridgeError(
                f"player: --buffer-neighbours: expected at most the {seen} robots of the scenario's block "
                f"'{NEIGHBOURS_BLOCK}', got {options.buffer_neighbours}. Raise the block's count."
            )


def _channels_first(package_version: str) -> bool:
    major = package_version.partition(".")[0]
    return not major.isdecimal() or int(major) >= _FIRST_CHANNELS_FIRST
