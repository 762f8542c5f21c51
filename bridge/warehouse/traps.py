"""Floor that one-way cells lead into and nothing leads out of: robots are kept out of it.

A robot in such a *trap* would stay there for the rest of the episode, without a way to any
target that a route, a reward or an observation could be about. So nobody may enter: its
border is closed, which is told when the scenario is checked. Floor that can be left but not
entered does no harm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.layout import Layout, distances_from, distances_to

__all__ = ["trap_warnings", "without_traps"]

_LISTED = 3


def without_traps(layout: Layout) -> Layout:
    """The same floor plan with its traps closed, and named in ``Layout.traps``.

    Nothing changes where stations cannot be reached from each other: that is a fault, and is told as one.
    """
    places = np.concatenate([layout.pickups, layout.deliveries, layout.parking, layout.chargers])
    if layout.exits is None or len(places) == 0 or layout.blocked.ravel()[places].any():
        return layout
    there, back = distances_from(layout, int(places[0])), distances_to(layout, int(places[0]))
    if (there[places] < 0).any() or (back[places] < 0).any():
        return layout
    is_trap = (there >= 0) & (back < 0)
    return replace(layout, exits=_closed(layout, is_trap, layout.exits), traps=np.flatnonzero(is_trap).astype(np.int32))


def trap_warnings(layout: Layout) -> tuple[str, ...]:
    """A sentence on the cells that robots are kept out of; none where there are none."""
    if layout.traps is None or len(layout.traps) == 0:
        return ()
    named = [divmod(int(cell), layout.width) for cell in layout.traps[:_LISTED]]
    words = "; ".join(f"row {row}, column {column}" for row, column in named)
    more = f"; and {len(layout.traps) - _LISTED} more" if len(layout.traps) > _LISTED else ""
    return (
        f"layout: no station can be reached from {len(layout.traps)} cells that one-way cells lead to ({words}{more}). "
        "Robots are kept out of them. Give them an exit, or close them.",
    )


def _closed(layout: Layout, is_trap: NDArray[np.bool_], exits: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The exits without those into traps: (H*W,) bool, (H*W,) uint8."""
    trap = np.pad(is_trap.reshape(layout.blocked.shape), 1)
    # Up, right, down, left: what lies on that side of every cell.
    sides = (trap[:-2, 1:-1], trap[1:-1, 2:], trap[2:, 1:-1], trap[1:-1, :-2])
    barred = sum((side.astype(np.uint8) << bit for bit, side in enumerate(sides)), np.zeros_like(sides[0], np.uint8))
    return (exits & ~barred.ravel()).astype(np.uint8)
