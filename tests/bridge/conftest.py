"""What several folders of tests need."""

from __future__ import annotations

from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_PUBLIC_MAPS = _REPOSITORY.parent / "shared" / "maps"


@pytest.fixture(scope="session")
def public_maps() -> Path:
    """Folder of public benchmark maps beside the checkout; they are not part of the repository."""
    if not _PUBLIC_MAPS.is_dir():
        pytest.skip(f"no public maps in {_PUBLIC_MAPS} (folder shared/maps beside the checkout)")
    return _PUBLIC_MAPS
