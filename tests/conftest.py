"""What every test is held to (it leaves no process and no shared-memory block behind), and what several need."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_PROC = Path("/proc")
_SHARED_MEMORY = Path("/dev/shm")
_GRACE_S = 5.0

# Every process that a test starts inherits this, however deep, and keeps it when its parent dies.
_MARK = "AGV_BRIDGE_TEST_PROCESS"
os.environ[_MARK] = str(os.getpid())

# Python's own helpers, which live as long as the process that needed them.
_PERMANENT = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")


@pytest.fixture(scope="session")
def public_maps() -> Path:
    """Folder of public benchmark maps beside the checkout; they are not part of the repository."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "maps"
    if not folder.is_dir():
        pytest.skip(f"no public maps in {folder} (folder shared/maps beside the checkout)")
    return folder


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a test that leaks a process or a block of shared memory; wider fixtures may keep theirs."""
    processes, blocks = _process_ids(), _block_names()
    yield
    leaked = _wait_until_gone(processes, blocks)
    if leaked:
        pytest.fail(f"left behind: {'; '.join(leaked)}. Close what the test opened.", pytrace=False)


def _wait_until_gone(processes: set[str], blocks: set[str]) -> list[str]:
    """Descriptions of what is new and still there after a while; leaked processes are ended."""
    deadline = time.monotonic() + _GRACE_S
    while True:
        new_processes = _new_processes(processes)
        new_blocks = _new_blocks(blocks)
        if not (new_processes or new_blocks):
            return []
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    for process_id in new_processes:
        os.kill(int(process_id), 9)
    return [
        *(f"process {process_id} ({command})" for process_id, command in new_processes.items()),
        *(f"shared memory {name}" for name in sorted(new_blocks)),
    ]


def _process_ids() -> set[str]:
    return {path.name for path in _PROC.iterdir() if path.name.isdigit()} if _PROC.is_dir() else set()


def _block_names() -> set[str]:
    return {path.name for path in _SHARED_MEMORY.iterdir()} if _SHARED_MEMORY.is_dir() else set()


def _new_processes(before: set[str]) -> dict[str, str]:
    """Command lines, by id, of living processes that this test process started since."""
    mark = f"{_MARK}={os.getpid()}".encode()
    found: dict[str, str] = {}
    for process_id in _process_ids() - before:
        folder = _PROC / process_id
        try:
            # A process that has ended but was not waited for has no environment and is no leak.
            if mark not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").strip()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if command and not any(part in command for part in _PERMANENT):
            found[process_id] = command.decode(errors="replace")[:200]
    return found


def _new_blocks(before: set[str]) -> set[str]:
    """New names in shared memory, without those that processes of others have mapped."""
    new = _block_names() - before
    if not new:
        return set()
    mark = f"{_MARK}={os.getpid()}".encode()
    for process_id in _process_ids() - {str(os.getpid())}:
        folder = _PROC / process_id
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                continue
            maps = (folder / "maps").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        new = {name for name in new if f"{_SHARED_MEMORY}/{name}" not in maps}
    return new
