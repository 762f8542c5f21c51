"""The one way in which this package compiles kernels with numba.

Compiled code is cached on disk. A kernel's cache notices changes of its own
file only: keep a kernel and the compiled functions that it calls in one file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["kernel", "kernel_part", "lean_kernel"]

Function = TypeVar("Function", bound=Callable[..., Any])

# numba's own names for its switches; its type stubs do not list them.
_LEAN: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}


def kernel(function: Function) -> Function:
    """Compile a function to machine code at its first call; errors of arithmetic follow numpy (no exceptions)."""
    return cast(Function, numba.njit(cache=True, error_model="numpy", nogil=True)(function))


def lean_kernel(function: Function) -> Function:
    """Like :func:`kernel`, for functions that allocate no array: they are compiled without reference counting.

    Otherwise every call of a compiled function from another one counts references of all arrays
    that it is given, also of those in named tuples: half a microsecond for thirty arrays, which is
    more than most parts of a simulator cost per robot. A function that does allocate is refused by
    the compiler; let a :func:`kernel` allocate and pass the array on.
    """
    return cast(Function, numba.njit(cache=True, error_model="numpy", nogil=True, **_LEAN)(function))


def kernel_part(function: Function) -> Function:
    """Like :func:`lean_kernel`, for functions that are called by kernels of the same file alone.

    They cannot be called from Python and are not cached by themselves, which saves half of the
    time that it takes to compile them; the kernels that call them are cached with them inside.
    """
    options = {**_LEAN, "no_cpython_wrapper": True}
    return cast(Function, numba.njit(error_model="numpy", nogil=True, **options)(function))
