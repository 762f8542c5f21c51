"""Side channels: messages beside observations and actions, to and from a player.

Channels are those of ``mlagents_envs`` where it has one; any subclass of its
``SideChannel`` works. Our own are the roster, the global state and the scenario
channel; their bytes are laid down in their modules and in ``docs/unity.md``.
"""

from __future__ import annotations

from bridge.unity.mlagents_types import (
    DefaultTrainingAnalyticsSideChannel,
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    FloatPropertiesChannel,
    RawBytesChannel,
)
from bridge.unity.side_channels.codec import PayloadReader
from bridge.unity.side_channels.frames import pack_frames, unpack_frames
from bridge.unity.side_channels.global_state import GlobalStateChannel
from bridge.unity.side_channels.hub import SideChannelHub
from bridge.unity.side_channels.roster_channel import Announced, Identity, RosterChannel
from bridge.unity.side_channels.scenario_channel import ScenarioAnswer, ScenarioChannel
from bridge.unity.side_channels.stats import StatsChannel

__all__ = [
    "Announced",
    "DefaultTrainingAnalyticsSideChannel",
    "EngineConfigurationChannel",
    "EnvironmentParametersChannel",
    "FloatPropertiesChannel",
    "GlobalStateChannel",
    "Identity",
    "PayloadReader",
    "RawBytesChannel",
    "RosterChannel",
    "ScenarioAnswer",
    "ScenarioChannel",
    "SideChannelHub",
    "StatsChannel",
    "pack_frames",
    "unpack_frames",
]
