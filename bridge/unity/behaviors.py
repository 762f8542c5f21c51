"""What is fixed about a behavior: its observations and its actions.

The protocol describes actions when a behavior appears, but observations only
in each agent's data; so a behavior is made from both, from the first agent
that comes with it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from bridge.errors import SpecMismatchError, UnityProtocolError
from bridge.specs import ActionSpec, ObservationLayout, RoleSpec
from bridge.unity import mlagents_types as mlagents

__all__ = [
    "LAYOUT_SENSOR",
    "MAX_ACTION_SIZE",
    "MAX_NAME_LENGTH",
    "MAX_RANK",
    "MAX_SENSORS",
    "MAX_VALUES",
    "Behavior",
    "SensorSpec",
    "require_role",
]

MAX_NAME_LENGTH: Final = 1024
MAX_SENSORS: Final = 1024
MAX_RANK: Final = 3
MAX_VALUES: Final = 16 * 1024 * 1024
MAX_ACTION_SIZE: Final = 65536

LAYOUT_SENSOR: Final = re.compile(r"agv_([0-9a-f]{16})(?:_\d+)?", re.ASCII)
"""Name of a sensor that carries an observation layout: the layout's digest, and a number where it has several."""


@dataclass(frozen=True)
class SensorSpec:
    """One observation of an agent.

    Attributes:
        name: Name of the sensor in Unity.
        shape: Shape of its values; one dimension for a vector.
        dimension_properties: ML-Agents' flags, one per dimension.
        observation_type: 0 for an ordinary observation, 1 for a goal signal.
    """

    name: str
    shape: tuple[int, ...]
    dimension_properties: tuple[int, ...]
    observation_type: int

    @property
    def size(self) -> int:
        """Number of float32 values."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Behavior:
    """Agents that are driven by one policy.

    Attributes:
        name: Name on the wire, ``<name>?team=<team>``.
        sensors: The observations, in the order of the wire.
        action: The action; its continuous values are in [-1, 1].
    """

    name: str
    sensors: tuple[SensorSpec, ...]
    action: ActionSpec

    @property
    def role(self) -> str:
        """The name without the team."""
        return self.name.partition("?team=")[0]

    @property
    def observation_size(self) -> int:
        """Number of float32 values of all sensors together."""
        return sum(sensor.size for sensor in self.sensors)

    @classmethod
    def from_messages(cls, parameters: Any, agent: Any) -> Behavior:
        """A behavior from its ``BrainParameters`` and the ``AgentInfo`` of one of its agents.

        Raises:
            UnityProtocolError: A size, a shape or a name is out of bounds.
        """
        name = parameters.brain_name
        where = f"behavior {name[:MAX_NAME_LENGTH]!r}"
        if not 0 < len(name) <= MAX_NAME_LENGTH:
            raise UnityProtocolError(f"{where}: expected a name of 1 to {MAX_NAME_LENGTH} characters, got {len(name)}.")
        if len(agent.observations) > MAX_SENSORS:
            raise UnityProtocolError(
                f"{where}: expected at most {MAX_SENSORS} observations, got {len(agent.observations)}."
            )
        sensors = tuple(_sensor(observation, where) for observation in agent.observations)
        if sum(sensor.size for sensor in sensors) > MAX_VALUES:
            raise UnityProtocolError(f"{where}: expected at most {MAX_VALUES} observed values, got more.")
        return cls(name, sensors, _action_spec(parameters, where))

    def to_mlagents(self) -> Any:
        """The ``BehaviorSpec`` of ``mlagents_envs``."""
        observations = [
            mlagents.ObservationSpec(
                shape=sensor.shape,
                dimension_property=tuple(mlagents.DimensionProperty(value) for value in sensor.dimension_properties),
                observation_type=mlagents.ObservationType(sensor.observation_type),
                name=sensor.name,
            )
            for sensor in self.sensors
        ]
        return mlagents.BehaviorSpec(
            observations, mlagents.ActionSpec(self.action.num_continuous, self.action.discrete_branches)
        )


def require_role(behavior: Behavior, role: RoleSpec) -> None:
    """Raise unless a behavior has the role's observation and action.

    Raises:
        SpecMismatchError: Says what differs.
    """
    where = f"UnityRoster: behavior {behavior.name!r}"
    # A layout that was asked from a player names its sensors; it says no more than they do.
    asked = {block.name for block in role.observation.blocks}
    for index, sensor in enumerate(behavior.sensors):
        match = LAYOUT_SENSOR.fullmatch(sensor.name)
        if match is None or sensor.name in asked:
            continue
        # A sensor beside others may carry the layout alone.
        own = ObservationLayout(
            tuple(replace(block, sensor=0) for block in role.observation.blocks if block.sensor == index)
        )
        if match[1] not in (role.observation.digest, own.digest):
            raise SpecMismatchError(
                f"{where}: expected the observation layout {role.observation.digest} (agv-bridge scenarios show), "
                f"got {match[1]}. The player runs another scenario, or another version of it."
            )
    for block in role.observation.blocks:
        if len(block.shape) > 1 and block.sensor < len(behavior.sensors):
            shape = behavior.sensors[block.sensor].shape
            if shape != block.shape:
                raise SpecMismatchError(
                    f"{where}: sensor {block.sensor}: expected the shape {block.shape} as {block.name!r}, got {shape}. "
                    "Use the player, and the version of its ML-Agents package, that the policy was trained with."
                )
    if behavior.observation_size != role.observation.size:
        raise SpecMismatchError(
            f"{where}: expected {role.observation.size} observed values, got {behavior.observation_size}. "
            "Use the scenario that the player was built for."
        )
    mine = (role.action.num_continuous, role.action.discrete_branches)
    its = (behavior.action.num_continuous, behavior.action.discrete_branches)
    if mine != its:
        raise SpecMismatchError(
            f"{where}: expected {mine[0]} continuous values and branches {mine[1]}, got {its[0]} and {its[1]}. "
            "Use the scenario that the player was built for."
        )


def _sensor(observation: Any, where: str) -> SensorSpec:
    name = observation.name
    if len(name) > MAX_NAME_LENGTH:
        raise UnityProtocolError(f"{where}: expected a sensor name of at most {MAX_NAME_LENGTH} characters, got more.")
    where = f"{where}: sensor {name!r}"
    if not 1 <= len(observation.shape) <= MAX_RANK:
        raise UnityProtocolError(f"{where}: expected 1 to {MAX_RANK} dimensions, got {len(observation.shape)}.")
    shape = tuple(observation.shape)
    if min(shape) < 1 or math.prod(shape) > MAX_VALUES:
        raise UnityProtocolError(f"{where}: expected 1 to {MAX_VALUES} values, got the shape {shape}.")
    if len(observation.dimension_properties) not in (0, len(shape)):
        raise UnityProtocolError(
            f"{where}: expected a property per dimension, got {len(observation.dimension_properties)}."
        )
    properties = tuple(observation.dimension_properties) or (0,) * len(shape)
    if not all(0 <= value < 8 for value in properties):
        raise UnityProtocolError(f"{where}: expected a property of 0 to 7 per dimension, got {properties}.")
    if observation.observation_type not in (0, 1):
        raise UnityProtocolError(f"{where}: expected observation type 0 or 1, got {observation.observation_type}.")
    return SensorSpec(name, shape, properties, observation.observation_type)


def _action_spec(parameters: Any, where: str) -> ActionSpec:
    spec = parameters.action_spec
    branches = tuple(spec.discrete_branch_sizes)
    sizes = (spec.num_continuous_actions, *branches)
    if min(sizes) < 0 or sum(sizes) > MAX_ACTION_SIZE or 0 in branches:
        raise UnityProtocolError(
            f"{where}: expected sizes >= 1 and at most {MAX_ACTION_SIZE} together, got {sizes[0]} continuous actions "
            f"and branches {branches[:8]}."
        )
    if len(branches) != spec.num_discrete_actions:
        raise UnityProtocolError(
            f"{where}: expected {spec.num_discrete_actions} branch sizes as announced, got {len(branches)}."
        )
    try:
        return ActionSpec(sizes[0], branches)
    except SpecMismatchError as error:
        raise UnityProtocolError(f"{where}: expected at least one action, got none.") from error
