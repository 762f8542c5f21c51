"""Names of scenarios that do not state one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["MAX_SCENARIO_NAME", "default_scenario_name"]

MAX_SCENARIO_NAME: Final = 64


def default_scenario_name(path: Path, otherwise: str = "scenario") -> str:
    """The file's stem, or the folder's name of a file called ``scenario.yaml``, with what no name may hold as hyphens.

    Args:
        path: The file.
        otherwise: The name where nothing is left of the stem.
    """
    path = path.resolve()
    stem = path.parent.name if path.name == "scenario.yaml" else path.stem
    name = re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")
    return name[:MAX_SCENARIO_NAME] or otherwise
