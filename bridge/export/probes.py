"""Random inputs that a policy is probed with: observations, masks, and a model's feeds made of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.export import contract
from bridge.export.parameters import ActorParameters
from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout

__all__ = ["feeds_of", "random_masks", "random_observations"]

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


def random_observations(parameters: ActorParameters, num_rows: int, rng: np.random.Generator) -> Float32:
    """Observations of the actor's layout; the first is zero, but for the robot's id, which is always one-hot.

    Values are uniform in a block's range, or normal where it has none; where there is a
    normaliser, one row in two follows its mean and three times its deviation instead, so that
    its clip is reached.

    Returns:
        (num_rows, F) float32.
    """
    blocks = [_random_block(block, num_rows, rng) for block in parameters.observation.blocks]
    observations = np.concatenate(blocks, axis=1)
    ids = np.concatenate(
        [np.full(block.size, block.name == contract.AGENT_ID_BLOCK) for block in parameters.observation.blocks]
    )
    if parameters.normaliser_mean is not None and parameters.normaliser_std is not None:
        wide = parameters.normaliser_mean + 3 * parameters.normaliser_std * rng.standard_normal(observations.shape)
        use_wide = (rng.random((num_rows, 1)) < 0.5) & ~ids
        observations = np.where(use_wide, wide, observations)
    observations[:1, ~ids] = 0.0
    return observations.astype(np.float32)


def _random_block(block: ObservationBlock, num_rows: int, rng: np.random.Generator) -> NDArray[np.float64]:
    if block.name == contract.AGENT_ID_BLOCK:
        return np.eye(block.size)[rng.integers(block.size, size=num_rows)]
    if block.low is None or block.high is None:
        return rng.standard_normal((num_rows, block.size))
    return rng.uniform(block.low, block.high, (num_rows, block.size))


def random_masks(action: ActionSpec, num_rows: int, rng: np.random.Generator) -> Bool:
    """Masks with at least one allowed choice per branch.

    Each row allows a share of its own of the choices, so that masks of every density occur.

    Returns:
        (num_rows, M) bool.
    """
    masks = rng.random((num_rows, action.mask_size)) < rng.uniform(0.2, 1.2, (num_rows, 1))
    start = 0
    for size in action.discrete_branches:
        masks[np.arange(num_rows), start + rng.integers(size, size=num_rows)] = True
        start += size
    return masks


def feeds_of(layout: ObservationLayout, action: ActionSpec, observations: Float32, masks: Bool) -> dict[str, Float32]:
    """The inputs of a model by name.

    Args:
        layout: Layout of the model's input.
        action: Action that the model chooses.
        observations: (N, F) float32, with the one-hot id where the layout has it.
        masks: (N, M) bool, True = allowed.

    Returns:
        ``obs_i`` (N, size of sensor i) float32, and ``action_masks`` (N, M) float32 where there are branches.
    """
    bounds = np.cumsum(layout.sensor_sizes)[:-1]
    feeds = {f"obs_{index}": part for index, part in enumerate(np.split(observations, bounds, axis=1))}
    if action.num_branches:
        feeds[contract.ACTION_MASKS] = masks.astype(np.float32)
    return feeds
