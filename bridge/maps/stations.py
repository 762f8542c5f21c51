"""Stations for maps that have none.

Benchmark maps show racks and floor only. The rules here place pick-ups at rack faces,
deliveries along the border and parking places on the open floor; every rule says what
it did in one sentence, which an import writes into the scenario file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError
from bridge.maps.floor import (
    beside,
    is_one_lane,
    keeps_neighbours_connected,
    largest_component,
    outermost,
    rack_faces,
    without_dead_ends,
)
from bridge.warehouse.layout import Layout

__all__ = ["DeliverySide", "StationRules", "StationedLayout", "derive_stations"]

Bool = NDArray[np.bool_]
Cells = NDArray[np.int32]

DeliverySide = Literal["left", "right", "top", "bottom", "left-right", "top-bottom", "all"]

_MAX_DEFAULT_PICKUPS = 256


@dataclass(frozen=True)
class StationRules:
    """How many stations there shall be, and where.

    Attributes:
        num_pickups: Pick-up cells; None: two per robot, at most 256, or all that the map marks.
        num_deliveries: Delivery cells; None: one per four robots, at least two, or all that the map marks.
        deliveries_side: Border, or borders, along which the deliveries lie.
        keep_marks: Keep stations that the map already marks with S, E, P and C. Switch it off for
            maps of games, where S is a swamp. None: the importer tells from the letters; elsewhere it means yes.
    """

    num_pickups: int | None = None
    num_deliveries: int | None = None
    deliveries_side: DeliverySide = "left-right"
    keep_marks: bool | None = None

    def __post_init__(self) -> None:
        for name in ("num_pickups", "num_deliveries"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LayoutError(f"station rules: {name}: expected a number >= 1, got {value}.")
        sides = get_args(DeliverySide)
        if self.deliveries_side not in sides:
            raise LayoutError(
                f"station rules: deliveries_side: expected one of {', '.join(sides)}, got {self.deliveries_side!r}."
            )


class StationedLayout(NamedTuple):
    """A layout with stations, and a sentence per kind of station on where they come from."""

    layout: Layout
    notes: tuple[str, ...]


def derive_stations(
    layout: Layout, num_robots: int, rules: StationRules | None = None, where: str = "layout"
) -> StationedLayout:
    """Give a layout the stations that it lacks, and one parking place per robot.

    Only the largest connected part of the floor is used, without its dead ends. Deliveries and
    parking places are chosen so that robots standing on all of them at once cut nothing off.

    Raises:
        LayoutError: The floor has no room for what the rules ask for.
    """
    rules = StationRules() if rules is None else rules
    if num_robots < 1:
        raise LayoutError(f"{where}: expected at least 1 robot, got {num_robots}.")
    floor = largest_component(~layout.blocked)
    if floor.sum() < num_robots + 2:
        raise LayoutError(
            f"{where}: expected room for {num_robots} robots and two stations in the largest connected "
            f"part of the floor, got {int(floor.sum())} free cells. Use fewer robots."
        )
    if rules.keep_marks is False:
        none = np.empty(0, np.int32)
        layout = replace(layout, pickups=none, deliveries=none, parking=none, chargers=none)
    return _Placement(layout, floor, num_robots, rules, where).run()


class _Placement:
    """One run of the rules; ``room`` shrinks as cells are taken."""

    def __init__(self, layout: Layout, floor: Bool, num_robots: int, rules: StationRules, where: str) -> None:
        self._layout = layout
        self._floor = floor
        self._num_robots = num_robots
        self._rules = rules
        self._where = where
        self._core = without_dead_ends(floor)
        # Floor that stays passable when a robot stands on every delivery and parking place.
        self._passable = floor.copy()
        self._taken = np.zeros(floor.size, np.bool_)
        for marked in (layout.pickups, layout.deliveries, layout.parking, layout.chargers):
            self._taken[marked] = True
        self._notes: list[str] = []

    def run(self) -> StationedLayout:
        deliveries = self._kept("deliveries", self._layout.deliveries, self._rules.num_deliveries)
        if deliveries is None:
            deliveries = self._derive_deliveries()
        pickups = self._kept("pick-ups", self._layout.pickups, self._rules.num_pickups)
        if pickups is None:
            pickups = self._derive_pickups()
        parking = self._kept("parking places", self._layout.parking, None)
        if parking is None:
            parking = self._derive_parking()
        chargers = self._kept("chargers", self._layout.chargers, None)
        if chargers is None:
            chargers = self._layout.chargers
        layout = replace(self._layout, pickups=pickups, deliveries=deliveries, parking=parking, chargers=chargers)
        return StationedLayout(layout, tuple(self._notes))

    def _kept(self, kind: str, marked: Cells, wanted: int | None) -> Cells | None:
        """What the map marks, thinned out to the number wanted; None if it marks nothing that can be reached."""
        reachable = marked[self._floor.ravel()[marked]]
        if not len(reachable):
            return None
        kept = reachable if wanted is None else _evenly(reachable, wanted)
        note = f"{kind}: {len(kept)} of the {len(marked)} that the map marks"
        if len(reachable) < len(marked):
            note += f" ({len(marked) - len(reachable)} lie outside the largest connected part of the floor)"
        self._notes.append(note + ".")
        return kept

    def _derive_deliveries(self) -> Cells:
        rules = self._rules
        sides = [rules.deliveries_side] if rules.deliveries_side != "all" else ["left-right", "top-bottom"]
        borders = [border for side in sides for border in side.split("-")]
        wanted = rules.num_deliveries or max(2, self._num_robots // 4)
        allowed = (self._core & ~is_one_lane(self._floor)).ravel() & ~self._taken
        chosen: list[int] = []
        for index, border in enumerate(borders):
            share = wanted // len(borders) + (index < wanted % len(borders))
            chosen += self._stand(outermost(allowed.reshape(self._floor.shape), border), share)
        if not chosen or (rules.num_deliveries is not None and len(chosen) < wanted):
            raise LayoutError(
                f"{self._where}: expected room for {wanted} deliveries along the border "
                f"({rules.deliveries_side}), got {len(chosen)}. Ask for fewer, or for more sides."
            )
        self._notes.append(
            f"deliveries: {len(chosen)} cells, evenly spaced along the border ({rules.deliveries_side}); in each "
            "line of cells the outermost one that is not in a one-lane aisle."
        )
        return np.array(sorted(chosen), np.int32)

    def _derive_pickups(self) -> Cells:
        rules = self._rules
        faces, source = rack_faces(self._layout.blocked, self._core)
        candidates = np.flatnonzero(faces.ravel() & ~self._taken).astype(np.int32)
        wanted = rules.num_pickups or min(2 * self._num_robots, _MAX_DEFAULT_PICKUPS, max(1, len(candidates)))
        if len(candidates) < wanted:
            raise LayoutError(
                f"{self._where}: expected room for {wanted} pick-ups, got {len(candidates)} {source}. Ask for fewer."
            )
        chosen = _evenly(candidates, wanted)
        self._taken[chosen] = True
        self._notes.append(f"pick-ups: {len(chosen)} of {len(candidates)} {source}, evenly sampled in row order.")
        return chosen

    def _derive_parking(self) -> Cells:
        wanted = self._num_robots
        shape = self._floor.shape
        lanes = is_one_lane(self._floor)
        allowed = self._core & ~lanes & ~self._taken.reshape(shape)
        clear = allowed & ~beside(self._taken.reshape(shape))
        chosen = self._stand(np.flatnonzero(clear).astype(np.int32), wanted, apart=True)
        # Crowded floors: shoulder to shoulder, or beside a station, is better than nowhere.
        allowed &= ~self._taken.reshape(shape)
        chosen += self._stand(np.flatnonzero(allowed).astype(np.int32), wanted - len(chosen))
        if len(chosen) < wanted:
            raise LayoutError(
                f"{self._where}: expected room for {wanted} parking places outside aisles of one lane, "
                f"got {len(chosen)}. Use fewer robots."
            )
        self._notes.append(
            f"parking places: {len(chosen)}, one per robot, evenly sampled from the floor outside one-lane aisles; "
            "robots on all of them and on all deliveries cut nothing off."
        )
        return np.array(sorted(chosen), np.int32)

    def _stand(self, candidates: Cells, wanted: int, apart: bool = False) -> list[int]:
        """Take up to ``wanted`` cells, evenly spread, on which robots can stand without cutting anything off.

        With ``apart``, none of them touches another one, not even by a corner.
        """
        first = _evenly(candidates, wanted)
        rest = _spread(np.setdiff1d(candidates, first))
        chosen: list[int] = []
        for cell in [*first.tolist(), *rest.tolist()]:
            if len(chosen) == wanted:
                break
            if apart and self._touches_a_stand(cell):
                continue
            if keeps_neighbours_connected(self._passable, cell):
                chosen.append(cell)
                self._passable.ravel()[cell] = False
                self._taken[cell] = True
        return chosen

    def _touches_a_stand(self, cell: int) -> bool:
        row, column = divmod(cell, self._floor.shape[1])
        around = np.s_[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
        return bool((self._floor[around] & ~self._passable[around]).any())


def _evenly(cells: Cells, wanted: int) -> Cells:
    """``wanted`` of the cells, evenly spaced in their order; all if there are no more."""
    if wanted >= len(cells):
        return cells
    places = ((np.arange(wanted) + 0.5) * len(cells) / wanted).astype(np.int64)
    return cells[places]


def _spread(cells: Cells) -> Cells:
    """The cells reordered so that every beginning of the sequence is spread over all of them.

    The multiples of the golden ratio, modulo 1, fill the unit interval most evenly.
    """
    golden = (5**0.5 - 1) / 2
    return cells[np.argsort(np.arange(len(cells)) * golden % 1.0, kind="stable")]
