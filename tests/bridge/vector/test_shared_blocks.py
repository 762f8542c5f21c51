"""One nameless block of shared memory."""

import os

import numpy as np

from bridge.vector.shared_blocks import ALIGNMENT, SharedBlocks

SHAPES = {
    "flags": ((3,), np.dtype(np.bool_)),
    "nothing": ((3, 0), np.dtype(np.float32)),
    "values": ((3, 5), np.dtype(np.float64)),
}


def test_blocks_are_zeros_and_aligned_when_created():
    blocks = SharedBlocks.create(SHAPES)
    assert {name: (array.shape, array.dtype) for name, array in blocks.arrays.items()} == SHAPES
    assert all(not array.any() for array in blocks.arrays.values())
    assert [array.ctypes.data % ALIGNMENT for array in blocks.arrays.values() if array.size] == [0, 0]
    assert blocks.num_bytes == ALIGNMENT * 3
    blocks.close()


def test_second_mapping_sees_what_the_first_writes_and_outlives_it():
    first = SharedBlocks.create(SHAPES)
    second = SharedBlocks(SHAPES, os.dup(first.descriptor))
    first.arrays["values"][1, 2] = 7.5
    first.close()
    first.close()
    del first
    second.close()
    assert second.arrays["values"][1, 2] == 7.5
