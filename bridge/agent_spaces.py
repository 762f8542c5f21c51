"""The Gymnasium spaces of an agent, and actions from them into a roster's rows.

The direction from a spec to PettingZoo; ``bridge/foreign_spaces.py`` is the
other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bridge.errors import ActionError
from bridge.specs import ActionSpec, ObservationLayout

__all__ = ["action_space", "observation_space", "sampling_mask", "write_action", "write_idle_action"]

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]


def observation_space(layout: ObservationLayout) -> spaces.Box:
    """The space of one agent's observation, (F,) float32, bounded where the layout is."""
    low = [np.full(b.size, -np.inf if b.low is None else b.low, np.float32) for b in layout.blocks]
    high = [np.full(b.size, np.inf if b.high is None else b.high, np.float32) for b in layout.blocks]
    return spaces.Box(np.concatenate(low), np.concatenate(high), dtype=np.float32)


def action_space(action: ActionSpec, allowed: Bool | None = None) -> spaces.Space[Any]:
    """The space of one agent's action.

    ``Box(-1, 1, (C,), float32)``, ``Discrete``, ``MultiDiscrete``, or for a hybrid
    action a ``Dict`` with the keys ``continuous`` and ``discrete``.

    Args:
        action: Action of the agent.
        allowed: (M,) bool, the agent's action mask, which may change; ``sample()`` without a mask then
            draws from what it allows. None for spaces that draw from everything.
    """
    parts: dict[str, spaces.Space[Any]] = {}
    if action.num_continuous:
        parts["continuous"] = spaces.Box(-1.0, 1.0, (action.num_continuous,), np.float32)
    if action.num_branches == 1:
        parts["discrete"] = _MaskedDiscrete(action.discrete_branches[0])
    elif action.num_branches:
        parts["discrete"] = _MaskedMultiDiscrete(list(action.discrete_branches))
    space = _MaskedDict(parts) if len(parts) == 2 else next(iter(parts.values()))
    if allowed is not None and isinstance(space, _ObeysMask):
        space.obey(action, allowed)
    return space


class _ObeysMask(spaces.Space[Any]):
    """A space that draws from the allowed actions where the caller gives no mask.

    Most code for PettingZoo, its own tests included, calls ``sample()`` without
    one. A copy is an ordinary space: it must not follow the mask of an
    environment that it has nothing to do with.
    """

    _obeyed: tuple[ActionSpec, Bool] | None = None

    def obey(self, action: ActionSpec, allowed: Bool) -> None:
        """Draw from what ``allowed`` says at the time."""
        self._obeyed = (action, allowed)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """See the plain space."""
        if mask is None and probability is None and self._obeyed is not None and self._obeyed[1].any():
            mask = sampling_mask(*self._obeyed)
        options = {} if probability is None else {"probability": probability}  # new in Gymnasium 1.1
        return super().sample(mask=mask, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_obeyed"}


class _MaskedDiscrete(_ObeysMask, spaces.Discrete):
    """A ``Discrete`` that obeys a mask."""


class _MaskedMultiDiscrete(_ObeysMask, spaces.MultiDiscrete):
    """A ``MultiDiscrete`` that obeys a mask."""


class _MaskedDict(_ObeysMask, spaces.Dict):
    """A ``Dict`` of a continuous and a discrete part that obeys a mask."""


def sampling_mask(action: ActionSpec, allowed: Bool) -> Any:
    """An action mask in the form that the action space's ``sample`` takes.

    Args:
        action: Action of one agent.
        allowed: (M,) bool, the branches' choices one after the other.

    Returns:
        int8, 1 = allowed: an array, a tuple of arrays (one per branch), or for a hybrid action a
        dict with the keys ``continuous`` (None) and ``discrete``.
    """
    branches = tuple(np.split(allowed.astype(np.int8), np.cumsum(action.discrete_branches)[:-1]))
    mask = branches[0] if len(branches) == 1 else branches
    return {"continuous": None, "discrete": mask} if action.num_continuous else mask


def write_action(where: str, action: ActionSpec, value: Any, continuous: Float32, discrete: Int32) -> None:
    """Write one agent's action, an element of :func:`action_space`, into its rows.

    Shape and dtype are checked here, ranges and masks by
    :func:`bridge.actions.require_valid_actions`.

    Args:
        where: Beginning of a message; names the agent.
        action: Action of the agent.
        value: What the caller gave.
        continuous: (C,) float32, written.
        discrete: (B,) int32, written.

    Raises:
        ActionError: The value has the wrong structure, shape or dtype.
    """
    parts = (value, value)
    if action.num_continuous and action.num_branches:
        if not isinstance(value, Mapping) or set(value) != {"continuous", "discrete"}:
            raise ActionError(f"{where}: expected a dict with the keys 'continuous' and 'discrete', got {value!r}.")
        parts = (value["continuous"], value["discrete"])
    if action.num_continuous:
        continuous[:] = _array(where, parts[0], (action.num_continuous,), "f", "floats")
    if action.num_branches:
        shape = () if action.num_branches == 1 else (action.num_branches,)
        chosen = _array(where, parts[1], shape, "iu", "integers")
        # Clipped, so that a wild value is reported as out of range instead of wrapping into it.
        discrete[:] = np.clip(chosen, -1, np.iinfo(np.int32).max)


def write_idle_action(action: ActionSpec, allowed: Bool, continuous: Float32, discrete: Int32) -> None:
    """Write zeros and the first allowed choice of every branch.

    Args:
        action: Action of the agent.
        allowed: (M,) bool, its action mask.
        continuous: (C,) float32, written.
        discrete: (B,) int32, written.
    """
    continuous[:] = 0.0
    start = 0
    for branch, size in enumerate(action.discrete_branches):
        discrete[branch] = allowed[start : start + size].argmax()
        start += size


def _array(where: str, value: Any, shape: tuple[int, ...], kinds: str, words: str) -> NDArray[Any]:
    array = np.asarray(value)
    if array.shape != shape:
        raise ActionError(f"{where}: expected an action of shape {shape}, got {array.shape}.")
    if array.dtype.kind not in kinds:
        raise ActionError(f"{where}: expected an action of {words}, got dtype {array.dtype}.")
    return array
