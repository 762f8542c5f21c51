"""Floor plans as they are on another day: racks that are gone, racks out of place, aisles that are blocked.

A *rack* is a group of blocked cells that are joined by their sides; groups that
touch the edge of the plan are walls. A variant is made in this order:

1. Some racks are missing: their cells are free.
2. Every other rack is moved along its longer side, cell by cell, for as long as
   it stays on free cells without a mark, off the edge, and joined to nothing.
3. Some free cells without a mark that lie beside a rack are blocked.

Offsets are whole cells, because moves, shortest ways and contacts are made of
cells. An error of centimetres in the place of a rack reaches a robot through its
lidar alone; ``lidar_noise_m`` is for that.

Each of the three draws from a stream of its own, keyed by the seed of the
variants and the number of the variant. A variant on which the work cannot be
done is drawn anew.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import ScenarioError
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.config_randomisation import LayoutVariationConfig
from bridge.warehouse.floor import MAX_ROUTE_BYTES, goal_cells, route_table_bytes
from bridge.warehouse.layout import ALL_EXITS, Layout
from bridge.warehouse.traps import without_traps
from bridge.warehouse.validation import check_warehouse

__all__ = ["MAX_DRAWS", "LayoutVariant", "layout_variants", "racks_of", "vary_layout"]

Bool = NDArray[np.bool_]
Cells = NDArray[np.int64]

MAX_DRAWS: Final = 100
"""How often a variant is drawn before the scenario is refused."""


class _Stream(IntEnum):
    """What a stream is for; append, never reorder."""

    MISSING = 0
    OFFSET = 1
    BLOCKED = 2


@dataclass(frozen=True)
class LayoutVariant:
    """A floor plan, and what became of the one that it was drawn from.

    Attributes:
        layout: The floor plan.
        num_missing: Racks that are gone.
        num_moved: Racks that stand elsewhere.
        num_blocked: Cells beside racks that are blocked.
    """

    layout: Layout
    num_missing: int
    num_moved: int
    num_blocked: int


def layout_variants(config: WarehouseConfig, layout: Layout, where: str) -> tuple[LayoutVariant, ...]:
    """The variants of a scenario, on each of which all of its work can be done; none if it asks for none.

    Args:
        config: The warehouse.
        layout: Its floor plan, accepted by :func:`bridge.warehouse.validation.check_warehouse`.
        where: For messages.

    Raises:
        ScenarioError: No such variant was found, the plan has no racks, or the route tables would be too large.
    """
    variation = config.randomisation.layout if config.randomisation is not None else None
    if variation is None:
        return ()
    key = f"{where}.randomisation.layout"
    if not racks_of(layout.blocked):
        raise ScenarioError(
            f"{key}: expected racks (blocked cells that are not joined to the edge), got none. Remove the section."
        )
    size = variation.variants * route_table_bytes(layout, turns=config.drive.kind == "grid_heading")
    if size > MAX_ROUTE_BYTES:
        raise ScenarioError(
            f"{key}.variants: expected at most {MAX_ROUTE_BYTES} bytes of route tables, got {size} for "
            f"{variation.variants} variants. Lower the number."
        )
    return tuple(_variant_of(config, variation, layout, number, where) for number in range(variation.variants))


def _variant_of(
    config: WarehouseConfig, variation: LayoutVariationConfig, layout: Layout, number: int, where: str
) -> LayoutVariant:
    fault = ""
    for attempt in range(MAX_DRAWS):
        variant = vary_layout(layout, variation, number, attempt)
        try:
            check_warehouse(config, variant.layout, where)
        except ScenarioError as error:
            fault = str(error).splitlines()[0]
        else:
            return variant
    raise ScenarioError(
        f"{where}.randomisation.layout: expected variant {number} of seed {variation.seed} to be a warehouse in which "
        f"the work can be done, got none in {MAX_DRAWS} draws, of which the last had the fault: {fault} "
        "Lower max_blocked_cells or max_rack_offset_cells."
    )


def vary_layout(layout: Layout, variation: LayoutVariationConfig, number: int, attempt: int = 0) -> LayoutVariant:
    """One draw of variant ``number``; whether work can be done on it is for others to check.

    Args:
        layout: The floor plan.
        variation: What may differ.
        number: Number of the variant.
        attempt: Number of the draw.
    """
    blocked = layout.blocked.copy()
    marked = np.zeros(blocked.shape, np.bool_)
    marked.ravel()[goal_cells(layout)] = True
    racks = racks_of(blocked)

    bits = _bits(variation.seed, number, attempt, _Stream.MISSING, 1 + len(racks))
    num_missing = _up_to(bits[0], int(variation.max_missing_racks * len(racks) + 1e-9))
    # Racks in the order of their bits: any number of them is a sample without replacement.
    order = np.argsort(bits[1:], kind="stable")
    for place in order[:num_missing]:
        blocked[tuple(racks[place].T)] = False

    bits = _bits(variation.seed, number, attempt, _Stream.OFFSET, len(racks))
    most, num_moved = variation.max_rack_offset_cells, 0
    for place in sorted(order[num_missing:].tolist()):
        num_moved += _move_rack(blocked, marked, racks[place], _up_to(bits[place], 2 * most) - most)

    bits = _bits(variation.seed, number, attempt, _Stream.BLOCKED, 1 + blocked.size)
    aisle = np.flatnonzero(_beside_racks(blocked) & ~blocked & ~marked)
    aisle = aisle[np.argsort(bits[1:][aisle], kind="stable")]
    in_the_way = aisle[: _up_to(bits[0], variation.max_blocked_cells)]
    blocked.ravel()[in_the_way] = True
    return LayoutVariant(_with_blocked(layout, blocked), num_missing, num_moved, len(in_the_way))


def racks_of(blocked: Bool) -> list[Cells]:
    """The racks of a floor plan by their first cell: (cells, 2) int64 each, rows and columns.

    Args:
        blocked: (H, W) bool.
    """
    height, width = blocked.shape
    left = blocked.copy()
    racks = []
    for row, column in np.argwhere(blocked):
        if not left[row, column]:
            continue
        left[row, column] = False
        queue, found = deque([(int(row), int(column))]), []
        while queue:
            y, x = queue.popleft()
            found.append((y, x))
            for v, u in ((y - 1, x), (y, x + 1), (y + 1, x), (y, x - 1)):
                if 0 <= v < height and 0 <= u < width and left[v, u]:
                    left[v, u] = False
                    queue.append((v, u))
        cells = np.array(found, np.int64)
        if _inside(cells, height, width):
            racks.append(cells)
    return racks


def _inside(cells: Cells, height: int, width: int) -> bool:
    """None of the cells lies at the edge, or beyond it."""
    return bool((cells.min(axis=0) >= 1).all() and (cells.max(axis=0) <= (height - 2, width - 2)).all())


def _move_rack(blocked: Bool, marked: Bool, rack: Cells, offset: int) -> bool:
    """Move a rack in ``blocked`` as far towards ``offset`` as it gets; True if it moved."""
    spans = rack.max(axis=0) - rack.min(axis=0)
    step = np.zeros(2, np.int64)
    step[0 if spans[0] > spans[1] else 1] = 1 if offset > 0 else -1
    blocked[tuple(rack.T)] = False
    place = rack
    for _ in range(abs(offset)):
        following = place + step
        if not _fits(blocked, marked, following):
            break
        place = following
    blocked[tuple(place.T)] = True
    return place is not rack


def _fits(blocked: Bool, marked: Bool, cells: Cells) -> bool:
    """A rack may stand here: off the edge, on free cells without a mark, joined to nothing."""
    if not _inside(cells, *blocked.shape) or marked[tuple(cells.T)].any():
        return False
    around = [cells + side for side in ((0, 0), (-1, 0), (0, 1), (1, 0), (0, -1))]
    return not any(blocked[tuple(places.T)].any() for places in around)


def _beside_racks(blocked: Bool) -> Bool:
    """(H, W) bool, cells that have a rack on one side at least."""
    beside = np.zeros_like(blocked)
    for rack in racks_of(blocked):
        for side in ((-1, 0), (0, 1), (1, 0), (0, -1)):
            beside[tuple((rack + side).T)] = True
    return beside


def _with_blocked(layout: Layout, blocked: Bool) -> Layout:
    if layout.exits is None:
        return replace(layout, blocked=blocked)
    # Traffic on floor that was a rack goes every way; bits of its neighbours towards it have meant nothing so far.
    freed = layout.blocked & ~blocked
    exits = layout.exits.reshape(blocked.shape).copy()
    exits[freed] = ALL_EXITS
    for side, (down, right) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
        # Freed cells lie inside the edge: nothing wraps round. The neighbour leaves through the opposite side.
        exits[np.roll(freed, (down, right), (0, 1))] |= np.uint8(1 << (side + 2) % 4)
    exits[blocked] = 0
    return without_traps(replace(layout, blocked=blocked, exits=exits.ravel(), traps=None))


def _bits(seed: int, number: int, attempt: int, stream: _Stream, count: int) -> NDArray[np.uint64]:
    """``count`` numbers of 64 random bits."""
    sequence = np.random.SeedSequence(entropy=seed, spawn_key=(number, attempt, int(stream)))
    return sequence.generate_state(count, np.uint64).astype(np.uint64)


def _up_to(bits: np.uint64, most: int) -> int:
    """A whole number from 0 to ``most``, uniform."""
    return int(bits) * (most + 1) >> 64
