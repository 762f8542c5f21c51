"""From the bytes of a player's request to arrays.

A request is decoded into one :class:`AgentBatch` per behavior, which keeps
the player's order: what ended and what asks for a decision stand in one list,
and the order is what tells how a life went on. Every shape and every count is
checked against the behavior; only checked data leaves this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError
from bridge.unity.behaviors import MAX_SENSORS, Behavior
from bridge.unity.image_formats import ImageFormats
from bridge.unity.images import ImageError
from bridge.unity.messages import AgentInfo, InitializationOutput
from bridge.unity.wire import (
    MAX_BEHAVIORS,
    AgentBatch,
    AgentReader,
    Request,
    UnusualFormError,
    canonical,
    read_request,
)

__all__ = ["AgentBatch", "OutputDecoder", "PlayerOutput", "parse_initialization"]


@dataclass(frozen=True)
class PlayerOutput:
    """One decoded exchange.

    Attributes:
        batches: Agents per behavior; behaviors without an entry are absent.
        new_behaviors: Behaviors that appeared in this exchange.
        side_channel: Frames of the side channels.
    """

    batches: dict[str, AgentBatch]
    new_behaviors: dict[str, Behavior] = field(default_factory=dict)
    side_channel: bytes = b""


class OutputDecoder:
    """Decodes the requests of one player, and remembers the behaviors that it described.

    Attributes:
        behaviors: Behaviors that have appeared, by name on the wire; grows.
        channels_first: Visual observations are channel, row, column; else row, column, channel.
    """

    def __init__(self, *, channels_first: bool = True) -> None:
        self.behaviors: dict[str, Behavior] = {}
        self.channels_first = channels_first
        self._readers: dict[str, AgentReader] = {}
        self._formats = ImageFormats()

    def decode(self, request: Request) -> PlayerOutput:
        """The agents, new behaviors and side-channel bytes of a request with status 200.

        Raises:
            UnityProtocolError: A behavior was never described, or its agents do not fit it.
        """
        new = self._new_behaviors(request)
        readers = {name: AgentReader(behavior) for name, behavior in new.items()}
        batches = {}
        try:
            for name, entry in request.agents.items():
                reader = self._readers.get(name) or readers.get(name)
                if reader is None:
                    raise self._undescribed(name, new)
                if entry[6] > 0:
                    batch, compressed = reader.read(request)
                    if compressed is not None:
                        self._read_images(reader, request, batch, compressed)
                    batches[name] = batch
        except UnusualFormError:
            return self.decode(read_request(canonical(request.data.tobytes())))
        self.behaviors.update(new)
        self._readers.update(readers)
        return PlayerOutput(batches, new, request.side_channel)

    def _new_behaviors(self, request: Request) -> dict[str, Behavior]:
        if request.initialization is None:
            return {}
        described = parse_initialization(request.initialization).brain_parameters
        if len(self.behaviors) + len(described) > MAX_BEHAVIORS:
            raise UnityProtocolError(f"player: expected at most {MAX_BEHAVIORS} behaviors, got more.")
        new = {}
        for parameters in described:
            name = parameters.brain_name
            if name not in self.behaviors and name in request.agents and request.agents[name][6] > 0:
                new[name] = Behavior.from_messages(parameters, _first_agent(request, name))
        return new

    def _read_images(
        self, reader: AgentReader, request: Request, batch: AgentBatch, compressed: NDArray[np.int32]
    ) -> None:
        """Write the observations that are compressed into their columns.

        Args:
            reader: What read the batch.
            request: The bytes.
            batch: Its observations are filled.
            compressed: (N, S, 4) int32, where the PNGs and their channel mappings are; -1 for none.
        """
        for row, sensor in np.argwhere(compressed[..., 0] >= 0).tolist():
            start, stop, mapping_start, mapping_stop = compressed[row, sensor].tolist()
            mapping = request.data[mapping_start:mapping_stop].tobytes() if mapping_start >= 0 else b""
            values = batch.observations[row, reader.columns(sensor)]
            try:
                image_format = self._formats.of(reader.shape(sensor), mapping, self.channels_first)
                image_format.decode(request.data[start:stop].tobytes(), values)
            except ImageError as error:
                raise reader.misfit(int(batch.agent_id[row]), sensor, str(error)) from error

    def _undescribed(self, name: str, new: dict[str, Behavior]) -> UnityProtocolError:
        return UnityProtocolError(
            f"player: expected agents of the behaviors {sorted({*self.behaviors, *new})[:20]}, got {name[:200]!r}. "
            "A player must describe a behavior together with its first agent."
        )


def parse_initialization(data: bytes) -> Any:
    """A player's description of itself and of new behaviors, an ``InitializationOutput``.

    Raises:
        UnityProtocolError: The bytes are none.
    """
    return _parse(InitializationOutput, data, "player: expected a description of the player")


def _first_agent(request: Request, name: str) -> Any:
    data, num_observations = request.first_agent(name)
    if num_observations > MAX_SENSORS:
        raise UnityProtocolError(
            f"behavior {name[:200]!r}: expected at most {MAX_SENSORS} observations, got {num_observations}."
        )
    return _parse(AgentInfo, data, f"behavior {name[:200]!r}: expected an agent")


def _parse(message: Any, data: bytes, expected: str) -> Message:
    try:
        parsed: Message = message.FromString(data)
    except DecodeError as error:
        raise UnityProtocolError(
            f"{expected}, got {len(data)} bytes that are none: {error}. "
            "Check that a Unity player with com.unity.ml-agents is at the other end."
        ) from error
    return parsed
