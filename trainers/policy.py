"""The trained policy: one actor per role, or one per robot, that drives a fleet from observations alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bridge.errors import ActionError
from bridge.export.parameters import ActorParameters, DenseLayer
from bridge.roster import RoleArrays, RosterArrays
from bridge.specs import RoleSpec, WorldSpec
from trainers.distributions import ActionDistribution, ActionSample, squash
from trainers.networks import NORM_EPSILON, ActorNetwork, Dense
from trainers.normalisation import RunningNormaliser

__all__ = ["RoleActor", "TorchPolicy", "require_choices"]


@dataclass(frozen=True)
class RoleActor:
    """The actor of one role with what stands before it.

    Attributes:
        role: The role that it was made for.
        network: Shared network, or one per slot.
        normaliser: Scales observations, or None.
    """

    role: RoleSpec
    network: ActorNetwork
    normaliser: RunningNormaliser | None

    def normalise(self, observations: torch.Tensor) -> torch.Tensor:
        """(R, A, F) observations as the network reads them."""
        return observations if self.normaliser is None else self.normaliser.normalise(observations)

    def distribution(self, normalised: torch.Tensor, action_mask: torch.Tensor | None) -> ActionDistribution:
        """Distribution of R x A actions, from normalised (R, A, F) observations and (R, A, M) masks."""
        mean, logits = self.network(normalised)
        return ActionDistribution(self.role.action, mean, self.network.log_std, logits, action_mask)


class TorchPolicy:
    """Chooses the actions of all robots; implements :class:`bridge.policy.FleetPolicy`.

    Args:
        spec: The world that is driven; fleets may differ in size from those that were trained
            when the actors do not know their slot.
        actors: One per role of ``spec``.
        deterministic: Choose the most likely action instead of a random one.
        generator: Source of random actions.
    """

    def __init__(
        self,
        spec: WorldSpec,
        actors: dict[str, RoleActor],
        *,
        deterministic: bool,
        generator: torch.Generator | None = None,
    ) -> None:
        self._spec = spec
        self._actors = actors
        self._deterministic = deterministic
        self._generator = generator if generator is not None else torch.Generator()

    @property
    def actors(self) -> dict[str, RoleActor]:
        """The actors by role."""
        return self._actors

    def act(self, arrays: RosterArrays) -> None:
        """See :class:`bridge.policy.FleetPolicy`.

        Raises:
            ActionError: A robot is asked but all of its choices are forbidden; names it.
        """
        for role in self._spec.roles:
            values = arrays.roles[role.name]
            if self._deterministic:
                self._act_greedily(role, values)
            else:
                self.sample(role, values)

    @torch.inference_mode()
    def sample(self, role: RoleSpec, values: RoleArrays) -> ActionSample:
        """Draw and write the actions of one role, and return them as they were before squashing."""
        sample = self._distribution(role, values).sample(self._generator)
        _write(role, values, sample.continuous, sample.discrete)
        return sample

    @torch.inference_mode()
    def _act_greedily(self, role: RoleSpec, values: RoleArrays) -> None:
        _write(role, values, *self._distribution(role, values).mode())

    def _distribution(self, role: RoleSpec, values: RoleArrays) -> ActionDistribution:
        require_choices(role, values)
        actor = self._actors[role.name]
        mask = torch.from_numpy(values.action_mask) if role.action.num_branches else None
        return actor.distribution(actor.normalise(torch.from_numpy(values.observations)), mask)

    def actor_parameters(self, role: str) -> list[ActorParameters]:
        """The numbers of a role's networks for export, one entry per network."""
        actor = self._actors[role]
        network = actor.network
        ids = actor.role.agent_ids
        groups = [(0, ids)] if network.groups == 1 else [(slot, (ids[slot],)) for slot in range(network.groups)]
        return [_parameters(actor, group, agent_ids) for group, agent_ids in groups]


def require_choices(role: RoleSpec, values: RoleArrays) -> None:
    """Raise if a robot that is asked may choose nothing.

    Raises:
        ActionError: Names the robot and the branch.
    """
    start = 0
    for branch, size in enumerate(role.action.discrete_branches):
        stuck = values.decision_mask & ~values.action_mask[..., start : start + size].any(axis=-1)
        if stuck.any():
            env, slot = (int(index) for index in np.argwhere(stuck)[0])
            raise ActionError(
                f"policy: agent {role.agent_ids[slot]!r} of environment {env}: expected at least one allowed choice "
                f"in branch {branch}, got none. Let the world allow one, or not ask the robot."
            )
        start += size


def _write(role: RoleSpec, values: RoleArrays, continuous: torch.Tensor, discrete: torch.Tensor) -> None:
    if role.action.num_continuous:
        values.continuous_actions[:] = squash(continuous.numpy())
    if role.action.num_branches:
        values.discrete_actions[:] = discrete.numpy()


def _parameters(actor: RoleActor, group: int, agent_ids: tuple[str, ...]) -> ActorParameters:
    network, role = actor.network, actor.role
    slots = 0 if network.slot_weight is None else network.num_slots
    mean = std = None
    if actor.normaliser is not None:
        # The slot is not scaled: mean 0, std 1.
        mean = np.concatenate([actor.normaliser.mean, np.zeros(slots, np.float32)])
        std = np.concatenate([actor.normaliser.std, np.ones(slots, np.float32)])
    hidden = [_dense(layer, group) for layer in network.layers]
    if network.slot_weight is not None:
        first = hidden[0]
        weight = np.concatenate([first.weight, _array(network.slot_weight).T], axis=1)
        hidden[0] = DenseLayer(weight, first.bias, first.norm_gain, first.norm_bias)
    return ActorParameters(
        role=role.name,
        agent_ids=agent_ids,
        observation=role.observation.with_agent_id(slots) if slots else role.observation,
        action=role.action,
        normaliser_mean=mean,
        normaliser_std=std,
        normaliser_clip=1.0 if actor.normaliser is None else actor.normaliser.clip,
        hidden=tuple(hidden),
        activation=network.shape.activation,
        norm_epsilon=NORM_EPSILON,
        continuous_head=None if network.continuous_head is None else _dense(network.continuous_head, group),
        log_std=None if network.log_std is None else _array(network.log_std[group]),
        squash="clip",
        discrete_head=None if network.discrete_head is None else _dense(network.discrete_head, group),
    )


def _dense(layer: Dense, group: int) -> DenseLayer:
    return DenseLayer(
        _array(layer.weight[group]),
        _array(layer.bias[group]),
        None if layer.norm_gain is None else _array(layer.norm_gain[group]),
        None if layer.norm_bias is None else _array(layer.norm_bias[group]),
    )


def _array(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.detach().numpy().copy()
