"""Runs a model that anybody may have written in a process of its own.

An inference engine is not made for hostile or damaged files: some end the
process that loads them (a random operator with a negative deviation is
enough), some ask for all the memory. Here that costs a child process, which
has a bound on time and memory, and becomes a finding.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict

from bridge.errors import ExportError
from bridge.export.findings import Finding, error
from bridge.export.model_file import parse_model
from bridge.export.model_view import ModelView
from bridge.export.trial_run import trial_findings

__all__ = ["isolated_trial_findings", "serve_trial"]

_TIMEOUT_S = 60.0
_MAX_MEMORY_BYTES = 4 * 1024**3
_COMMAND = "from bridge.export.isolated_trial import serve_trial; serve_trial()"


def isolated_trial_findings(data: bytes) -> list[Finding]:
    """The findings of :func:`bridge.export.trial_run.trial_findings`, whatever the model does to its process.

    Args:
        data: Bytes of the file.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        child = subprocess.run(
            [sys.executable, "-c", _COMMAND], input=data, capture_output=True, timeout=_TIMEOUT_S, env=environment
        )
    except subprocess.TimeoutExpired:
        return [error("trial-run", f"trial run: expected an end within {_TIMEOUT_S:.0f} s, got none.")]
    if child.returncode != 0:
        said = child.stderr.decode(errors="replace").strip().splitlines()
        message = f"trial run: expected a model that runs, got the exit code {child.returncode} of its process"
        return [error("trial-run", f"{message}: {said[-1][:500] if said else 'no message'}.")]
    return [Finding(**fields) for fields in json.loads(child.stdout)]


def serve_trial() -> None:
    """The child: a model on standard input, its findings as JSON on standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    data = sys.stdin.buffer.read()
    try:
        findings = list(trial_findings(ModelView.of(parse_model(data, "trial run"), "trial run"), data))
    except (ExportError, MemoryError) as fault:
        findings = [error("trial-run", f"trial run: expected a model that runs, got {type(fault).__name__}: {fault}")]
    json.dump([asdict(finding) for finding in findings], sys.stdout)
