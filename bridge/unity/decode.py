"""From the bytes of a player's request to arrays.

A request is decoded into one :class:`AgentBatch` per behavior, which keeps
the player's order: what ended and what asks for a decision stand in one list,
and the order is what tells how a life went on. Every shape and every count is
checked against the behavior; only checked data leaves this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError
from bridge.unity.behaviors import Behavior
from bridge.unity.messages import COMPRESSION_NONE, STATUS_OK, STATUS_QUIT, UnityMessage

__all__ = [
    "MAX_AGENTS",
    "MAX_BEHAVIORS",
    "AgentBatch",
    "PlayerOutput",
    "decode_agents",
    "decode_output",
    "parse_request",
]

MAX_AGENTS: Final = 100_000
MAX_BEHAVIORS: Final = 1024

_PACKED_FIELD_1: Final = 0x0A
_ALIKE: Final = "All agents of a behavior must have the same sensors; give agents with others another behavior name."


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


def parse_request(data: bytes) -> Any:
    """A request as a message.

    Raises:
        UnityProtocolError: The bytes are no message, or its status is unknown.
    """
    try:
        message = UnityMessage.FromString(data)
    except DecodeError as error:
        raise UnityProtocolError(
            f"player: expected a protocol message, got {len(data)} bytes that are none: {error}. "
            "Check that a Unity player with com.unity.ml-agents is at the other end."
        ) from error
    if message.header.status not in (STATUS_OK, STATUS_QUIT):
        raise UnityProtocolError(
            f"player: expected status {STATUS_OK} or {STATUS_QUIT}, got {message.header.status}: "
            f"{message.header.message[:200]!r}."
        )
    return message


def decode_output(message: Any, known: Mapping[str, Behavior]) -> PlayerOutput:
    """The agents, new behaviors and side-channel bytes of a request.

    Args:
        message: From :func:`parse_request`, with status 200.
        known: Behaviors of earlier exchanges.

    Raises:
        UnityProtocolError: A behavior was never described, or its agents do not fit it.
    """
    output = message.unity_output
    agents = output.rl_output.agentInfos
    if len(known) + len(output.rl_initialization_output.brain_parameters) > MAX_BEHAVIORS:
        raise UnityProtocolError(f"player: expected at most {MAX_BEHAVIORS} behaviors, got more.")
    new = {}
    for parameters in output.rl_initialization_output.brain_parameters:
        name = parameters.brain_name
        if name not in known and name in agents and len(agents[name].value) > 0:
            new[name] = Behavior.from_messages(parameters, agents[name].value[0])
    batches = {}
    for name, listed in agents.items():
        behavior = new.get(name) or known.get(name)
        if behavior is None:
            raise UnityProtocolError(
                f"player: expected agents of the behaviors {sorted({*known, *new})}, got {name[:200]!r}. "
                "A player must describe a behavior together with its first agent."
            )
        if len(listed.value) > 0:
            batches[name] = decode_agents(listed.value, behavior)
    return PlayerOutput(batches, new, output.rl_output.side_channel)


def decode_agents(agents: Sequence[Any], behavior: Behavior) -> AgentBatch:
    """The arrays of one behavior's ``AgentInfo`` list.

    Raises:
        UnityProtocolError: An observation or a mask does not fit the behavior, or a value is not finite.
    """
    agents = list(agents)  # protobuf makes an object of an element at each access
    count = len(agents)
    if count > MAX_AGENTS:
        raise UnityProtocolError(f"behavior {behavior.name!r}: expected at most {MAX_AGENTS} agents, got {count}.")
    batch = AgentBatch(
        agent_id=np.fromiter((agent.id for agent in agents), np.int32, count),
        done=np.fromiter((agent.done for agent in agents), np.bool_, count),
        interrupted=np.fromiter((agent.max_step_reached for agent in agents), np.bool_, count),
        reward=np.fromiter((agent.reward for agent in agents), np.float32, count),
        group_id=np.fromiter((agent.group_id for agent in agents), np.int32, count),
        group_reward=np.fromiter((agent.group_reward for agent in agents), np.float32, count),
        observations=_observations(agents, behavior),
        action_mask=_allowed_actions(agents, behavior),
    )
    _require_finite(batch, behavior)
    return batch


def _observations(agents: Sequence[Any], behavior: Behavior) -> NDArray[np.float32]:
    if any(len(agent.observations) != len(behavior.sensors) for agent in agents):
        agent = next(agent for agent in agents if len(agent.observations) != len(behavior.sensors))
        raise UnityProtocolError(
            f"behavior {behavior.name!r}: agent {agent.id}: expected {len(behavior.sensors)} sensors, "
            f"got {len(agent.observations)}. {_ALIKE}"
        )
    values = np.empty((len(agents), behavior.observation_size), np.float32)
    start = 0
    for index, sensor in enumerate(behavior.sensors):
        observations = [agent.observations[index] for agent in agents]
        target = values[:, start : start + sensor.size]
        if not _copy_packed(observations, target):
            for row, (agent, observation) in enumerate(zip(agents, observations, strict=True)):
                _require_values(behavior, agent, index, observation)
                target[row] = np.fromiter(observation.float_data.data, np.float32, sensor.size)
        start += sensor.size
    return values


def _copy_packed(observations: Sequence[Any], target: NDArray[np.float32]) -> bool:
    """Copy all observations of one sensor if each is what protobuf itself writes for so many floats."""
    size = 4 * target.shape[1]
    head = np.frombuffer(bytes([_PACKED_FIELD_1]) + _varint(size), np.uint8)
    parts = [observation.float_data.SerializeToString() for observation in observations]
    if any(len(part) != len(head) + size for part in parts):
        return False
    table = np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), len(head) + size)
    if not (table[:, : len(head)] == head).all():
        return False
    target[:] = np.ascontiguousarray(table[:, len(head) :]).view("<f4")
    return True


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _require_values(behavior: Behavior, agent: Any, index: int, observation: Any) -> None:
    sensor = behavior.sensors[index]
    if observation.compression_type != COMPRESSION_NONE:
        raise _misfit(behavior, agent, index, "uncompressed values, got compressed ones")
    if len(observation.float_data.data) != sensor.size:
        raise _misfit(behavior, agent, index, f"{sensor.size} values, got {len(observation.float_data.data)}")


def _misfit(behavior: Behavior, agent: Any, index: int, expected_and_got: str) -> UnityProtocolError:
    name = behavior.sensors[index].name
    return UnityProtocolError(
        f"behavior {behavior.name!r}: agent {agent.id}: sensor {index} ({name!r}): expected {expected_and_got}. "
        f"{_ALIKE}"
    )


def _allowed_actions(agents: Sequence[Any], behavior: Behavior) -> NDArray[np.bool_]:
    size = behavior.action.mask_size
    allowed = np.ones((len(agents), size), np.bool_)
    if size == 0:
        return allowed
    for row, agent in enumerate(agents):
        # The mask of an ended life is left over from its last decision.
        if not agent.action_mask or agent.done:
            continue
        if len(agent.action_mask) != size:
            raise UnityProtocolError(
                f"behavior {behavior.name!r}: agent {agent.id}: expected an action mask of {size} values, "
                f"got {len(agent.action_mask)}."
            )
        np.logical_not(np.fromiter(agent.action_mask, np.bool_, size), out=allowed[row])
    return allowed


def _require_finite(batch: AgentBatch, behavior: Behavior) -> None:
    for name, values in (("reward", batch.reward), ("group reward", batch.group_reward)):
        wrong = ~np.isfinite(values)
        if wrong.any():
            agent = batch.agent_id[wrong.argmax()]
            raise UnityProtocolError(
                f"behavior {behavior.name!r}: agent {agent}: expected a finite {name}, got {values[wrong.argmax()]}. "
                "Look for a division by zero in the scene."
            )
    wrong = ~np.isfinite(batch.observations)
    if wrong.any():
        row, column = (int(value) for value in np.argwhere(wrong)[0])
        raise UnityProtocolError(
            f"behavior {behavior.name!r}: agent {batch.agent_id[row]}: expected finite observations, "
            f"got {batch.observations[row, column]} as value {column}. Look for a division by zero in the scene."
        )
