"""Drain of the batteries."""

from __future__ import annotations

from bridge.jit import lean_kernel
from bridge.warehouse.fleet import Fleet, Outcome, Traits

__all__ = ["drain_batteries"]


@lean_kernel
def drain_batteries(fleet: Fleet, outcome: Outcome, traits: Traits) -> None:
    """Take the charge of one step from every robot on the floor; a robot that moved pays for that, too."""
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            # Without branches: which robots move and carry a load is hard to foresee.
            moving = traits.moving_drain[robot] if outcome.moved_m[env, robot] > 0.0 else 0.0
            factor = traits.loaded_factor[robot] if fleet.loaded[env, robot] else 1.0
            charge = fleet.charge[env, robot] - (traits.idle_drain[robot] + moving * factor)
            fleet.charge[env, robot] = max(charge, 0.0) if fleet.alive[env, robot] else fleet.charge[env, robot]
