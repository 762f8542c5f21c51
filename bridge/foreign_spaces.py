"""What a foreign PettingZoo environment's spaces mean in a roster.

One :class:`AgentCodec` per agent carries observations, masks and actions
across. A space that cannot be carried over without loss is refused by name.
How agents form roles is up to ``bridge/foreign_spec.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from bridge.errors import SpecMismatchError
from bridge.specs import ActionSpec

__all__ = ["AgentCodec"]

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]
Space = spaces.Space[Any]


@dataclass(frozen=True)
class _ActionLeaf:
    """One part of an action that is not made of parts.

    Attributes:
        space: Box, Discrete, MultiDiscrete or MultiBinary.
        num_continuous: Number of continuous values of the part.
        branches: Number of choices of each discrete branch of the part.
    """

    space: Space
    num_continuous: int
    branches: tuple[int, ...]

    def decode(self, continuous: Float32, discrete: NDArray[np.int32]) -> Any:
        """The part in the environment's own terms, from this part's rows."""
        space = self.space
        if isinstance(space, spaces.Box):
            return _scale(continuous.reshape(space.shape), space)
        if isinstance(space, spaces.Discrete):
            return int(space.start) + int(discrete[0])
        values = discrete.reshape(space.shape).astype(space.dtype)
        return values + space.start if isinstance(space, spaces.MultiDiscrete) else values


class AgentCodec:
    """Carries one agent's observations, masks and actions between an environment and a roster.

    Attributes:
        blocks: Name and size of each observation block.
        low: (F,) float32, smallest observation values.
        high: (F,) float32, largest observation values.
        action: The action as a roster knows it.
    """

    def __init__(self, env: ParallelEnv[str, Any, Any], agent: str) -> None:
        """Read the agent's spaces.

        Raises:
            SpecMismatchError: A space cannot be carried over; names the agent and the space.
        """
        self._agent = agent
        space = env.observation_space(agent)
        self._has_mask = isinstance(space, spaces.Dict) and set(space.spaces) == {"observation", "action_mask"}
        self._space: Space = space["observation"] if self._has_mask else space
        self.blocks, self.low, self.high = _observation_values(agent, self._space)
        self._action_space: Space = env.action_space(agent)
        self._leaves = _action_leaves(agent, self._action_space)
        self.action = ActionSpec(
            sum(leaf.num_continuous for leaf in self._leaves),
            tuple(size for leaf in self._leaves for size in leaf.branches),
        )

    @property
    def size(self) -> int:
        """Number of observation values F."""
        return len(self.low)

    def read_observation(self, observation: Any) -> Float32:
        """An observation as (F,) float32."""
        if self._has_mask:
            observation = observation["observation"]
        if not isinstance(self._space, spaces.Box):
            observation = spaces.utils.flatten(self._space, observation)
        flat = np.asarray(observation, np.float32).ravel()
        if flat.size != self.size:
            raise SpecMismatchError(
                f"agent {self._agent!r}: expected an observation of {self.size} values, got {flat.size}. "
                "The environment breaks its own observation space."
            )
        return flat

    def read_action_mask(self, observation: Any, info: Mapping[str, Any]) -> Bool | None:
        """The action mask as (M,) bool, from the observation or from the info; None if there is none."""
        mask = observation["action_mask"] if self._has_mask else info.get("action_mask")
        if mask is None or not self.action.num_branches:
            return None
        flat = np.concatenate([np.asarray(part).ravel() for part in _mask_parts(mask, self._action_space)])
        if flat.size != self.action.mask_size:
            raise SpecMismatchError(
                f"agent {self._agent!r}: expected an action mask of {self.action.mask_size} values, got {flat.size}. "
                "The environment's mask does not fit its action space."
            )
        return flat.astype(np.bool_)

    def decode_action(self, continuous: Float32, discrete: NDArray[np.int32]) -> Any:
        """An action in the environment's own terms.

        Args:
            continuous: (C,) float32 in [-1, 1].
            discrete: (B,) int32, each below its branch's size.
        """
        parts = []
        first_value = first_branch = 0
        for leaf in self._leaves:
            last_value, last_branch = first_value + leaf.num_continuous, first_branch + len(leaf.branches)
            parts.append(leaf.decode(continuous[first_value:last_value], discrete[first_branch:last_branch]))
            first_value, first_branch = last_value, last_branch
        return _assemble(self._action_space, iter(parts))


def _observation_values(agent: str, space: Space) -> tuple[tuple[tuple[str, int], ...], Float32, Float32]:
    if not space.is_np_flattenable:
        raise SpecMismatchError(
            f"agent {agent!r}: expected an observation space of fixed size, got {space}. "
            "Wrap the environment so that it gives arrays."
        )
    flat = spaces.utils.flatten_space(space)
    assert isinstance(flat, spaces.Box)
    if flat.shape == (0,):
        raise SpecMismatchError(f"agent {agent!r}: expected an observation of at least one value, got {space}.")
    parts = space.spaces.items() if isinstance(space, spaces.Dict) else [("observation", space)]
    blocks = tuple((name, int(spaces.utils.flatdim(part))) for name, part in parts if spaces.utils.flatdim(part))
    with np.errstate(over="ignore"):  # bounds beyond float32 become infinite, which means unbounded
        return blocks, flat.low.astype(np.float32), flat.high.astype(np.float32)


def _action_leaves(agent: str, space: Space) -> list[_ActionLeaf]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return [leaf for part in _children(space) for leaf in _action_leaves(agent, part)]
    if isinstance(space, spaces.Box):
        if space.dtype is None or not np.issubdtype(space.dtype, np.floating):
            raise SpecMismatchError(f"agent {agent!r}: expected an action Box of floats, got {space}.")
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise SpecMismatchError(
                f"agent {agent!r}: expected an action Box with finite bounds, to which [-1, 1] is scaled, got {space}. "
                "Wrap the environment with a bounded action space."
            )
        return [_ActionLeaf(space, int(np.prod(space.shape)), ())]
    if isinstance(space, spaces.Discrete):
        return [_ActionLeaf(space, 0, (int(space.n),))]
    if isinstance(space, spaces.MultiDiscrete):
        return [_ActionLeaf(space, 0, tuple(int(n) for n in space.nvec.ravel()))]
    if isinstance(space, spaces.MultiBinary):
        return [_ActionLeaf(space, 0, (2,) * int(np.prod(space.shape)))]
    raise SpecMismatchError(
        f"agent {agent!r}: expected an action space of Box, Discrete, MultiDiscrete or MultiBinary, "
        f"or a Dict or Tuple of them, got {space}."
    )


def _children(space: spaces.Dict | spaces.Tuple[Any]) -> list[Space]:
    return list(space.spaces.values()) if isinstance(space, spaces.Dict) else list(space.spaces)


def _assemble(space: Space, parts: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _assemble(part, parts) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_assemble(part, parts) for part in space.spaces)
    return next(parts)


def _mask_parts(mask: Any, space: Space) -> list[Any]:
    """The masks of the discrete parts, in the order of the branches."""
    if isinstance(space, spaces.Dict) and isinstance(mask, Mapping):
        pairs = [(mask[key], part) for key, part in space.spaces.items()]
    elif isinstance(space, spaces.Tuple) and isinstance(mask, tuple):
        pairs = list(zip(mask, space.spaces, strict=True))
    else:
        return [mask] if isinstance(mask, np.ndarray) else [part for part in mask if part is not None]
    return [leaf for inner, part in pairs if inner is not None for leaf in _mask_parts(inner, part)]


def _scale(action: Float32, space: spaces.Box) -> NDArray[Any]:
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    scaled = low + (action.astype(np.float64) + 1.0) * 0.5 * (high - low)
    return np.clip(scaled, low, high).astype(space.dtype)
