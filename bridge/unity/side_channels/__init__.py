"""Side channels: messages beside observations and actions, to and from a player.

Channels are those of ``mlagents_envs``; any subclass of its ``SideChannel`` works.
"""

from __future__ import annotations

from bridge.unity.mlagents_types import EngineConfigurationChannel, EnvironmentParametersChannel
from bridge.unity.side_channels.frames import pack_frames, unpack_frames
from bridge.unity.side_channels.hub import SideChannelHub
from bridge.unity.side_channels.stats import StatsChannel

__all__ = [
    "EngineConfigurationChannel",
    "EnvironmentParametersChannel",
    "SideChannelHub",
    "StatsChannel",
    "pack_frames",
    "unpack_frames",
]
