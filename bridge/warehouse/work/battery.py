"""Drain of the batteries: electronics always, motion while a robot moves, and the more the heavier its load.

Driving on a level floor overcomes rolling friction, ``P = mu * m * g * v`` (the
power of Open-RMF's battery model), so what motion draws is proportional to the
mass that moves. A robot of mass ``m`` with a load ``l`` draws ``1 + l / m`` times
what it draws empty. ``drain_loaded_factor`` is that factor with a full load (its
``payload_kg``, else the heaviest load that there can be), which says what ``m`` is:

    factor = 1 + (drain_loaded_factor - 1) * load_kg / full_kg.

Where loads weigh nothing, every load counts as a full one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, kernel_part, lean_kernel
from bridge.warehouse.fleet import Fleet, Outcome, Traits
from bridge.warehouse.work.loads import Loads, load_kg

__all__ = ["bind_drain", "drain_batteries", "drain_batteries_by_load", "drained_share"]

UInt64 = NDArray[np.uint64]


def bind_drain(fleet: Fleet, outcome: Outcome, traits: Traits, loads: Loads, task_keys: UInt64) -> Callable[[], object]:
    """The drain of a step, bound to its arrays: that with masses only where loads have any."""
    if len(loads.full_kg) == 0:
        return bind(drain_batteries, fleet, outcome, traits)
    return bind(drain_batteries_by_load, fleet, outcome, traits, loads, task_keys)


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


@lean_kernel
def drain_batteries_by_load(fleet: Fleet, outcome: Outcome, traits: Traits, loads: Loads, task_keys: UInt64) -> None:
    """As :func:`drain_batteries`, where loads have masses.

    Args:
        fleet: ``charge`` is lowered.
        outcome: Who has moved.
        traits: Drains.
        loads: What the loads weigh.
        task_keys: (E,) uint64, stream of the tasks.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            if fleet.alive[env, robot]:
                loaded = fleet.loaded[env, robot]
                drained = drained_share(fleet, outcome, traits, loads, task_keys[env], env, robot, loaded)
                fleet.charge[env, robot] = max(fleet.charge[env, robot] - drained, 0.0)


@kernel_part
def drained_share(
    fleet: Fleet,
    outcome: Outcome,
    traits: Traits,
    loads: Loads,
    task_key: np.uint64,
    env: int,
    robot: int,
    loaded: bool,
) -> float:
    """Share of the full charge that a robot draws in a step.

    Args:
        fleet: ``number`` is that of the task whose load is meant.
        outcome: Who has moved.
        traits: Drains.
        loads: What the loads weigh.
        task_key: Stream of the tasks in the environment.
        env: Environment.
        robot: Robot.
        loaded: It moved with the load of its task.
    """
    if outcome.moved_m[env, robot] <= 0.0:
        return float(traits.idle_drain[robot])
    factor = traits.loaded_factor[robot] if loaded else 1.0
    if loaded and len(loads.full_kg) > 0:
        share = load_kg(loads, task_key, int(fleet.number[env, robot])) / loads.full_kg[robot]
        factor = 1.0 + (factor - 1.0) * share
    return float(traits.idle_drain[robot] + traits.moving_drain[robot] * factor)
