"""The distribution over one robot's action: a squashed Gaussian, masked categorical branches, or both.

Every tensor has rows R (environments or samples) and slots A in front. What is
written for robots that are not asked does not matter and must not be read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from bridge.specs import ActionSpec

__all__ = ["ActionDistribution", "ActionSample", "squash"]

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_LOWEST = torch.finfo(torch.float32).min


@dataclass(frozen=True)
class ActionSample:
    """Actions of R x A robots.

    Attributes:
        continuous: (R, A, C) float32 before squashing; what ``log_probs`` is the density of.
        discrete: (R, A, B) int64.
        log_probs: (R, A) float32, of the whole action.
    """

    continuous: torch.Tensor
    discrete: torch.Tensor
    log_probs: torch.Tensor


def squash(continuous: NDArray[np.float32]) -> NDArray[np.float32]:
    """An unbounded continuous action as one in [-1, 1].

    Values are cut off ("clip"); the policy's density stays that of the
    Gaussian, as if the cut belonged to the world.
    """
    return np.clip(continuous, np.float32(-1.0), np.float32(1.0))


class ActionDistribution:
    """Independent parts: a diagonal Gaussian and one categorical distribution per branch.

    A forbidden choice has the lowest float32 as logit: probability exactly 0,
    also where every allowed logit is very low, and no gradient.
    """

    def __init__(
        self,
        action: ActionSpec,
        mean: torch.Tensor | None,
        log_std: torch.Tensor | None,
        logits: torch.Tensor | None,
        action_mask: torch.Tensor | None,
    ) -> None:
        """Args are (R, A, C) mean, (C,) or (A, C) log std, (R, A, M) logits and bool mask (None: all allowed)."""
        self._mean = mean
        self._log_std = log_std
        if logits is not None and action_mask is not None:
            logits = torch.where(action_mask, logits, _LOWEST)
        sizes = list(action.discrete_branches)
        self._branch_logits = () if logits is None else torch.split(logits, sizes, dim=-1)

    def sample(self, generator: torch.Generator) -> ActionSample:
        """A random action per robot; a forbidden choice is never drawn."""
        continuous = self._empty(torch.float32)
        if self._mean is not None and self._log_std is not None:
            noise = torch.empty_like(self._mean).normal_(generator=generator)
            continuous = self._mean + self._log_std.exp() * noise
        choices = []
        for logits in self._branch_logits:
            # Gumbel's trick: the argmax of logits + noise is a draw from their softmax.
            noise = torch.empty_like(logits).exponential_(generator=generator).clamp_min_(1e-30).log_()
            choices.append((logits - noise).argmax(dim=-1))
        discrete = torch.stack(choices, dim=-1) if choices else self._empty(torch.int64)
        return ActionSample(continuous, discrete, self.log_probs(continuous, discrete))

    def mode(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The most likely action: (R, A, C) mean before squashing and (R, A, B) choices, lowest index among equals."""
        continuous = self._empty(torch.float32) if self._mean is None else self._mean
        # numpy's argmax promises the first of equals, torch's does not.
        choices = [torch.from_numpy(np.asarray(logits.numpy().argmax(axis=-1))) for logits in self._branch_logits]
        return continuous, torch.stack(choices, dim=-1) if choices else self._empty(torch.int64)

    def log_probs(self, continuous: torch.Tensor, discrete: torch.Tensor) -> torch.Tensor:
        """(R, A) log density of actions, (R, A, C) before squashing and (R, A, B) int64."""
        return self.log_probs_and_entropy(continuous, discrete, with_entropy=False)[0]

    def log_probs_and_entropy(
        self, continuous: torch.Tensor, discrete: torch.Tensor, *, with_entropy: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log density of actions and exact entropy, each (R, A).

        The entropy of the continuous part is that of the Gaussian before squashing.
        """
        log_probs: list[torch.Tensor] = []
        entropies: list[torch.Tensor] = []
        if self._mean is not None and self._log_std is not None:
            scaled = (continuous - self._mean) * torch.exp(-self._log_std)
            log_probs.append((-0.5 * scaled.square() - self._log_std - _HALF_LOG_TWO_PI).sum(dim=-1))
            entropies.append((self._log_std + 0.5 + _HALF_LOG_TWO_PI).sum(dim=-1).expand(self._mean.shape[:-1]))
        for branch, logits in enumerate(self._branch_logits):
            normalised = functional.log_softmax(logits, dim=-1)
            log_probs.append(normalised.gather(-1, discrete[..., branch : branch + 1]).squeeze(-1))
            if with_entropy:
                entropies.append(-(normalised.exp() * normalised).sum(dim=-1))
        total = sum(log_probs[1:], start=log_probs[0])
        return total, sum(entropies[1:], start=entropies[0]) if entropies else torch.zeros_like(total)

    def _empty(self, dtype: torch.dtype) -> torch.Tensor:
        parts = [*self._branch_logits] if self._mean is None else [self._mean]
        return torch.empty((*parts[0].shape[:-1], 0), dtype=dtype)
