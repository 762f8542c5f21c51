"""The table of checks in the documentation names every check of the code."""

import re
from pathlib import Path

import bridge.export

PAGE = Path(__file__).resolve().parents[3] / "docs" / "export.md"


def test_docs_name_every_check():
    sources = "".join(path.read_text() for path in Path(bridge.export.__file__).parent.glob("*.py"))
    checks = set(re.findall(r"\b(?:error|warning)\(\s*\"([a-z-]+)\"", sources))
    assert {"trial-run", "mask-ignored", "observation-shape"} <= checks
    documented = set(re.findall(r"`([a-z_-]+)`", PAGE.read_text()))
    assert checks | {"version_number", "memory_size"} <= documented
