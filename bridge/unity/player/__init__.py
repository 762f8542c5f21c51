"""The headless player: the built-in simulator behind the real ML-Agents protocol.

It is started exactly like a Unity build and plays the part of the C# package:
a gRPC client that connects to the trainer, announces its behaviors, sends what
its agents see and lets them act on the answers. Whatever works with it works,
as far as the protocol goes, with a Unity scene.

    options, camera_options -> what stands on the command line
    session, communicator  -> a player from start to exit code; its end of the wire
    academy                -> the order of operations inside one simulation step
    agents                 -> lives, ids, rewards and actions of one role
    scene                  -> what the options make of a scenario: sensors and requests
    sensors, camera        -> observations as messages
    observed               -> the layout of all that an agent observes
    requests               -> when agents ask for decisions
    floors                 -> what cameras and requests look at
    encoding               -> protocol messages of agents, and back
    agent_bytes, action_bytes, envelope -> compiled for all agents at once, and what is around them
    side_channels          -> what comes in and goes out beside them
    parameters, reports    -> values and samplers from the trainer; figures and announcements to it
    swap                   -> another scenario in mid-run
    faults                 -> failures on request, for tests of the other side
    build                  -> an executable file that trainers start as a Unity build

``docs/headless_player.md`` is the page for users.
"""

from __future__ import annotations

from bridge.unity.player.build import write_build
from bridge.unity.player.options import PlayerOptions, parse_options
from bridge.unity.player.session import main, run_player

__all__ = ["PlayerOptions", "main", "parse_options", "run_player", "write_build"]
