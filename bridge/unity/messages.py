"""Messages and constants of the ML-Agents protocol.

The classes are protobuf messages made from ``proto/communicator.proto``. They
live in a descriptor pool of their own, so they never meet those of
``mlagents_envs``; :mod:`bridge.unity.compat` hands the same classes to it.

A player is the gRPC client, the trainer the server. Every request is a
:data:`UnityMessage` with ``unity_output``, every reply one with ``unity_input``;
request ``k`` is answered by reply ``k``, and the player waits for it.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from bridge.unity.proto_schema import MessageClass, load_messages

__all__ = [
    "API_VERSION",
    "COMMAND_QUIT",
    "COMMAND_RESET",
    "COMMAND_STEP",
    "COMPRESSION_NONE",
    "COMPRESSION_PNG",
    "ENGINE_CONFIGURATION_CHANNEL",
    "ENVIRONMENT_PARAMETERS_CHANNEL",
    "EXCHANGE_METHOD",
    "EXCHANGE_METHOD_NAME",
    "EXCHANGE_SERVICE",
    "FLOAT_PROPERTIES_CHANNEL",
    "GLOBAL_STATE_CHANNEL",
    "MESSAGES",
    "ROSTER_CHANNEL",
    "SCENARIO_CHANNEL",
    "SEED_HIGH",
    "SEED_LIMIT",
    "SEED_LOW",
    "STATS_CHANNEL",
    "STATUS_OK",
    "STATUS_QUIT",
    "TRAINING_ANALYTICS_CHANNEL",
    "ActionSpecProto",
    "AgentAction",
    "AgentInfo",
    "BrainParameters",
    "Capabilities",
    "Header",
    "InitializationInput",
    "InitializationOutput",
    "ListAgentAction",
    "ListAgentInfo",
    "Observation",
    "RLInput",
    "RLOutput",
    "UnityInput",
    "UnityMessage",
    "UnityOutput",
    "all_capabilities",
]

API_VERSION: Final = "1.5.0"
"""Version of the protocol; both sides announce it, the major numbers must agree."""

EXCHANGE_SERVICE: Final = "communicator_objects.UnityToExternalProto"
EXCHANGE_METHOD_NAME: Final = "Exchange"
EXCHANGE_METHOD: Final = f"/{EXCHANGE_SERVICE}/{EXCHANGE_METHOD_NAME}"
"""Path of the only gRPC method, unary in both directions."""

STATUS_OK: Final = 200
STATUS_QUIT: Final = 400

COMMAND_STEP: Final = 0
COMMAND_RESET: Final = 1
COMMAND_QUIT: Final = 2

COMPRESSION_NONE: Final = 0
COMPRESSION_PNG: Final = 1

ENGINE_CONFIGURATION_CHANNEL: Final = UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
ENVIRONMENT_PARAMETERS_CHANNEL: Final = UUID("534c891e-810f-11ea-a9d0-822485860400")
FLOAT_PROPERTIES_CHANNEL: Final = UUID("60ccf7d0-4f7e-11ea-b238-784f4387d1f7")
STATS_CHANNEL: Final = UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520")
TRAINING_ANALYTICS_CHANNEL: Final = UUID("b664a4a9-d86f-5a5f-95cb-e8353a7e8356")

ROSTER_CHANNEL: Final = UUID("d4f4344d-ebb2-441a-865d-9b78ca9e3662")
"""A scene tells area, role and slot of its agents; this project's own, as are the next two (docs/unity.md)."""

GLOBAL_STATE_CHANNEL: Final = UUID("56771184-c1b1-4f17-b295-4319d4b25b66")
"""A scene tells the state of an area, for critics."""

SCENARIO_CHANNEL: Final = UUID("c3fc4592-bae1-4744-b03a-1cb0b3ced199")
"""A trainer sends a scenario, a scene takes it or refuses it."""

SEED_HIGH: Final = "agv_seed_high"
SEED_LOW: Final = "agv_seed_low"
"""Environment parameters that carry the seed of a reset, 24 bits each: as many as a float32 holds exactly."""

SEED_LIMIT: Final = 1 << 48
"""Seeds are below this."""

MESSAGES: Final[dict[str, MessageClass]] = load_messages("communicator.proto")
"""Every message class by its name in the schema."""

UnityMessage: Any = MESSAGES["UnityMessageProto"]
Header: Any = MESSAGES["HeaderProto"]
UnityOutput: Any = MESSAGES["UnityOutputProto"]
UnityInput: Any = MESSAGES["UnityInputProto"]
InitializationOutput: Any = MESSAGES["UnityRLInitializationOutputProto"]
InitializationInput: Any = MESSAGES["UnityRLInitializationInputProto"]
Capabilities: Any = MESSAGES["UnityRLCapabilitiesProto"]
RLOutput: Any = MESSAGES["UnityRLOutputProto"]
RLInput: Any = MESSAGES["UnityRLInputProto"]
ListAgentInfo: Any = MESSAGES["UnityRLOutputProto.ListAgentInfoProto"]
ListAgentAction: Any = MESSAGES["UnityRLInputProto.ListAgentActionProto"]
AgentInfo: Any = MESSAGES["AgentInfoProto"]
AgentAction: Any = MESSAGES["AgentActionProto"]
Observation: Any = MESSAGES["ObservationProto"]
BrainParameters: Any = MESSAGES["BrainParametersProto"]
ActionSpecProto: Any = MESSAGES["ActionSpecProto"]


def all_capabilities() -> Any:
    """A :data:`Capabilities` message that announces everything that protocol 1.5.0 knows."""
    return Capabilities(**{field.name: True for field in Capabilities.DESCRIPTOR.fields})
