"""The observation blocks ``position`` and ``history``, for policies that are to know where they are or were."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.config import HistoryBlock, PositionBlock
from bridge.warehouse.feature import Feature, Parts

__all__ = ["History", "Position"]

Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]


class Position(Feature):
    """Writes the block ``position``: where on the floor the robot is.

    Args:
        parts: The simulator's arrays.
        block: Its scale.
    """

    def __init__(self, parts: Parts, block: PositionBlock) -> None:
        self._parts, self._range_m = parts, block.range_m
        self._at = parts.spec.roles[0].observation.slice_of("position").start

    def observe(self, first: int, envs: Bool, observations: Float32) -> None:
        """Write the block of one role."""
        slots = slice(first, first + observations.shape[1])
        seen = envs[:, None] & self._parts.fleet.alive[:, slots]
        for index, values in enumerate((self._parts.pose.x, self._parts.pose.y)):
            observations[seen, self._at + index] = np.minimum(values[:, slots][seen] / self._range_m, 1.0)


class History(Feature):
    """Writes the block ``history``: what the robot itself saw at its last decisions.

    What is remembered is the observation as the robot got it, with all its noise. A life and an
    episode begin without memories.

    Args:
        parts: The simulator's arrays.
        block: What is remembered, and for how long.
    """

    def __init__(self, parts: Parts, block: HistoryBlock) -> None:
        self._parts, self._num = parts, block.steps
        layout = parts.spec.roles[0].observation
        self._columns = np.concatenate(
            [np.arange(layout.slice_of(name).start, layout.slice_of(name).stop) for name in block.of]
        )
        self._at = layout.slice_of("history").start
        # (steps + 1, E, N, values): a ring over the steps.
        self._ring = np.zeros((block.steps + 1, *parts.moves.shape, len(self._columns)), np.float32)

    def begin(self, envs: Bool) -> None:
        """Forget."""
        self._ring[:, envs] = 0.0

    def after_service(self) -> None:
        """Forget what robots saw that left the floor."""
        leaving = self._parts.outcome.leaving
        if leaving.any():
            self._ring[:, leaving] = 0.0

    def observe(self, first: int, envs: Bool, observations: Float32) -> None:
        """Keep the observations of one role and write its block."""
        slots = slice(first, first + observations.shape[1])
        alive = self._parts.fleet.alive[:, slots]
        size, num = len(self._columns), self._num + 1
        for env in np.flatnonzero(envs):
            step = int(self._parts.steps[env])
            now = np.where(alive[env, :, None], observations[env][:, self._columns], np.float32(0.0))
            self._ring[step % num, env, slots] = now
            for back in range(1, num):
                begin = self._at + (back - 1) * size
                past = self._ring[(step - back) % num, env, slots]
                observations[env, :, begin : begin + size] = past * alive[env, :, None]
