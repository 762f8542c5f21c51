"""What Unity's loader forgets to check, and what then fails in the importer or in the running player."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto

from bridge.export import contract
from bridge.export.findings import Finding, error, warning
from bridge.export.model_view import ModelView, TensorInfo, numbers_of

__all__ = ["OUTPUT_TYPES", "engine_findings"]

_FLOAT = (TensorProto.FLOAT,)
_INTEGER = (TensorProto.INT64, TensorProto.INT32)
_CONSTANTS = (contract.VERSION_NUMBER, contract.MEMORY_SIZE, contract.CONTINUOUS_SHAPE, contract.DISCRETE_SHAPE)
OUTPUT_TYPES = {
    **dict.fromkeys((*_CONSTANTS, contract.RECURRENT_OUT), _FLOAT),
    **dict.fromkeys((contract.CONTINUOUS_ACTIONS, contract.DETERMINISTIC_CONTINUOUS), _FLOAT),
    **dict.fromkeys((contract.DISCRETE_ACTIONS, contract.DETERMINISTIC_DISCRETE), _INTEGER),
}
_LEGACY = ("action", "action_output_shape", "is_continuous_control")
_UNREADABLE = (TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128)


def engine_findings(view: ModelView) -> Iterator[Finding]:
    """Everything in the file that Unity's engines cannot import, or run only by luck."""
    yield from _graph(view)
    yield from _opset(view.model)
    yield from _operators(view.model)
    yield from _weights(view)
    yield from _input_types(view)
    yield from _output_types(view)
    yield from _widths(view)
    yield from _constants(view)
    yield from _metadata(view)


def _graph(view: ModelView) -> Iterator[Finding]:
    try:
        onnx.checker.check_model(view.model)
    except onnx.checker.ValidationError as fault:
        yield error("graph", f"graph: expected valid ONNX, got: {str(fault).splitlines()[0]}")
    for name in view.outputs:
        if view.producer(name) is None and not view.is_initializer(name) and name not in view.inputs:
            yield error("dangling-output", f"output {name!r}: expected a node that makes it, got none.")
    if view.model.functions:
        yield error("operators", f"graph: expected no local functions, got {len(view.model.functions)}.")


def _opset(model: onnx.ModelProto) -> Iterator[Finding]:
    low, high = contract.OPSET_RANGE
    for entry in model.opset_import:
        if entry.domain not in ("", "ai.onnx"):
            yield error("opset", f"opset: expected operators of ONNX alone, got the domain {entry.domain!r}.")
        elif not low <= entry.version <= high:
            yield error(
                "opset",
                f"opset: expected {low} to {high}, got {entry.version}. Unity may import the file, with results that "
                "its manual calls unpredictable.",
            )


def _operators(model: onnx.ModelProto) -> Iterator[Finding]:
    used = {node.op_type for node in model.graph.node}
    for era in contract.ENGINE_ERAS:
        unknown = sorted(used - era.operators)
        if unknown:
            message = (
                f"operators: expected those of {era.name} (com.unity.ml-agents {era.packages}), "
                f"got {', '.join(unknown)}. Write them out with elementary operators."
            )
            yield error("operators", message) if era.current else warning("operators", message)


def _weights(view: ModelView) -> Iterator[Finding]:
    if view.model.graph.sparse_initializer:
        yield error("weights", "initializers: expected dense tensors, got sparse ones, which Unity cannot read.")
    for tensor in view.model.graph.initializer:
        if tensor.data_type in _UNREADABLE:
            kind = TensorProto.DataType.Name(tensor.data_type)
            yield error("weights", f"initializer {tensor.name!r}: expected numbers, got {kind}.")
            continue
        if not np.isfinite(numbers_of(tensor, view.where)).all():
            yield error("weights", f"initializer {tensor.name!r}: expected finite values, got NaN or infinity.")


