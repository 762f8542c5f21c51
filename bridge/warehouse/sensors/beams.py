"""The beams of a laser scanner, before it is known what they hit."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["AHEAD", "BACK", "INVERSE_X", "INVERSE_Y", "Beams", "LidarPlace", "make_beams"]

Float32 = NDArray[np.float32]

_VECTOR: Final = 8
# Fields of the lines in one array, so far apart that the compiler knows that they do not overlap: inverse of the
# direction in the floor frame along x and y, distance in m of the nearest hit ahead, and of the nearest one back.
_MOST_LINES: Final = 736
INVERSE_X: Final = np.uint64(0)
INVERSE_Y: Final = np.uint64(_MOST_LINES)
AHEAD: Final = np.uint64(2 * _MOST_LINES)
BACK: Final = np.uint64(3 * _MOST_LINES)


class LidarPlace(NamedTuple):
    """Where the block lies in an observation, its number of beams, and its range."""

    at: int
    beams: int
    range_m: float


class Beams(NamedTuple):
    """Beams of one robot, and the lines along which they lie: of an even number of beams, two on each line.

    Both are padded to whole vectors of the machine; P beams and Q lines with the padding.

    Attributes:
        cos: (P,) float32, direction in the body frame, counter-clockwise from straight ahead.
        sin: (P,) float32.
        hits: (2, P) float32, scratch: distance of the nearest hit, before and after an obstacle.
        lines: How many lines there are; line k lies along beam k, and backwards along beam k + ``lines``.
        padded_lines: Q.
        fields: (2944,) float32, scratch: four fields of the lines, see above.
    """

    cos: Float32
    sin: Float32
    hits: Float32
    lines: int
    padded_lines: int
    fields: Float32


def make_beams(number: int) -> Beams:
    """Evenly spread beams; those of the padding repeat the first ones and are never shown."""
    if number > _MOST_LINES - _VECTOR:
        raise ValueError(f"make_beams: expected at most {_MOST_LINES - _VECTOR} beams, got {number}.")
    lines = number if number % 2 else number // 2
    padded, padded_lines = (-(-each // _VECTOR) * _VECTOR for each in (number, lines))
    angles = 2.0 * np.pi * np.arange(padded) / number
    return Beams(
        cos=np.cos(angles).astype(np.float32),
        sin=np.sin(angles).astype(np.float32),
        hits=np.zeros((2, padded), np.float32),
        lines=lines,
        padded_lines=padded_lines,
        fields=np.zeros(4 * _MOST_LINES, np.float32),
    )
