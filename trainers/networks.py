"""Actors and critics: small perceptrons over all robots of a role at once.

Rows R are environments or samples, slots A the robots of the role. One network
per robot is a stack of weights multiplied in one batched product, never a loop.
The first layer takes its inputs apart (own observation, global state, slot),
which is the same function as one layer over their concatenation but copies the
state once per row instead of once per robot.
"""

from __future__ import annotations

import math
from typing import Literal, cast

import torch
from torch import nn
from torch.nn import functional

from bridge.specs import ActionSpec

__all__ = ["NORM_EPSILON", "ActorNetwork", "CriticNetwork", "Dense", "NetworkShape"]

NORM_EPSILON = 1e-5


class NetworkShape:
    """Widths, activation and layer norm of hidden layers."""

    def __init__(self, hidden_sizes: tuple[int, ...], activation: Literal["tanh", "relu"], layer_norm: bool) -> None:
        self.hidden_sizes = hidden_sizes
        self.activation: Literal["tanh", "relu"] = activation
        self.layer_norm = layer_norm

    @property
    def gain(self) -> float:
        """Gain of the initial weights that suits the activation."""
        return nn.init.calculate_gain(self.activation)


class Dense(nn.Module):
    """G affine layers side by side, optionally each with a layer norm: (G, N, in) -> (G, N, out).

    Weights are orthogonal, biases 0.
    """

    def __init__(
        self, groups: int, inputs: int, outputs: int, gain: float, generator: torch.Generator, *, layer_norm: bool
    ) -> None:
        super().__init__()
        weight = torch.empty(groups, outputs, inputs)
        for group in range(groups):
            nn.init.orthogonal_(weight[group], gain, generator=generator)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(groups, outputs))
        self.norm_gain = nn.Parameter(torch.ones(groups, outputs)) if layer_norm else None
        self.norm_bias = nn.Parameter(torch.zeros(groups, outputs)) if layer_norm else None

    def affine(self, x: torch.Tensor) -> torch.Tensor:
        """The affine part alone."""
        if len(self.weight) == 1:
            return functional.linear(x.squeeze(0), self.weight[0], self.bias[0]).unsqueeze(0)
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.transpose(1, 2))

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        """The layer norm alone; the identity without one."""
        if self.norm_gain is None or self.norm_bias is None:
            return x
        width = (x.shape[-1],)
        if len(self.weight) == 1:
            return functional.layer_norm(x, width, self.norm_gain[0], self.norm_bias[0], NORM_EPSILON)
        scaled = functional.layer_norm(x, width, eps=NORM_EPSILON)
        return scaled * self.norm_gain.unsqueeze(1) + self.norm_bias.unsqueeze(1)


