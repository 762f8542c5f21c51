"""The folder of an exported fleet: one model file per network, and ``manifest.json`` that lists them.

``<role>.onnx`` drives all robots of a role; where every robot has its own
network, the files are named ``<agent_id>.onnx``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bridge.errors import ExportError
from bridge.export.model_file import read_bounded

__all__ = ["MANIFEST_NAME", "ExportedFile", "ExportedFleet", "file_names", "load_exported"]

MANIFEST_NAME = "manifest.json"

_MAX_MANIFEST_BYTES = 4 * 1024 * 1024


class ExportedFile(BaseModel):
    """One model file.

    Attributes:
        file: Name of the file in the folder.
        role: Role that it drives.
        agent_ids: Slots that it was trained for.
        observation_digest: Digest of the layout of its input.
        sha256: Digest of the file.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+\.onnx$")]
    role: str
    agent_ids: tuple[str, ...]
    observation_digest: str
    sha256: str


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    format: Literal[1] = 1
    agv_bridge: str
    scenario: str
    files: tuple[ExportedFile, ...] = Field(min_length=1)


@dataclass(frozen=True)
class ExportedFleet:
    """A folder of exported models whose files are those that were checked.

    Attributes:
        folder: The folder.
        version: Version of agv-bridge that exported it.
        scenario: Name of the scenario that the policies were trained on.
        files: Every model file, in the order in which it was exported.
    """

    folder: Path
    version: str
    scenario: str
    files: tuple[ExportedFile, ...]

    def files_of(self, role: str) -> tuple[ExportedFile, ...]:
        """The files that drive a role; empty if there is none."""
        return tuple(file for file in self.files if file.role == role)

    def read(self, file: ExportedFile) -> bytes:
        """The bytes of a file.

        Raises:
            ExportError: The file is missing, or not the one that was exported.
        """
        path = self.folder / file.file
        data = read_bounded(path)
        digest = hashlib.sha256(data).hexdigest()
        if digest != file.sha256:
            raise ExportError(
                f"{path}: expected the file that was exported (sha256 {file.sha256[:16]}...), got {digest[:16]}.... "
                "Export again, or copy the folder as a whole."
            )
        return data

    def write_manifest(self) -> Path:
        """Write ``manifest.json`` and return its path."""
        manifest = _Manifest(agv_bridge=self.version, scenario=self.scenario, files=self.files)
        path = self.folder / MANIFEST_NAME
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return partial.replace(path)


def load_exported(folder: Path | str) -> ExportedFleet:
    """Read the manifest of an exported fleet and compare every file with it.

    Raises:
        ExportError: There is no manifest, it is damaged, or a file is missing or another one.
    """
    path = Path(folder) / MANIFEST_NAME
    if not path.is_file():
        raise ExportError(
            f"{folder}: expected a folder with exported policies ({MANIFEST_NAME}), got none. "
            "Run `agv-bridge export RUN` first and give its folder, RUN/export."
        )
    data = read_bounded(path, _MAX_MANIFEST_BYTES)
    try:
        manifest = _Manifest.model_validate_json(data)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors()[:5])
        raise ExportError(f"{path}: expected a manifest of format 1, got: {faults}. Export again.") from error
    fleet = ExportedFleet(Path(folder), manifest.agv_bridge, manifest.scenario, manifest.files)
    for file in fleet.files:
        fleet.read(file)
    return fleet


def file_names(networks: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    """File names of networks given as (role, agent ids), in the same order.

    Raises:
        ExportError: Several networks of one role that do not drive one robot each, or two
            names that a file system may not keep apart.
    """
    entries = list(networks)
    roles = [role for role, _ in entries]
    names: list[str] = []
    for role, agent_ids in entries:
        shared = roles.count(role) == 1
        if not shared and len(agent_ids) != 1:
            raise ExportError(
                f"export of role {role!r}: expected one network for all robots or one for each, "
                f"got {roles.count(role)} networks of which one drives {len(agent_ids)} robots."
            )
        # Behaviors of a Unity scene may be called anything.
        names.append(re.sub(r"[^A-Za-z0-9_-]", "_", role if shared else agent_ids[0]) + ".onnx")
    folded = [name.casefold() for name in names]
    for name in names:
        if folded.count(name.casefold()) > 1:
            raise ExportError(f"export: expected a file name for each network, got {name!r} twice. Rename a role.")
    return names
