"""Whether sampled actions follow the distribution that they should.

Loose on purpose (six standard deviations, a false alarm in about a billion):
the tests catch a wrong mask, a missing or squared deviation, logits taken for
probabilities; they are no test of the engine's random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["choice_faults", "gaussian_faults"]

_SIGMAS = 6.0
_MIN_EXPECTED = 5.0


def gaussian_faults(
    samples: NDArray[np.float32], mean: NDArray[np.float32], log_std: NDArray[np.float32]
) -> Iterator[str]:
    """Faults of N samples of one Gaussian.

    Args:
        samples: (N, C) float32, before squashing.
        mean: (C,) float32.
        log_std: (C,) float32.
    """
    num_samples = len(samples)
    std = np.exp(log_std.astype(np.float64))
    scores = (samples.astype(np.float64) - mean) / std
    # The rounding of a float32 sample, in units of its deviation.
    rounding = 1e-6 * np.maximum(1.0, np.abs(mean)) / std
    off = np.abs(scores.mean(axis=0)) > _SIGMAS / math.sqrt(num_samples) + rounding
    spread = np.abs(scores.std(axis=0) - 1.0) > _SIGMAS / math.sqrt(2 * num_samples) + rounding
    for index in np.flatnonzero(off):
        found = samples[:, index].mean()
        yield f"continuous action {index}: expected samples around {mean[index]:.4g}, got {found:.4g}."
    for index in np.flatnonzero(spread):
        found = samples[:, index].std()
        yield f"continuous action {index}: expected a deviation of {std[index]:.4g}, got {found:.4g}."


def choice_faults(
    choices: NDArray[np.int64],
    logits: NDArray[np.float32],
    allowed: NDArray[np.bool_],
    branches: tuple[int, ...],
) -> Iterator[str]:
    """Faults of N sampled choices for one observation; a mask that forbids everything permits everything.

    Args:
        choices: (N, B) int64, indices of choices.
        logits: (M,) float32.
        allowed: (M,) bool.
        branches: Number of choices of each branch.
    """
    start = 0
    for branch, size in enumerate(branches):
        chosen, mask = choices[:, branch], allowed[start : start + size]
        if chosen.min() < 0 or chosen.max() >= size:
            yield f"branch {branch}: expected choices 0 to {size - 1}, got {chosen.min()} to {chosen.max()}."
        else:
            yield from _branch_faults(np.bincount(chosen, minlength=size), logits[start : start + size], mask, branch)
        start += size


def _branch_faults(
    counts: NDArray[np.intp], logits: NDArray[np.float32], mask: NDArray[np.bool_], branch: int
) -> Iterator[str]:
    scores = np.where(mask, logits.astype(np.float64), -np.inf) if mask.any() else np.zeros(len(mask))
    forbidden = int(counts[np.isneginf(scores)].sum())
    if forbidden:
        yield f"branch {branch}: expected allowed choices only, got {forbidden} forbidden ones of {counts.sum()}."
        return
    weights = np.exp(scores - scores.max())
    expected = counts.sum() * weights / weights.sum()
    if not _plausible(counts.astype(np.float64), expected):
        yield f"branch {branch}: expected counts near {expected.round(1).tolist()}, got {counts.tolist()}."


def _plausible(counts: NDArray[np.float64], expected: NDArray[np.float64]) -> bool:
    """Pearson's chi-square test, by the normal approximation of Wilson and Hilferty (1931)."""
    rare = expected < _MIN_EXPECTED
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    if wanted[-1] < _MIN_EXPECTED:
        # Too rare for the approximation; a Poisson count is bounded by itself.
        if observed[-1] > wanted[-1] + _SIGMAS * math.sqrt(wanted[-1]) + _SIGMAS:
            return False
        observed, wanted = observed[:-1], wanted[:-1]
    degrees = len(wanted) - 1
    if degrees < 1:
        return True
    statistic = float(((observed - wanted) ** 2 / wanted).sum())
    variance = 2.0 / (9.0 * degrees)
    score = (math.pow(statistic / degrees, 1 / 3) - (1.0 - variance)) / math.sqrt(variance)
    return score <= _SIGMAS
