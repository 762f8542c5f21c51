"""The guard against leaks, run on tests that leak."""

import os
import subprocess
import sys
from pathlib import Path

_LEAKY = """
import subprocess, sys
from multiprocessing import shared_memory
import pytest

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]

def test_clean():
    child = subprocess.Popen(SLEEP)
    child.kill()
    child.wait()

def test_leaks_a_process():
    global child
    child = subprocess.Popen(SLEEP)

def test_leaks_an_orphan():
    subprocess.run([sys.executable, "-c", f"import subprocess; subprocess.Popen({SLEEP!r})"], check=True)

def test_leaks_a_block():
    global block
    block = shared_memory.SharedMemory(create=True, size=64, name="agv_bridge_leak_guard")
    block.close()

@pytest.fixture(scope="module")
def kept():
    child = subprocess.Popen(SLEEP)
    yield
    child.kill()
    child.wait()

def test_uses_a_wider_fixture(kept):
    pass

def teardown_module():
    block.unlink()
"""


def test_leak_guard_fails_only_tests_that_leak(tmp_path: Path) -> None:
    guard = (Path(__file__).parent / "conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(guard.replace("_GRACE_S = 5.0", "_GRACE_S = 0.2"), encoding="utf-8")
    (tmp_path / "test_leaky.py").write_text(_LEAKY, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    wide = {**os.environ, "COLUMNS": "300"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=wide)
    assert "5 passed, 3 errors" in result.stdout, result.stdout
    for name, what in (
        ("leaks_a_process", "process"),
        ("leaks_an_orphan", "process"),
        ("leaks_a_block", "shared memory agv_bridge_leak_guard"),
    ):
        assert f"ERROR test_leaky.py::test_{name} - Failed: left behind: {what}" in result.stdout, result.stdout
