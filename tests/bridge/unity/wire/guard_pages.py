"""Reads damaged requests whose last byte is the last byte before inaccessible memory.

    python guard_pages.py SEED COUNT

Any load beyond a request ends this process with a signal. Prints how many
requests were read and how many refused.
"""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bridge.unity.behaviors import Behavior
from bridge.unity.wire import AgentReader, layout, walker

_PROT_NONE = 0
_PAGES = 16


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    writer_module = load_random_requests()
    fence = Fence()
    if seed < 0:  # prove that the fence holds
        fence.place(b"\x00").ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))[1]
    rng = np.random.default_rng(seed)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(count // 50):
        behavior = writer_module.random_behavior(rng, "AGV?team=0")
        writer = writer_module.RequestWriter(rng, 0.1, misfits=True, groups=True)
        whole = writer.request([behavior], max_agents=3)
        for _ in range(50):
            outcomes["read" if walk(fence.place(damaged(rng, whole)), behavior) else "refused"] += 1
    print(outcomes["read"], outcomes["refused"])


class Fence:
    """Memory with an inaccessible page behind it."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, (_PAGES + 1) * mmap.PAGESIZE)
        self.table = np.frombuffer(self.memory, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        end = self.table.ctypes.data + _PAGES * mmap.PAGESIZE
        if libc.mprotect(ctypes.c_void_p(end), ctypes.c_size_t(mmap.PAGESIZE), _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect failed")

    def place(self, data: bytes) -> Any:
        """The bytes as an array that ends at the fence."""
        end = _PAGES * mmap.PAGESIZE
        target = self.table[end - len(data) : end]
        target[:] = np.frombuffer(data, np.uint8)
        target.flags.writeable = False
        return target


def walk(table: Any, behavior: Behavior) -> bool:
    """Run every kernel on a request; whether all of it could be read."""
    head = np.empty(layout.HEAD_SIZE, np.int64)
    entries = np.empty((8, layout.ENTRY_COLUMNS), np.int64)
    if walker.scan(table, head, entries, 100):
        return False
    reader = AgentReader(behavior)
    for entry in entries[: head[layout.NUM_ENTRIES]]:
        walker.count_observations(table, int(entry[4]), int(entry[5]))
        rows = int(entry[6])
        columns = layout.Columns(
            observations=np.empty((rows, behavior.observation_size), np.float32),
            compressed=np.empty((rows, len(behavior.sensors), 4), np.int32),
            numbers=np.empty((2, rows), np.int32),
            rewards=np.empty((2, rows), np.float32),
            flags=np.empty((2, rows), np.bool_),
            allowed=np.empty((rows, behavior.action.mask_size), np.bool_),
            report=np.empty(5, np.int64),
        )
        if walker.fill(table, entry, reader._shapes, columns) < 0 or columns.report[0]:
            return False
    return True


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    """The bytes cut off somewhere, or with some of them changed."""
    table = bytearray(data)
    if rng.random() < 0.5:
        table = table[: rng.integers(0, len(table) + 1)]
    for _ in range(int(rng.integers(0, 4))):
        if table:
            table[rng.integers(len(table))] = rng.choice([0x00, 0x7F, 0x80, 0xFF, rng.integers(256)])
    return bytes(table)


def load_random_requests() -> Any:
    path = Path(__file__).parents[3] / "fuzz" / "random_requests.py"
    spec = importlib.util.spec_from_file_location("random_requests", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
