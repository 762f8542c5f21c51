"""Rectangles against racks, discs and each other, beside points spread over their outlines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bridge.warehouse.drives.rectangles import (
    disc_meets_rectangle,
    rectangle_distance,
    rectangle_meets_rack,
    rectangles_meet,
)

Rectangle = tuple[float, float, float, float, float]


def _outline(rectangle: Rectangle, points: int = 400) -> np.ndarray:
    """Points on the border of (x, y, heading, half length, half width): (4 * points, 2)."""
    x, y, heading, length, width = rectangle
    share = np.linspace(-1.0, 1.0, points)
    ones = np.ones(points)
    ahead = np.concatenate([share * length, share * length, ones * length, -ones * length])
    left = np.concatenate([ones * width, -ones * width, share * width, share * width])
    return np.stack(
        [
            x + ahead * math.cos(heading) - left * math.sin(heading),
            y + ahead * math.sin(heading) + left * math.cos(heading),
        ],
        axis=1,
    )


def _depth(points: np.ndarray, rectangle: Rectangle) -> np.ndarray:
    """Signed distance of points to a rectangle: negative inside."""
    x, y, heading, length, width = rectangle
    dx, dy = points[:, 0] - x, points[:, 1] - y
    ahead = np.abs(dx * math.cos(heading) + dy * math.sin(heading)) - length
    aside = np.abs(dy * math.cos(heading) - dx * math.sin(heading)) - width
    outside = np.hypot(np.maximum(ahead, 0.0), np.maximum(aside, 0.0))
    return np.where((ahead < 0) & (aside < 0), np.maximum(ahead, aside), outside)


def _random_rectangle(rng: np.random.Generator, spread: float) -> Rectangle:
    x, y = rng.uniform(-spread, spread, 2)
    return x, y, rng.uniform(-np.pi, np.pi), rng.uniform(0.2, 0.6), rng.uniform(0.1, 0.4)


def _pair(one: Rectangle, other: Rectangle) -> tuple[float, ...]:
    return (
        other[0] - one[0],
        other[1] - one[1],
        math.cos(one[2]),
        math.sin(one[2]),
        *one[3:],
        math.cos(other[2]),
        math.sin(other[2]),
        *other[3:],
    )


@pytest.mark.parametrize("seed", range(3))
def test_rectangles_meet_where_a_point_of_one_lies_in_the_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    verdicts = []
    for _ in range(200):
        one, other = _random_rectangle(rng, 0.6), _random_rectangle(rng, 0.6)
        depth = min(_depth(_outline(one), other).min(), _depth(_outline(other), one).min())
        if abs(depth) < 5e-3:
            continue  # as good as touching
        verdicts.append(bool(rectangles_meet(*_pair(one, other))))
        assert verdicts[-1] == (depth < 0)
        assert verdicts[-1] == bool(rectangles_meet(*_pair(other, one)))
        if depth > 0:
            assert rectangle_distance(*_pair(one, other)) == pytest.approx(depth, abs=5e-3)
    assert 20 < sum(verdicts) < len(verdicts) - 20


@pytest.mark.parametrize("seed", range(3))
def test_disc_meets_rectangle_where_its_centre_is_nearer_than_its_radius(seed: int) -> None:
    rng = np.random.default_rng(seed)
    verdicts = []
    for _ in range(200):
        rectangle = _random_rectangle(rng, 0.6)
        x, y, radius = *rng.uniform(-0.8, 0.8, 2), rng.uniform(0.05, 0.4)
        depth = float(_depth(np.array([[x, y]]), rectangle)[0])
        cos, sin = math.cos(rectangle[2]), math.sin(rectangle[2])
        meets = disc_meets_rectangle(x - rectangle[0], y - rectangle[1], radius, cos, sin, *rectangle[3:])
        verdicts.append(bool(meets))
        assert verdicts[-1] == (depth < radius)
    assert 20 < sum(verdicts) < 180


def test_rectangles_that_touch_do_not_meet() -> None:
    assert not rectangles_meet(1.0, 0.0, 1.0, 0.0, 0.5, 0.3, 1.0, 0.0, 0.5, 0.3)
    assert rectangles_meet(0.999, 0.0, 1.0, 0.0, 0.5, 0.3, 1.0, 0.0, 0.5, 0.3)
    # Crossed: no corner of one lies in the other.
    assert rectangles_meet(0.0, 0.0, 1.0, 0.0, 0.5, 0.1, 0.0, 1.0, 0.5, 0.1)


@pytest.mark.parametrize("seed", range(3))
def test_rectangle_meets_rack_where_one_of_its_points_lies_in_a_blocked_cell_or_outside(
    make_scene: Any, seed: int
) -> None:
    scene = make_scene("......\n..##..\n.S..#.\n....E.\n......", 1, cell_size_m=1.2)
    floor = scene.floor
    rng = np.random.default_rng(seed)
    boxes = [
        ((column + 0.5) * 1.2, (floor.height - row - 0.5) * 1.2, 0.0, 0.6, 0.6)
        for row, column in (divmod(int(cell), floor.width) for cell in np.flatnonzero(floor.blocked))
    ]
    verdicts = []
    for _ in range(200):
        x, y = rng.uniform(0.0, 6 * 1.2), rng.uniform(0.0, 5 * 1.2)
        rectangle = (x, y, rng.uniform(-np.pi, np.pi), 0.45, 0.3)
        points = _outline(rectangle)
        inside = min(points[:, 0].min(), points[:, 1].min(), 7.2 - points[:, 0].max(), 6.0 - points[:, 1].max())
        depth = min(inside, *(min(_depth(points, b).min(), _depth(_outline(b), rectangle).min()) for b in boxes))
        if abs(depth) < 5e-3:
            continue
        cos, sin = math.cos(rectangle[2]), math.sin(rectangle[2])
        verdicts.append(bool(rectangle_meets_rack(floor, x, y, cos, sin, 0.45, 0.3)))
        assert verdicts[-1] == (depth < 0)
    assert 20 < sum(verdicts) < len(verdicts) - 20
