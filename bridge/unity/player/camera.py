"""A visual sensor: the floor from above, around each robot.

The picture of an area is drawn once per step and cut out for every robot. It
is never turned: up is the top of the layout.

One deviation from the C# package: the simulator has begun the next episode
when a life that was cut is reported, so the picture of a terminal info is the
one of the agent's last decision. A life that never asked shows black.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bridge.unity.messages import COMPRESSION_PNG, Observation
from bridge.unity.player.agent_bytes import SensorMessages
from bridge.unity.player.options import VisualOptions
from bridge.unity.player.sensors import SensorRows, float_head
from bridge.warehouse.render import render_floor

if TYPE_CHECKING:
    from bridge.warehouse.simulator import WarehouseSimulator

__all__ = ["CAMERA_SENSOR", "CELL_PX", "CameraSensor", "TopView"]

CAMERA_SENSOR: Final = "camera_top"

CELL_PX: Final = 4
"""Edge of a cell in pixels."""

_NONE, _TRANSLATIONAL_EQUIVARIANCE = 1, 2
_CHANNELS: Final = 3


class TopView:
    """Pictures of all areas, shared by the roles; each area is drawn at most once per frame.

    Args:
        simulator: The running warehouse.
        options: Size of the pictures.
    """

    def __init__(self, simulator: WarehouseSimulator, options: VisualOptions) -> None:
        self._simulator = simulator
        self._width, self._height = options.width, options.height
        self._areas: dict[int, NDArray[np.uint8]] = {}

    def new_frame(self) -> None:
        """The simulator has moved on."""
        self._areas.clear()

    def around(self, area: int, robot: int) -> NDArray[np.uint8]:
        """(height, width, 3) uint8 with the robot in the middle; black outside of the floor."""
        if area not in self._areas:
            floor = render_floor(self._simulator, area, CELL_PX)
            self._areas[area] = np.pad(floor, ((self._height, self._height), (self._width, self._width), (0, 0)))
        layout = self._simulator.layout
        x, y = self._simulator.positions_m[area, robot] * (CELL_PX / layout.cell_size_m)
        # The black edge is one picture wide, so the middle is half a picture inside of the window's corner.
        top = round(layout.height * CELL_PX - float(y)) + self._height - self._height // 2
        left = round(float(x)) + self._width - self._width // 2
        return self._areas[area][top : top + self._height, left : left + self._width]


class CameraSensor:
    """A rank-3 sensor of one role.

    Args:
        view: Where pictures come from.
        first_robot: The role's first robot on the simulator's robot axis.
        options: Size and compression.
        channels_first: Channel, row, column instead of row, column, channel.
    """

    def __init__(self, view: TopView, first_robot: int, options: VisualOptions, channels_first: bool) -> None:
        self.name = CAMERA_SENSOR
        self._view = view
        self._first_robot = first_robot
        self._options = options
        self._channels_first = channels_first
        self._last: dict[tuple[int, int], bytes] = {}
        shape = [options.height, options.width]
        properties = [_TRANSLATIONAL_EQUIVARIANCE] * 2
        self._shape = [_CHANNELS, *shape] if channels_first else [*shape, _CHANNELS]
        self._properties = [_NONE, *properties] if channels_first else [*properties, _NONE]
        self._head = float_head(self.name, self._shape, self._properties)
        self._black = self._message(np.zeros((options.height, options.width, _CHANNELS), np.uint8))

    def encode(self, rows: SensorRows) -> SensorMessages:
        """See :class:`bridge.unity.player.sensors.Sensor`."""
        agents = list(zip(rows.areas.tolist(), rows.slots.tolist(), strict=True))
        if rows.final:
            return SensorMessages.joined([self._last.pop(agent, self._black) for agent in agents])
        for area, slot in agents:
            self._last[area, slot] = self._message(self._view.around(area, self._first_robot + slot))
        return SensorMessages.joined([self._last[agent] for agent in agents])

    def _message(self, picture: NDArray[np.uint8]) -> bytes:
        if self._options.png:
            return self._compressed(picture)
        # (H, W, 3) -> (3, H, W)
        values = picture.transpose(2, 0, 1) if self._channels_first else picture
        return self._head + (values.astype("<f4") / np.float32(255)).astype("<f4").tobytes()

    def _compressed(self, picture: NDArray[np.uint8]) -> bytes:
        encoded = io.BytesIO()
        Image.fromarray(picture).save(encoded, "PNG", compress_level=1)
        message: Any = Observation(
            shape=self._shape,
            compression_type=COMPRESSION_PNG,
            compressed_data=encoded.getvalue(),
            dimension_properties=self._properties,
            name=self.name,
        )
        return bytes(message.SerializeToString())
