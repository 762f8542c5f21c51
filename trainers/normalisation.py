"""Running statistics that bring observations and returns to unit scale.

Statistics are updated between rollouts only: what acted and what learns from
it see the same numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["RunningNormaliser", "ValueNormaliser"]

Float64 = NDArray[np.float64]


class RunningNormaliser:
    """Mean and variance of everything seen so far, per value (Chan et al. 1979); the identity until then."""

    _VARIANCE_EPSILON = 1e-8

    def __init__(self, size: int, clip: float) -> None:
        self.clip = clip
        self._count = 0
        self._mean: Float64 = np.zeros(size)
        self._squares: Float64 = np.zeros(size)
        self._refresh()

    @property
    def mean(self) -> NDArray[np.float32]:
        """(F,) float32."""
        return self._mean.astype(np.float32)

    @property
    def std(self) -> NDArray[np.float32]:
        """(F,) float32, above 0; 1 until something was seen."""
        if self._count == 0:
            return np.ones(self._mean.shape, np.float32)
        return np.sqrt(self._squares / self._count + self._VARIANCE_EPSILON).astype(np.float32)

    def update(self, samples: torch.Tensor) -> None:
        """Take in (N, F) samples, all of them real: the caller leaves masked ones out."""
        added = len(samples)
        if added == 0:
            return
        variance, mean = torch.var_mean(samples.double(), dim=0, correction=0)
        shift = mean.numpy() - self._mean
        total = self._count + added
        self._squares += variance.numpy() * added + shift**2 * (self._count * added / total)
        self._mean += shift * (added / total)
        self._count = total
        self._refresh()

    def normalise(self, values: torch.Tensor) -> torch.Tensor:
        """``clip((values - mean) / std)`` over the last axis, in new memory."""
        return ((values - self._mean32) / self._std32).clamp_(-self.clip, self.clip)

    def state(self) -> dict[str, Any]:
        """Plain arrays and numbers for a checkpoint."""
        return {"count": self._count, "mean": self._mean.copy(), "squares": self._squares.copy()}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state`."""
        self._count = int(state["count"])
        self._mean = np.array(state["mean"])
        self._squares = np.array(state["squares"])
        self._refresh()

    def _refresh(self) -> None:
        self._mean32 = torch.from_numpy(self.mean)
        self._std32 = torch.from_numpy(self.std)


class ValueNormaliser:
    """Exponentially weighted mean and std of a role's returns, free of start-up bias.

    Order of use in an update: denormalise the critic's old outputs with the old
    statistics, compute returns, :meth:`update`, then normalise the returns with
    the new statistics as targets.
    """

    _SMALLEST_VARIANCE = 1e-4

    def __init__(self, decay: float, *, enabled: bool = True) -> None:
        """``decay`` is the share of old statistics that survives an update; disabled it stays the identity."""
        self._decay = decay
        self._enabled = enabled
        self._weight = 0.0
        self._mean_sum = 0.0
        self._square_sum = 0.0

    @property
    def is_known(self) -> bool:
        """There are statistics."""
        return self._weight > 0.0

    @property
    def mean(self) -> float:
        """Mean return; 0 until the first update."""
        return self._mean_sum / self._weight if self._weight else 0.0

    @property
    def std(self) -> float:
        """Standard deviation of returns, at least 0.01; 1 until the first update."""
        if not self._weight:
            return 1.0
        return math.sqrt(max(self._square_sum / self._weight - self.mean**2, self._SMALLEST_VARIANCE))

    def update(self, returns: NDArray[np.float32]) -> None:
        """Take in (N,) returns of valid decisions."""
        if len(returns) == 0 or not self._enabled:
            return
        wide = returns.astype(np.float64)
        keep, take = self._decay, 1.0 - self._decay
        self._weight = keep * self._weight + take
        self._mean_sum = keep * self._mean_sum + take * float(wide.mean())
        self._square_sum = keep * self._square_sum + take * float(np.square(wide).mean())

    def normalise(self, returns: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns in the space of the critic's output."""
        return ((returns - np.float32(self.mean)) / np.float32(self.std)).astype(np.float32)

    def denormalise(self, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """The critic's outputs as returns."""
        return (outputs * np.float32(self.std) + np.float32(self.mean)).astype(np.float32)

    def state(self) -> dict[str, Any]:
        """Plain numbers for a checkpoint."""
        return {"weight": self._weight, "mean_sum": self._mean_sum, "square_sum": self._square_sum}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state`."""
        self._weight = float(state["weight"])
        self._mean_sum = float(state["mean_sum"])
        self._square_sum = float(state["square_sum"])
