"""The compiled reader never touches memory behind a request."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = Path(__file__).with_name("guard_pages.py")

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mprotect")


def run(seed: int, count: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(_PROGRAM), str(seed), str(count)], capture_output=True, text=True, timeout=120, check=False
    )


def test_reader_stays_in_bounds_when_requests_are_damaged() -> None:
    result = run(0, 10_000)
    assert result.returncode == 0, result.stderr
    read, refused = (int(number) for number in result.stdout.split())
    assert read > 500
    assert refused > 1000


def test_fence_ends_the_process_when_something_reads_beyond_it() -> None:
    assert run(-1, 0).returncode == -signal.SIGSEGV
