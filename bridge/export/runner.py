"""Drives a fleet with exported models, each robot from its own observation only.

In the decentralised mode every robot has a session of its own, which is given
one observation, one action mask and, where the model asks for it, the robot's
one-hot id. ``batched=True`` puts the rows of all robots that share a network
into one run, for speed; the actions are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bridge.errors import ExportError, SpecMismatchError
from bridge.export import contract
from bridge.export.manifest import ExportedFile, ExportedFleet, load_exported
from bridge.export.metadata import ModelMetadata, read_metadata
from bridge.export.model_file import parse_model
from bridge.export.probes import feeds_of
from bridge.export.sessions import open_session, run_session, with_seeds
from bridge.roster import RosterArrays
from bridge.specs import RoleSpec, WorldSpec

__all__ = ["ActorSession", "OnnxFleetPolicy"]

Float32 = NDArray[np.float32]


class ActorSession:
    """One loaded network."""

    def __init__(self, model: bytes, where: str, *, deterministic: bool = True, seed: int | None = None) -> None:
        """Load a file that agv-bridge exported.

        Args:
            model: Bytes of the file.
            where: Name of the file, for messages.
            deterministic: Take the best action instead of a sampled one.
            seed: Seed of the sampling; None for one that differs from run to run.

        Raises:
            ExportError: The file is damaged or was not written by agv-bridge.
        """
        proto = parse_model(model, where)
        metadata = read_metadata(proto, where)
        if metadata is None:
            raise ExportError(f"{where}: expected a model written by agv-bridge, got one without its metadata.")
        self.metadata: ModelMetadata = metadata
        self._where = where
        self._ids = np.eye(metadata.num_agent_ids, dtype=np.float32)
        seeded = model if seed is None else with_seeds(proto, seed).SerializeToString()
        self._session = open_session(seeded, where)
        action = metadata.action
        continuous = contract.DETERMINISTIC_CONTINUOUS if deterministic else contract.CONTINUOUS_ACTIONS
        discrete = contract.DETERMINISTIC_DISCRETE if deterministic else contract.DISCRETE_ACTIONS
        self._outputs = [continuous] * bool(action.num_continuous) + [discrete] * bool(action.num_branches)

    def act(
        self, observations: Float32, action_masks: NDArray[np.bool_], slots: NDArray[np.intp]
    ) -> tuple[Float32, NDArray[np.int32]]:
        """Choose actions from observations, and from nothing else.

        Args:
            observations: (N, F) float32, without the robot's id.
            action_masks: (N, M) bool, True = allowed.
            slots: (N,) slot of each robot; only used by a model that wants the robot's id.

        Returns:
            (N, C) float32 in [-1, 1] and (N, B) int32.

        Raises:
            ExportError: The model cannot be run on these inputs.
        """
        metadata = self.metadata
        if metadata.num_agent_ids:
            observations = np.concatenate((observations, self._ids[slots]), axis=1)
        feeds = feeds_of(metadata.observation, metadata.action, observations, action_masks)
        results = run_session(self._session, self._outputs, feeds, self._where)
        continuous = results[0] if metadata.action.num_continuous else np.zeros((len(slots), 0))
        discrete = results[-1] if metadata.action.num_branches else np.zeros((len(slots), 0))
        return cast("Float32", continuous.astype(np.float32)), cast("NDArray[np.int32]", discrete.astype(np.int32))


@dataclass(frozen=True)
class _Driver:
    """A session and the slots (n,) that it drives."""

    session: ActorSession
    slots: NDArray[np.intp]


class OnnxFleetPolicy:
    """The exported policies of a fleet; a :class:`bridge.policy.FleetPolicy`."""

    def __init__(
        self,
        folder: Path | str,
        spec: WorldSpec,
        deterministic: bool = True,
        *,
        batched: bool = False,
        seed: int | None = None,
    ) -> None:
        """Load the models of every role of a world.

        Args:
            folder: Folder that :func:`bridge.export.exporter.export_policy` wrote.
            spec: The world that is to be driven.
            deterministic: Take the best action instead of a sampled one.
            batched: Run robots that share a network together.
            seed: Seed of the sampling; None for one that differs from run to run.

        Raises:
            ExportError: The folder is damaged.
            SpecMismatchError: A role has no model, or its observation, action or number of
                robots is not what the model was trained for; names the first block that differs.
        """
        fleet = load_exported(folder)
        self._batched = batched
        self._spec = spec
        seeds = np.random.default_rng(seed)
        self._drivers: dict[str, list[_Driver]] = {}
        for role in spec.roles:
            drivers = self._drivers[role.name] = []
            for file, slots in _assignment(fleet, role, share=batched):
                session = ActorSession(
                    fleet.read(file),
                    str(fleet.folder / file.file),
                    deterministic=deterministic,
                    seed=None if seed is None else int(seeds.integers(2**32)),
                )
                _require_fit(session.metadata, role, str(fleet.folder / file.file))
                drivers.append(_Driver(session, np.array(slots, np.intp)))

    def act(self, arrays: RosterArrays) -> None:
        """See :class:`bridge.policy.FleetPolicy`; slots that are not asked keep what they have."""
        for role in self._spec.roles:
            values = arrays.roles[role.name]
            for driver in self._drivers[role.name]:
                # (E, A) -> rows of the robots of this driver that are asked
                envs, columns = np.nonzero(values.decision_mask[:, driver.slots])
                for rows in self._runs(len(envs)):
                    where = (envs[rows], driver.slots[columns[rows]])
                    continuous, discrete = driver.session.act(
                        values.observations[where], values.action_mask[where], where[1]
                    )
                    values.continuous_actions[where] = continuous
                    values.discrete_actions[where] = discrete

    def _runs(self, num_rows: int) -> Iterator[slice]:
        """Which rows go into one run: all of them, or each alone."""
        if not self._batched:
            yield from (slice(row, row + 1) for row in range(num_rows))
        elif num_rows:
            yield slice(0, num_rows)


def _assignment(fleet: ExportedFleet, role: RoleSpec, *, share: bool) -> Iterator[tuple[ExportedFile, list[int]]]:
    """The file of every session of a role, with the slots that the session drives."""
    files = fleet.files_of(role.name)
    where = f"{fleet.folder}: role {role.name!r}"
    if not files:
        known = sorted({file.role for file in fleet.files})
        raise SpecMismatchError(
            f"{where}: expected a model of one of the roles {known}, got none. "
            "Use the scenario that the policy was trained on."
        )
    slots = list(range(role.num_slots))
    if len(files) == 1:
        yield from ([(files[0], slots)] if share else [(files[0], [slot]) for slot in slots])
        return
    by_agent = {file.agent_ids[0]: file for file in files}
    missing = [agent for agent in role.agent_ids if agent not in by_agent]
    if missing:
        raise SpecMismatchError(
            f"{where}: expected robots that have a network of their own ({', '.join(by_agent)}), "
            f"got {', '.join(missing)}. Use a fleet of at most {len(by_agent)}, or train with a shared network."
        )
    yield from ((by_agent[agent], [slot]) for slot, agent in zip(slots, role.agent_ids, strict=True))


def _require_fit(metadata: ModelMetadata, role: RoleSpec, where: str) -> None:
    """Raise unless a model can drive the robots of a role."""
    trained = RoleSpec(metadata.role, metadata.agent_ids, metadata.own_observation, metadata.action)
    trained.require_same_interface(role, where)
    if metadata.num_agent_ids and role.num_slots > metadata.num_agent_ids:
        raise SpecMismatchError(
            f"{where}: role {role.name!r}: expected at most {metadata.num_agent_ids} robots, for the model knows each "
            f"by its id, got {role.num_slots}. Train with a larger fleet, or without the agent id."
        )
