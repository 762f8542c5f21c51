"""Edges of a VDMA LIF layout as lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.maps.documents import Item
from bridge.maps.import_options import ImportOptions
from bridge.maps.lif_document import EDGE_PROPERTIES, properties_for, text_of
from bridge.maps.lif_purposes import Purpose, action_types, purposes_of_action
from bridge.maps.nurbs import nurbs_fault, sample_nurbs
from bridge.maps.road_graph import MAX_LANES, Lane

__all__ = ["LaneReader", "join_opposite_lanes"]

_MAX_CONTROL_POINTS: Final = 1000
_MAX_DEGREE: Final = 16
_LISTED: Final = 5
# Nothing on the floor of a hall is faster; exporters that count in mm count mm/s.
_FASTEST_MPS: Final = 20.0
_MAX_SPEED: Final = ("maxSpeed", "maximumSpeed")

Float = NDArray[np.float64]


class LaneReader:
    """Reads edges that one vehicle type may use.

    Args:
        index: Number of every node that the type may use, by its id.
        positions: (N, 2) float64, where the nodes are.
        known: Tells the ids of all nodes of the file, on whatever level and for whatever type; asked once, if at all.
        vehicle_type: The type; None for all.
        options: Widths of vehicle and lane.
        unit_m: What a unit of the file's lengths is in m.

    Attributes:
        purposes: What the node at the end of a lane is for, by an action on the lane.
    """

    def __init__(
        self,
        index: dict[str, int],
        positions: Float,
        known: Callable[[], set[str]],
        vehicle_type: str | None,
        options: ImportOptions,
        unit_m: float,
    ) -> None:
        self._index = index
        self._positions = positions
        self._known = cache(known)
        self._vehicle_type = vehicle_type
        self._options = options
        self._unit_m = unit_m
        self._to_nowhere: list[Item] = []
        self.purposes: dict[int, set[Purpose]] = {}

    def lanes_of(self, edges: list[Item]) -> list[Lane]:
        """The lanes of the edges that the vehicle type may use.

        Raises:
            LayoutError: No edge leads to nodes that exist, or one of their values is no value.
        """
        lanes: list[Lane] = []
        for edge in edges:
            lane = self._lane(edge)
            if lane is not None and len(lanes) == MAX_LANES:
                raise edge.fault(f"at most {MAX_LANES} edges")
            lanes += [] if lane is None else [lane]
        if self._to_nowhere:
            self._warn_of_nowhere(lanes)
        return lanes

    def _lane(self, edge: Item) -> Lane | None:
        properties = properties_for(edge, EDGE_PROPERTIES, self._vehicle_type)
        if properties is None:
            return None
        start, end = (self._node(edge.require(key)) for key in ("startNodeId", "endNodeId"))
        if start is None or end is None:
            return None
        if start == end:
            edge.warnings.add("An edge leads from a node to itself; it was left out.")
            return None
        if not all(self._carries(entry) for entry in properties):
            return None
        first = properties[0] if properties else None
        left, right = self._room(first)
        self._note_actions(edge, properties, end)
        return Lane(start, end, self._line(first, start, end), False, self._speed_limit(properties), left, right)

    def _warn_of_nowhere(self, lanes: list[Lane]) -> None:
        """Say which nodes edges lead to that the file does not have; without any lane the file makes no sense."""
        first = self._to_nowhere[0]
        if not lanes:
            raise first.fault("the id of a node of this file")
        names = [repr(name) for name in dict.fromkeys(reference.text()[:40] for reference in self._to_nowhere)]
        shown = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
        first.warnings.add(
            f"Edges lead to nodes that the file does not have ({shown}); they were left out. "
            f"The first one: {first.key}."
        )

    def _note_actions(self, edge: Item, properties: list[Item], end: int) -> None:
        """An action while driving counts where the drive ends; there is no stopping between nodes."""
        for action_type in action_types(properties):
            if purposes := purposes_of_action(action_type):
                self.purposes.setdefault(end, set()).update(purposes)
                edge.warnings.add(
                    f"Edges have the action {action_type[:40]!r}; it was taken for the node where the edge ends."
                )

    def _node(self, reference: Item) -> int | None:
        name = reference.text()
        if name in self._index:
            return self._index[name]
        if name not in self._known():
            self._to_nowhere.append(reference)
            return None
        # On another level, or not for this vehicle type.
        reference.warnings.add("An edge leads to a node of another level or vehicle type; it was left out.")
        return None

    def _carries(self, properties: Item) -> bool:
        """Whether an edge may be used empty or loaded; the simulator's floor is the same for both."""
        restriction = properties.get("loadRestriction")
        if restriction is None:
            return True
        states = [restriction.get(key) for key in ("unloaded", "loaded")]
        allowed = [state is None or state.boolean() for state in states]
        if not any(allowed):
            restriction.warnings.add("An edge may be used neither empty nor loaded; it was left out.")
        elif not all(allowed):
            restriction.warnings.add("An edge is for empty, or for loaded, vehicles only; it was opened to both.")
        return any(allowed)

    def _speed_limit(self, properties: list[Item]) -> float | None:
        limits = [limit.number() for entry in properties if (limit := entry.get(*_MAX_SPEED)) is not None]
        # Zero is what exporters write who have no limit.
        positive = [limit if limit <= _FASTEST_MPS else limit * self._unit_m for limit in limits if limit > 0]
        return min(positive) if positive else None

    def _room(self, properties: Item | None) -> tuple[float, float]:
        """How far a vehicle's centre may leave the line to the left and right in m."""
        aside = (self._options.lane_m - self._options.vehicle_m) / 2
        corridor = properties.get("corridor") if properties is not None else None
        if corridor is None or self._options.lane_width_m is not None:
            return aside, aside
        # CONTOUR keeps the whole vehicle inside, KINEMATIC_CENTER (the default) only its centre.
        point = text_of(corridor, "corridorReferencePoint").upper() or "KINEMATIC_CENTER"
        vehicle = self._options.vehicle_m / 2 if point == "CONTOUR" else 0.0
        widths = [corridor.get(key) for key in ("maximumLeftWidth", "maximumRightWidth")]
        left, right = (
            0.0 if width is None else min(1000.0, max(0.0, width.number() * self._unit_m - vehicle)) for width in widths
        )
        return left, right

    def _line(self, properties: Item | None, start: int, end: int) -> Float:
        straight = self._positions[[start, end]]
        trajectory = properties.get("trajectory") if properties is not None else None
        if trajectory is None:
            return straight
        curve = _sampled(trajectory)
        if isinstance(curve, str):
            trajectory.warnings.add(f"A trajectory has {curve}; a straight line was taken.")
            return straight
        curve = curve * self._unit_m
        gap = max(np.hypot(*(curve[0] - straight[0])), np.hypot(*(curve[-1] - straight[1])))
        if gap > self._options.lane_m:
            trajectory.warnings.add(
                "A trajectory does not lead from its edge's start to its end; a straight line was taken."
            )
            return straight
        return np.vstack([straight[:1], curve, straight[1:]])


