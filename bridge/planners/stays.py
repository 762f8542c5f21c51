"""How many steps robots on the grid stay in the cells that they come to, in the mean: slow zones, execution delays.

A robot that comes into a cell stands there while anything holds it: for ``k`` steps a zone of lower speed or a
service, and meanwhile or afterwards the delays of ``randomisation.execution_delays``. After every step that is none
of a delay, and after the last one of a delay, another one begins with probability ``q`` and lasts ``L`` steps,
whatever robots do. So the mean number ``g(k)`` of steps for which a robot stands is

    g(0) = q * (E[L] + g(0))                                        = q / (1 - q) * E[L]
    g(k) = q * E[L + g(max(k - L, 0))] + (1 - q) * (1 + g(k - 1)),  at least k.

A move into a cell therefore takes ``1 + g(k)`` steps in the mean. This holds whatever drives the robots: a delay is
drawn after the move that it follows, and nothing shortens it. With ``N`` moves until the end of a window of ``T``
steps, the sum of ``1 + g`` over all of them has no larger mean than ``T`` and what is left of the last stay then (Wald
1944; ``N`` is a stopping time). The last stay is none of a transport that is done, and what is left of a
delay has no larger mean than ``q * E[L (L + 1) / 2]`` at any time: so much is granted. Hence this is no
asymptotic statement: it bounds the mean over windows of any length.

Not counted: delays of robots that may leave a cell otherwise than by a move of theirs (contact rule ``despawn``,
``resolve: relocate``), and of drives, which coast on while they are delayed.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.config import DifferentialDriveConfig, ServiceConfig, WarehouseConfig
from bridge.warehouse.config_randomisation import ExecutionDelayConfig
from bridge.warehouse.drives.speed_zones import steps_per_cell
from bridge.warehouse.layout import Layout

__all__ = ["Stays", "make_stays", "standing_steps"]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

_MAX_HOLD: Final = 5_000
"""Of longer ones only the hold itself is counted, and what delays add to one of this length."""

_ALMOST_SURE: Final = 1.0 - 1e-9


class Stays(NamedTuple):
    """Mean numbers of steps, at least; P pick-ups, D deliveries.

    Attributes:
        through: (cells,) float64, for a move into each cell and until the robot can leave it.
        turn: The same for a quarter turn.
        pickups: (P,) float64, for which robots are held at each pick-up besides their service and the step of leaving.
        deliveries: (D,) float64, likewise.
        overdue: What delays have left at the end of a window; 0 without delays.
    """

    through: Float64
    turn: float
    pickups: Float64
    deliveries: Float64
    overdue: float

    @property
    def are_single(self) -> bool:
        """Every cell takes one step."""
        return bool(self.through.max() == 1.0)

    @property
    def longest(self) -> float:
        """What the last of the stays in a cell may have left at the end of a window."""
        return float(self.through.max()) - 1.0 + self.overdue


def make_stays(config: WarehouseConfig, layout: Layout, *, at_least: bool = False) -> Stays:
    """The stays of a scenario.

    Args:
        config: The warehouse.
        layout: Its floor plan.
        at_least: Of the luckiest robot instead of means: never delayed, and at stations for longer than any hold.
    """
    picks, drops = np.zeros(len(layout.pickups)), np.zeros(len(layout.deliveries))
    drive = config.drive
    if isinstance(drive, DifferentialDriveConfig):
        return Stays(np.ones(layout.blocked.size), 1.0, picks, drops, 0.0)
    walks = _leaves_cells_by_moves_alone(config)
    delays = None if config.randomisation is None else config.randomisation.execution_delays
    delays = None if at_least or not walks else delays
    holds = steps_per_cell(layout, drive.step_s) - 1
    if walks and not at_least:
        service = config.tasks.service or ServiceConfig(pick_s=0.0, drop_s=0.0)
        drops = _held_beyond_service(delays, holds[layout.deliveries], service.drop_s / drive.step_s, service.spread)
        drops[~_has_one_mark(layout, layout.deliveries)] = 0.0
        if not config.tasks.has_errands:
            picks = _held_beyond_service(delays, holds[layout.pickups], service.pick_s / drive.step_s, service.spread)
            picks[~_has_one_mark(layout, layout.pickups)] = 0.0
    return Stays(
        through=1.0 + standing_steps(delays, holds),
        turn=1.0 + float(standing_steps(delays, np.zeros(1, np.int32))[0]),
        pickups=picks,
        deliveries=drops,
        overdue=0.0 if delays is None else _overdue_steps(delays),
    )


def standing_steps(delays: ExecutionDelayConfig | None, holds: Int32) -> Float64:
    """``g`` of each number of steps in ``holds``, which may have any shape: float64."""
    if delays is None or holds.size == 0:
        return holds.astype(np.float64)
    chance, (lengths, shares) = _chance(delays), _durations(delays)
    table = np.zeros(min(int(holds.max()), _MAX_HOLD) + 1)
    table[0] = chance / (1.0 - chance) * float(shares @ lengths)
    for held in range(1, len(table)):
        delayed = lengths + table[np.maximum(held - lengths, 0)]
        table[held] = chance * float(shares @ delayed) + (1.0 - chance) * (1.0 + table[held - 1])
    return np.maximum(table[np.minimum(holds, len(table) - 1)], holds)


def _leaves_cells_by_moves_alone(config: WarehouseConfig) -> bool:
    relocates = config.deadlock is not None and config.deadlock.resolve == "relocate"
    return not relocates and config.contact.rule != "despawn"


def _has_one_mark(layout: Layout, cells: Int32) -> Bool:
    """Stations where nobody has stood before: no others in their cells, and no parking places or chargers."""
    marks = np.concatenate([layout.pickups, layout.deliveries, layout.parking, layout.chargers])
    once: Bool = np.bincount(marks, minlength=layout.blocked.size)[cells] == 1
    return once


def _held_beyond_service(delays: ExecutionDelayConfig | None, holds: Int32, mean: float, spread: float) -> Float64:
    """For how many steps robots are held longer than by a service of any length that it may have."""
    shortest, longest = math.ceil(mean * (1.0 - spread) - 1e-9), math.ceil(mean * (1.0 + spread) - 1e-9)
    services = np.arange(max(shortest, 0), longest + 1, dtype=np.int32)
    kinds, kind_of = np.unique(holds, return_inverse=True)
    beyond = standing_steps(delays, np.maximum(kinds[:, None], services)) - services
    return np.asarray(beyond.min(axis=1)[kind_of], np.float64)


def _chance(delays: ExecutionDelayConfig) -> float:
    """``q``: that a delay begins after a step."""
    chance = delays.probability if delays.events == "bernoulli" else -math.expm1(-delays.probability)
    return min(chance, _ALMOST_SURE)


def _durations(delays: ExecutionDelayConfig) -> tuple[Int32, Float64]:
    """Lengths that a delay may have, in steps, and how likely each is."""
    lengths = np.arange(delays.min_steps, delays.max_steps + 1, dtype=np.int32)
    if delays.duration == "uniform" or len(lengths) == 1:
        return lengths, np.full(len(lengths), 1.0 / len(lengths))
    # Rounded to whole steps, and what lies beyond the ends with these.
    span = float(lengths[-1] - lengths[0])
    middle, deviation = lengths[0] + delays.mean_ratio * span, delays.std_ratio * span
    if deviation == 0.0:
        return lengths, (lengths == math.floor(middle + 0.5)).astype(np.float64)
    borders = (lengths[:-1] + 0.5 - middle) / (deviation * math.sqrt(2.0))
    below = np.array([0.0, *(0.5 * (1.0 + math.erf(border)) for border in borders), 1.0])
    return lengths, np.diff(below)


def _overdue_steps(delays: ExecutionDelayConfig) -> float:
    """``q * E[L (L + 1) / 2]``, and the longest delay at most."""
    lengths, shares = _durations(delays)
    left = _chance(delays) * float(shares @ (lengths * (lengths + 1.0) / 2.0))
    return min(left, float(lengths[-1]))
