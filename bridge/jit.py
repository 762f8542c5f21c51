"""The one way in which this package compiles kernels with numba.

Compiled code is cached on disk. A kernel's cache notices changes of its own
file only: keep a kernel and the compiled functions that it calls in one file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["kernel"]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function to machine code at its first call; errors of arithmetic follow numpy (no exceptions)."""
    return cast(Function, numba.njit(cache=True, error_model="numpy", nogil=True)(function))
