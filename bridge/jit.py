"""The one way in which this package compiles kernels with numba.

Compiled code is cached on disk. numba's cache of a kernel notices changes of its own file only;
here it also notices those of the files that the kernel's file imports kernels, or parts of them, or named tuples from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from bridge.call_chain import BoundCall

__all__ = ["bind", "index", "kernel", "kernel_part", "lean_kernel", "number_of"]

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])

# numba's own names for its switches; its type stubs do not list them.
_LEAN: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}

_FILES = "__kernel_files__"


def kernel(function: Function) -> Function:
    """Compile a function to machine code at its first call; errors of arithmetic follow numpy (no exceptions)."""
    return _compiled(function, {})


def lean_kernel(function: Function) -> Function:
    """Like :func:`kernel`, for functions that allocate no array: they are compiled without reference counting.

    Otherwise every call of a compiled function from another one counts references of all arrays
    that it is given, also of those in named tuples: half a microsecond for thirty arrays, which is
    more than most parts of a simulator cost per robot. A function that does allocate is refused by
    the compiler; let a :func:`kernel` allocate and pass the array on.
    """
    return _compiled(function, _LEAN)


def kernel_part(function: Function) -> Function:
    """Mark a function that kernels call: it is compiled into each of them, as a lean kernel would be.

    Called from Python it is the plain function. It has no entry of its own that would have to be
    compiled and cached, which saves a third of the compile time.
    """
    setattr(function, _FILES, _files_of(function))
    options = {**_LEAN, "error_model": "numpy", "forceinline": True}
    return register_jitable(**options)(function)


def bind(function: Callable[..., Result], *arguments: Any) -> Callable[[], Result]:
    """A call of a kernel with these very arguments, ready to be made many times.

    At every call numba looks at each array, also in named tuples, to find out which compiled version
    to run: 5 to 15 us for the arrays of a simulator, ten times what the call itself costs. Here that is
    done once. The arrays may change their contents and must not change otherwise; other objects are
    passed on as they are now.

    Args:
        function: Made by :func:`kernel` or :func:`lean_kernel`.
        arguments: All of its arguments, by position.

    Returns:
        The call, without arguments.
    """
    dispatcher = cast(Any, function)
    if not hasattr(dispatcher, "compile"):  # NUMBA_DISABLE_JIT, for a debugger: a plain function
        return partial(function, *arguments)
    typeof = cast(Any, numba.typeof)
    types = tuple(typeof(argument) for argument in arguments)
    dispatcher.compile(types)
    return BoundCall(dispatcher.overloads[types], arguments)


def _compiled(function: Function, options: dict[str, Any]) -> Function:
    files = _files_of(function)
    setattr(function, _FILES, files)
    dispatcher: Any = numba.njit(cache=True, error_model="numpy", nogil=True, **options)(function)
    if dispatcher is function:  # NUMBA_DISABLE_JIT, for a debugger
        return _silent(function)
    if hasattr(dispatcher, "_cache"):
        # numba has no public way to say what else a cached kernel depends on. Its version is compared first of all,
        # before anything is read that may name types which have moved to another module since.
        cache_file = dispatcher._cache._cache_file
        stamps = [(path, Path(path).stat()) for path in sorted(files)]
        cache_file._version = (
            cache_file._version,
            *((path, stamp.st_mtime_ns, stamp.st_size) for path, stamp in stamps),
        )
    return cast(Function, dispatcher)


def _silent(function: Function) -> Function:
    """The plain function, without numpy's warnings of arithmetic that wraps round or is not defined.

    Machine code gives none either; the random streams wrap round at every number.
    """

    @wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments, **named)

    return cast(Function, run)


def _files_of(function: Any) -> set[str]:
    """Files that a function depends on: its own, and those that its file imports kernels or named tuples from."""
    own = function.__code__.co_filename
    files = {own}
    for value in function.__globals__.values():
        part = getattr(value, "py_func", value)
        if isinstance(part, FunctionType) and part.__code__.co_filename != own:
            files |= getattr(part, _FILES, set())
        elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            # A kernel knows the fields by their places.
            files.add(inspect.getfile(value))
    return files


@kernel_part
def index(value: int) -> int:
    """An index that is known not to be negative: as an unsigned number it is not checked for counting from the end."""
    return int(np.uint64(value))


@kernel_part
def number_of(flags: NDArray[np.bool_], row: int, column: int) -> np.uint8:
    """An element of (rows, columns) bool as 0 or 1, read as a number.

    In machine code, making a float of a flag is a branch, and where the flag is a coin toss every other one is
    mispredicted; making a float of a number is not.
    """
    return np.uint8(flags.view(np.uint8)[row, column])
