"""Why a robot stood in a step, where the others have nothing to do with it.

Most robots that stand wait for others, or are told to. The simulator cannot tell these apart:
a policy that sees a robot in its way and says *stay* waits for traffic, too. But it knows when
a robot stands because it is being served, because driving takes it that long, or because it
cannot drive; such steps are not counted as waiting (``metrics``, ``work.service``).
"""

from __future__ import annotations

from typing import Final

from bridge.jit import lean_kernel
from bridge.warehouse.feature import HELD_HELPING, HELD_SERVED, HELD_SLOW
from bridge.warehouse.fleet import Fleet, Outcome, Pose

__all__ = ["DRIVES", "HALTED", "SERVED", "note_pauses"]

# Values of ``Outcome.pause``; 0 for a robot that moved, or stood for no reason that is known.
DRIVES: Final = 1
SERVED: Final = 2
HALTED: Final = 3


@lean_kernel
def note_pauses(fleet: Fleet, pose: Pose, outcome: Outcome) -> None:
    """Write ``outcome.pause`` after the motion, before anything else has changed who is held."""
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        for robot in range(num_robots):
            pause = 0
            if outcome.moved_m[env, robot] == 0.0:
                held = fleet.held[env, robot]
                if held & (HELD_SERVED | HELD_HELPING):
                    pause = SERVED
                elif fleet.charge[env, robot] <= 0.0:
                    pause = HALTED
                elif held & HELD_SLOW or pose.turn_rate[env, robot] != 0.0:
                    pause = DRIVES
                elif held != 0:
                    pause = HALTED
            outcome.pause[env, robot] = pause