class ActorNetwork(nn.Module):
    """Observations of a role's robots in, parameters of their actions' distribution out.

    Args:
        observation_size: Number of observation values F.
        num_slots: Number of slots A.
        action: What the robots choose.
        shape: Hidden layers.
        per_agent: One network per slot instead of one for all.
        agent_id: A shared network is told the slot.
        initial_std: Standard deviation of continuous actions at the start.
        generator: Source of the initial weights.
    """

    def __init__(
        self,
        observation_size: int,
        num_slots: int,
        action: ActionSpec,
        shape: NetworkShape,
        *,
        per_agent: bool,
        agent_id: bool,
        initial_std: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.num_slots = num_slots
        self.shape = shape
        self.groups = num_slots if per_agent else 1
        self.hidden = nn.ModuleList()
        self.slot_weight: nn.Parameter | None = None
        width = observation_size
        for index, size in enumerate(shape.hidden_sizes):
            slots = num_slots if index == 0 and agent_id and not per_agent else 0
            layer = Dense(self.groups, width + slots, size, shape.gain, generator, layer_norm=shape.layer_norm)
            if slots:
                self.slot_weight = _split_slots(layer, width)
            self.hidden.append(layer)
            width = size
        # Small heads: the first policy is nearly uniform (Andrychowicz et al. 2021).
        self.continuous_head = self.discrete_head = None
        self.log_std: nn.Parameter | None = None
        if action.num_continuous:
            self.continuous_head = Dense(self.groups, width, action.num_continuous, 0.01, generator, layer_norm=False)
            self.log_std = nn.Parameter(torch.full((self.groups, action.num_continuous), math.log(initial_std)))
        if action.mask_size:
            self.discrete_head = Dense(self.groups, width, action.mask_size, 0.01, generator, layer_norm=False)

    @property
    def layers(self) -> list[Dense]:
        """The hidden layers, first to last."""
        return [cast(Dense, layer) for layer in self.hidden]

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Mean (R, A, C) of the continuous part and logits (R, A, M), from (R, A, F) observations."""
        rows, slots = observations.shape[:2]
        # (R, A, F) -> (A, R, F) with one network per slot, else (1, R*A, F).
        x = observations.transpose(0, 1) if self.groups > 1 else observations.reshape(1, rows * slots, -1)
        for index, layer in enumerate(self.layers):
            x = layer.affine(x)
            if index == 0 and self.slot_weight is not None:
                x = (x.view(rows, slots, -1) + self.slot_weight).view(1, rows * slots, -1)
            x = _activate(layer.norm(x), self.shape.activation)
        return self._head(self.continuous_head, x, rows, slots), self._head(self.discrete_head, x, rows, slots)

    def _head(self, head: Dense | None, x: torch.Tensor, rows: int, slots: int) -> torch.Tensor | None:
        if head is None:
            return None
        out = head.affine(x)
        return out.transpose(0, 1) if self.groups > 1 else out.view(rows, slots, -1)


class CriticNetwork(nn.Module):
    """Value of every robot of a role from the global state, its observation, its slot, or several of them.

    Args:
        state_size: Number of state values S; 0: not read.
        observation_size: Number of observation values F; 0: not read.
        num_slots: Number of slots A.
        shape: Hidden layers.
        agent_id: The network is told the slot.
        generator: Source of the initial weights.
    """

    def __init__(
        self,
        state_size: int,
        observation_size: int,
        num_slots: int,
        shape: NetworkShape,
        *,
        agent_id: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.num_slots = num_slots
        self.shape = shape
        width, first = shape.hidden_sizes[0], state_size + observation_size
        slots = num_slots if agent_id else 0
        layer = Dense(1, first + slots, width, shape.gain, generator, layer_norm=shape.layer_norm)
        self.slot_weight = _split_slots(layer, first) if slots else None
        weight = layer.weight.data[0]
        # Contiguous parts, (out, in) each: W [state; observation] = W_s state + W_o observation.
        self.state_weight = nn.Parameter(weight[:, :state_size].contiguous()) if state_size else None
        self.observation_weight = nn.Parameter(weight[:, state_size:first].contiguous()) if observation_size else None
        self.first_bias = nn.Parameter(torch.zeros(width))
        self.first_norm = nn.LayerNorm(width, eps=NORM_EPSILON) if shape.layer_norm else None
        self.hidden = nn.ModuleList()
        for size in shape.hidden_sizes[1:]:
            self.hidden.append(Dense(1, width, size, shape.gain, generator, layer_norm=shape.layer_norm))
            width = size
        self.head = Dense(1, width, 1, 1.0, generator, layer_norm=False)

    def forward(self, state: torch.Tensor | None, observations: torch.Tensor | None) -> torch.Tensor:
        """Values (R, A) in the space of the output layer, from (R, S) states and (R, A, F) observations."""
        x: torch.Tensor | None = None
        if self.observation_weight is not None and observations is not None:
            x = functional.linear(observations, self.observation_weight, self.first_bias)
        if self.state_weight is not None and state is not None:
            bias = self.first_bias if x is None else None
            shared = functional.linear(state, self.state_weight, bias).unsqueeze(1)  # (R, 1, H), for every slot
            x = shared if x is None else x + shared
        assert x is not None, "a critic reads the state or the observation"
        if self.slot_weight is not None:
            x = x + self.slot_weight
        rows, slots, width = x.shape
        if self.first_norm is not None:
            x = self.first_norm(x)
        x = _activate(x, self.shape.activation).reshape(1, rows * slots, width)
        for module in self.hidden:
            layer = cast(Dense, module)
            x = _activate(layer.norm(layer.affine(x)), self.shape.activation)
        # Without slot and observation all robots share one value: it is computed once.
        values: torch.Tensor = self.head.affine(x).view(rows, slots)
        return values.expand(rows, self.num_slots)

    @torch.no_grad()
    def rescale(self, old_mean: float, old_std: float, new_mean: float, new_std: float) -> None:
        """Keep all denormalised values while the statistics of returns change (PopArt, van Hasselt et al. 2016)."""
        self.head.weight.mul_(old_std / new_std)
        self.head.bias.mul_(old_std).add_(old_mean - new_mean).div_(new_std)


def _split_slots(layer: Dense, width: int) -> nn.Parameter:
    """Cut the columns of the one-hot slot from a layer: W [x; onehot(a)] = W_x x + S[a], S of (A, out)."""
    weight = layer.weight.data
    layer.weight = nn.Parameter(weight[:, :, :width].contiguous())
    return nn.Parameter(weight[0, :, width:].t().contiguous())


def _activate(x: torch.Tensor, activation: str) -> torch.Tensor:
    # In place: neither the affine layer nor the norm before it needs its output for the gradient.
    return torch.tanh_(x) if activation == "tanh" else torch.relu_(x)
