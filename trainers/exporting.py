"""From a run folder to exported policies, compared with the networks that were trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bridge.export import ActorParameters, PolicyFunction, PolicyOutputs, export_policy
from trainers.checkpoint import load_checkpoint
from trainers.distributions import squash
from trainers.loading import load_policy
from trainers.policy import RoleActor, TorchPolicy
from trainers.runs import CheckpointName, RunFolder

__all__ = ["export_run", "policy_functions"]

_CHUNK = 512
"""Observations per forward pass: with an agent id each is evaluated in every slot."""


def export_run(
    run_dir: Path, folder: Path, *, checkpoint: CheckpointName = "latest", num_samples: int = 10_000
) -> list[Path]:
    """Write the policy of a run as ONNX files, one per network, and compare each with its torch network.

    Args:
        run_dir: Folder that training wrote.
        folder: Where the files go.
        checkpoint: Which checkpoint to export.
        num_samples: Random observations and masks for the comparison.

    Returns:
        The model files.

    Raises:
        CheckpointError: There is no such checkpoint, or it is damaged.
        ExportError: A file fails a check or differs from its network.
    """
    run = RunFolder(run_dir)
    saved = load_checkpoint(run.checkpoint(checkpoint))
    policy = load_policy(run_dir, saved.spec, checkpoint=checkpoint)
    networks = [network for role in saved.spec.roles for network in policy.actor_parameters(role.name)]
    return export_policy(
        networks,
        folder,
        scenario_name=run.scenario().name,
        num_samples=num_samples,
        policy_outputs=policy_functions(policy),
    )


def policy_functions(policy: TorchPolicy) -> Callable[[ActorParameters], PolicyFunction]:
    """The torch network behind exported parameters, as a function of one robot's inputs."""

    def function_of(parameters: ActorParameters) -> PolicyFunction:
        actor = policy.actors[parameters.role]
        # With a network per robot, the parameters name the only slot that they drive.
        slot = actor.role.agent_ids.index(parameters.agent_ids[0]) if actor.network.groups > 1 else None
        return _ActorFunction(actor, slot)

    return function_of


class _ActorFunction:
    """Runs one role's network on rows of single robots; a :data:`bridge.export.PolicyFunction`."""

    def __init__(self, actor: RoleActor, slot: int | None) -> None:
        self._actor = actor
        self._slot = slot

    @torch.inference_mode()
    def __call__(self, observations: NDArray[np.float32], masks: NDArray[np.bool_]) -> PolicyOutputs:
        parts = [
            self._chunk(observations[start : start + _CHUNK], masks[start : start + _CHUNK])
            for start in range(0, len(observations), _CHUNK)
        ]
        return PolicyOutputs(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in PolicyOutputs.__dataclass_fields__)
        )

    def _chunk(self, observations: NDArray[np.float32], masks: NDArray[np.bool_]) -> PolicyOutputs:
        role = self._actor.role
        own, one_hot = np.split(observations, [role.observation.size], axis=1)
        if self._slot is not None:
            slots = np.full(len(own), self._slot)
        else:
            slots = one_hot.argmax(axis=1) if one_hot.shape[1] else np.zeros(len(own), np.int64)
        num_slots = self._actor.network.num_slots if self._slot is not None or one_hot.shape[1] else 1
        # (N, F) -> (N, A, F): the row in every slot; the slot that it belongs to is picked afterwards.
        rows = torch.from_numpy(own).unsqueeze(1).expand(-1, num_slots, -1)
        mask = torch.from_numpy(masks).unsqueeze(1).expand(-1, num_slots, -1) if role.action.num_branches else None
        normalised = self._actor.normalise(rows)
        mean, logits = self._actor.network(normalised)
        continuous, discrete = self._actor.distribution(normalised, mask).mode()
        pick = np.arange(len(own)), slots
        empty = np.zeros((len(own), 0), np.float32)
        return PolicyOutputs(
            continuous_mean=empty if mean is None else mean.numpy()[pick],
            continuous=squash(continuous.numpy()[pick]) if role.action.num_continuous else empty,
            logits=empty if logits is None else logits.numpy()[pick],
            discrete=discrete.numpy()[pick].astype(np.int64)
            if role.action.num_branches
            else np.zeros((len(own), 0), np.int64),
        )
