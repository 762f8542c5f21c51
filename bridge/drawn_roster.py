"""What rosters share whose environments draw, for every episode, which of several worlds they play."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from bridge.errors import CallOrderError
from bridge.roster import RosterArrays
from bridge.specs import WorldSpec

__all__ = ["DrawnRoster"]

Bool = NDArray[np.bool_]
Envs = NDArray[np.int64]


class DrawnRoster(ABC):
    """Most of a :class:`bridge.roster.Roster` over several worlds, of which each environment plays one at a time.

    Args:
        spec: What the worlds look like together.
        arrays: What :meth:`reset` and :meth:`step` fill.
        playing: (E,) int64, the world that each environment plays; written by who draws.
    """

    def __init__(self, spec: WorldSpec, arrays: RosterArrays, playing: Envs) -> None:
        self._spec = spec
        self._arrays = arrays
        self._playing = playing
        self._is_seeded = np.zeros(arrays.num_envs, np.bool_)

    @property
    def spec(self) -> WorldSpec:
        """What the worlds look like together."""
        return self._spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill; always the same objects."""
        return self._arrays

    @property
    def playing(self) -> Envs:
        """(E,) int64, the world that each environment plays, by its place in the list; a copy."""
        return self._playing.copy()

    def reset(self, seed: int | None = None, env_mask: Bool | None = None) -> None:
        """See :meth:`bridge.roster.Roster.reset`."""
        envs = np.arange(self._arrays.num_envs) if env_mask is None else np.flatnonzero(env_mask)
        if seed is not None:
            self._begin_first(envs, seed)
            self._is_seeded[envs] = True
        elif self._is_seeded[envs].all():
            self._begin_next(envs)
        else:
            name = type(self).__name__
            raise CallOrderError(f"{name}.reset: expected a seed at the first reset, got none. Pass seed=...")

    def step(self) -> None:
        """See :meth:`bridge.roster.Roster.step`."""
        if not self._is_seeded.all():
            name = type(self).__name__
            raise CallOrderError(f"{name}.step: expected a reset before the first step, got none. Call reset.")
        self._advance()

    @abstractmethod
    def close(self) -> None:
        """Close every environment; may be called twice."""

    @abstractmethod
    def _begin_first(self, envs: Envs, seed: int) -> None:
        """Begin the first episodes of a seed."""

    @abstractmethod
    def _begin_next(self, envs: Envs) -> None:
        """Cut the episodes of environments that have a seed, and begin the next ones."""

    @abstractmethod
    def _advance(self) -> None:
        """One step of every environment."""

    def _mask(self, envs: Envs) -> Bool:
        """(E,) bool, True for these."""
        mask = np.zeros(self._arrays.num_envs, np.bool_)
        mask[envs] = True
        return mask
