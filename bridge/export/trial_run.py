"""Runs a model as Unity does: on zeros first, then for several robots at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from bridge.errors import ExportError
from bridge.export import contract
from bridge.export.engine_checks import OUTPUT_TYPES
from bridge.export.findings import Finding, error, warning
from bridge.export.model_view import ModelView
from bridge.export.sessions import open_session, run_session

__all__ = ["trial_findings"]

Feeds = dict[str, NDArray[np.generic]]

_BATCH_SIZES = (1, 3)
_NUM_ROWS = 32
# 128 MiB of float32: a policy that needs more for that many robots is none, or means harm.
_MAX_ELEMENTS = 32 * 1024 * 1024


def trial_findings(view: ModelView, data: bytes) -> Iterator[Finding]:
    """Everything that only shows when the model runs.

    Args:
        view: The model, without faults that keep it from being run.
        data: Bytes of the file.
    """
    too_large = _elements(view)
    if too_large > _MAX_ELEMENTS:
        yield error("size", f"graph: expected at most {_MAX_ELEMENTS} values for {_NUM_ROWS} robots, got {too_large}.")
        return
    try:
        session = open_session(data, "trial run")
        faults = list(_zeros(view, session))
        yield from faults
        if not faults:
            yield from _determinism(view, session)
            yield from _independence(view, session)
            yield from _masks(view, session)
            yield from _range(view, session)
    except ExportError as fault:
        yield error("trial-run", str(fault))


def _elements(view: ModelView) -> int:
    """Number of values in all tensors whose size is known beforehand, for the largest batch."""
    model = onnx.ModelProto()
    model.CopyFrom(view.model)
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if dims and not dims[0].HasField("dim_value"):
            dims[0].dim_value = _NUM_ROWS
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except onnx.shape_inference.InferenceError:
        # The declared shapes contradict the graph; the run itself tells more.
        inferred = model
    values = [*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output]
    return sum(
        math.prod(dim.dim_value if dim.HasField("dim_value") else 1 for dim in value.type.tensor_type.shape.dim)
        for value in values
    )


def _feeds(view: ModelView, batch: int, rng: np.random.Generator | None = None, scale: float = 1.0) -> Feeds:
    """Inputs for ``batch`` robots: zeros, or random observations with everything allowed."""
    feeds: Feeds = {}
    for name, info in view.inputs.items():
        shape = (batch, *(1 if dim is None else dim for dim in info.dims[1:]))
        if rng is None:
            feeds[name] = np.zeros(shape, np.float32)
        elif name == contract.ACTION_MASKS:
            feeds[name] = np.ones(shape, np.float32)
        else:
            feeds[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
    return feeds


def _run(view: ModelView, session: Any, feeds: Feeds) -> Feeds:
    names = [name for name in view.outputs if name in OUTPUT_TYPES]
    return dict(zip(names, run_session(session, names, feeds, "trial run"), strict=True))


def _zeros(view: ModelView, session: Any) -> Iterator[Finding]:
    for batch in _BATCH_SIZES:
        outputs = _run(view, session, _feeds(view, batch))
        for name, value in outputs.items():
            if not np.isfinite(value).all():
                yield error("zeros", f"output {name!r}: expected numbers for zero inputs, got NaN or infinity.")
        for name, width in _action_widths(view):
            if name in outputs and outputs[name].shape != (batch, width):
                yield error(
                    "width",
                    f"output {name!r}: expected the shape ({batch}, {width}) for {batch} robots, "
                    f"got {outputs[name].shape}.",
                )
        yield from _choices(view, outputs, "zero inputs")


def _action_widths(view: ModelView) -> Iterator[tuple[str, int]]:
    continuous, discrete = view.sizes(contract.CONTINUOUS_SHAPE), view.sizes(contract.DISCRETE_SHAPE)
    for name in (contract.CONTINUOUS_ACTIONS, contract.DETERMINISTIC_CONTINUOUS):
        if continuous:
            yield name, continuous[0]
    for name in (contract.DISCRETE_ACTIONS, contract.DETERMINISTIC_DISCRETE):
        if discrete:
            yield name, len(discrete)


def _choices(view: ModelView, outputs: Feeds, where: str) -> Iterator[Finding]:
    """Whether the discrete outputs are indices of choices."""
    sizes = view.sizes(contract.DISCRETE_SHAPE)
    for name in (contract.DISCRETE_ACTIONS, contract.DETERMINISTIC_DISCRETE):
        value = outputs.get(name)
        if value is None or not sizes or value.shape[1:] != (len(sizes),):
            continue
        chosen = value.astype(np.int64)
        if (chosen < 0).any() or (chosen >= sizes).any():
            yield error(
                "choice",
                f"output {name!r}: expected indices below {list(sizes)} for {where}, got {value.tolist()}. "
                "It must hold the chosen indices, not logits.",
            )


def _deterministic(view: ModelView) -> list[str]:
    names = (contract.DETERMINISTIC_CONTINUOUS, contract.DETERMINISTIC_DISCRETE)
    return [name for name in names if name in view.outputs]


def _determinism(view: ModelView, session: Any) -> Iterator[Finding]:
    feeds = _feeds(view, _NUM_ROWS, np.random.default_rng(0))
    first, second = _run(view, session, feeds), _run(view, session, feeds)
    for name in _deterministic(view):
        if not np.array_equal(first[name], second[name]):
            yield error("determinism", f"output {name!r}: expected equal actions for equal inputs, got others.")


def _independence(view: ModelView, session: Any) -> Iterator[Finding]:
    """Whether a robot's action depends on the robots that happen to be in its batch."""
    feeds = _feeds(view, 3, np.random.default_rng(1))
    together = _run(view, session, feeds)
    for row in range(3):
        alone = _run(view, session, {name: value[row : row + 1] for name, value in feeds.items()})
        for name in _deterministic(view):
            if alone[name].shape[0] != 1 or not np.allclose(alone[name][0], together[name][row], atol=1e-4):
                yield error(
                    "independence",
                    f"output {name!r}: expected the same action for a robot alone as among 3, got another.",
                )
                return


