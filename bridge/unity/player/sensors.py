"""The sensors of an agent, and each observation as a protocol message.

As in the C# package an agent's sensors are sorted by name, rank 3 is channel
first from package 3.0 on and channel last before, a buffer sensor is padded
with zeros, and the messages state the properties of every dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from bridge.specs import ObservationLayout
from bridge.unity.messages import COMPRESSION_NONE, Observation
from bridge.unity.player.agent_bytes import SensorMessages
from bridge.warehouse.sensors.neighbours import NEIGHBOUR_FIELDS

__all__ = [
    "BUFFER_SENSOR",
    "GOAL_PREFIX",
    "NEIGHBOURS_BLOCK",
    "Sensor",
    "SensorRows",
    "block_sensor",
    "buffer_sensor",
    "float_head",
    "float_messages",
    "layout_sensor",
    "sensor_order",
]

NEIGHBOURS_BLOCK: Final = "neighbours"
"""The observation block that a buffer sensor is made of."""

BUFFER_SENSOR: Final = "buffer_neighbours"

GOAL_PREFIX: Final = "goal_"
"""A goal signal is named after its block, with this before it."""

_DEFAULT, _GOAL_SIGNAL = 0, 1
_DIMENSION_NONE: Final = 1
_VARIABLE_SIZE: Final = 4
_FLOAT_DATA_FIELD = b"\x22"  # Observation.float_data: field 4, length-delimited
_DATA_FIELD = b"\x0a"  # FloatData.data: field 1, packed


@dataclass(frozen=True)
class SensorRows:
    """What sensors are read of: n agents of one role.

    Attributes:
        areas: (n,) int64, training area of each agent.
        slots: (n,) int64, its slot in the role.
        observations: (n, F) float32, its observation as in the role's layout.
        final: These are the last observations of lives that have ended.
    """

    areas: NDArray[np.int64]
    slots: NDArray[np.int64]
    observations: NDArray[np.float32]
    final: bool


class Sensor(Protocol):
    """One sensor of every agent of a role."""

    @property
    def name(self) -> str:
        """Its name, which decides the order of observations; see :func:`sensor_order`."""
        ...

    def encode(self, rows: SensorRows) -> SensorMessages:
        """One serialized ``ObservationProto`` per agent."""
        ...


class _FloatSensor:
    """Sends some of the values of an observation."""

    def __init__(self, name: str, places: slice | NDArray[np.int64], head: bytes) -> None:
        self.name = name
        self._places = places
        self._head = np.frombuffer(head, np.uint8)

    def encode(self, rows: SensorRows) -> SensorMessages:
        """See :class:`Sensor`."""
        return float_messages(self._head, rows.observations[:, self._places])


def sensor_order(name: str) -> str:
    """Key by which sensors are sorted; as in the C# package, the case of letters does not count."""
    return name.casefold()


def layout_sensor(layout: ObservationLayout) -> Sensor:
    """A vector sensor with the whole observation, named after its layout."""
    name = f"agv_{layout.digest}"
    return _FloatSensor(name, slice(None), float_head(name, [layout.size], [_DIMENSION_NONE]))


def block_sensor(layout: ObservationLayout, block: str) -> Sensor:
    """A vector sensor with one block of the observation, marked as a goal signal.

    Raises:
        SpecMismatchError: There is no such block.
    """
    place = layout.slice_of(block)
    name = f"{GOAL_PREFIX}{block}"
    return _FloatSensor(name, place, float_head(name, [place.stop - place.start], [_DIMENSION_NONE], _GOAL_SIGNAL))


def buffer_sensor(layout: ObservationLayout, num_robots: int) -> Sensor:
    """A buffer sensor (rank 2, padded with zeros) with the nearest robots of the block ``neighbours``.

    The block's validity flags are left out: a row of zeros says the same.

    Raises:
        SpecMismatchError: There is no such block.
    """
    place = layout.slice_of(NEIGHBOURS_BLOCK)
    # (K * fields,) -> (K, fields) -> (N, fields without the flag, which is the first)
    places = np.arange(place.start, place.stop).reshape(-1, len(NEIGHBOUR_FIELDS))[:num_robots, 1:]
    head = float_head(BUFFER_SENSOR, list(places.shape), [_VARIABLE_SIZE, _DIMENSION_NONE])
    return _FloatSensor(BUFFER_SENSOR, places.ravel(), head)


def float_messages(head: NDArray[np.uint8], values: NDArray[np.float32]) -> SensorMessages:
    """Messages that begin alike.

    Args:
        head: (H,) uint8, of :func:`float_head`.
        values: (n, W) float32, what follows.
    """
    data = np.ascontiguousarray(values, "<f4").view(np.uint8).ravel()
    starts = np.arange(len(values) + 1, dtype=np.int64) * (4 * values.shape[1])
    return SensorMessages(head, data, starts)


def float_head(name: str, shape: list[int], dimension_properties: list[int], kind: int = _DEFAULT) -> bytes:
    """A serialized ``ObservationProto`` up to its values, which follow as little-endian float32."""
    constant: Any = Observation(
        shape=shape,
        compression_type=COMPRESSION_NONE,
        dimension_properties=dimension_properties,
        observation_type=kind,
        name=name,
    )
    num_bytes = 4 * int(np.prod(shape))
    float_data_header = _DATA_FIELD + _varint(num_bytes)
    return bytes(
        constant.SerializeToString()
        + _FLOAT_DATA_FIELD
        + _varint(len(float_data_header) + num_bytes)
        + float_data_header
    )


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
