"""Exports a fleet: writes every network, checks each file, compares each with its policy, lists them.

Nothing reaches the folder unless all files pass.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version as distribution_version
from pathlib import Path

from bridge.errors import ExportError
from bridge.export.check import require_unity_model
from bridge.export.manifest import ExportedFile, ExportedFleet, file_names
from bridge.export.parameters import ActorParameters
from bridge.export.parity import check_parity, require_parity
from bridge.export.reference import PolicyFunction
from bridge.export.writer import write_actor
from bridge.specs import RoleSpec

__all__ = ["export_policy"]


def export_policy(
    networks: Sequence[ActorParameters],
    folder: Path | str,
    *,
    scenario_name: str,
    num_samples: int = 10_000,
    seed: int = 0,
    policy_outputs: Callable[[ActorParameters], PolicyFunction] | None = None,
) -> list[Path]:
    """Write the networks of a fleet as ONNX files with a manifest.

    Args:
        networks: One actor per role, or one per robot.
        folder: Where the files go; made if missing, older files of the same names are replaced.
        scenario_name: Name of the scenario that the fleet was trained on.
        num_samples: Number of random observations for the comparison with the policy.
        seed: Seed of the comparison.
        policy_outputs: Gives the policy to compare an actor with; the numpy reference by default.

    Returns:
        The model files, in the order of ``networks``.

    Raises:
        ExportError: An actor is not sound, or a file fails a check or differs from its policy;
            the folder is then left as it was.
    """
    if not networks:
        raise ExportError("export: expected at least one network, got none.")
    target = Path(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    names = file_names((actor.role, actor.agent_ids) for actor in networks)
    # Beside the target, so that the files can be moved without copying.
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as staging:
        files = []
        for actor, name in zip(networks, names, strict=True):
            path = write_actor(actor, Path(staging) / name, scenario_name=scenario_name)
            role = RoleSpec(actor.role, actor.agent_ids, actor.observation, actor.action)
            require_unity_model(path, role, isolated=False, where=name)
            policy = policy_outputs(actor) if policy_outputs else None
            require_parity(name, check_parity(path, actor, num_samples=num_samples, seed=seed, policy_outputs=policy))
            files.append(_listed(actor, path))
        target.mkdir(exist_ok=True)
        paths = [(Path(staging) / name).replace(target / name) for name in names]
    # Last, so that a folder with a manifest is complete.
    ExportedFleet(target, distribution_version("agv-bridge"), scenario_name, tuple(files)).write_manifest()
    return paths


def _listed(actor: ActorParameters, path: Path) -> ExportedFile:
    return ExportedFile(
        file=path.name,
        role=actor.role,
        agent_ids=actor.agent_ids,
        observation_digest=actor.observation.digest,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )
