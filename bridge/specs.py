"""What a world looks like to everything that acts in it or learns from it.

Sizes, names, units and ranges only: no arrays and no behaviour. A spec is
made by a world (``registry.open_world(scenario).spec``), stored in
checkpoints and in exported models, and compared at every hand-over.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from bridge.errors import SpecMismatchError

__all__ = ["ActionSpec", "MetricSpec", "ObservationBlock", "ObservationLayout", "RoleSpec", "WorldSpec"]

_ADVICE: Final = "Use the scenario that the policy was trained on, or train a policy for this one."


@dataclass(frozen=True)
class ObservationBlock:
    """A named run of values in an observation.

    Attributes:
        name: Name of the block, unique in its layout.
        size: Number of float32 values.
        unit: Unit of the values, ``"1"`` for ratios and flags.
        low: Smallest value that can occur; None if unbounded.
        high: Largest value that can occur; None if unbounded.
        fields: A name for every value, or empty when the values are alike (lidar beams).
        sensor: Index of the sensor that carries the block: in Unity and in an
            exported model the values of sensor ``i`` are the input ``obs_i``.
        description: One sentence for a reader of ``agv-bridge scenarios show``.
        shape: Shape of the values where they have two or three dimensions, which the observation holds flat in
            row-major order; empty for a vector. ``observation[layout.slice_of(name)].reshape(shape)`` is the block.
        is_goal: The block says what the robot is to reach (ML-Agents' goal signal).
    """

    name: str
    size: int
    unit: str = "1"
    low: float | None = None
    high: float | None = None
    fields: tuple[str, ...] = ()
    sensor: int = 0
    description: str = ""
    shape: tuple[int, ...] = ()
    is_goal: bool = False

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SpecMismatchError(f"observation block {self.name!r}: expected a size >= 1, got {self.size}.")
        if self.shape and (min(self.shape) < 1 or math.prod(self.shape) != self.size):
            raise SpecMismatchError(
                f"observation block {self.name!r}: expected a shape of {self.size} values, got {self.shape}."
            )
        if self.fields and len(self.fields) != self.size:
            raise SpecMismatchError(
                f"observation block {self.name!r}: expected {self.size} field names, got {len(self.fields)}."
            )


@dataclass(frozen=True)
class ObservationLayout:
    """The blocks of one agent's observation, in the order in which they lie in the array."""

    blocks: tuple[ObservationBlock, ...]

    def __post_init__(self) -> None:
        names = [block.name for block in self.blocks]
        if len(set(names)) != len(names):
            raise SpecMismatchError(f"observation layout: expected distinct block names, got {names}.")
        sensors = [block.sensor for block in self.blocks]
        if sensors != sorted(sensors) or set(sensors) != set(range(len(set(sensors)))):
            raise SpecMismatchError(f"observation layout: expected ascending sensor indices from 0, got {sensors}.")

    @property
    def size(self) -> int:
        """Number of float32 values of an observation."""
        return sum(block.size for block in self.blocks)

    @property
    def sensor_sizes(self) -> tuple[int, ...]:
        """Number of values of each sensor, in order."""
        sizes = [0] * (self.blocks[-1].sensor + 1 if self.blocks else 0)
        for block in self.blocks:
            sizes[block.sensor] += block.size
        return tuple(sizes)

    def slice_of(self, name: str) -> slice:
        """Where a block lies in the observation.

        Raises:
            SpecMismatchError: There is no block of this name.
        """
        start = 0
        for block in self.blocks:
            if block.name == name:
                return slice(start, start + block.size)
            start += block.size
        known = ", ".join(block.name for block in self.blocks)
        raise SpecMismatchError(f"observation layout: expected one of the blocks {known}, got {name!r}.")

    def with_agent_id(self, num_slots: int) -> ObservationLayout:
        """This layout followed by a sensor that carries the slot as a one-hot vector."""
        block = ObservationBlock(
            "agent_id",
            num_slots,
            low=0.0,
            high=1.0,
            sensor=len(self.sensor_sizes),
            description="One-hot slot of the robot in its role.",
        )
        return ObservationLayout((*self.blocks, block))

    @property
    def digest(self) -> str:
        """SHA-256 (16 hex digits) over all that gives a block its meaning: equal digests, equal meaning.

        Names, sizes, units, fields and sensors; shapes of several dimensions and goals only where there are some.
        """
        parts = [_digest_part(block) for block in self.blocks]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def require_equal(self, other: ObservationLayout, where: str, advice: str = _ADVICE) -> None:
        """Raise, with some advice, unless ``other`` has the same blocks.

        Raises:
            SpecMismatchError: Names the first block that differs.
        """
        if self.digest == other.digest:
            return
        for index in range(max(len(self.blocks), len(other.blocks))):
            mine = self.blocks[index] if index < len(self.blocks) else None
            its = other.blocks[index] if index < len(other.blocks) else None
            if mine is None or its is None or _identity(mine) != _identity(its):
                raise SpecMismatchError(
                    f"{where}: observation block {index}: expected {_describe(mine)}, got {_describe(its)}. {advice}"
                )
        raise AssertionError("digests differ but no block does")

    def to_json(self) -> list[dict[str, Any]]:
        """Plain data for checkpoints and model metadata."""
        return [asdict(block) for block in self.blocks]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> ObservationLayout:
        """The inverse of :meth:`to_json`."""
        tuples = [{"fields": tuple(b["fields"]), "shape": tuple(b.get("shape", ()))} for b in data]
        return cls(tuple(ObservationBlock(**{**block, **own}) for block, own in zip(data, tuples, strict=True)))


def _digest_part(block: ObservationBlock) -> list[Any]:
    part: list[Any] = [block.name, block.size, block.unit, list(block.fields), block.sensor]
    if len(block.shape) > 1:
        part.append(list(block.shape))
    if block.is_goal:
        part.append("goal")
    return part


def _identity(block: ObservationBlock) -> str:
    return json.dumps(_digest_part(block))


def _describe(block: ObservationBlock | None) -> str:
    if block is None:
        return "no block"
    shape = f", shape {block.shape}" if len(block.shape) > 1 else ""
    goal = ", a goal" if block.is_goal else ""
    return f"{block.name!r} ({block.size} values, unit {block.unit}, sensor {block.sensor}{shape}{goal})"


@dataclass(frozen=True)
class ActionSpec:
    """The action of one agent: a continuous part, a discrete part, or both.

    Attributes:
        num_continuous: Number of continuous values, each in [-1, 1]; a world scales them to its own range.
        discrete_branches: Number of choices of each discrete branch.
        names: A name per continuous value, then per branch; empty if there is nothing to say.
    """

    num_continuous: int = 0
    discrete_branches: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.num_continuous < 0 or any(size < 1 for size in self.discrete_branches):
            raise SpecMismatchError(f"action spec: expected sizes >= 1, got {self}.")
        if self.num_continuous == 0 and not self.discrete_branches:
            raise SpecMismatchError("action spec: expected at least one continuous value or one branch, got none.")

    @property
    def num_branches(self) -> int:
        """Number of discrete branches."""
        return len(self.discrete_branches)

    @property
    def mask_size(self) -> int:
        """Length of an action mask: the branches' choices, one after the other."""
        return sum(self.discrete_branches)

    def to_json(self) -> dict[str, Any]:
        """Plain data for checkpoints and model metadata."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ActionSpec:
        """The inverse of :meth:`to_json`."""
        return cls(data["num_continuous"], tuple(data["discrete_branches"]), tuple(data["names"]))


@dataclass(frozen=True)
class RoleSpec:
    """Agents with equal spaces and one job.

    Attributes:
        name: Name of the role, the key of every per-role dict.
        agent_ids: PettingZoo ids of the slots, in slot order; constant for the life of the world.
        observation: Layout of one agent's observation.
        action: Action of one agent.
    """

    name: str
    agent_ids: tuple[str, ...]
    observation: ObservationLayout
    action: ActionSpec

    @property
    def num_slots(self) -> int:
        """Number of agent slots A of the role."""
        return len(self.agent_ids)

    def require_same_interface(self, other: RoleSpec, where: str, advice: str = _ADVICE) -> None:
        """Raise, with some advice, unless a policy for this role can drive ``other`` (the fleet size may differ).

        Raises:
            SpecMismatchError: Names the first block, or the action, that differs.
        """
        self.observation.require_equal(other.observation, f"{where}: role {self.name!r}", advice)
        mine = (self.action.num_continuous, self.action.discrete_branches)
        its = (other.action.num_continuous, other.action.discrete_branches)
        if mine != its:
            raise SpecMismatchError(
                f"{where}: role {self.name!r}: expected {mine[0]} continuous values and branches {mine[1]}, "
                f"got {its[0]} and {its[1]}. {advice}"
            )


@dataclass(frozen=True)
class MetricSpec:
    """One figure that a world reports at the end of every episode.

    Attributes:
        name: Name, with its unit (``deliveries_per_h``).
        description: What is counted.
        higher_is_better: True, False, or None where neither is.
    """

    name: str
    description: str = ""
    higher_is_better: bool | None = None


@dataclass(frozen=True)
class WorldSpec:
    """Everything that is fixed about a world.

    Attributes:
        roles: The roles, in the order of the arrays.
        state_size: Length of the critic's global state; 0 where the world has none.
        metrics: Figures reported per episode, besides return and length.
        step_s: Simulated time of one step, or None where the world does not say.
    """

    roles: tuple[RoleSpec, ...]
    state_size: int = 0
    metrics: tuple[MetricSpec, ...] = ()
    step_s: float | None = None

    def role(self, name: str) -> RoleSpec:
        """The role of this name.

        Raises:
            SpecMismatchError: There is no such role.
        """
        for role in self.roles:
            if role.name == name:
                return role
        raise SpecMismatchError(f"world: expected one of the roles {[r.name for r in self.roles]}, got {name!r}.")

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of the metric array."""
        return tuple(metric.name for metric in self.metrics)
