"""The generator of random requests, which the fuzz script shares."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

_FUZZ = Path(__file__).parents[3] / "fuzz"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, _FUZZ / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def random_requests() -> ModuleType:
    return load("random_requests")
