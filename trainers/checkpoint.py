"""Checkpoints: one file with everything that training needs to go on, without pickle.

A checkpoint is a numpy ``.npz`` archive (read with ``allow_pickle=False``).
Arrays are members of their own; everything else is one JSON text. A SHA-256
digest over both is compared when it is read. It is written beside its
destination, flushed to disk and renamed, so that a crash leaves the old file
or the new one, never half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.errors import CheckpointError
from bridge.specs import ActionSpec, MetricSpec, ObservationLayout, RoleSpec, WorldSpec

__all__ = ["CHECKPOINT_VERSION", "Checkpoint", "load_checkpoint", "save_checkpoint", "write_atomically"]

CHECKPOINT_VERSION = 2

_FORMAT = "agv-bridge checkpoint"
_HEADER = "header.json"
_ARRAY = "__array__"

Array = NDArray[Any]


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training run between two updates.

    Attributes:
        spec: The world, with every role's observation layout.
        config: The resolved training configuration as plain data.
        update: Updates made.
        env_steps: Environment steps made.
        decisions: Decisions of robots learnt from.
        seconds: Time spent in training.
        best_return: Highest mean return at a checkpoint so far, or None before an episode has ended.
        learner: Networks, optimizers, normalisers and random states (:meth:`trainers.learner.Learner.state`).
        episodes: The last episodes (:meth:`trainers.episode_statistics.EpisodeStatistics.state`).
        curriculum: The running stage (:meth:`trainers.curriculum.Curriculum.state`); None without a curriculum.
    """

    spec: WorldSpec
    config: dict[str, Any]
    update: int
    env_steps: int
    decisions: int
    seconds: float
    best_return: float | None
    learner: dict[str, Any]
    episodes: dict[str, Any]
    curriculum: dict[str, Any] | None = None


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically."""
    arrays: dict[str, Array] = {}
    body = {
        "spec": _spec_to_json(checkpoint.spec),
        "config": checkpoint.config,
        "update": checkpoint.update,
        "env_steps": checkpoint.env_steps,
        "decisions": checkpoint.decisions,
        "seconds": checkpoint.seconds,
        "best_return": checkpoint.best_return,
        "learner": _pack(checkpoint.learner, "learner", arrays),
        "episodes": _pack(checkpoint.episodes, "episodes", arrays),
        "curriculum": checkpoint.curriculum,
    }
    text = json.dumps(body)
    header = {"format": _FORMAT, "version": CHECKPOINT_VERSION, "digest": _digest(text, arrays), "body": text}
    members = {_HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays}
    with write_atomically(path) as file:
        np.savez(file, **members)  # type: ignore[arg-type]


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint.

    Raises:
        CheckpointError: There is no such file, it is damaged, or of another version.
    """
    if not path.is_file():
        others = sorted(file.name for file in path.parent.glob("*.npz"))
        hint = (
            f"There is {', '.join(others)}; the best one is kept once episodes have ended."
            if others
            else "Train first."
        )
        raise CheckpointError(f"{path}: expected a checkpoint, got no file. {hint}")
    try:
        if not zipfile.is_zipfile(path):
            # numpy would suggest to read it as a pickle.
            raise zipfile.BadZipFile("it is no archive, or its end is missing")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
        format_name, version = header["format"], header["version"]
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{path}: expected a checkpoint, got a damaged or foreign file ({error}). Use another checkpoint."
        ) from error
    if format_name != _FORMAT or version != CHECKPOINT_VERSION:
        raise CheckpointError(
            f"{path}: expected {_FORMAT!r} of version {CHECKPOINT_VERSION}, got {format_name!r} of version {version}. "
            "Use the release of agv-bridge that wrote it."
        )
    digest = _digest(header["body"], arrays)
    if digest != header["digest"]:
        raise CheckpointError(
            f"{path}: expected the digest {header['digest']}, got {digest}. "
            "The file was changed or damaged; use another one."
        )
    body = json.loads(header["body"])
    return Checkpoint(
        **{
            **body,
            "spec": _spec_from_json(body["spec"]),
            "learner": _unpack(body["learner"], arrays),
            "episodes": _unpack(body["episodes"], arrays),
        }
    )


class write_atomically:  # noqa: N801 - reads like a function
    """Context manager: a binary file that replaces ``path`` when everything was written, and not otherwise."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Any:
        self._file = self._temporary.open("wb")
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is not None:
            self._file.close()
            self._temporary.unlink(missing_ok=True)
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self._path)
        # The rename itself is durable only when the folder is.
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _pack(tree: Any, name: str, arrays: dict[str, Array]) -> Any:
    """A tree of dicts, lists, arrays and plain values as JSON; arrays move to ``arrays`` under their path."""
    if isinstance(tree, np.ndarray):
        arrays[name] = tree
        return {_ARRAY: name}
    if isinstance(tree, dict):
        return {key: _pack(value, f"{name}/{key}", arrays) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_pack(value, f"{name}/{index}", arrays) for index, value in enumerate(tree)]
    assert tree is None or isinstance(tree, (bool, int, float, str)), f"{name}: {type(tree).__name__}"
    return tree


def _unpack(tree: Any, arrays: dict[str, Array]) -> Any:
    """The inverse of :func:`_pack`."""
    if isinstance(tree, list):
        return [_unpack(value, arrays) for value in tree]
    if isinstance(tree, dict):
        if tree.keys() == {_ARRAY}:
            return arrays[tree[_ARRAY]]
        return {key: _unpack(value, arrays) for key, value in tree.items()}
    return tree


def _digest(text: str, arrays: dict[str, Array]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _spec_to_json(spec: WorldSpec) -> dict[str, Any]:
    return {
        "roles": [
            {
                "name": role.name,
                "agent_ids": list(role.agent_ids),
                "observation": role.observation.to_json(),
                "action": role.action.to_json(),
            }
            for role in spec.roles
        ],
        "state_size": spec.state_size,
        "metrics": [asdict(metric) for metric in spec.metrics],
        "step_s": spec.step_s,
    }


def _spec_from_json(data: dict[str, Any]) -> WorldSpec:
    roles = tuple(
        RoleSpec(
            role["name"],
            tuple(role["agent_ids"]),
            ObservationLayout.from_json(role["observation"]),
            ActionSpec.from_json(role["action"]),
        )
        for role in data["roles"]
    )
    return WorldSpec(roles, data["state_size"], tuple(MetricSpec(**entry) for entry in data["metrics"]), data["step_s"])
