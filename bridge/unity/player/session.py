"""A player from start to exit code.

Exit codes: 0 the trainer asked to quit or is gone (a Unity build quits
silently too), 1 an error while playing, 2 nothing to play (a wrong scenario or
option; no port or no trainer, where a Unity build would run inference), 130
interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

from bridge.errors import AgvBridgeError, ScenarioError
from bridge.registry import World, open_world
from bridge.roster import Roster
from bridge.scenario import Scenario, load_scenario
from bridge.unity.player.academy import Academy
from bridge.unity.player.build import write_build
from bridge.unity.player.communicator import Communicator, NoTrainerError
from bridge.unity.player.log import PlayerLog
from bridge.unity.player.options import USAGE, PlayerOptions, parse_options, without_options
from bridge.unity.player.scene import require_fitting
from bridge.unity.player.side_channels import SideChannels
from bridge.unity.player.swap import world_of

__all__ = ["main", "run_player"]

_INFERENCE = "A Unity build would run inference instead; this player has nothing to do."


def main(argv: Sequence[str]) -> int:
    """Run a player with Unity's command line; with ``--write-build PATH``, write a build with the other options.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code; see the module's docstring.
    """
    if {"--help", "-h"} & set(argv):
        print(USAGE, end="")
        return 0
    try:
        options = parse_options(argv)
    except AgvBridgeError as error:
        print(error, file=sys.stderr)
        return 2
    if options.write_build is None:
        return run_player(options)
    try:
        arguments = without_options(argv, "--write-build", "--scenario")
        build = write_build(options.write_build, options.scenario, arguments=arguments)
    except ScenarioError as error:
        print(error, file=sys.stderr)
        return 2
    print(build)
    return 0


def run_player(options: PlayerOptions) -> int:
    """Run a player until one side quits, and return its exit code."""
    with PlayerLog(options.log_file) as log:
        log.write(
            f"agv-bridge player {version('agv-bridge')}: ML-Agents package {options.package_version}, "
            f"communication {options.communication_version}"
        )
        for argument in options.ignored:
            log.write(f"Ignored argument {argument!r}")
        if options.port is None:
            log.write(f"No usable --mlagents-port. {_INFERENCE}")
            return 2
        try:
            # Everything that can be wrong with the scenario is found before the trainer is disturbed.
            scenario, world = _open(options)
        except AgvBridgeError as error:
            log.write(str(error))
            return 2
        log.write(f"Scenario {scenario.name} ({scenario.path})")
        try:
            return _play(options, options.port, scenario.world, world, log)
        except NoTrainerError as error:
            log.write(f"{error} {_INFERENCE}")
            return 2
        except AgvBridgeError as error:
            log.exception(error)
            return 1
        except Exception as error:
            log.exception(error)
            raise


def _open(options: PlayerOptions) -> tuple[Scenario, World]:
    """The scenario and its world.

    Raises:
        ScenarioError: The scenario is wrong, or none that the player can simulate.
        AgvBridgeError: An option does not fit it.
    """
    scenario = load_scenario(options.scenario)
    if scenario.world == "unity":
        raise ScenarioError(
            f"{scenario.path}: world: expected a world that the player can simulate, got 'unity'. "
            "Give the player the scenario that its build stands for."
        )
    world = open_world(scenario)
    require_fitting(options, scenario.world, world.spec)
    return scenario, world


def _play(options: PlayerOptions, port: int, kind: str, world: World, log: PlayerLog) -> int:
    communicator = Communicator(port, log)
    try:
        connection = communicator.connect(options.package_version, options.communication_version)
        if connection is None:
            return 0
        settings, first_input = connection
        channels = SideChannels(log, options.echo)
        channels.process(first_input.side_channel)
        cameras = tuple(camera.understood_by(settings.capabilities) for camera in options.cameras)
        if cameras != options.cameras:
            log.write("The trainer cannot read several PNGs in one observation: they are sent as plain values.")
            options = replace(options, cameras=cameras)
        num_areas = options.num_areas or max(settings.num_areas, 1)
        roster = world.roster(num_areas, first_env=options.first_env)
        # The protocol's seed is a signed 32-bit integer, the simulator's is not negative.
        seed = settings.seed & 0xFFFFFFFF

        def load(text: str) -> Roster:
            return world_of(text, kind, world.spec, options).roster(num_areas, first_env=options.first_env)

        academy = Academy(roster, communicator, channels, seed, options, log, load)
        try:
            return academy.run()
        finally:
            academy.close()
    except KeyboardInterrupt:
        communicator.say_goodbye()
        return 130
    finally:
        communicator.close()
