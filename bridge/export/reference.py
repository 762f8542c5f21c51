"""An actor in plain numpy: what the exported file must compute.

Written from the definition in ``bridge.export.parameters``, not from the
writer, so that the two can be held against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge.export.parameters import ActorParameters, DenseLayer

__all__ = ["ActorReference", "PolicyFunction", "PolicyOutputs"]

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class PolicyOutputs:
    """What a policy computes before it samples, for N robots.

    Attributes:
        continuous_mean: (N, C) float32, mean of the Gaussian, before squashing.
        continuous: (N, C) float32 in [-1, 1], the deterministic action.
        logits: (N, M) float32, the branches' logits one after the other; those of forbidden
            choices are never looked at.
        discrete: (N, B) int64, the deterministic choice of each branch.

    A policy without a continuous or discrete part gives arrays of width 0.
    """

    continuous_mean: Float32
    continuous: Float32
    logits: Float32
    discrete: NDArray[np.int64]


PolicyFunction = Callable[[Float32, NDArray[np.bool_]], PolicyOutputs]
"""From observations (N, F) float32, with the one-hot id where the layout has it, and masks (N, M) bool."""


class ActorReference:
    """The function of one actor in float32; a :data:`PolicyFunction`."""

    def __init__(self, parameters: ActorParameters) -> None:
        self._parameters = parameters

    def __call__(self, observations: Float32, masks: NDArray[np.bool_]) -> PolicyOutputs:
        """See :data:`PolicyFunction`."""
        parameters = self._parameters
        num_rows = len(observations)
        features = self._features(observations)
        mean = _apply(parameters.continuous_head, features, num_rows)
        logits = _apply(parameters.discrete_head, features, num_rows)
        return PolicyOutputs(mean, self.squash(mean), logits, self._best(logits, masks))

    def squash(self, unbounded: Float32) -> Float32:
        """Continuous actions in [-1, 1] from unbounded ones."""
        if self._parameters.squash == "tanh":
            return np.tanh(unbounded)
        return np.minimum(np.maximum(unbounded, np.float32(-1)), np.float32(1))

    def _features(self, observations: Float32) -> Float32:
        parameters = self._parameters
        x = observations
        if parameters.normaliser_mean is not None and parameters.normaliser_std is not None:
            bound = np.float32(parameters.normaliser_clip)
            x = np.clip((x - parameters.normaliser_mean) / parameters.normaliser_std, -bound, bound)
        for layer in parameters.hidden:
            x = x @ layer.weight.T + layer.bias
            if layer.norm_gain is not None and layer.norm_bias is not None:
                deviation = np.sqrt(x.var(axis=1, keepdims=True) + np.float32(parameters.norm_epsilon))
                x = (x - x.mean(axis=1, keepdims=True)) / deviation * layer.norm_gain + layer.norm_bias
            x = np.tanh(x) if parameters.activation == "tanh" else np.maximum(x, np.float32(0))
        return x

    def _best(self, logits: Float32, masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The best allowed choice of each branch, the lowest index among equals; 0 where nothing is allowed."""
        allowed = np.where(masks, logits, -np.inf)
        branches = self._parameters.action.discrete_branches
        starts = np.cumsum((0, *branches))
        best = [allowed[:, start : start + size].argmax(axis=1) for start, size in zip(starts, branches, strict=False)]
        return np.stack(best, axis=1).astype(np.int64) if best else np.zeros((len(logits), 0), np.int64)


def _apply(head: DenseLayer | None, features: Float32, num_rows: int) -> Float32:
    return np.zeros((num_rows, 0), np.float32) if head is None else features @ head.weight.T + head.bias
