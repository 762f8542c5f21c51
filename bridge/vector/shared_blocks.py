"""One block of shared memory that holds all arrays of a vector environment.

The block has no name: it is a file descriptor that the parent hands to its
workers. Nothing can therefore be left behind in ``/dev/shm``, however a process
ends, and the small ``/dev/shm`` of containers is no limit.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALIGNMENT", "SharedBlocks"]

ALIGNMENT = 64
"""Every array begins at a multiple of this many bytes: a cache line."""

Shapes = Mapping[str, tuple[tuple[int, ...], np.dtype[np.generic]]]


class SharedBlocks:
    """Named arrays in one nameless block of shared memory.

    The memory lives as long as a descriptor or an array over it does, in any
    process; :meth:`close` gives back this process's descriptor only.

    Attributes:
        arrays: The arrays by name.
        num_bytes: Size of the block.
    """

    def __init__(self, shapes: Shapes, descriptor: int) -> None:
        """Map a block; ``descriptor`` belongs to this object from now on.

        Args:
            shapes: Name, shape and dtype of every array, in the order in which they lie in the block.
            descriptor: File descriptor of a block made by :meth:`create` with the same shapes.
        """
        self._descriptor: int | None = descriptor
        offsets, self.num_bytes = _offsets(shapes)
        memory = mmap.mmap(descriptor, self.num_bytes)
        self.arrays: dict[str, NDArray[np.generic]] = {
            name: np.ndarray(shape, dtype, buffer=memory, offset=offsets[name])
            for name, (shape, dtype) in shapes.items()
        }

    @classmethod
    def create(cls, shapes: Shapes) -> SharedBlocks:
        """A new block of zeros.

        Raises:
            OSError: The operating system refuses.
        """
        _, num_bytes = _offsets(shapes)
        return cls(shapes, _nameless_file(num_bytes))

    @property
    def descriptor(self) -> int:
        """The file descriptor to hand to another process."""
        assert self._descriptor is not None, "the block was closed"
        return self._descriptor

    def close(self) -> None:
        """Give the descriptor back; the arrays stay valid. May be called twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _nameless_file(num_bytes: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("agv-bridge", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, num_bytes)
    return descriptor


def _offsets(shapes: Shapes) -> tuple[dict[str, int], int]:
    offsets, end = {}, 0
    for name, (shape, dtype) in shapes.items():
        offsets[name] = end
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, max(end, ALIGNMENT)