def _masks(view: ModelView, session: Any) -> Iterator[Finding]:
    """Whether the one allowed choice of every branch is taken, whatever the observation says."""
    sizes = view.sizes(contract.DISCRETE_SHAPE)
    masks = view.inputs.get(contract.ACTION_MASKS)
    if not sizes or masks is None or masks.dims[1:] != (sum(sizes),):
        return
    rng = np.random.default_rng(2)
    feeds = _feeds(view, _NUM_ROWS, rng)
    choices = rng.integers(0, sizes, (_NUM_ROWS, len(sizes)))
    allowed = np.zeros((_NUM_ROWS, sum(sizes)), np.float32)
    starts = np.cumsum((0, *sizes[:-1]))
    np.put_along_axis(allowed, starts + choices, 1.0, axis=1)
    feeds[contract.ACTION_MASKS] = allowed
    outputs = _run(view, session, feeds)
    for name in (contract.DISCRETE_ACTIONS, contract.DETERMINISTIC_DISCRETE):
        if name in outputs and not np.array_equal(outputs[name], choices):
            yield error(
                "mask-ignored",
                f"output {name!r}: expected the only allowed choice (1 = allowed, 0 = forbidden), got a forbidden one.",
            )


def _range(view: ModelView, session: Any) -> Iterator[Finding]:
    outputs = _run(view, session, _feeds(view, _NUM_ROWS, np.random.default_rng(3), scale=10.0))
    for name in (contract.CONTINUOUS_ACTIONS, contract.DETERMINISTIC_CONTINUOUS):
        if name in outputs and (np.abs(np.asarray(outputs[name], np.float64)) > 1).any():
            yield warning(
                "range", f"output {name!r}: expected actions in [-1, 1], got others. Unity passes them on as they are."
            )
