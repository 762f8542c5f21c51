"""The three ways of compiling: same results, and what each of them promises."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from bridge.jit import bind, kernel, kernel_part, lean_kernel


class Pair(NamedTuple):
    """Two arrays that belong together."""

    one: NDArray[np.float64]
    two: NDArray[np.float64]


@kernel_part
def _sum_at(pair: Pair, index: int) -> float:
    return float(pair.one[index] + pair.two[index])


@lean_kernel
def _sum(pair: Pair) -> float:
    total = 0.0
    for index in range(len(pair.one)):
        total += _sum_at(pair, index)
    return total


@kernel
def _copy(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values + 0.0


@lean_kernel
def _allocate(size: int) -> int:
    return len(np.zeros(size))


def test_lean_kernel_runs_its_parts_on_named_tuples() -> None:
    pair = Pair(np.arange(4.0), np.ones(4))
    assert _sum(pair) == 10.0


def test_kernel_part_is_the_plain_function_when_called_from_python() -> None:
    assert _sum_at(Pair(np.arange(4.0), np.ones(4)), 2) == 3.0


def test_kernel_may_allocate_and_lean_kernel_may_not() -> None:
    np.testing.assert_array_equal(_copy(np.arange(3.0)), np.arange(3.0))
    with pytest.raises(numba.core.errors.NumbaError, match="Failed in nopython mode pipeline"):
        _allocate(3)


def test_kernel_divides_like_numpy_and_does_not_raise() -> None:
    @kernel
    def divide(one: float, two: float) -> float:
        return one / two

    assert divide(1.0, 0.0) == np.inf


@lean_kernel
def _scale(pair: Pair, factor: float) -> int:
    for index in range(len(pair.one)):
        pair.two[index] = pair.one[index] * factor
    return len(pair.one)


def test_bound_kernel_reads_and_writes_the_arrays_as_they_are_at_each_call() -> None:
    pair = Pair(np.arange(3.0), np.zeros(3))
    call = bind(_scale, pair, 2.0)
    assert call() == 3
    assert pair.two.tolist() == [0.0, 2.0, 4.0]
    pair.one[:] = 5.0
    assert call() == 3
    assert pair.two.tolist() == [10.0, 10.0, 10.0]


def test_bind_refuses_arguments_that_the_kernel_cannot_be_compiled_for() -> None:
    with pytest.raises(numba.core.errors.NumbaError, match="Failed in nopython mode pipeline"):
        bind(_scale, 1.0, 2.0)


def _run_with(folder: Path, script: str) -> str:
    """What a script prints in a process of its own that can import the modules of a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return ended.stdout.strip()


def test_cached_kernel_is_compiled_anew_when_a_file_that_it_imports_from_has_changed(tmp_path: Path) -> None:
    part = "from bridge.jit import kernel_part\n\n\n@kernel_part\ndef part(x: int) -> int:\n    return x + {}\n"
    box = "from typing import NamedTuple\n\n\nclass Box(NamedTuple):\n    {}: int\n    {}: int\n"
    (tmp_path / "parts.py").write_text(part.format(1))
    (tmp_path / "boxes.py").write_text(box.format("one", "two"))
    (tmp_path / "kernels.py").write_text(
        "from bridge.jit import lean_kernel\nfrom boxes import Box\nfrom parts import part\n\n\n"
        "@lean_kernel\ndef total(box: Box) -> int:\n    return part(box.one) + part(box.one)\n"
    )
    script = "import kernels as k; print(k.total(k.Box(one=1, two=9)), sum(k.total.stats.cache_hits.values()))"
    assert _run_with(tmp_path, script) == "4 0"
    assert _run_with(tmp_path, script) == "4 1"
    (tmp_path / "parts.py").write_text(part.format(100))
    assert _run_with(tmp_path, script) == "202 0"
    # The same types in other places: nothing but the file tells.
    (tmp_path / "boxes.py").write_text(box.format("two ", "one "))
    assert _run_with(tmp_path, script) == "202 0"


def test_cached_kernel_is_compiled_anew_when_a_type_of_its_arguments_has_moved(tmp_path: Path) -> None:
    box = "from typing import NamedTuple\n\n\nclass Box(NamedTuple):\n    size: int\n"
    kernels = "from bridge.jit import lean_kernel\nfrom {} import Box\n\n\n"
    kernels += "@lean_kernel\ndef size_of(box: Box) -> int:\n    return box.size\n"
    script = "import kernels; print(kernels.size_of(kernels.Box(7)))"
    for module in ("here", "elsewhere"):
        (tmp_path / f"{module}.py").write_text(box)
        (tmp_path / "kernels.py").write_text(kernels.format(module))
        assert _run_with(tmp_path, script) == "7"
        (tmp_path / f"{module}.py").unlink()


def _play() -> list[float]:
    """Some steps of some scenarios; another process runs it by its text, so it imports all that it needs."""
    from bridge.policy import RandomPolicy
    from bridge.registry import open_world
    from bridge.scenario import load_scenario

    states = []
    for name in ("warehouse_small_despawn", "warehouse_messages", "warehouse_drive"):
        world = open_world(load_scenario(name))
        roster = world.roster(1)
        policies = [RandomPolicy(world.spec, 0), *(make(roster) for make in world.planners.values())]
        roster.reset(seed=0)
        for policy in policies:
            for _ in range(2):
                policy.act(roster.arrays)
                roster.step()
        states.append(round(float(roster.arrays.state.astype("f8").sum()), 4))
    return states


def test_simulator_plays_the_same_without_a_compiler_and_without_a_warning() -> None:
    """As somebody with a debugger runs it: arithmetic that wraps round is no error, here as in machine code."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", "-c", f"{inspect.getsource(_play)}\nprint(_play())"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == str(_play())
