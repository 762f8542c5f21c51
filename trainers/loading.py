"""From a run folder to a policy that drives a fleet."""

from __future__ import annotations

from pathlib import Path

import torch

from bridge.errors import SpecMismatchError
from bridge.specs import RoleSpec, WorldSpec
from trainers.algorithms import make_learner
from trainers.checkpoint import load_checkpoint
from trainers.policy import RoleActor, TorchPolicy
from trainers.runs import CheckpointName, RunFolder

__all__ = ["load_policy"]


def load_policy(
    run_dir: Path,
    spec: WorldSpec,
    *,
    deterministic: bool = True,
    checkpoint: CheckpointName = "latest",
    seed: int = 0,
) -> TorchPolicy:
    """The policy of a run, checked against the world that it shall drive.

    The fleet may differ in size from the one that was trained if the actors are shared and do not know
    their slot (``agent_id: false``).

    Args:
        run_dir: Folder that training wrote.
        spec: The world to drive; every role of it must have been trained.
        deterministic: Choose the most likely action instead of a random one.
        checkpoint: Which one to load.
        seed: Seed of random actions.

    Raises:
        CheckpointError: There is no such checkpoint, or it is damaged.
        ScenarioError: The saved configuration is not one of this release.
        SpecMismatchError: Names the role and the first observation block, or the action, that differs.
    """
    run = RunFolder(run_dir)
    saved = load_checkpoint(run.checkpoint(checkpoint))
    learner = make_learner(saved.spec, run.config(saved.config))
    learner.load_state(saved.learner)
    actors = {}
    for role in spec.roles:
        actor = learner.policy.actors.get(role.name)
        if actor is None:
            raise SpecMismatchError(
                f"policy {run_dir}: expected a world with the roles {list(learner.policy.actors)}, got {role.name!r}. "
                "Use the scenario that the policy was trained on."
            )
        _require_fit(actor, role, f"policy {run_dir}")
        actors[role.name] = actor
    return TorchPolicy(spec, actors, deterministic=deterministic, generator=torch.Generator().manual_seed(seed))


def _require_fit(actor: RoleActor, role: RoleSpec, where: str) -> None:
    actor.role.require_same_interface(role, where)
    knows_slot = actor.network.groups > 1 or actor.network.slot_weight is not None
    if knows_slot and actor.role.num_slots != role.num_slots:
        raise SpecMismatchError(
            f"{where}: role {role.name!r}: expected {actor.role.num_slots} robots, got {role.num_slots}. "
            "Train with agent_id=false and policy_sharing=shared for a policy that fits any fleet size."
        )
