"""The block ``window`` of robots with heading: the same maps, turned so that the row ahead of the robot comes first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel
from bridge.warehouse.config import WindowBlock
from bridge.warehouse.feature import Feature, Parts
from bridge.warehouse.fleet import Fleet, Pose
from bridge.warehouse.sensors.window import WINDOW_CHANNELS

__all__ = ["HeadingWindow", "turn_windows"]

Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]


class HeadingWindow(Feature):
    """Turns the block after it has been written in the floor frame.

    Args:
        parts: The simulator's arrays.
        block: Its size.
    """

    def __init__(self, parts: Parts, block: WindowBlock) -> None:
        self._parts, self._radius = parts, block.radius
        self._at = parts.spec.roles[0].observation.slice_of("window").start
        edge = 2 * block.radius + 1
        self._map = np.zeros((edge, edge), np.float32)

    def observe(self, first: int, envs: Bool, observations: Float32) -> None:
        """See :class:`Feature`."""
        turn_windows(self._parts.fleet, self._parts.pose, self._at, self._map, first, envs, observations)


@lean_kernel
def turn_windows(
    fleet: Fleet, pose: Pose, at: int, scratch: Float32, first: int, envs: Bool, observations: Float32
) -> None:
    """Turn the maps of every robot from the floor frame, top row first, to its own, the row ahead first.

    Args:
        fleet: Who is there.
        pose: Which way they face.
        at: Where the block begins.
        scratch: (2r + 1, 2r + 1) float32.
        first: Slot of the role's first robot on the robot axis.
        envs: (E,) bool, environments to treat.
        observations: (E, A, F) float32, turned in place.
    """
    edge = scratch.shape[0]
    last = edge - 1
    for env in range(len(envs)):
        if not envs[env]:
            continue
        for slot in range(observations.shape[1]):
            robot = first + slot
            cos, sin = pose.cos[env, robot], pose.sin[env, robot]
            if not fleet.alive[env, robot] or sin > 0.5:
                continue
            for channel in range(len(WINDOW_CHANNELS)):
                begin = at + channel * edge * edge
                for row in range(edge):
                    for column in range(edge):
                        scratch[row, column] = observations[env, slot, begin + row * edge + column]
                for row in range(edge):
                    for column in range(edge):
                        if cos > 0.5:  # right
                            value = scratch[column, last - row]
                        elif cos < -0.5:  # left
                            value = scratch[last - column, row]
                        else:  # down
                            value = scratch[last - row, last - column]
                        observations[env, slot, begin + row * edge + column] = value
