"""Further figures of robots, and events, that whoever records adds to a replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.replay.recording import FieldRecord, ReplayEvent
from bridge.warehouse.simulator import WarehouseSimulator

__all__ = ["EventReader", "FieldTape", "RobotField"]

EventReader: TypeAlias = Callable[[WarehouseSimulator, int], Iterable[ReplayEvent]]
"""Called with simulator and environment after every step: the events found since.

After the last step of an episode the robots have not looked around yet: ``observations`` are of the step before.
"""


@dataclass(frozen=True)
class RobotField:
    """A figure of every robot that is recorded and shown beside those that each replay has.

    Attributes:
        name: Unique among the fields.
        label: Shown to people.
        read: Gives the values of an environment's robots, (N,) or (N, K), number or bool; NaN for none.
        unit: Shown behind the value.
        resolution: Values are kept as multiples of it; more than 0.
        choices: Words for the values 0, 1, ...; empty for numbers.
    """

    name: str
    label: str
    read: Callable[[WarehouseSimulator, int], NDArray[Any]]
    unit: str = ""
    resolution: float = 1.0
    choices: tuple[str, ...] = ()


class FieldTape:
    """The values of some fields, frame after frame.

    Args:
        fields: What to read.

    Raises:
        SpecMismatchError: Two fields share a name, or a resolution is not above 0.
    """

    def __init__(self, fields: Sequence[RobotField]) -> None:
        names = [field.name for field in fields]
        if len(set(names)) != len(names):
            raise SpecMismatchError(f"replay: expected fields of distinct names, got {', '.join(names)}.")
        for field in fields:
            if not (math.isfinite(field.resolution) and field.resolution > 0):
                raise SpecMismatchError(
                    f"replay: field {field.name!r}: expected resolution > 0, got {field.resolution}."
                )
        self._fields = tuple(fields)
        self._values: list[list[NDArray[Any]]] = [[] for _ in fields]

    def read(self, simulator: WarehouseSimulator, env: int) -> None:
        """Keep a copy of all values.

        Raises:
            SpecMismatchError: A field's values have the wrong shape.
        """
        num_robots = simulator.config.num_robots
        for field, values in zip(self._fields, self._values, strict=True):
            read = np.array(field.read(simulator, env))
            if read.ndim not in (1, 2) or len(read) != num_robots or (values and read.shape != values[0].shape):
                raise SpecMismatchError(
                    f"replay: field {field.name!r}: expected values of shape ({num_robots},) or ({num_robots}, K) "
                    f"in every step, got {read.shape}."
                )
            values.append(read)

    def records(self) -> tuple[FieldRecord, ...]:
        """All that was kept."""
        return tuple(
            FieldRecord(field.name, field.label, field.unit, field.resolution, field.choices, np.stack(values))
            for field, values in zip(self._fields, self._values, strict=True)
        )