def _sampled(trajectory: Item) -> Float | str:
    """Points on a trajectory, or what is wrong with it."""
    degree_item = trajectory.get("degree")
    degree = 1 if degree_item is None else degree_item.integer(0, 1_000_000)
    controls = trajectory.entries("controlPoints")
    if not 2 <= len(controls) <= _MAX_CONTROL_POINTS or degree > _MAX_DEGREE:
        return f"{len(controls)} control points of degree {degree}"
    points = np.array([[point.require(axis).number() for axis in ("x", "y")] for point in controls])
    weights = np.array([1.0 if (weight := point.get("weight")) is None else weight.number() for point in controls])
    knots = np.array([knot.number() for knot in trajectory.entries("knotVector")])
    fault = nurbs_fault(degree, knots, weights)
    return fault or sample_nurbs(degree, knots, points, weights)


def join_opposite_lanes(lanes: list[Lane]) -> list[Lane]:
    """Two edges that run along the same straight line in opposite directions are one two-way lane.

    The cells come out the same; there are half as many lanes to measure and to draw.
    """
    joined: list[Lane] = []
    waiting: dict[tuple[int, int], list[int]] = {}
    for lane in lanes:
        partners = waiting.get((lane.end, lane.start), [])
        match = next((place for place in partners if _is_opposite(joined[place], lane)), None)
        if match is None:
            waiting.setdefault((lane.start, lane.end), []).append(len(joined))
            joined.append(lane)
        else:
            partners.remove(match)
            one = joined[match]
            joined[match] = Lane(one.start, one.end, one.points, True, one.speed_limit_mps, one.left_m, one.right_m)
    return joined


def _is_opposite(one: Lane, other: Lane) -> bool:
    """Whether two lanes between the same nodes differ in direction only."""
    same_room = (one.left_m, one.right_m) == (other.right_m, other.left_m)
    straight = len(one.points) == len(other.points) == 2
    return straight and same_room and one.speed_limit_mps == other.speed_limit_mps
