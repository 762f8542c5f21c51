"""The contract between the training loop and an algorithm."""

from __future__ import annotations

from typing import Any, Protocol

from trainers.policy import TorchPolicy
from trainers.rollout import Rollout

__all__ = ["Learner", "Metrics"]

Metrics = dict[str, float]
"""Figures of one update by name; those of a role are named ``<role>/<figure>``."""


class Learner(Protocol):
    """Owns the networks of all roles and improves them. Made by ``Learner(spec, config)``."""

    @property
    def policy(self) -> TorchPolicy:
        """The policy that collects data, always with the newest parameters."""
        ...

    def update(self, rollout: Rollout) -> Metrics:
        """Learn from a rollout that the current policy has collected; it is not used again.

        Raises:
            TrainingError: A loss is not finite, or the rollout holds no decision.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Networks, optimizers, normalisers, counters and random states as nested dicts and lists of arrays."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state`, for the same spec and configuration."""
        ...
