"""From the coordinates of an Open-RMF building to metres with y up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError
from bridge.maps.documents import Item

__all__ = ["building_frame"]

Float = NDArray[np.float64]

# What the traffic editor assumes where nothing is measured: 5 cm, as in most maps of laser scanners.
_DEFAULT_SCALE: Final = 0.05
# People measure drawings to some per cent.
_LARGEST_SPREAD: Final = 1.2
_EARTH_RADIUS_M: Final = 6_378_137.0


def building_frame(document: Item, level: Item, name: str) -> Callable[[Float], Float]:
    """What turns the coordinates (N, 2) of a level's vertices into metres with y up.

    ``reference_image`` (the default) counts pixels downwards; the scale is the mean of measured
    length over length in pixels, of this level or else of one that shares fiducials with it, or
    else 0.05 m with a warning. ``cartesian_meters`` stays as it is. ``wgs84`` (longitude, latitude)
    and ``web_mercator`` are flattened around the level's middle, which is exact to a few
    centimetres per kilometre.

    Raises:
        LayoutError: The coordinate system is unknown, or the scale is no length.
    """
    stated = document.get("coordinate_system")
    system = "reference_image" if stated is None else stated.text().strip()
    if system in ("reference_image", "undefined", ""):
        scale = _scale(document, level, name)
        return lambda points: points * [scale, -scale]
    if system == "cartesian_meters":
        return lambda points: points.copy()
    if system == "wgs84":
        level.warnings.add("Longitudes and latitudes were flattened around the middle of the level.")
        return _flatten_degrees
    if system == "web_mercator":
        level.warnings.add("Web Mercator coordinates were scaled to metres at the middle of the level.")
        return _flatten_mercator
    raise LayoutError(
        f"{document.file}: coordinate_system: expected reference_image, cartesian_meters, wgs84 or web_mercator, "
        f"got {system[:40]!r}."
    )


def _flatten_degrees(points: Float) -> Float:
    middle = points.mean(axis=0) if len(points) else np.zeros(2)
    metres_per_degree = np.deg2rad(1.0) * _EARTH_RADIUS_M
    flat: Float = (points - middle) * metres_per_degree * [np.cos(np.deg2rad(middle[1])), 1.0]
    return flat


def _flatten_mercator(points: Float) -> Float:
    middle = points.mean(axis=0) if len(points) else np.zeros(2)
    # The projection stretches lengths by 1 / cos(latitude) = cosh(y / R).
    flat: Float = (points - middle) / np.cosh(np.clip(middle[1] / _EARTH_RADIUS_M, -4.0, 4.0))
    return flat


def _scale(document: Item, level: Item, name: str) -> float:
    scale = _measured(level)
    if scale is not None:
        return scale
    for other_name, other in document.require("levels").named():
        if other_name == name or not isinstance(other.value, dict):
            continue
        other_scale = _measured(other)
        ratio = _fiducial_ratio(level, other)
        if other_scale is not None and ratio is not None:
            level.warnings.add(f"Level {name!r} has no measurements; its scale comes from {other_name!r} by fiducials.")
            return other_scale * ratio
    level.warnings.add(
        f"Level {name!r} has no measurements; a pixel was taken for {_DEFAULT_SCALE} m. Measure a line in the drawing."
    )
    return _DEFAULT_SCALE


def _measured(level: Item) -> float | None:
    """Metres per pixel: the mean over the measurements; None if there are none."""
    points = level.entries("vertices")
    ratios = []
    for measurement in level.entries("measurements"):
        ends = [points[measurement.at(side).integer(0, len(points) - 1)] for side in (0, 1)]
        (x0, y0), (x1, y1) = ((end.at(0).number(), end.at(1).number()) for end in ends)
        length = float(np.hypot(x1 - x0, y1 - y0))
        distance = measurement.at(2).get("distance")
        if distance is None or length == 0.0:
            measurement.warnings.add("A measurement has no distance or no length; it was left out.")
            continue
        metres = (distance.at(1) if isinstance(distance.value, list) else distance).number()
        if not 1e-6 <= metres / length <= 1e6:
            raise distance.fault(f"a distance that fits {length:g} pixels")
        ratios.append(metres / length)
    if not ratios:
        return None
    mean = float(np.mean(ratios))
    if max(ratios) > _LARGEST_SPREAD * min(ratios):
        level.warnings.add(
            f"The {len(ratios)} measurements of a level disagree, from {min(ratios):.4g} to {max(ratios):.4g} m per "
            f"pixel; their mean, {mean:.4g}, was taken. Look for one that is wrong."
        )
    return mean


def _fiducial_ratio(level: Item, other: Item) -> float | None:
    """Pixels of the other level per pixel of this one, from the fiducials that both have."""
    here, there = _fiducials(level), _fiducials(other)
    shared = sorted(here.keys() & there.keys())
    ratios = []
    for first, second in pairwise(shared):
        lengths = [np.hypot(*np.subtract(places[second], places[first])) for places in (here, there)]
        if lengths[0] > 0 and 1e-3 <= lengths[1] / lengths[0] <= 1e3:
            ratios.append(lengths[1] / lengths[0])
    return float(np.mean(ratios)) if ratios else None


def _fiducials(level: Item) -> dict[str, tuple[float, float]]:
    return {entry.at(2).text(): (entry.at(0).number(), entry.at(1).number()) for entry in level.entries("fiducials")}
