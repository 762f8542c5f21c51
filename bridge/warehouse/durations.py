"""Times of a scenario in steps of its simulation."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["NEVER_STEPS", "steps_of"]

NEVER_STEPS: Final = 1 << 30
"""More steps than any episode has, and few enough for 32 bits."""


def steps_of(time_s: float, step_s: float) -> int:
    """The smallest number of steps that lasts for a time; :data:`NEVER_STEPS` for what no episode lasts.

    Args:
        time_s: The time in s.
        step_s: Simulated time of a step in s.
    """
    return math.ceil(min(time_s / step_s - 1e-9, NEVER_STEPS))
