"""A short run of the fuzz script."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_damaged_requests_are_read_or_refused_with_one_error() -> None:
    program = Path(__file__).with_name("fuzz_exchange.py")
    command = [sys.executable, str(program), "--count", "3000", "--seed", "7"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    match = re.search(r"(\d+) read, (\d+) refused", result.stdout)
    assert match is not None
    assert min(int(match[1]), int(match[2])) > 300
