"""Checks a model file as Unity will, and for what Unity forgets, without Unity.

Takes any ONNX file, also one that another program wrote: it is bounded in
size, never reads a second file, and is executed only when everything that
must be in order for that is, and then in a process of its own.
"""

from __future__ import annotations

from pathlib import Path

from bridge.errors import ExportError
from bridge.export.engine_checks import engine_findings
from bridge.export.findings import Finding
from bridge.export.isolated_trial import isolated_trial_findings
from bridge.export.loader_checks import loader_findings
from bridge.export.model_file import parse_model, read_bounded
from bridge.export.model_view import ModelView
from bridge.export.trial_run import trial_findings
from bridge.specs import RoleSpec

__all__ = ["check_model", "require_unity_model"]

_PREVENT_RUN = frozenset(
    {"graph", "dangling-output", "opset", "operators", "weights", "input-type", "input-shape", "output-type"}
)


def check_model(path: Path | str, role: RoleSpec | None = None, *, isolated: bool = True) -> list[Finding]:
    """Everything that is wrong with a model file.

    Args:
        path: The file.
        role: Role that it shall drive; None to check the file by itself.
        isolated: Run the model in a process of its own, which a bad file may crash; False, for a
            file that this process wrote, saves the half second that this takes.

    Returns:
        The findings, errors first; empty for a file that Unity accepts and runs as intended.

    Raises:
        ExportError: The file cannot be read, is too long, is no ONNX model, refers to other
            files, or is damaged.
    """
    where = str(path)
    data = read_bounded(Path(path))
    view = ModelView.of(parse_model(data, where), where)
    findings = [*loader_findings(view, role), *engine_findings(view)]
    if not any(finding.severity == "error" and finding.check in _PREVENT_RUN for finding in findings):
        findings.extend(isolated_trial_findings(data) if isolated else trial_findings(view, data))
    distinct = list(dict.fromkeys(findings))
    return sorted(distinct, key=lambda finding: finding.severity == "warning")


def require_unity_model(
    path: Path | str, role: RoleSpec | None = None, *, isolated: bool = True, where: str | None = None
) -> None:
    """Raise unless a model file has no errors; warnings pass.

    Args:
        path: The file.
        role: Role that it shall drive; None to check the file by itself.
        isolated: See :func:`check_model`.
        where: What messages call the file; its path by default.

    Raises:
        ExportError: Lists every error of the file, one per line.
    """
    errors = [finding for finding in check_model(path, role, isolated=isolated) if finding.severity == "error"]
    if errors:
        listed = "\n".join(f"  [{finding.check}] {finding.message}" for finding in errors)
        raise ExportError(f"{where or path}: expected a model that Unity accepts, got {len(errors)} faults:\n{listed}")
