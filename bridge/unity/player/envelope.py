"""The messages that a player sends and receives, around lists of agents that stay bytes.

Equal to those of :mod:`bridge.unity.messages` on the wire. What becomes of the
bytes: :mod:`bridge.unity.player.agent_bytes`, :mod:`bridge.unity.player.action_bytes`.
"""

from __future__ import annotations

from typing import Any

from bridge.unity.proto_schema import load_messages

__all__ = ["Envelope", "EnvelopeHeader", "EnvelopeOutput", "EnvelopeRLOutput"]

_MESSAGES = load_messages("envelope.proto")

Envelope: Any = _MESSAGES["UnityMessageProto"]
EnvelopeHeader: Any = _MESSAGES["HeaderProto"]
EnvelopeOutput: Any = _MESSAGES["UnityOutputProto"]
EnvelopeRLOutput: Any = _MESSAGES["UnityRLOutputProto"]
