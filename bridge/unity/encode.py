"""From actions to the bytes of the reply that a player waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.unity.messages import (
    COMMAND_RESET,
    STATUS_OK,
    Header,
    InitializationInput,
    RLInput,
    UnityInput,
    UnityMessage,
    all_capabilities,
)
from bridge.unity.wire import actions_to_bytes

__all__ = ["BehaviorActions", "encode_initialization", "encode_reset", "encode_step"]

_HEADER: Final[bytes] = UnityMessage(header=Header(status=STATUS_OK)).SerializeToString()


@dataclass(frozen=True)
class BehaviorActions:
    """Actions of one behavior's agents that asked for a decision, in the order in which they asked.

    Attributes:
        continuous: (N, C) float32.
        discrete: (N, B) int32.
    """

    continuous: NDArray[np.float32]
    discrete: NDArray[np.int32]


def encode_initialization(seed: int, num_areas: int, api_version: str, package_version: str) -> bytes:
    """The reply to a player's first request."""
    initialization = InitializationInput(
        seed=seed,
        communication_version=api_version,
        package_version=package_version,
        capabilities=all_capabilities(),
        num_areas=num_areas,
    )
    return _wrap(UnityInput(rl_initialization_input=initialization))


def encode_reset(side_channel: bytes) -> bytes:
    """The reply that starts new episodes."""
    return _wrap(UnityInput(rl_input=RLInput(command=COMMAND_RESET, side_channel=side_channel)))


def encode_step(actions: Mapping[str, BehaviorActions], side_channel: bytes) -> bytes:
    """The reply that goes on with the given actions per behavior."""
    # Parts of the message from the inside out; each is announced by the tag of its field and its length.
    parts: list[bytes | memoryview] = []
    size = 0
    for name, chosen in actions.items():
        if len(chosen.continuous) == 0:
            continue
        key = name.encode()
        value = actions_to_bytes(chosen.continuous, chosen.discrete)
        entry = _announced(1, len(key)) + key + _announced(2, len(value))
        head = _announced(1, len(entry) + len(value)) + entry
        parts += [head, value]
        size += len(head) + len(value)
    if side_channel:
        head = _announced(5, len(side_channel))
        parts += [head, side_channel]
        size += len(head) + len(side_channel)
    rl_input = _announced(1, size)
    return b"".join([_HEADER, _announced(3, len(rl_input) + size), rl_input, *parts])


def _announced(field: int, size: int) -> bytes:
    """The tag of a field that holds ``size`` bytes, and that size."""
    if size <= 0x7F:
        return bytes((field << 3 | 2, size))
    encoded = bytearray((field << 3 | 2,))
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)


def _wrap(unity_input: object) -> bytes:
    data: bytes = UnityMessage(header=Header(status=STATUS_OK), unity_input=unity_input).SerializeToString()
    return data
