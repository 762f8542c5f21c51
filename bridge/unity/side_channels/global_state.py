"""The state of each training area, for critics.

A scene that can see its whole area sends, whenever the state has changed and
at the latest with the next exchange:

    int32 version, 1
    int32 area, from 0
    int32 kind: 0 for the state now, 1 for the last state of an episode that ends in this exchange
    list of floats: int32 count, which is ``state_size`` (at most that once scenarios are swapped), and as many float32

Nothing that acts reads it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bridge.unity.messages import GLOBAL_STATE_CHANNEL
from bridge.unity.mlagents_types import SideChannel
from bridge.unity.side_channels.codec import PayloadReader

__all__ = ["STATE_VERSION", "GlobalStateChannel"]

STATE_VERSION: Final = 1

_FINAL: Final = 1


class GlobalStateChannel(SideChannel):  # type: ignore[misc]
    """Keeps the latest state of each area.

    Args:
        num_areas: Number of areas E.
        size: Number of values S; with 0 nobody wants to know, and what comes is ignored.

    Attributes:
        states: (E, S) float32, the latest state; zeros before the first.
        final_states: (E, S) float32, the last state of the episode that ended last; only where ``has_final``.
        has_final: (E,) bool, a last state has come since :meth:`begin_exchange`.
        may_be_shorter: The scene plays other scenarios than the one that the size is of; what a state lacks is 0.
    """

    def __init__(self, num_areas: int, size: int) -> None:
        super().__init__(GLOBAL_STATE_CHANNEL)
        self.states: NDArray[np.float32] = np.zeros((num_areas, size), np.float32)
        self.final_states: NDArray[np.float32] = np.zeros((num_areas, size), np.float32)
        self.has_final: NDArray[np.bool_] = np.zeros(num_areas, np.bool_)
        self.may_be_shorter = False

    def begin_exchange(self) -> None:
        """Forget which last states have come."""
        self.has_final[:] = False

    def on_message_received(self, message: Any) -> None:
        """Take in one state.

        Raises:
            UnityProtocolError: The message is malformed, of another version, or the state has another size.
        """
        num_areas, size = self.states.shape
        if size == 0:
            return
        reader = PayloadReader(bytes(message.buffer), "GlobalStateChannel")
        reader.int32("version", STATE_VERSION, STATE_VERSION)
        area = reader.int32("area", 0, num_areas - 1)
        kind = reader.int32("kind", 0, _FINAL)
        values = reader.floats("the state", size, 0 if self.may_be_shorter else size)
        reader.end()
        target = self.final_states if kind == _FINAL else self.states
        target[area, : len(values)] = values
        target[area, len(values) :] = 0.0
        self.has_final[area] |= kind == _FINAL
