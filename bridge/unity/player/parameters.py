"""Environment parameters: values that the trainer sets, and distributions that it leaves to the scene to draw from.

A sampler draws anew whenever its parameter is read, as in the C# package. It
draws from the same distribution for the same seed, not the same numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

__all__ = ["Parameters"]

_INT: Final = struct.Struct("<i")
_FLOAT: Final = struct.Struct("<f")
_PAIR: Final = struct.Struct("<ff")

_VALUE, _SAMPLER = 0, 1
_UNIFORM, _GAUSSIAN, _MULTI_RANGE = 0, 1, 2


class Parameters:
    """Values and samplers by key; the latest of a key counts."""

    def __init__(self) -> None:
        self._readers: dict[str, Callable[[], float]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._readers

    def __iter__(self) -> Iterator[str]:
        """All keys, in the order in which they first came."""
        return iter(self._readers)

    def get(self, key: str, default: float = 0.0) -> float:
        """The value of a parameter, drawn if it has a sampler; ``default`` if it was never set."""
        reader = self._readers.get(key)
        return default if reader is None else reader()

    def set(self, key: str, value: float) -> None:
        """Set a fixed value."""
        self._readers[key] = lambda: value

    def read_setting(self, key: str, setting: bytes) -> None:
        """Take in what follows the key in a message: a value, or a sampler.

        Raises:
            ValueError: It is of no known kind, or out of range.
            struct.error: It ends too early.
        """
        (kind,) = _INT.unpack_from(setting)
        if kind == _VALUE:
            self.set(key, _FLOAT.unpack_from(setting, _INT.size)[0])
        elif kind == _SAMPLER:
            (seed,) = _INT.unpack_from(setting, _INT.size)
            self._readers[key] = _sampler(setting[2 * _INT.size :], np.random.default_rng(seed & 0xFFFFFFFF))
        else:
            raise ValueError(f"{key}: expected a value (0) or a sampler (1), got {kind}.")


def _sampler(setting: bytes, rng: np.random.Generator) -> Callable[[], float]:
    (kind,) = _INT.unpack_from(setting)
    if kind == _UNIFORM:
        low, high = _range(setting, _INT.size)
        return lambda: float(rng.uniform(low, high))
    if kind == _GAUSSIAN:
        mean, deviation = _PAIR.unpack_from(setting, _INT.size)
        if not (np.isfinite(mean) and 0.0 <= deviation < np.inf):
            raise ValueError(f"expected a finite mean and a standard deviation >= 0, got {mean} and {deviation}.")
        return lambda: float(rng.normal(mean, deviation))
    if kind == _MULTI_RANGE:
        return _multi_range(setting, rng)
    raise ValueError(f"expected a uniform (0), gaussian (1) or multi-range (2) sampler, got {kind}.")


def _multi_range(setting: bytes, rng: np.random.Generator) -> Callable[[], float]:
    """A uniform draw from several ranges, longer ones being drawn from more often."""
    (count,) = _INT.unpack_from(setting, _INT.size)
    if count < 2 or count % 2 or 2 * _INT.size + count * _FLOAT.size > len(setting):
        raise ValueError(f"expected pairs of lower and upper bounds, got {count} values in {len(setting)} bytes.")
    ranges = [_range(setting, 2 * _INT.size + index * _PAIR.size) for index in range(count // 2)]
    lengths = np.array([high - low for low, high in ranges])
    total = float(lengths.sum())
    shares = lengths / total if total > 0 else np.full(len(ranges), 1 / len(ranges))
    return lambda: float(rng.uniform(*ranges[int(rng.choice(len(ranges), p=shares))]))


def _range(setting: bytes, offset: int) -> tuple[float, float]:
    low, high = _PAIR.unpack_from(setting, offset)
    if not (np.isfinite([low, high]).all() and low <= high):
        raise ValueError(f"expected a finite lower bound <= the upper one, got {low} and {high}.")
    return low, high
