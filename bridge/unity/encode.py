"""From actions to the bytes of the reply that a player waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge.unity.messages import (
    COMMAND_RESET,
    COMMAND_STEP,
    STATUS_OK,
    Header,
    InitializationInput,
    RLInput,
    UnityInput,
    UnityMessage,
    all_capabilities,
)

__all__ = ["BehaviorActions", "encode_initialization", "encode_reset", "encode_step"]


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
    rl_input = RLInput(command=COMMAND_STEP, side_channel=side_channel)
    for name, chosen in actions.items():
        if len(chosen.continuous) == 0:
            continue
        listed = rl_input.agent_actions[name].value
        for continuous, discrete in zip(chosen.continuous.tolist(), chosen.discrete.tolist(), strict=True):
            listed.add(continuous_actions=continuous, discrete_actions=discrete)
    return _wrap(UnityInput(rl_input=rl_input))


def _wrap(unity_input: object) -> bytes:
    data: bytes = UnityMessage(header=Header(status=STATUS_OK), unity_input=unity_input).SerializeToString()
    return data
