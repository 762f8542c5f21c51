"""Deadlocks and livelocks that the simulator has found, as events of a replay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bridge.replay.recording import ReplayEvent
from bridge.warehouse.jams import DEADLOCKED
from bridge.warehouse.simulator import WarehouseSimulator

__all__ = ["read_jams"]


def read_jams(simulator: WarehouseSimulator, env: int) -> Iterator[ReplayEvent]:
    """One event per deadlock and per livelock that began in the last step of an environment."""
    jams = simulator.jams
    if jams is None:
        return
    robots = np.flatnonzero(jams.began[env])
    for group in np.unique(jams.group[env, robots]):
        members = robots[jams.group[env, robots] == group]
        kind = "deadlock" if jams.began[env, members[0]] == DEADLOCKED else "livelock"
        yield ReplayEvent(int(simulator.steps[env]), kind, tuple(members.tolist()))
