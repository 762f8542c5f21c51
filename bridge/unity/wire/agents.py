"""From the bytes of one behavior's agents to arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError
from bridge.unity.behaviors import MAX_VALUES, Behavior
from bridge.unity.images import IMAGE_RANK
from bridge.unity.wire import layout, walker
from bridge.unity.wire.request import Request

__all__ = ["MAX_IMAGE_VALUES", "AgentBatch", "AgentReader", "UnusualFormError"]

MAX_IMAGE_VALUES: Final = 4 * MAX_VALUES
"""Most values of one behavior in one message, where some are compressed: bytes say little about their number."""

_ALIKE: Final = "All agents of a behavior must have the same sensors; give agents with others another behavior name."
_NOT_FINITE: Final = "Look for a division by zero in the scene."


@dataclass(frozen=True)
class AgentBatch:
    """What a player says about the agents of one behavior in one exchange; N entries in its order.

    An agent may stand in it more than once: ended, and then asking for a decision in its next life.

    Attributes:
        agent_id: (N,) int32.
        done: (N,) bool, a life ended; else the entry asks for a decision.
        interrupted: (N,) bool, the life was cut by a limit.
        reward: (N,) float32, since the agent's last entry.
        group_id: (N,) int32, 0 for none.
        group_reward: (N,) float32, since the agent's last entry.
        observations: (N, F) float32, the sensors one after the other.
        action_mask: (N, M) bool, True = allowed; all True in entries of an ended life.
    """

    agent_id: NDArray[np.int32]
    done: NDArray[np.bool_]
    interrupted: NDArray[np.bool_]
    reward: NDArray[np.float32]
    group_id: NDArray[np.int32]
    group_reward: NDArray[np.float32]
    observations: NDArray[np.float32]
    action_mask: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.agent_id)

    def rows(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Self:
        """Copies of some entries, by mask or index."""
        return type(self)(**{entry.name: getattr(self, entry.name)[chosen] for entry in fields(self)})


class UnusualFormError(Exception):
    """The bytes are in a form that no player uses: make them canonical, and read again."""


class AgentReader:
    """Reads the agents of one behavior.

    Args:
        behavior: What each of them looks like.
    """

    def __init__(self, behavior: Behavior) -> None:
        self._behavior = behavior
        self._shapes = np.zeros((len(behavior.sensors), 3 + layout.MAX_RANK), np.int64)
        first = 0
        for row, sensor in zip(self._shapes, behavior.sensors, strict=True):
            row[:3] = first, sensor.size, len(sensor.shape)
            row[3 : 3 + len(sensor.shape)] = sensor.shape
            first += sensor.size
        self._size = first
        self._may_send_images = any(len(sensor.shape) == IMAGE_RANK for sensor in behavior.sensors)
        # Scratch memory, larger where there are many agents.
        self._compressed = np.empty((64, len(self._shapes), 4), np.int32)
        self._report = np.empty(5, np.int64)

    def read(self, request: Request) -> tuple[AgentBatch, NDArray[np.int32] | None]:
        """The behavior's agents in a request.

        Returns:
            Their arrays; and, where some observations are compressed, (N, S, 4) int32: start and stop of
            each sensor's compressed data in the request and of its channel mapping, or -1. Their columns in the
            arrays are garbage.

        Raises:
            UnityProtocolError: An agent does not fit the behavior, or a value is not finite.
            UnusualFormError: There are groups among the agents' fields, or a channel mapping is in pieces.
        """
        entry = request.agents[self._behavior.name]
        count, size = int(entry[6]), self._size
        rows = count
        if self._may_send_images and count * size > MAX_IMAGE_VALUES:
            raise UnityProtocolError(
                f"behavior {self._behavior.name!r}: expected at most {MAX_IMAGE_VALUES} values of visual observations "
                f"in one message, got {count} agents with {size} each. Use smaller pictures, or several players."
            )
        if not self._may_send_images and count * size > MAX_VALUES:  # no more memory than the bytes can fill
            rows = min(count, max(int(entry[3] - entry[2]) // (4 * size) + 1, MAX_VALUES // size))
        if rows > len(self._compressed):
            self._compressed = np.empty((rows, len(self._shapes), 4), np.int32)
        columns = layout.Columns(
            observations=np.empty((rows, size), np.float32),
            compressed=self._compressed,
            numbers=np.empty((2, count), np.int32),
            rewards=np.empty((2, count), np.float32),
            flags=np.empty((2, count), np.bool_),
            allowed=np.empty((count, self._behavior.action.mask_size), np.bool_),
            report=self._report,
        )
        end = walker.fill(request.data, entry, self._shapes, columns)
        wrong, row, sensor, value, num_compressed = columns.report.tolist()
        if end < 0 and -end % 4 == layout.FAULT_RARE:
            raise UnusualFormError
        if end < 0:
            raise UnityProtocolError(
                f"behavior {self._behavior.name!r}: expected agents, got bytes that are none "
                f"from byte {-end // 4} on. Check that a Unity player with com.unity.ml-agents is at the "
                "other end."
            )
        if wrong:
            raise self._misfit(columns, wrong, row, sensor, value)
        batch = AgentBatch(
            agent_id=columns.numbers[0],
            done=columns.flags[0],
            interrupted=columns.flags[1],
            reward=columns.rewards[0],
            group_id=columns.numbers[1],
            group_reward=columns.rewards[1],
            observations=columns.observations,
            action_mask=columns.allowed,
        )
        return batch, self._compressed[:count].copy() if num_compressed else None

    def columns(self, sensor: int) -> slice:
        """Where the values of a sensor are in an observation."""
        first, size = self._shapes[sensor, :2].tolist()
        return slice(first, first + size)

    def shape(self, sensor: int) -> tuple[int, ...]:
        """Shape of a sensor's observations."""
        return self._behavior.sensors[sensor].shape

    def misfit(self, agent_id: int, sensor: int, expected_and_got: str) -> UnityProtocolError:
        """An error that names a sensor."""
        name = self._behavior.sensors[sensor].name
        return UnityProtocolError(
            f"behavior {self._behavior.name!r}: agent {agent_id}: sensor {sensor} ({name!r}): "
            f"expected {expected_and_got}"
        )

    def _misfit(self, columns: layout.Columns, wrong: int, row: int, sensor: int, value: int) -> UnityProtocolError:
        agent_id = int(columns.numbers[0, row])
        where = f"behavior {self._behavior.name!r}: agent {agent_id}: expected"
        match wrong:
            case layout.BAD_SENSOR_COUNT:
                return UnityProtocolError(f"{where} {len(self._shapes)} sensors, got {value}. {_ALIKE}")
            case layout.BAD_MASK:
                size = self._behavior.action.mask_size
                return UnityProtocolError(f"{where} an action mask of {size} values, got {value}.")
            case layout.BAD_REWARD | layout.BAD_GROUP_REWARD:
                what = "reward" if wrong == layout.BAD_REWARD else "group reward"
                given = columns.rewards[wrong - layout.BAD_REWARD, row]
                return UnityProtocolError(f"{where} a finite {what}, got {given}. {_NOT_FINITE}")
            case layout.BAD_VALUE:
                given = columns.observations[row, self._shapes[sensor, 0] + value]
                return self.misfit(agent_id, sensor, f"finite values, got {given} as value {value}. {_NOT_FINITE}")
            case layout.BAD_COMPRESSION:
                return self.misfit(agent_id, sensor, f"compression type 0 or 1, got {value}.")
            case layout.BAD_IMAGE:
                return self.misfit(agent_id, sensor, "compressed data as announced, got none.")
            case layout.BAD_SHAPE:
                shape = self._behavior.sensors[sensor].shape
                return self.misfit(agent_id, sensor, f"the shape {shape}, got another of {value} dimensions. {_ALIKE}")
        size = self._behavior.sensors[sensor].size
        return self.misfit(agent_id, sensor, f"{size} values, got {'fewer' if value < 0 else value}. {_ALIKE}")
