"""Whether the arrays of an actor fit its layout, its action and each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bridge.errors import ExportError
from bridge.export.contract import AGENT_ID_BLOCK
from bridge.export.parameters import ActorParameters, DenseLayer

__all__ = ["require_sound_parameters"]

Shape = tuple[int, ...]
Expectation = tuple[str, NDArray[np.float32] | None, Shape | None]


def require_sound_parameters(parameters: ActorParameters) -> None:
    """Raise unless the function that ``parameters`` stand for is defined.

    Raises:
        ExportError: An array is missing, has another shape or dtype, is not finite, or a
            number is out of its range; names the array.
    """
    where = f"export of role {parameters.role!r}"
    for name, array, shape in _expectations(parameters):
        _require_array(f"{where}: {name}", array, shape)
    if parameters.normaliser_std is not None and not (parameters.normaliser_std > 0).all():
        raise ExportError(
            f"{where}: normaliser_std: expected values > 0, got {float(parameters.normaliser_std.min())}. "
            "Give the normaliser a floor."
        )
    for name, number in (("normaliser_clip", parameters.normaliser_clip), ("norm_epsilon", parameters.norm_epsilon)):
        if not number > 0:
            raise ExportError(f"{where}: {name}: expected a number > 0, got {number}.")
    _require_vectors(parameters, where)
    _require_agent_id_last(parameters, where)


def _expectations(parameters: ActorParameters) -> Iterator[Expectation]:
    """Name, array and shape (None: the array must be absent) of every array."""
    size = parameters.observation.size
    normalised = parameters.normaliser_mean is not None or parameters.normaliser_std is not None
    yield "normaliser_mean", parameters.normaliser_mean, (size,) if normalised else None
    yield "normaliser_std", parameters.normaliser_std, (size,) if normalised else None
    width = size
    for index, layer in enumerate(parameters.hidden):
        out = int(layer.bias.shape[0]) if layer.bias.ndim == 1 else 0
        normed = layer.norm_gain is not None or layer.norm_bias is not None
        yield from _layer(f"hidden[{index}]", layer, (out, width), normed)
        width = out
    num_continuous, mask_size = parameters.action.num_continuous, parameters.action.mask_size
    yield from _head("continuous_head", parameters.continuous_head, (num_continuous, width))
    yield "log_std", parameters.log_std, (num_continuous,) if num_continuous else None
    yield from _head("discrete_head", parameters.discrete_head, (mask_size, width))


def _head(name: str, head: DenseLayer | None, shape: tuple[int, int]) -> Iterator[Expectation]:
    if head is None:
        yield name, None, shape if shape[0] else None
    elif not shape[0]:
        yield name, head.weight, None
    else:
        yield from _layer(name, head, shape, normed=False)


def _layer(name: str, layer: DenseLayer, shape: tuple[int, int], normed: bool) -> Iterator[Expectation]:
    yield f"{name}.weight", layer.weight, shape
    yield f"{name}.bias", layer.bias, shape[:1]
    yield f"{name}.norm_gain", layer.norm_gain, shape[:1] if normed else None
    yield f"{name}.norm_bias", layer.norm_bias, shape[:1] if normed else None


def _require_array(where: str, array: NDArray[np.float32] | None, shape: Shape | None) -> None:
    if array is None and shape is None:
        return
    expected = "nothing" if shape is None else f"a float32 array of shape {shape}"
    if array is None or shape is None:
        got = "nothing" if array is None else f"an array of shape {array.shape}"
        raise ExportError(f"{where}: expected {expected}, got {got}.")
    if array.shape != shape or array.dtype != np.float32 or 0 in shape:
        raise ExportError(f"{where}: expected {expected}, got a {array.dtype} array of shape {array.shape}.")
    if not np.isfinite(array).all():
        bad = int(np.count_nonzero(~np.isfinite(array)))
        raise ExportError(
            f"{where}: expected finite values, got {bad} that are not. Export a checkpoint from before the training "
            "went wrong."
        )


def _require_vectors(parameters: ActorParameters, where: str) -> None:
    for block in parameters.observation.blocks:
        if len(block.shape) > 1:
            raise ExportError(
                f"{where}: expected vectors as observations, got the block {block.name!r} of shape {block.shape}. "
                "Unity feeds such a sensor as a tensor of its shape, which an exported model does not read."
            )


def _require_agent_id_last(parameters: ActorParameters, where: str) -> None:
    names = [block.name for block in parameters.observation.blocks]
    if AGENT_ID_BLOCK not in names:
        return
    last = parameters.observation.blocks[-1]
    alone = [block.sensor for block in parameters.observation.blocks].count(last.sensor) == 1
    if last.name != AGENT_ID_BLOCK or not alone:
        raise ExportError(
            f"{where}: expected the block {AGENT_ID_BLOCK!r} in a sensor of its own after all others, got {names}. "
            "Make the layout with ObservationLayout.with_agent_id."
        )
