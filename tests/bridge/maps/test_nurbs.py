"""Curves of trajectories."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.maps.nurbs import nurbs_fault, sample_nurbs


def test_sample_nurbs_draws_a_circle_that_only_rational_curves_can_draw() -> None:
    half = 0.5**0.5
    points = np.array([[1, 0], [1, 1], [0, 1], [-1, 1], [-1, 0], [-1, -1], [0, -1], [1, -1], [1, 0]], np.float64)
    weights = np.array([1, half, 1, half, 1, half, 1, half, 1])
    knots = np.array([0, 0, 0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1, 1, 1])
    assert nurbs_fault(2, knots, weights) == ""
    curve = sample_nurbs(2, knots, points, weights)
    assert np.abs(np.hypot(*curve.T) - 1.0).max() < 1e-12
    assert len(curve) == 65
    assert curve[0] == pytest.approx(points[0])
    assert curve[-1] == pytest.approx(points[-1])


def test_sample_nurbs_of_degree_1_is_the_control_polygon() -> None:
    points = np.array([[0, 0], [3, 0], [3, 4]], np.float64)
    curve = sample_nurbs(1, np.array([0, 0, 0.5, 1, 1]), points, np.ones(3))
    assert curve.tolist() == points.tolist()
