"""What loads weigh, who can carry them, and what that costs.

The mass of a task's load is a function of the task's number, so that a task that
another robot takes over is the same task: listed, or drawn uniformly from a
stream of its own that is derived from the stream of the tasks. The dispatch gives
a task to robots alone whose payload is large enough. Where every free robot is
too weak for a task, it waits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part, lean_kernel
from bridge.specs import MetricSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.feature import Feature, Parts
from bridge.warehouse.fleet import Fleet, Outcome
from bridge.warehouse.random_streams import Purpose, draw, uniform
from bridge.warehouse.work.transports import listed_loads

__all__ = ["LOAD_METRICS", "NO_LOADS", "LoadCounter", "Loads", "can_carry", "count_loads", "load_kg", "make_loads"]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]

LOAD_METRICS: Final = (MetricSpec("delivered_kg", "mass of the loads delivered by all robots in kg", True),)

_NONE: Final = np.zeros(0)


class Loads(NamedTuple):
    """Masses and payloads in kg.

    Attributes:
        payload_kg: (N,) float64, heaviest load of each robot, inf for no limit; empty where no robot has one.
        listed_kg: (tasks,) float64, load of each listed task; empty unless tasks are listed.
        min_kg: Smallest load that is drawn.
        max_kg: Largest load that is drawn.
        full_kg: (N,) float64, load with which each robot drains ``drain_loaded_factor`` times as fast; empty where
            loads weigh nothing.
    """

    payload_kg: Float64
    listed_kg: Float64
    min_kg: float
    max_kg: float
    full_kg: Float64 = _NONE


NO_LOADS: Final = Loads(_NONE, _NONE, 0.0, 0.0)


def make_loads(config: WarehouseConfig) -> Loads:
    """Masses and payloads of a scenario; :data:`NO_LOADS` where loads weigh nothing."""
    if not config.tasks.has_loads:
        return NO_LOADS
    limited = any(role.payload_kg is not None for role in config.fleet)
    payloads = np.array([role.payload_kg or np.inf for role in config.fleet for _ in range(role.count)])
    drawn = config.tasks.load
    return Loads(
        payload_kg=payloads if limited else _NONE,
        listed_kg=listed_loads(config.tasks) if drawn is None else _NONE,
        min_kg=0.0 if drawn is None else float(drawn.min_kg),
        max_kg=0.0 if drawn is None else float(drawn.max_kg),
        full_kg=np.where(np.isfinite(payloads), payloads, config.tasks.heaviest_kg),
    )


@kernel_part
def load_kg(loads: Loads, task_key: np.uint64, number: int) -> float:
    """What the load of a task weighs.

    Args:
        loads: Of :func:`make_loads`.
        task_key: Stream of the tasks in the environment.
        number: Number of the task.
    """
    if len(loads.listed_kg) > 0:
        return float(loads.listed_kg[number])
    # Tasks count from 0: the number at -1 is nobody else's, and serves as the key of the masses.
    share = uniform(np.uint64(draw(task_key, -1)), number)
    return float(loads.min_kg + (loads.max_kg - loads.min_kg) * share)


@kernel_part
def can_carry(loads: Loads, task_key: np.uint64, robot: int, number: int) -> bool:
    """Whether a robot can carry the load of a task; see :func:`load_kg`."""
    return len(loads.payload_kg) == 0 or load_kg(loads, task_key, number) <= loads.payload_kg[robot]


class LoadCounter(Feature):
    """Adds up what was delivered."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._loads = make_loads(parts.config)
        self._sums = np.zeros(len(parts.steps))

    def begin(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self.clear_figures(envs)

    def after_service(self) -> None:
        """See :class:`Feature`."""
        parts = self._parts
        count_loads(parts.fleet, parts.outcome, self._loads, parts.keys[Purpose.TASK], self._sums)

    def clear_figures(self, envs: Bool) -> None:
        """See :class:`Feature`."""
        self._sums[envs] = 0.0

    def figures(self, envs: Bool) -> Float64:
        """See :class:`Feature`; in the order of ``LOAD_METRICS``."""
        return self._sums[envs, None]


@lean_kernel
def count_loads(fleet: Fleet, outcome: Outcome, loads: Loads, task_keys: NDArray[np.uint64], sums: Float64) -> None:
    """Add the loads that were delivered in a step.

    Args:
        fleet: ``number`` is still that of the task that was delivered.
        outcome: ``served`` of the step.
        loads: Of :func:`make_loads`.
        task_keys: (E,) uint64, stream of the tasks.
        sums: (E,) float64, advanced.
    """
    for env in range(fleet.cell.shape[0]):
        for robot in range(fleet.cell.shape[1]):
            if outcome.served[env, robot] == 2:
                sums[env] += load_kg(loads, task_keys[env], int(fleet.number[env, robot]))
