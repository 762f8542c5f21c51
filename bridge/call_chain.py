"""Compiled kernels bound to their arguments, and chains of them that run as one call.

A kernel that is called from Python unpacks its arguments first, each array of each named tuple on
its own: half a microsecond for those of a simulator, on top of Python's own part. A bound kernel's
arguments are unpacked once and for all, and a chain goes from kernel to kernel in machine code.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any, Final, Generic, TypeVar, cast

import numpy as np
from llvmlite import binding, ir
from numba import types
from numpy.typing import NDArray

__all__ = ["BoundCall", "chain"]

Result = TypeVar("Result")

_WORD: Final = ir.IntType(64)
_STATUS: Final = ir.IntType(32)
_WORD_BYTES: Final = 8


class BoundCall(Generic[Result]):
    """A compiled kernel with its arguments; calling it runs it.

    Args:
        overload: numba's record of the compiled version that fits the arguments.
        arguments: All arguments of the kernel, by position. Arrays may change their contents, nothing else may.
    """

    def __init__(self, overload: Any, arguments: Sequence[Any]) -> None:
        self._run: Callable[[], Result] = partial(overload.entry_point, *arguments)
        self._overload, self._arguments = overload, tuple(arguments)

    def __call__(self) -> Result:
        """Run the kernel and give its result."""
        return self._run()

    def in_words(self) -> tuple[int, NDArray[np.uint64]]:
        """Address of code that runs the kernel, and the block of words that it is to be given the address of.

        The block holds the kernel's address, its arguments, and at its end the result.

        Raises:
            TypeError: The kernel returns something else than an integer or nothing, or takes something else
                than arrays, numbers, None and named tuples of them.
        """
        signature = self._overload.signature
        if not isinstance(signature.return_type, types.Integer | types.NoneType):
            raise TypeError(f"chain: expected kernels that return an int or nothing, got {signature.return_type}.")
        words = [self._overload.library.get_pointer_to_function(self._overload.fndesc.llvm_func_name)]
        for argument, kind in zip(self._arguments, signature.args, strict=True):
            words += _words(argument, kind)
        convention = self._overload.target_context.call_conv
        # The first two are where the result and the description of an exception go.
        passed = convention.get_function_type(signature.return_type, signature.args).args[2:]
        kinds = tuple(_WORD if isinstance(kind, ir.PointerType) else kind for kind in passed)
        return _code(kinds), np.array([*words, 0], np.uint64)


class _Chain:
    """Bound calls that run one after the other without Python in between."""

    def __init__(self, calls: Sequence[BoundCall[Any]]) -> None:
        self._calls = tuple(calls)
        in_words = [call.in_words() for call in calls]
        self._blocks = [block for _, block in in_words]
        self._plan = np.array([(code, block.ctypes.data) for code, block in in_words], np.uint64)
        self._run: Callable[[], int] = partial(_runner(), self._plan.ctypes.data, len(calls))

    def __call__(self) -> int:
        stopped = self._run()
        if stopped < 0:
            return 0
        # A kernel that failed has no result: called by numba once more, it raises what is wrong.
        return int(self._blocks[stopped][-1]) or int(self._calls[stopped]())


def chain(calls: Iterable[Callable[[], Any]]) -> list[Callable[[], Any]]:
    """The same calls in the same order, with each run of bound calls made one call.

    A kernel that returns a number other than 0 stops the run, which returns that number; 0 if none does.
    """
    chained: list[Callable[[], Any]] = []
    for bound, group in groupby(calls, lambda call: isinstance(call, BoundCall)):
        run = list(group)
        chained += [_Chain(cast("list[BoundCall[Any]]", run))] if bound else run
    return chained


def _words(value: Any, kind: Any) -> list[int]:
    """What numba passes to a compiled function for an argument, in words of 64 bits."""
    if isinstance(kind, types.BaseTuple):
        kinds: Sequence[Any] = tuple(cast(Any, kind))
        return [word for item, item_kind in zip(value, kinds, strict=True) for word in _words(item, item_kind)]
    if isinstance(kind, types.Array):
        # Nobody owns the memory, as far as lean kernels know; then size, place, shape and strides.
        return [0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides]
    if isinstance(kind, types.NoneType):
        return [0]
    if isinstance(kind, types.Float):
        return [int.from_bytes(struct.pack("<d" if kind.bitwidth == 64 else "<f", value), "little")]
    if isinstance(kind, types.Integer | types.Boolean):
        return [int(value) & (1 << 64) - 1]
    raise TypeError(f"chain: expected arrays, numbers, None and named tuples of them, got {kind}.")


# ---------------------------------------------------------------- machine code


@cache
def _code(kinds: tuple[Any, ...]) -> int:
    """Address of code that calls a kernel with arguments of these kinds, out of the block of words that it is given.

    It returns whether a chain is to stop: the kernel failed, or has a result other than 0.
    """
    module = ir.Module()
    name = f"run_block_{_code.cache_info().currsize}"
    function = ir.Function(module, ir.FunctionType(_WORD, [_WORD]), name)
    builder = ir.IRBuilder(function.append_basic_block())
    address, *words = (_load(builder, function.args[0], index) for index in range(len(kinds) + 1))
    arguments = [_as_kind(builder, word, kind) for word, kind in zip(words, kinds, strict=True)]
    result = builder.add(function.args[0], ir.Constant(_WORD, (len(kinds) + 1) * _WORD_BYTES))
    builder.store(ir.Constant(_WORD, 0), builder.inttoptr(result, _WORD.as_pointer()))
    exception = builder.ptrtoint(builder.alloca(_WORD), _WORD)
    kernel = ir.FunctionType(_STATUS, [_WORD, _WORD, *kinds])
    status = builder.call(builder.inttoptr(address, kernel.as_pointer()), [result, exception, *arguments])
    found = _load(builder, function.args[0], len(kinds) + 1)
    builder.ret(builder.or_(builder.zext(status, _WORD), found))
    return _compile(module, name)


@cache
def _runner() -> Callable[[int, int], int]:
    """Runs a plan: address and number of pairs of code and block. Returns the place of the one that stopped, or -1."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(_WORD, [_WORD, _WORD]), "run_plan")
    begin, run, go_on, done = (function.append_basic_block() for _ in range(4))
    plan, length = function.args
    ir.IRBuilder(begin).branch(run)

    builder = ir.IRBuilder(run)
    place = builder.phi(_WORD)
    pair = builder.add(plan, builder.mul(place, ir.Constant(_WORD, 2 * _WORD_BYTES)))
    code = ir.FunctionType(_WORD, [_WORD]).as_pointer()
    stops = builder.call(builder.inttoptr(_load(builder, pair, 0), code), [_load(builder, pair, 1)])
    builder.cbranch(builder.icmp_unsigned("!=", stops, ir.Constant(_WORD, 0)), done, go_on)

    builder = ir.IRBuilder(go_on)
    following = builder.add(place, ir.Constant(_WORD, 1))
    builder.cbranch(builder.icmp_unsigned("<", following, length), run, done)
    place.add_incoming(ir.Constant(_WORD, 0), begin)
    place.add_incoming(following, go_on)

    builder = ir.IRBuilder(done)
    stopped = builder.phi(_WORD)
    stopped.add_incoming(place, run)
    stopped.add_incoming(ir.Constant(_WORD, -1), go_on)
    builder.ret(stopped)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(_compile(module, "run_plan"))


def _load(builder: ir.IRBuilder, block: Any, index: int) -> Any:
    address = builder.add(block, ir.Constant(_WORD, index * _WORD_BYTES))
    return builder.load(builder.inttoptr(address, _WORD.as_pointer()), typ=_WORD)


def _as_kind(builder: ir.IRBuilder, word: Any, kind: Any) -> Any:
    """A word as what a kernel takes: itself, or its lower bits as an integer or a float."""
    if kind == _WORD:
        return word
    if isinstance(kind, ir.DoubleType):
        return builder.bitcast(word, kind)
    if isinstance(kind, ir.FloatType):
        return builder.bitcast(builder.trunc(word, ir.IntType(32)), kind)
    return builder.trunc(word, kind)


@cache
def _engine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(opt=1)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _compile(module: ir.Module, name: str) -> int:
    """Address of a module's function of this name, which stays for the life of the process."""
    engine = _engine()
    engine.add_module(binding.parse_assembly(str(module)))
    engine.finalize_object()
    return int(engine.get_function_address(name))
