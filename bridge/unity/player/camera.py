"""Visual sensors: the floor from above, around each robot.

The picture of an area is drawn once per step and cut out for every robot and
camera. It is never turned: up is the top of the layout.

A terminal info shows the floor as it was when the life ended. A robot that has
left the floor is not on it any more; its picture is taken from where it was.

Several pictures in one observation are those of the last decisions, as the C#
package's ``StackingSensor`` keeps them: oldest first, black before the first.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bridge.unity.messages import COMPRESSION_PNG, Observation
from bridge.unity.player.agent_bytes import SensorMessages
from bridge.unity.player.camera_options import CameraOptions
from bridge.unity.player.sensors import SensorRows, float_head, float_messages
from bridge.warehouse.render import render_floor

if TYPE_CHECKING:
    from bridge.unity.player.floors import Floors
    from bridge.warehouse.simulator import WarehouseSimulator

__all__ = ["CELL_PX", "CameraSensor", "TopView"]

CELL_PX: Final = 4
"""Edge of a cell in pixels."""

_NONE, _TRANSLATIONAL_EQUIVARIANCE = 1, 2
_RGB: Final = 3

Picture = NDArray[np.uint8]


class _LastFrame(NamedTuple):
    """How an area looked when its episode ended: (H, W, 3) uint8, and (N, 2) float64, where its robots were."""

    floor: Picture
    places_m: NDArray[np.float64]


class TopView:
    """Pictures of all areas, shared by roles and cameras; each area is drawn at most once per frame.

    Args:
        floors: The running warehouses.
        cameras: What is cut out.
    """

    def __init__(self, floors: Floors, cameras: Sequence[CameraOptions]) -> None:
        self._floors = floors
        # Black around the floor, as much as any camera can see of it.
        self._margin_px = max(max(camera.width, camera.height) for camera in cameras)
        self._drawn: dict[int, Picture] = {}
        self._ending: dict[int, _LastFrame] = {}
        self._ended: dict[int, _LastFrame] = {}
        self._places_m = self._places_before_m = floors.positions_m()
        floors.watch(self._keep)

    def new_frame(self) -> None:
        """The simulator has moved on."""
        self._drawn.clear()
        self._ended, self._ending = self._ending, {}
        self._places_before_m, self._places_m = self._places_m, self._floors.positions_m()

    def around(self, area: int, robot: int, camera: CameraOptions) -> Picture:
        """(height, width, 3) uint8 with the robot in the middle; black outside of the floor."""
        return self._cut(self._floor(area), self._places_m[area, robot], camera)

    def final(self, area: int, robot: int, camera: CameraOptions) -> Picture:
        """The same for a robot whose life ended in this frame, as it was then."""
        if area in self._ended:
            return self._cut(self._ended[area].floor, self._ended[area].places_m[robot], camera)
        # A robot that came back in the same step is elsewhere by now.
        is_back = self._floors.alive()[area, robot]
        places_m = self._places_before_m if is_back else self._places_m
        return self._cut(self._floor(area), places_m[area, robot], camera)

    def _keep(self, area: int, simulator: WarehouseSimulator) -> None:
        self._ending[area] = _LastFrame(self._draw(area), simulator.positions_m[area])

    def _floor(self, area: int) -> Picture:
        if area not in self._drawn:
            self._drawn[area] = self._draw(area)
        return self._drawn[area]

    def _draw(self, area: int) -> Picture:
        margin = (self._margin_px, self._margin_px)
        return np.pad(render_floor(self._floors.simulator(area), area, CELL_PX), (margin, margin, (0, 0)))

    def _cut(self, floor: Picture, place_m: NDArray[np.float64], camera: CameraOptions) -> Picture:
        layout = self._floors.simulator(0).layout  # of equal size in all variants
        x, y = place_m * (CELL_PX / layout.cell_size_m)
        top = round(layout.height * CELL_PX - float(y)) + self._margin_px - camera.height // 2
        left = round(float(x)) + self._margin_px - camera.width // 2
        return floor[top : top + camera.height, left : left + camera.width]


class CameraSensor:
    """A rank-3 sensor of one role.

    Args:
        view: Where pictures come from.
        first_robot: The role's first robot on the simulator's robot axis.
        camera: Size, channels and compression.
        channels_first: Channel, row, column instead of row, column, channel.
    """

    def __init__(self, view: TopView, first_robot: int, camera: CameraOptions, channels_first: bool) -> None:
        self.name = camera.name
        self._view = view
        self._first_robot = first_robot
        self._camera = camera
        self._channels_first = channels_first
        self._shape = list(camera.shape(channels_first))
        properties = [_TRANSLATIONAL_EQUIVARIANCE] * 2
        self._properties = [_NONE, *properties] if channels_first else [*properties, _NONE]
        self._head = np.frombuffer(float_head(self.name, self._shape, self._properties), np.uint8)
        black = self._frame(np.zeros((camera.height, camera.width, _RGB), np.uint8))
        self._empty = (black,) * camera.stack
        self._frames: dict[tuple[int, int], tuple[Any, ...]] = {}

    def restart(self) -> None:
        """Forget the pictures of all agents: new episodes begin."""
        self._frames.clear()

    def encode(self, rows: SensorRows) -> SensorMessages:
        """See :class:`bridge.unity.player.sensors.Sensor`."""
        seen = []
        for agent in zip(rows.areas.tolist(), rows.slots.tolist(), strict=True):
            area, slot = agent
            look = self._view.final if rows.final else self._view.around
            newest = self._frame(look(area, self._first_robot + slot, self._camera))
            frames = (*self._frames.pop(agent, self._empty)[1:], newest)
            seen.append(frames)
            if not rows.final and len(frames) > 1:
                self._frames[agent] = frames
        if self._camera.png:
            return SensorMessages.joined([self._compressed(frames) for frames in seen])
        axis = 0 if self._channels_first else -1
        values = [np.concatenate(frames, axis).ravel() for frames in seen]
        return float_messages(self._head, np.array(values, np.float32).reshape(len(seen), math.prod(self._shape)))

    def _frame(self, picture: Picture) -> Any:
        """One picture: a PNG, or float32 in [0, 1] of the order of the sensor."""
        if self._camera.png:
            # Always in colour, as the C# package sends it: grey is what the trainer makes of it.
            encoded = io.BytesIO()
            Image.fromarray(picture).save(encoded, "PNG", compress_level=1)
            return encoded.getvalue()
        values = picture.astype(np.float32) / np.float32(255)
        if self._camera.grey:
            values = values.mean(axis=-1, dtype=np.float32, keepdims=True)
        # (H, W, C) -> (C, H, W)
        return values.transpose(2, 0, 1) if self._channels_first else values

    def _compressed(self, frames: Sequence[bytes]) -> bytes:
        message: Any = Observation(
            shape=self._shape,
            compression_type=COMPRESSION_PNG,
            compressed_data=b"".join(frames),
            compressed_channel_mapping=self._camera.channel_mapping,
            dimension_properties=self._properties,
            name=self.name,
        )
        return bytes(message.SerializeToString())
