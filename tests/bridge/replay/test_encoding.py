"""The payload against a decoder of its own, which follows the page's step by step."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bridge.replay.encoding import MISSING, encode, quantise


def decode(payload: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    raw = zlib.decompress(payload)
    (length,) = struct.unpack_from("<I", raw)
    header = json.loads(raw[4 : 4 + length])
    found, offset = {}, 4 + length
    for entry in header.pop("arrays"):
        dtype, shape = np.dtype(entry["type"]), entry["shape"]
        count = int(np.prod(shape))
        planes = np.frombuffer(raw, np.uint8, count * dtype.itemsize, offset).reshape(dtype.itemsize, count)
        differences = np.ascontiguousarray(planes.T).view(f"<u{dtype.itemsize}").reshape(-1, shape[0])
        series = np.add.accumulate(differences, axis=1, dtype=differences.dtype).view(dtype)
        found[entry["name"]] = series.T.reshape(shape)
        offset += count * dtype.itemsize
    assert offset == len(raw)
    return header, found


@settings(max_examples=60, deadline=None)
@given(arrays(np.int32, array_shapes(min_dims=1, max_dims=3, max_side=6), elements=st.integers(MISSING, -MISSING - 1)))
def test_encode_is_undone_by_the_decoder_for_any_integers(values: np.ndarray) -> None:
    header, found = decode(encode({"steps": 3}, {"first": values, "second": values[::-1]}))
    assert header == {"steps": 3}
    np.testing.assert_array_equal(found["first"], values)
    np.testing.assert_array_equal(found["second"], values[::-1])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, False], "<u1"),
        ([0, 255], "<u1"),
        ([0, 256], "<i2"),
        ([-1, 255], "<i2"),
        ([-32768, 32767], "<i2"),
        ([0, 32768], "<i4"),
        ([], "<u1"),
    ],
)
def test_encode_takes_the_narrowest_type_that_holds_all_values(values: list[int], kind: str) -> None:
    raw = zlib.decompress(encode({}, {"values": np.array(values, np.int64)}))
    (length,) = struct.unpack_from("<I", raw)
    assert json.loads(raw[4 : 4 + length])["arrays"] == [{"name": "values", "type": kind, "shape": [len(values)]}]


def test_encode_refuses_integers_of_more_than_32_bits() -> None:
    with pytest.raises(AssertionError, match="expected integers of at most 32 bits, got 0 to 2147483648"):
        encode({}, {"values": np.array([0, 1 << 31])})


def test_encode_spends_next_to_nothing_on_robots_that_stand_or_drive_straight_on() -> None:
    steps = np.arange(1001)[:, None]
    speeds = np.arange(500)[None, :] % 7
    assert len(encode({}, {"x": 10_000 + steps * speeds})) < 5_000


def test_quantise_rounds_to_multiples_and_marks_what_is_no_number() -> None:
    values = np.array([0.0, 0.012, -0.013, np.nan, np.inf, -np.inf])
    expected = [0, 2, -3, MISSING, -MISSING - 1, MISSING + 1]
    assert quantise(values, 0.005).tolist() == expected
