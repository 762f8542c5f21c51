"""What the options make of a scenario: each role's sensors, and when its agents ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bridge.errors import AgvBridgeError
from bridge.roster import Roster
from bridge.specs import ObservationLayout, RoleSpec, WorldSpec
from bridge.unity.images import sends_channels_first
from bridge.unity.player.camera import CameraSensor, TopView
from bridge.unity.player.observed import observed_layout
from bridge.unity.player.options import PlayerOptions, parse_options
from bridge.unity.player.requests import DecisionRequests, OnDemandRequests, PeriodicRequests
from bridge.unity.player.sensors import NEIGHBOURS_BLOCK, Sensor, block_sensor, buffer_sensor, layout_sensor
from bridge.warehouse.sensors.neighbours import NEIGHBOUR_FIELDS

if TYPE_CHECKING:
    from bridge.unity.player.floors import Floors

__all__ = ["Scene", "played_spec", "require_fitting"]


class Scene:
    """Builds the parts of agents over a roster.

    Args:
        roster: The simulator.
        options: Of the player, accepted by :func:`require_fitting`.
    """

    def __init__(self, roster: Roster, options: PlayerOptions) -> None:
        self._options = options
        self._floors = _floors(roster) if options.cameras or options.on_demand else None
        self._view = TopView(self._floors, options.cameras) if self._floors and options.cameras else None
        self._cameras: list[CameraSensor] = []

    def reset(self) -> None:
        """All areas were reset; nothing is left of the episodes that ran."""
        self.new_frame()
        for camera in self._cameras:
            camera.restart()

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
        if self._floors is not None and self._view is not None:
            first = self._floors.role_slices[role.name].start
            channels_first = sends_channels_first(options.package_version)
            cameras = [CameraSensor(self._view, first, camera, channels_first) for camera in options.cameras]
            self._cameras += cameras
            sensors += cameras
        return sensors

    def requests(self, role: RoleSpec) -> DecisionRequests:
        """When a role's agents ask."""
        if self._floors is not None and self._options.on_demand:
            return OnDemandRequests(self._floors, self._floors.role_slices[role.name])
        return PeriodicRequests(self._options.role_periods.get(role.name, self._options.decision_period))


def _floors(roster: Roster) -> Floors:
    from bridge.unity.player.floors import Floors
    from bridge.warehouse.simulator import WarehouseSimulator
    from bridge.warehouse.variant_roster import VariantRoster

    assert isinstance(roster, WarehouseSimulator | VariantRoster)
    return Floors(roster)


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
    for option, given in (("--on-demand", options.on_demand), ("--visual", bool(options.cameras))):
        if given and world != "warehouse":
            raise AgvBridgeError(f"player: {option}: expected a scenario with world 'warehouse', got {world!r}.")
    for role in spec.roles:
        _require_blocks(options, role.observation)


def played_spec(spec: WorldSpec, world: str, arguments: Sequence[str]) -> WorldSpec:
    """What a world looks like through a player with some arguments: its agents may have further sensors.

    Args:
        spec: What it looks like itself.
        world: Its kind.
        arguments: Of the player, without its scenario.

    Raises:
        AgvBridgeError: An argument is wrong, or does not fit the world.
    """
    options = parse_options(["--scenario", "", *arguments])
    require_fitting(options, world, spec)
    roles = [replace(role, observation=observed_layout(role.observation, options)) for role in spec.roles]
    return replace(spec, roles=tuple(roles))


def _require_blocks(options: PlayerOptions, layout: ObservationLayout) -> None:
    sizes = {block.name: block.size for block in layout.blocks}
    buffered = NEIGHBOURS_BLOCK if options.buffer_neighbours else None
    for option, block in (("--goal-signal", options.goal_signal), ("--buffer-neighbours", buffered)):
        if block is not None and block not in sizes:
            raise AgvBridgeError(
                f"player: {option}: expected an observation with the block {block!r}, got the blocks "
                f"{', '.join(sizes)}. Name another one, or add it to the scenario."
            )
    seen = sizes.get(NEIGHBOURS_BLOCK, 0) // len(NEIGHBOUR_FIELDS)
    if options.buffer_neighbours > seen:
        raise AgvBridgeError(
            f"player: --buffer-neighbours: expected at most the {seen} robots of the scenario's block "
            f"'{NEIGHBOURS_BLOCK}', got {options.buffer_neighbours}. Raise the block's count."
        )
