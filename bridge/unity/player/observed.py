"""What an agent of the player observes altogether: its vector, and what further sensors send."""

from __future__ import annotations

import math
from dataclasses import replace

from bridge.specs import ObservationBlock, ObservationLayout
from bridge.unity.images import sends_channels_first
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.sensors import BUFFER_SENSOR, GOAL_PREFIX, NEIGHBOURS_BLOCK, sensor_order
from bridge.warehouse.sensors.neighbours import NEIGHBOUR_FIELDS

__all__ = ["observed_layout"]


def observed_layout(layout: ObservationLayout, options: PlayerOptions) -> ObservationLayout:
    """The layout followed by one block for each further sensor, in the order in which they are sent.

    Args:
        layout: Of a role's observation in its world.
        options: Of the player, accepted by :func:`bridge.unity.player.scene.require_fitting`.
    """
    own = {block.name: block for block in layout.blocks}
    blocks = []
    if options.buffer_neighbours:
        # Without the flag of the block: a row of zeros says the same.
        shape: tuple[int, ...] = (options.buffer_neighbours, len(NEIGHBOUR_FIELDS) - 1)
        text = "The nearest robots, zeros for none."
        block = replace(own[NEIGHBOURS_BLOCK], name=BUFFER_SENSOR, fields=(), description=text)
        blocks.append(replace(block, size=math.prod(shape), shape=shape))
    if options.goal_signal is not None:
        text = f"The block '{options.goal_signal}' once more, as a goal signal."
        block = replace(own[options.goal_signal], name=f"{GOAL_PREFIX}{options.goal_signal}", description=text)
        blocks.append(replace(block, is_goal=True))
    for camera in options.cameras:
        shape = camera.shape(sends_channels_first(options.package_version))
        text = "The floor from above, the robot in the middle" + ("." if camera.stack == 1 else "; the newest last.")
        blocks.append(ObservationBlock(camera.name, math.prod(shape), low=0.0, high=1.0, shape=shape, description=text))
    blocks.sort(key=lambda block: sensor_order(block.name))
    further = [replace(block, sensor=sensor) for sensor, block in enumerate(blocks, 1)]
    return ObservationLayout((*layout.blocks, *further))
