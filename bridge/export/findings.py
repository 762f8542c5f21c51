"""What a check of a model file found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One fault of a model file.

    Attributes:
        check: Name of the check, as in the table of ``docs/export.md``.
        severity: ``error``: Unity refuses the file or acts differently; ``warning``: it does so in some cases.
        message: What was expected, what was found, and what Unity would say or do.
    """

    check: str
    severity: Literal["error", "warning"]
    message: str

    def __str__(self) -> str:
        return f"{self.severity} [{self.check}] {self.message}"


def error(check: str, message: str) -> Finding:
    """A fault that makes the file unusable."""
    return Finding(check, "error", message)


def warning(check: str, message: str) -> Finding:
    """A fault that some users will never meet."""
    return Finding(check, "warning", message)
