"""Non-uniform rational B-splines, which VDMA LIF uses for the trajectories of edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["nurbs_fault", "sample_nurbs"]

Float = NDArray[np.float64]


def nurbs_fault(degree: int, knots: Float, weights: Float) -> str:
    """What is wrong with a curve in words; empty if nothing is.

    Args:
        degree: Degree of the pieces.
        knots: (k,) float64, the knot vector.
        weights: (c,) float64, the weights of the control points.
    """
    count = len(weights)
    if not 1 <= degree < count:
        return f"degree {degree} with {count} control points; it has to be from 1 to one less than them"
    if len(knots) != count + degree + 1:
        return f"{len(knots)} knots instead of {count + degree + 1} (control points + degree + 1)"
    if (np.diff(knots) < 0).any() or knots[degree] >= knots[count]:
        return "knots that do not ascend"
    if (weights <= 0).any():
        return "weights that are not positive"
    return ""


def sample_nurbs(degree: int, knots: Float, points: Float, weights: Float, num_per_span: int = 16) -> Float:
    """Points on a curve, evenly spaced in the parameter of each span (De Boor's algorithm in homogeneous coordinates).

    Args:
        degree: Degree of the pieces, at least 1.
        knots: (c + degree + 1,) float64, ascending.
        points: (c, 2) float64, the control points.
        weights: (c,) float64, positive.
        num_per_span: Points per span between different knots; a span of degree 1 is straight and needs one.

    Returns:
        (n, 2) float64, from the beginning of the curve to its end.
    """
    count = len(points)
    lifted = np.hstack([points * weights[:, None], weights[:, None]])
    step = 1.0 / (1 if degree == 1 and (weights == weights[0]).all() else num_per_span)
    curve = []
    for span in range(degree, count):
        low, high = knots[span], knots[span + 1]
        if high <= low:
            continue
        for share in np.arange(0.0, 1.0, step):
            curve.append(_de_boor(degree, knots, lifted, span, low + share * (high - low)))
    last = max(span for span in range(degree, count) if knots[span + 1] > knots[span])
    curve.append(_de_boor(degree, knots, lifted, last, float(knots[count])))
    homogeneous = np.array(curve)
    return np.asarray(homogeneous[:, :2] / homogeneous[:, 2:], np.float64)


def _de_boor(degree: int, knots: Float, lifted: Float, span: int, place: float) -> Float:
    near = lifted[span - degree : span + 1].copy()
    for level in range(1, degree + 1):
        for index in range(degree, level - 1, -1):
            left = knots[index + span - degree]
            right = knots[index + 1 + span - level]
            share = (place - left) / (right - left)
            near[index] = (1.0 - share) * near[index - 1] + share * near[index]
    point: Float = near[degree]
    return point
