"""Cuts the data of an update into minibatches of whole rows.

A row is one step of one environment with all slots of a role, so that the
global state of a row is read once. What is not a decision is replaced by
harmless constants when a batch is made and has weight 0 in every mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

__all__ = ["RoleBatch", "minibatches"]


@dataclass(frozen=True)
class RoleBatch:
    """Decisions of one role in R rows of A slots.

    Attributes:
        observations: (R, A, F) float32, normalised; 0 where nobody lived.
        state: (R, S) float32, normalised, or None where the critic does not read one.
        action_mask: (R, A, M) bool, or None without discrete branches.
        continuous_actions: (R, A, C) float32, before squashing.
        discrete_actions: (R, A, B) int64.
        log_probs: (R, A) float32, when the action was chosen.
        advantages: (R, A) float32.
        targets: (R, A) float32, returns in the space of the critic's output.
        old_values: (R, A) float32, the critic's output before the update, in the same space.
        weights: (R, A) float32, 1 for a decision, else 0.
    """

    observations: torch.Tensor
    state: torch.Tensor | None
    action_mask: torch.Tensor | None
    continuous_actions: torch.Tensor
    discrete_actions: torch.Tensor
    log_probs: torch.Tensor
    advantages: torch.Tensor
    targets: torch.Tensor
    old_values: torch.Tensor
    weights: torch.Tensor

    @property
    def num_rows(self) -> int:
        """Number of rows R."""
        return len(self.weights)

    def rows(self, index: torch.Tensor) -> RoleBatch:
        """A copy of the rows at (N,) int64 indices."""

        def take(part: torch.Tensor) -> torch.Tensor:
            return part.index_select(0, index)

        return RoleBatch(
            observations=take(self.observations),
            state=None if self.state is None else take(self.state),
            action_mask=None if self.action_mask is None else take(self.action_mask),
            continuous_actions=take(self.continuous_actions),
            discrete_actions=take(self.discrete_actions),
            log_probs=take(self.log_probs),
            advantages=take(self.advantages),
            targets=take(self.targets),
            old_values=take(self.old_values),
            weights=take(self.weights),
        )

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Mean of (R, A) values over decisions."""
        return (values * self.weights).sum() / self.weights.sum()


def minibatches(batch: RoleBatch, count: int, generator: torch.Generator) -> Iterator[RoleBatch]:
    """Split the rows at random into ``count`` parts of nearly equal size, or fewer if there are not enough rows."""
    if count == 1:
        yield batch
        return
    order = torch.randperm(batch.num_rows, generator=generator)
    for index in order.tensor_split(min(count, batch.num_rows)):
        yield batch.rows(index)
