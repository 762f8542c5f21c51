"""Requests and replies as bytes: read into arrays and written from arrays, without an object per agent.

protobuf reads what is small or rare: a player's introduction, the description
of a new behavior, and forms of a message that are legal but never used.
"""

from __future__ import annotations

from bridge.unity.wire.actions import actions_to_bytes
from bridge.unity.wire.agents import AgentBatch, AgentReader, UnusualFormError
from bridge.unity.wire.compiling import compile_kernels
from bridge.unity.wire.request import (
    MAX_AGENTS,
    MAX_BEHAVIORS,
    MAX_INITIALIZATION_BYTES,
    MAX_UNUSUAL_BYTES,
    Request,
    canonical,
    read_request,
)

__all__ = [
    "MAX_AGENTS",
    "MAX_BEHAVIORS",
    "MAX_INITIALIZATION_BYTES",
    "MAX_UNUSUAL_BYTES",
    "AgentBatch",
    "AgentReader",
    "Request",
    "UnusualFormError",
    "actions_to_bytes",
    "canonical",
    "compile_kernels",
    "read_request",
]