def _input_types(view: ModelView) -> Iterator[Finding]:
    for name, info in view.inputs.items():
        if info.element_type != TensorProto.FLOAT:
            yield error("input-type", f"input {name!r}: expected FLOAT, got {info.type_name}. Unity feeds floats.")
        if not info.dims:
            yield error("input-shape", f"input {name!r}: expected a shape [batch, ...], got none.")
            continue
        if info.dims[0] is not None:
            yield error(
                "batch",
                f"input {name!r}: expected a symbolic first dimension, got {info.dims[0]}. It would work with that "
                "number of robots per decision only.",
            )
        if None in info.dims[1:]:
            yield error(
                "input-shape",
                f"input {name!r}: expected fixed dimensions after the first, got {info.shape_text}. Unity takes an "
                "unknown one as 1.",
            )
        if 0 in info.dims[1:]:
            yield error("input-shape", f"input {name!r}: expected sizes >= 1, got {info.shape_text}. Remove the input.")
        if name.startswith("obs_") and not 2 <= len(info.dims) <= 4:
            yield error("input-shape", f"input {name!r}: expected 2 to 4 dimensions, got {info.shape_text}.")


def _output_types(view: ModelView) -> Iterator[Finding]:
    for name, info in view.outputs.items():
        types = OUTPUT_TYPES.get(name)
        if types is None:
            if name not in _LEGACY:
                yield warning("extra-output", f"output {name!r}: expected none; Unity computes it for nothing.")
        elif info.element_type not in types:
            wanted = " or ".join(TensorProto.DataType.Name(kind) for kind in types)
            yield error(
                "output-type", f"output {name!r}: expected {wanted}, got {info.type_name}. Unity: InvalidCastException."
            )


def _widths(view: ModelView) -> Iterator[Finding]:
    """The widths of the real tensors against the constants that announce them."""
    continuous, discrete = view.sizes(contract.CONTINUOUS_SHAPE), view.sizes(contract.DISCRETE_SHAPE)
    memory = view.whole_number(contract.MEMORY_SIZE) or 0
    wanted: list[tuple[str, TensorInfo | None, tuple[int, ...]]] = []
    if continuous:
        for name in (contract.CONTINUOUS_ACTIONS, contract.DETERMINISTIC_CONTINUOUS):
            wanted.append((f"output {name!r}", view.outputs.get(name), continuous))
    if discrete:
        for name in (contract.DISCRETE_ACTIONS, contract.DETERMINISTIC_DISCRETE):
            wanted.append((f"output {name!r}", view.outputs.get(name), (len(discrete),)))
        masks = view.inputs.get(contract.ACTION_MASKS)
        wanted.append((f"input {contract.ACTION_MASKS!r}", masks, (sum(discrete),)))
    if memory > 0:
        wanted.append((f"input {contract.RECURRENT_IN!r}", view.inputs.get(contract.RECURRENT_IN), (1, memory)))
        wanted.append((f"output {contract.RECURRENT_OUT!r}", view.outputs.get(contract.RECURRENT_OUT), (1, memory)))
    for name, info, dims in wanted:
        # Exporters leave sizes open that they cannot infer; the trial run looks at the real ones.
        if info is not None and not _may_be(info, dims):
            expected = TensorInfo(info.element_type, (None, *dims)).shape_text
            yield error("width", f"{name}: expected the shape {expected}, got {info.shape_text}.")


def _may_be(info: TensorInfo, dims: tuple[int, ...]) -> bool:
    inner = info.dims[1:]
    return len(inner) == len(dims) and all(a in (None, b) for a, b in zip(inner, dims, strict=True))


def _constants(view: ModelView) -> Iterator[Finding]:
    for name in _CONSTANTS:
        if name not in view.outputs:
            continue
        producer = view.producer(name)
        if view.is_initializer(name):
            yield error(
                "constant",
                f"output {name!r}: expected an Identity over an initializer of another name, got the initializer "
                "itself, which Inference Engine prunes.",
            )
        elif producer is not None and view.constant(name) is None:
            yield error(
                "constant",
                f"output {name!r}: expected an Identity over an initializer, got the result of {producer.op_type}. "
                "Unity reads it before it has an observation.",
            )


def _metadata(view: ModelView) -> Iterator[Finding]:
    if view.metadata is None:
        yield warning(
            "metadata",
            "metadata: expected the layout that agv-bridge writes, got none. Whether observations mean the same in "
            "scene and model cannot be checked.",
        )
