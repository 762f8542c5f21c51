"""What meetings of carriers and pickers are kept in."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel_part
from bridge.warehouse.fleet import Fleet, Outcome

__all__ = ["CALLED", "MEETINGS", "PRESENT", "WAITED", "MeetingRules", "MeetingState", "wants_to_fetch"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]

# Places in ``MeetingState.sums``.
MEETINGS: Final = 0
WAITED: Final = 1
CALLED: Final = 2
PRESENT: Final = 3


class MeetingRules(NamedTuple):
    """What is fixed.

    Attributes:
        is_picker: (N,) bool.
        place: (G,) int32, goal of the meeting place of each pick-up, by the pick-up's goal; -1 for other goals.
        slow_mps: Largest speed at which a picker helps.
        takes_time: Stations take their time: who waits is left to ``service``.
        radius_m: How near to the centre of a station's cell counts as there; negative: in its cell.
    """

    is_picker: Bool
    place: Int32
    slow_mps: float
    takes_time: bool
    radius_m: float


class MeetingState(NamedTuple):
    """Who helps whom.

    Attributes:
        station: (E, N) int32, goal of the pick-up that a picker is called to; -1 for none.
        helper: (E, N) int32, picker that stands beside a carrier at its pick-up; -1 for nobody.
        stands: (E, N) int32, steps that a carrier has stood at its pick-up; 0 elsewhere.
        partner_is_there: (E, N) bool, a picker helps this carrier; or a carrier stands where this picker is called to.
        called: (E, G) bool, pick-ups that a picker is called to.
        went_first: (E, N) bool, this picker has been given the right of way over the queue since it was called.
        demand: (G,) int32, scratch: 1 + the longest ``Fleet.waiting`` of the carriers that go to a pick-up; 0 for none.
        awaited: (G,) bool, scratch: a carrier stands there.
        sums: (E, 4) float64, loads fetched, steps waited, steps called, steps of pickers on the floor.
    """

    station: Int32
    helper: Int32
    stands: Int32
    partner_is_there: Bool
    called: Bool
    went_first: Bool
    demand: Int32
    awaited: Bool
    sums: NDArray[np.float64]


@kernel_part
def wants_to_fetch(fleet: Fleet, outcome: Outcome, env: int, robot: int) -> bool:
    """Has a task, and its load is still to be fetched.

    Part of kernels in several files, whose caches do not notice changes here; their files do not change what it means.
    """
    lives = fleet.alive[env, robot] and not outcome.leaving[env, robot]
    return bool(lives and fleet.pickup[env, robot] >= 0 and not fleet.loaded[env, robot])
