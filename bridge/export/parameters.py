"""The numbers of a trained actor, free of any learning framework.

The border between learning and export: ``trainers`` makes one
:class:`ActorParameters` per network, ``bridge.export`` writes it as ONNX.
The function that it stands for is

    x = concat(observation, one-hot agent id)             # only if the layout has an ``agent_id`` block
    x = clip((x - mean) / std, -clip, clip)               # only if there is a normaliser
    for layer in hidden: x = activation(layer_norm(W x + b))
    mean = continuous head; logits = discrete head

with continuous actions ``squash(mean + exp(log_std) * noise)`` (deterministic:
``squash(mean)``) and, per branch, a choice from the softmax of the allowed
logits (deterministic: their argmax, the lowest index among equals).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bridge.specs import ActionSpec, ObservationLayout

__all__ = ["ActorParameters", "DenseLayer"]

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class DenseLayer:
    """An affine layer, optionally followed by a layer norm.

    Attributes:
        weight: (out, in) float32.
        bias: (out,) float32.
        norm_gain: (out,) float32, or None without a layer norm.
        norm_bias: (out,) float32, or None without a layer norm.
    """

    weight: Float32
    bias: Float32
    norm_gain: Float32 | None = None
    norm_bias: Float32 | None = None


@dataclass(frozen=True)
class ActorParameters:
    """One actor network.

    Attributes:
        role: Role that it drives.
        agent_ids: Slots that it drives; all of the role's unless every robot has its own network.
        observation: Layout of its input, including the ``agent_id`` block where it has one.
        action: Action that it chooses.
        normaliser_mean: (F,) float32, or None without observation normalisation.
        normaliser_std: (F,) float32 > 0, or None.
        normaliser_clip: Bound on the normalised observation.
        hidden: Hidden layers, first to last.
        activation: Activation of every hidden layer.
        norm_epsilon: Epsilon of the layer norms.
        continuous_head: Layer of the Gaussian's mean, or None.
        log_std: (C,) float32, or None.
        squash: How an unbounded continuous action becomes one in [-1, 1].
        discrete_head: Layer of all branches' logits, or None.
    """

    role: str
    agent_ids: tuple[str, ...]
    observation: ObservationLayout
    action: ActionSpec
    normaliser_mean: Float32 | None
    normaliser_std: Float32 | None
    normaliser_clip: float
    hidden: tuple[DenseLayer, ...]
    activation: Literal["tanh", "relu"]
    norm_epsilon: float
    continuous_head: DenseLayer | None
    log_std: Float32 | None
    squash: Literal["clip", "tanh"]
    discrete_head: DenseLayer | None
