"""Quiet single-threaded onnxruntime sessions, with seeds where wanted.

One place for the session options and for the list of exceptions that
onnxruntime raises, which share no base class below ``Exception``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from bridge.errors import ExportError

__all__ = ["ORT_ERRORS", "open_session", "run_session", "with_seeds"]

ORT_ERRORS: tuple[type[Exception], ...] = tuple(
    value for value in vars(_state).values() if isinstance(value, type) and issubclass(value, Exception)
)

_ERRORS_ONLY = 3


def open_session(model: bytes, where: str) -> Any:
    """A session of a serialised model on one CPU thread.

    Only the session's own logger is turned down (its warnings repeat what the
    check reports); the process-wide logger of onnxruntime is left as it is.

    Returns:
        An ``onnxruntime.InferenceSession`` (the package carries no types).

    Raises:
        ExportError: onnxruntime refuses the model.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # An arena per session would cost each robot of a fleet about a megabyte.
    options.enable_cpu_mem_arena = False
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except ORT_ERRORS as error:
        raise ExportError(f"{where}: expected a model that onnxruntime loads, got: {error}") from error


def run_session(
    session: Any, outputs: list[str], feeds: Mapping[str, NDArray[np.generic]], where: str
) -> list[NDArray[np.generic]]:
    """The named outputs for the given inputs.

    Raises:
        ExportError: The model cannot be run on these inputs.
    """
    try:
        results: list[NDArray[np.generic]] = session.run(outputs, feeds)
    except ORT_ERRORS as error:
        raise ExportError(f"{where}: expected a model that runs, got: {error}") from error
    return results


def with_seeds(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """A copy whose random operators are seeded, each differently; the order of the nodes decides."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    rng = np.random.default_rng(seed)
    for node in copy.graph.node:
        if node.op_type in ("Multinomial", "RandomNormalLike"):
            kept = [attribute for attribute in node.attribute if attribute.name != "seed"]
            del node.attribute[:]
            # The attribute is a float32, which holds integers up to 2**24 exactly.
            kept.append(helper.make_attribute("seed", float(rng.integers(1, 2**24))))
            node.attribute.extend(kept)
    return copy
