"""Chains of bound kernels against the same kernels called one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from bridge.call_chain import BoundCall, chain
from bridge.jit import bind, kernel, lean_kernel


class Mixture(NamedTuple):
    """Everything that a kernel can be given."""

    values: NDArray[np.float64]
    flags: NDArray[np.bool_]
    factor: float
    shift: int
    negate: bool
    left_out: NDArray[np.float64] | None


@lean_kernel
def _mix(mixture: Mixture, single: np.float32, small: np.int32, strided: NDArray[np.int16]) -> None:
    for index in range(len(mixture.values)):
        value = mixture.values[index] * mixture.factor + mixture.shift + single + small + strided[0, index]
        mixture.values[index] = -value if mixture.negate and mixture.flags[index] else value


@lean_kernel
def _count(calls: NDArray[np.int64], limit: int) -> int:
    calls[0] += 1
    return calls[0] if calls[0] > limit else 0


@lean_kernel
def _note(calls: NDArray[np.int64]) -> None:
    calls[1] += 1


@kernel
def _fail_below_zero(values: NDArray[np.int64]) -> int:
    if values[0] < 0:
        raise ValueError("below zero")
    return values[0]


@lean_kernel
def _half(value: float) -> float:
    return 0.5 * value


def test_chain_passes_arrays_numbers_and_named_tuples_like_a_call() -> None:
    strided = np.arange(24, dtype=np.int16).reshape(4, 6)[::2, ::2]
    chained, called = (
        Mixture(np.arange(3.0), np.array([True, False, True]), -0.75, -(2**40), True, None) for _ in range(2)
    )
    rest = (np.float32(1.1), np.int32(-7), strided)
    (run,) = chain([bind(_mix, chained, *rest), bind(_mix, chained, *rest)])
    assert run() == 0
    _mix(called, *rest)
    _mix(called, *rest)
    np.testing.assert_array_equal(chained.values, called.values)


def test_chain_sees_what_the_arrays_hold_at_each_run() -> None:
    calls = np.zeros(2, np.int64)
    (run,) = chain([bind(_note, calls)])
    run()
    calls[1] = 40
    run()
    assert calls[1] == 41


def test_chain_stops_at_a_result_that_is_not_zero_and_returns_it() -> None:
    calls = np.zeros(2, np.int64)
    (run,) = chain([bind(_count, calls, 2), bind(_note, calls)])
    assert [run(), run(), run(), run()] == [0, 0, 3, 4]
    assert calls.tolist() == [4, 2]


def test_chain_leaves_other_calls_between_bound_ones_in_their_order() -> None:
    calls, seen = np.zeros(2, np.int64), []
    note = bind(_note, calls)
    runs = chain([note, note, lambda: seen.append(int(calls[1])), note])
    assert len(runs) == 3
    for run in runs:
        run()
    assert seen == [2]
    assert calls[1] == 3


def test_chain_raises_what_a_kernel_raises() -> None:
    values = np.zeros(1, np.int64)
    (run,) = chain([bind(_fail_below_zero, values)])
    assert run() == 0
    values[0] = 5
    assert run() == 5
    values[0] = -1
    with pytest.raises(ValueError, match="below zero"):
        run()


def test_chain_refuses_a_kernel_with_a_result_that_it_cannot_keep() -> None:
    with pytest.raises(TypeError, match="expected kernels that return an int or nothing, got float64"):
        chain([bind(_half, 1.0)])


def test_bound_call_gives_the_result_of_its_kernel() -> None:
    call = bind(_half, 3.0)
    assert isinstance(call, BoundCall)
    assert call() == 1.5
