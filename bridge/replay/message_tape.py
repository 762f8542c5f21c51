"""What robots said to each other, and what of it each one had, frame after frame."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.replay.recording import MessageRecord
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.simulator import WarehouseSimulator

__all__ = ["MessageTape"]

# Of longer messages, and of more senders, the first ones are kept: a megabyte or two in the file each.
_MAX_SAID: Final = 2_000_000
_MAX_HEARD: Final = 2_000_000


class MessageTape:
    """Copies of one environment's messages.

    Args:
        config: The warehouse; its ``communication`` is not None.
        num_steps: Steps that are recorded at most.
    """

    def __init__(self, config: WarehouseConfig, num_steps: int) -> None:
        section = config.communication
        assert section is not None, "a tape is made for a scenario with communication only"
        self._discrete, self._size, self._hold = section.kind == "discrete", section.size, section.hold_steps
        self._most = (num_steps + 1) * config.num_robots
        self._num_shown = 0
        self._said: list[NDArray[np.float32]] = []
        self._heard_from: list[NDArray[np.int32]] = []
        self._age: list[NDArray[np.int32]] = []

    def read(self, simulator: WarehouseSimulator, env: int) -> None:
        """Keep what was said in the last step, and what robots see of it and of earlier ones."""
        inbox = simulator.inbox
        assert inbox is not None, "robots of a scenario with communication have an inbox"
        step = int(simulator.steps[env]) - 1
        values, spoke = (array[env, step % array.shape[1]] for array in (inbox.values, inbox.spoke))
        if self._discrete:
            values = values.argmax(axis=1)[:, None].astype(np.float32)
        kept = max(min(values.shape[1], _MAX_SAID // self._most), 1)
        silent = ~spoke if step >= 0 else np.ones_like(spoke)
        self._said.append(np.where(silent[:, None], np.float32(np.nan), values[:, :kept]).astype(np.float32))
        # (N, K) nearest robots in range, and the step in which each sent its newest message that arrived
        self._num_shown = inbox.nearest.shape[2]
        nearest = inbox.nearest[env][:, : max(min(self._num_shown, _MAX_HEARD // self._most), 1)]
        sent = np.where(nearest >= 0, np.take_along_axis(inbox.newest[env], np.maximum(nearest, 0), axis=1), -1)
        age = step - sent
        self._heard_from.append(nearest.copy())
        self._age.append(np.where((sent >= 0) & (age <= self._hold), age, -1).astype(np.int32))

    def record(self) -> MessageRecord:
        """All that was kept."""
        said, heard_from, age = np.stack(self._said), np.stack(self._heard_from), np.stack(self._age)
        return MessageRecord(self._discrete, self._size, self._num_shown, said, heard_from, age)
