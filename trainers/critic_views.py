"""What critics read: normalised observations and a normalised global view.

Where a world has no state, the observations of all robots stand for it, each
followed by a flag that says whether a robot lives in the slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bridge.specs import WorldSpec
from trainers.normalisation import RunningNormaliser
from trainers.rollout import FinalViews, Rollout

__all__ = ["CriticViews", "ViewBuilder"]


@dataclass(frozen=True)
class CriticViews:
    """Normalised views, one row per step and environment.

    Attributes:
        observations: (R, A, F) float32 per role; 0 where nobody lives.
        state: (R, S) float32, or None where no critic reads it.
    """

    observations: dict[str, torch.Tensor]
    state: torch.Tensor | None


class ViewBuilder:
    """Makes critics' inputs from raw data and owns the statistics that scale them.

    Args:
        spec: What the world looks like.
        reads_state: Critics read the global view.
        normalise: Scale observations and states by running statistics.
        clip: Bound on normalised values.
    """

    def __init__(self, spec: WorldSpec, reads_state: bool, normalise: bool, clip: float) -> None:
        self._spec = spec
        self._reads_state = reads_state
        self._observations = (
            {role.name: RunningNormaliser(role.observation.size, clip) for role in spec.roles} if normalise else {}
        )
        self._state = RunningNormaliser(spec.state_size, clip) if normalise and spec.state_size else None

    @property
    def state_size(self) -> int:
        """Length of the global view that critics read; 0 if they read none."""
        if not self._reads_state:
            return 0
        return self._spec.state_size or sum(role.num_slots * (role.observation.size + 1) for role in self._spec.roles)

    def observation_normaliser(self, role: str) -> RunningNormaliser | None:
        """The statistics of a role's observations, shared with its actor; None without normalisation."""
        return self._observations.get(role)

    def of_rollout(self, rollout: Rollout) -> CriticViews:
        """Views of all T + 1 steps: (T + 1, E, ...) -> ((T + 1) * E, ...)."""
        state = rollout.state.reshape(-1, self._spec.state_size) if self._spec.state_size else None
        observations, masks = {}, {}
        for name, data in rollout.roles.items():
            observations[name] = data.observations.reshape(-1, *data.observations.shape[2:])
            masks[name] = data.agent_mask.reshape(-1, data.agent_mask.shape[-1])
        return self._views(state, observations, masks)

    def of_finals(self, final: FinalViews) -> CriticViews:
        """Views of the ends of truncated lives."""
        return self._views(final.state, final.observations, final.agent_mask)

    def update_statistics(self, rollout: Rollout) -> None:
        """Take in the observations of robots that were asked, and all states."""
        for name, normaliser in self._observations.items():
            data = rollout.roles[name]
            normaliser.update(torch.from_numpy(data.observations[:-1][data.decision_mask[:-1]]))
        if self._state is not None:
            self._state.update(torch.from_numpy(rollout.state[:-1].reshape(-1, self._spec.state_size)))

    def state(self) -> dict[str, Any]:
        """Plain arrays and numbers for a checkpoint."""
        return {
            "observations": {name: normaliser.state() for name, normaliser in self._observations.items()},
            "state": None if self._state is None else self._state.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state`."""
        for name, normaliser in self._observations.items():
            normaliser.load_state(state["observations"][name])
        if self._state is not None:
            self._state.load_state(state["state"])

    def _views(
        self,
        state: NDArray[np.float32] | None,
        observations: dict[str, NDArray[np.float32]],
        masks: dict[str, NDArray[np.bool_]],
    ) -> CriticViews:
        seen = {name: self._observation_view(name, values, masks[name]) for name, values in observations.items()}
        return CriticViews(seen, self._state_view(state, seen, masks) if self._reads_state else None)

    def _observation_view(self, role: str, values: NDArray[np.float32], mask: NDArray[np.bool_]) -> torch.Tensor:
        normaliser = self._observations.get(role)
        tensor = torch.from_numpy(values)
        if normaliser is not None:
            tensor = normaliser.normalise(tensor)
        if mask.all():
            return tensor
        return torch.where(torch.from_numpy(mask).unsqueeze(-1), tensor, 0.0)

    def _state_view(
        self,
        state: NDArray[np.float32] | None,
        seen: dict[str, torch.Tensor],
        masks: dict[str, NDArray[np.bool_]],
    ) -> torch.Tensor:
        if self._spec.state_size and state is not None:
            tensor = torch.from_numpy(state)
            return tensor if self._state is None else self._state.normalise(tensor)
        parts = []
        for role in self._spec.roles:
            alive = torch.from_numpy(masks[role.name]).unsqueeze(-1).float()
            parts.append(torch.cat([seen[role.name], alive], dim=-1).flatten(1))  # (R, A, F + 1) -> (R, A*(F + 1))
        return torch.cat(parts, dim=-1)
