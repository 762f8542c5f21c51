"""Stations, chargers and parking places on roads.

Nodes become cells; nodes that share a cell share their purposes. A place that only says that
loads change hands there serves one direction in the simulator, pick-up or delivery; where a
file leaves that open, the places are dealt out so that both kinds are equally many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import LayoutError
from bridge.maps.cell_size import choose_cell_size
from bridge.maps.import_options import ImportOptions
from bridge.maps.import_warnings import ImportWarnings
from bridge.maps.rasterise import RoadCells, rasterise
from bridge.maps.road_graph import RoadGraph, open_ways_back, restrict_to_round_trips
from bridge.warehouse.layout import Layout

__all__ = ["road_layout"]

Cells = NDArray[np.int32]

# Every fourth node a pick-up and every fourth one a delivery, up to a number that route tables can hold.
_DERIVED_SHARE: Final = 4
_MOST_DERIVED: Final = 64
_LISTED: Final = 5
_ONE: Final = {"pick-ups": "pick-up", "deliveries": "delivery"}


def road_layout(
    graph: RoadGraph, options: ImportOptions, warnings: ImportWarnings, where: str
) -> tuple[Layout, tuple[str, ...]]:
    """The layout of a road graph, and a sentence per choice that was made.

    Raises:
        LayoutError: The roads are too large, lead nowhere, or lack stations.
    """
    if options.two_way:
        graph = replace(graph, lanes=[lane.both_ways() for lane in graph.lanes])
    elif options.two_way is None:
        graph, opened = open_ways_back(graph)
        if opened:
            warnings.add(opened)
    graph, left_out = restrict_to_round_trips(graph, where)
    for sentence in left_out:
        warnings.add(sentence)
    if options.cell_size_m is None:
        cell_m, size_note = choose_cell_size(graph, options.vehicle_m, options.lane_m)
    else:
        if options.cell_size_m < options.vehicle_m:
            raise LayoutError(
                f"{where}: cell_size_m: expected at least the width of a vehicle, {options.vehicle_m:g} m, so that "
                f"vehicles in neighbouring cells do not overlap, got {options.cell_size_m:g}. Raise it, or lower "
                "vehicle_width_m."
            )
        cell_m, size_note = options.cell_size_m, f"cells of {options.cell_size_m:g} m: as told."
    roads = rasterise(graph, cell_m, where)
    shared = len(roads.node_cells) - len(np.unique(roads.node_cells))
    if shared:
        warnings.add(
            f"{shared} of {len(roads.node_cells)} nodes share a cell of {cell_m:g} m with another one; a smaller "
            "--vehicle-width-m or --cell-size-m parts them."
        )
    stations = _Stations(graph, roads, options, warnings, where)
    notes = [size_note, f"lanes {options.lane_m:g} m wide, for vehicles of {options.vehicle_m:g} m."]
    if roads.exits is not None:
        notes.append("exits: robots move along the lanes only, and through one-way lanes only forwards.")
    if roads.speed_limit_mps is not None:
        notes.append("speed limits: the smallest one of the lanes through each cell.")
    layout = stations.layout(cell_m)
    return layout, (*notes, *stations.notes)


class _Stations:
    """Purposes of nodes, turned into disjoint sets of cells."""

    def __init__(
        self, graph: RoadGraph, roads: RoadCells, options: ImportOptions, warnings: ImportWarnings, where: str
    ) -> None:
        self._graph = graph
        self._roads = roads
        self._options = options
        self._warnings = warnings
        self._where = where
        self.notes: list[str] = []
        self._pickups, self._deliveries = self._marked()
        chargers, parking = self._cells(graph.chargers), self._cells(graph.parking)
        if options.derive_stations:
            self._derive(set(chargers) | set(parking))
        if not self._pickups or not self._deliveries:
            raise self._lacking(len(chargers))
        self._thin()
        stations = {*self._pickups, *self._deliveries}
        self._chargers = [cell for cell in chargers if cell not in stations]
        self._parking = [cell for cell in parking if cell not in stations and cell not in self._chargers]
        self._note_waiting(len(chargers) - len(self._chargers))

    def layout(self, cell_m: float) -> Layout:
        """The cells with everything on them."""
        sets = (self._pickups, self._deliveries, self._parking, self._chargers)
        pickups, deliveries, parking, chargers = (np.array(sorted(cells), np.int32) for cells in sets)
        roads = self._roads
        return Layout(~roads.free, pickups, deliveries, parking, chargers, cell_m, roads.exits, roads.speed_limit_mps)

    def _cells(self, nodes: Iterable[int]) -> list[int]:
        """Cells of nodes, each once, in the order of the nodes."""
        return list(dict.fromkeys(int(self._roads.node_cells[node]) for node in nodes))

    def _marked(self) -> tuple[list[int], list[int]]:
        graph = self._graph
        fetch, bring, both = (self._cells(nodes) for nodes in (graph.pickups, graph.deliveries, graph.transfers))
        open_cells = [cell for cell in dict.fromkeys([*both, *fetch]) if cell in both or cell in bring]
        pickups = [cell for cell in fetch if cell not in open_cells]
        deliveries = [cell for cell in bring if cell not in open_cells]
        marked = len(pickups), len(deliveries)
        for cell in open_cells:
            (pickups if len(pickups) <= len(deliveries) else deliveries).append(cell)
        self.notes.append(
            f"stations of the file: {marked[0]} where loads are fetched, {marked[1]} where they are brought, "
            f"{len(open_cells)} with both."
        )
        if open_cells:
            self.notes.append(
                "places where loads are both fetched and brought were dealt out, "
                f"{len(pickups) - marked[0]} as pick-ups and {len(deliveries) - marked[1]} as deliveries."
            )
        return pickups, deliveries

    def _derive(self, taken: set[int]) -> None:
        """Add the kinds that the file lacks: at named nodes, then at ends of roads, other nodes, and along lanes."""
        rules = self._options.stations
        missing = [
            (cells, kind, wanted)
            for cells, kind, wanted in (
                (self._pickups, "pick-ups", rules.num_pickups),
                (self._deliveries, "deliveries", rules.num_deliveries),
            )
            if not cells
        ]
        if not missing:
            return
        taken = taken | set(self._pickups) | set(self._deliveries)
        nodes = [cell for cell in self._cells(self._ranked()) if cell not in taken]
        taken = taken | set(nodes)
        along = [cell for cell in np.flatnonzero(self._roads.free.ravel()).tolist() if cell not in taken]
        pool = [*nodes, *_spread(along)]
        derived: list[str] = []
        share = min(_MOST_DERIVED, max(1, len(nodes) // _DERIVED_SHARE))
        for index, (cells, kind, wanted) in enumerate(missing):
            number = min(wanted or share, max(0, len(pool) // (len(missing) - index)))
            # Every second one, so that the two kinds lie among each other.
            chosen = pool[:: len(missing) - index][:number]
            cells.extend(chosen)
            left = set(pool) - set(chosen)
            pool = [cell for cell in pool if cell in left]
            if chosen:
                derived.append(f"{len(chosen)} {kind if len(chosen) > 1 else _ONE[kind]} ({self._shown(chosen)})")
                self.notes.append(
                    f"{kind}: {len(chosen)} derived; named nodes first, then ends of roads, other nodes, lanes."
                )
        if derived:
            self._warnings.add(
                f"Derived, because the file gives the roads none: {' and '.join(derived)}. {self._hint()}"
                "Move them in the layout file; --no-derive-stations refuses such files."
            )

    def _shown(self, cells: list[int]) -> str:
        """The first few cells by the names of their nodes."""
        names: dict[int, str] = {}
        for node, cell in enumerate(self._roads.node_cells.tolist()):
            names.setdefault(cell, self._graph.names[node][:40] or f"#{node}")
        shown = ", ".join(names.get(cell, "between nodes") for cell in cells[:_LISTED])
        return f"{shown} and {len(cells) - _LISTED} more" if len(cells) > _LISTED else shown

    def _hint(self) -> str:
        return f"{self._graph.hint} " if self._graph.hint else ""

    def _ranked(self) -> list[int]:
        ends: dict[int, set[int]] = {}
        for lane in self._graph.lanes:
            ends.setdefault(lane.start, set()).add(lane.end)
            ends.setdefault(lane.end, set()).add(lane.start)
        leaves = [node for node, others in sorted(ends.items()) if len(others) == 1]
        # Files list their nodes from one side to the other; stations are to lie all over the roads.
        tiers = (self._graph.places, leaves, range(len(self._graph.names)))
        return list(dict.fromkeys(node for tier in tiers for node in _spread(tier)))

    def _lacking(self, num_chargers: int) -> LayoutError:
        advice = (
            f"There is no room to derive more on {int(self._roads.free.sum())} cells; another --level may have more."
            if self._options.derive_stations
            else "Import it with --derive-stations (the default) to make what is missing, or name the stations in the "
            "file."
        )
        num_nodes = len(self._roads.node_cells)
        shared = num_nodes - len(np.unique(self._roads.node_cells))
        if shared:
            advice += (
                f" ({shared} of {num_nodes} nodes share a cell with another one; a smaller --vehicle-width-m parts "
            )
            advice += "them.)"
        return LayoutError(
            f"{self._where}: expected at least one pick-up and one delivery on the roads, got "
            f"{len(self._pickups)} and {len(self._deliveries)} ({num_chargers} chargers). {self._hint()}{advice}"
        )

    def _thin(self) -> None:
        rules = self._options.stations
        for cells, wanted in ((self._pickups, rules.num_pickups), (self._deliveries, rules.num_deliveries)):
            if wanted is not None and wanted < len(cells):
                places = ((np.arange(wanted) + 0.5) * len(cells) / wanted).astype(np.int64)
                cells[:] = [cells[place] for place in places.tolist()]

    def _note_waiting(self, lost_chargers: int) -> None:
        self.notes.append(f"chargers: {len(self._chargers)}; parking places: {len(self._parking)}.")
        if lost_chargers:
            self.notes.append(
                f"{lost_chargers} chargers on a station's cell were left out: waiting there would block it."
            )
        if not self._parking:
            self.notes.append(
                "robots start on any free cell that is no station or charger, because no place is free for parking."
            )


def _spread(cells: Sequence[int]) -> list[int]:
    """The cells in an order of which every beginning is spread over all of them."""
    golden = (5**0.5 - 1) / 2
    order = np.argsort((np.arange(len(cells)) + 0.5) * golden % 1.0, kind="stable")
    return [cells[place] for place in order.tolist()]
