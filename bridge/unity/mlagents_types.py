"""The types of ``mlagents_envs`` that this package takes and returns, imported through the compatibility module."""

from __future__ import annotations

from bridge.unity.compat import import_mlagents_envs

import_mlagents_envs()

from mlagents_envs.base_env import (  # noqa: E402
    ActionSpec,
    ActionTuple,
    BaseEnv,
    BehaviorMapping,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from mlagents_envs.side_channel.default_training_analytics_side_channel import (  # noqa: E402
    DefaultTrainingAnalyticsSideChannel,
)
from mlagents_envs.side_channel.engine_configuration_channel import EngineConfigurationChannel  # noqa: E402
from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel  # noqa: E402
from mlagents_envs.side_channel.float_properties_channel import FloatPropertiesChannel  # noqa: E402
from mlagents_envs.side_channel.incoming_message import IncomingMessage  # noqa: E402
from mlagents_envs.side_channel.outgoing_message import OutgoingMessage  # noqa: E402
from mlagents_envs.side_channel.raw_bytes_channel import RawBytesChannel  # noqa: E402
from mlagents_envs.side_channel.side_channel import SideChannel  # noqa: E402
from mlagents_envs.side_channel.stats_side_channel import StatsAggregationMethod  # noqa: E402

__all__ = [
    "ActionSpec",
    "ActionTuple",
    "BaseEnv",
    "BehaviorMapping",
    "BehaviorSpec",
    "DecisionSteps",
    "DefaultTrainingAnalyticsSideChannel",
    "DimensionProperty",
    "EngineConfigurationChannel",
    "EnvironmentParametersChannel",
    "FloatPropertiesChannel",
    "IncomingMessage",
    "ObservationSpec",
    "ObservationType",
    "OutgoingMessage",
    "RawBytesChannel",
    "SideChannel",
    "StatsAggregationMethod",
    "TerminalSteps",
]
