"""Numbers of the protocol, and of the arrays that the kernels of :mod:`bridge.unity.wire.walker` fill.

Compiled code is cached per file: after a change here, remove the ``__pycache__`` beside this file.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AGENT_DONE",
    "AGENT_GROUP",
    "AGENT_GROUP_REWARD",
    "AGENT_ID",
    "AGENT_INTERRUPTED",
    "AGENT_MASK",
    "AGENT_MASK_PACKED",
    "AGENT_OBSERVATION",
    "AGENT_REWARD",
    "BAD_COMPRESSION",
    "BAD_GROUP_REWARD",
    "BAD_IMAGE",
    "BAD_MASK",
    "BAD_REWARD",
    "BAD_SENSOR_COUNT",
    "BAD_SHAPE",
    "BAD_SIZE",
    "BAD_VALUE",
    "BYTES",
    "COMPRESSION_NONE",
    "COMPRESSION_PNG",
    "ENTRY_COLUMNS",
    "ENTRY_KEY",
    "ENTRY_VALUE",
    "EXPONENT",
    "FAULT_AT",
    "FAULT_MALFORMED",
    "FAULT_RARE",
    "FAULT_TOO_MANY",
    "FIXED32",
    "FIXED64",
    "FLOATS_DATA",
    "FLOATS_DATA_PACKED",
    "GROUP",
    "HEADER_MESSAGE",
    "HEADER_STATUS",
    "HEAD_SIZE",
    "INITIALIZATION",
    "LIST_AGENT",
    "MAX_RANK",
    "MAX_VARINT_BYTES",
    "MESSAGE",
    "MESSAGE_HEADER",
    "MESSAGE_OUTPUT",
    "NUM_AGENTS",
    "NUM_ENTRIES",
    "OUTPUT_INITIALIZATION",
    "OUTPUT_RL",
    "RL_AGENTS",
    "RL_SIDE_CHANNEL",
    "SENSOR_COMPRESSED",
    "SENSOR_COMPRESSION",
    "SENSOR_FLOATS",
    "SENSOR_MAPPING",
    "SENSOR_MAPPING_PACKED",
    "SENSOR_SHAPE",
    "SENSOR_SHAPE_PACKED",
    "SIDE_CHANNEL",
    "STATUS",
    "VARINT",
    "Columns",
]

FAULT_MALFORMED: Final = 1
"""The bytes are no message."""
FAULT_RARE: Final = 2
"""They may be one, in a form that no player uses: protobuf has to read it."""
FAULT_TOO_MANY: Final = 3
"""More behaviors or agents than are allowed."""

STATUS: Final = 0
MESSAGE: Final = 1
"""Start and stop of the header's text; as the following spans, (-1, -1) where it is absent."""
SIDE_CHANNEL: Final = 3
INITIALIZATION: Final = 5
NUM_ENTRIES: Final = 7
FAULT_AT: Final = 8
NUM_AGENTS: Final = 9
HEAD_SIZE: Final = 10
"""Layout of the array that :func:`scan` fills."""

ENTRY_COLUMNS: Final = 7
"""Per behavior: start and stop of its name, of its list of agents, of the first agent in it; number of agents."""

BAD_SENSOR_COUNT: Final = 1
BAD_SIZE: Final = 2
BAD_SHAPE: Final = 3
BAD_COMPRESSION: Final = 4
BAD_IMAGE: Final = 5
BAD_VALUE: Final = 6
BAD_MASK: Final = 7
BAD_REWARD: Final = 8
BAD_GROUP_REWARD: Final = 9
"""What does not fit a behavior; see :func:`fill`."""

MAX_RANK: Final = 3

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
GROUP: Final = 3
FIXED32: Final = 5
MAX_VARINT_BYTES: Final = 10

# Tags (field number << 3 | wire type) of the fields that are read.
MESSAGE_HEADER: Final = 1 << 3 | BYTES
MESSAGE_OUTPUT: Final = 2 << 3 | BYTES
HEADER_STATUS: Final = 1 << 3 | VARINT
HEADER_MESSAGE: Final = 2 << 3 | BYTES
OUTPUT_RL: Final = 1 << 3 | BYTES
OUTPUT_INITIALIZATION: Final = 2 << 3 | BYTES
RL_AGENTS: Final = 2 << 3 | BYTES
RL_SIDE_CHANNEL: Final = 3 << 3 | BYTES
ENTRY_KEY: Final = 1 << 3 | BYTES
ENTRY_VALUE: Final = 2 << 3 | BYTES
LIST_AGENT: Final = 1 << 3 | BYTES
AGENT_REWARD: Final = 7 << 3 | FIXED32
AGENT_DONE: Final = 8 << 3 | VARINT
AGENT_INTERRUPTED: Final = 9 << 3 | VARINT
AGENT_ID: Final = 10 << 3 | VARINT
AGENT_MASK: Final = 11 << 3 | VARINT
AGENT_MASK_PACKED: Final = 11 << 3 | BYTES
AGENT_OBSERVATION: Final = 13 << 3 | BYTES
AGENT_GROUP: Final = 14 << 3 | VARINT
AGENT_GROUP_REWARD: Final = 15 << 3 | FIXED32
SENSOR_SHAPE: Final = 1 << 3 | VARINT
SENSOR_SHAPE_PACKED: Final = 1 << 3 | BYTES
SENSOR_COMPRESSION: Final = 2 << 3 | VARINT
SENSOR_COMPRESSED: Final = 3 << 3 | BYTES
SENSOR_FLOATS: Final = 4 << 3 | BYTES
SENSOR_MAPPING: Final = 5 << 3 | VARINT
SENSOR_MAPPING_PACKED: Final = 5 << 3 | BYTES
FLOATS_DATA: Final = 1 << 3 | FIXED32
FLOATS_DATA_PACKED: Final = 1 << 3 | BYTES

COMPRESSION_NONE: Final = 0
COMPRESSION_PNG: Final = 1
EXPONENT: Final = 0x7F800000


class Columns(NamedTuple):
    """Arrays for the agents of one behavior, N agents with S sensors and D values.

    Attributes:
        observations: (R, D) float32, the sensors one after the other. R = N, or as many as there can be in so
            many bytes.
        compressed: (R, S, 4) int32, start and stop of compressed data and of its channel mapping; -1 where there is
            none.
        numbers: (2, N) int32, ids and group ids.
        rewards: (2, N) float32, rewards and group rewards.
        flags: (2, N) bool, done and interrupted.
        allowed: (N, M) bool, choices that are not masked; all True in entries of an ended life.
        report: (5,) int64, what does not fit (0 nothing), row, sensor, the value, number of compressed data.
    """

    observations: NDArray[np.float32]
    compressed: NDArray[np.int32]
    numbers: NDArray[np.int32]
    rewards: NDArray[np.float32]
    flags: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    report: NDArray[np.int64]
