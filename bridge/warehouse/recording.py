"""Pictures of one episode, from any policy that drives a warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.policy import FleetPolicy
from bridge.roster import Roster
from bridge.warehouse.render import render_rgb, write_gif
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.variant_roster import VariantRoster, simulator_of

__all__ = ["record_gif"]


def record_gif(
    roster: Roster, policy: FleetPolicy, path: Path, *, seed: int, max_steps: int = 200, fps: float = 8.0
) -> None:
    """Write the first steps of an episode as a GIF.

    Args:
        roster: The roster of a warehouse; it is reset, and environment 0 is shown.
        policy: What drives the fleet.
        path: File to write.
        seed: Seed of the episode.
        max_steps: Longest recording; it ends with the episode.
        fps: Pictures per second.

    Raises:
        SpecMismatchError: The roster is not that of a warehouse.
    """
    if not isinstance(roster, (WarehouseSimulator, VariantRoster)):
        raise SpecMismatchError(
            f"GIF: expected the built-in warehouse simulator, got {type(roster).__name__}, which cannot be drawn. "
            "Record on the scenario with `world: warehouse`."
        )
    write_gif(_frames(roster, policy, seed, max_steps), path, fps)


def _frames(
    roster: WarehouseSimulator | VariantRoster, policy: FleetPolicy, seed: int, max_steps: int
) -> Iterator[NDArray[np.uint8]]:
    roster.reset(seed)
    simulator = simulator_of(roster, 0)
    yield render_rgb(simulator)
    for _ in range(max_steps):
        policy.act(roster.arrays)
        roster.step()
        if roster.arrays.episode_over[0]:
            return
        yield render_rgb(simulator)
