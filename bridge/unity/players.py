"""Several players side by side as one roster, each with its own port, log and seed.

While one player thinks, the others do: every player is stepped by a thread of
its own, which does nothing but wait for it most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import CallOrderError, SpecMismatchError
from bridge.roster import RosterArrays
from bridge.specs import WorldSpec
from bridge.unity.roster import UnityRoster

__all__ = ["UnityPlayers"]

_EXTRA_WAIT_S: Final = 30.0


class UnityPlayers:
    """Steps several players together.

    Args:
        spec: What all of them look like.
        arrays: Where to write; E environments.
        openers: Open a player over its environments' arrays, one after the other; each gets as many as the
            ``sizes`` say.
        sizes: Number of environments of each player, E together.
        timeout_s: Longest time that one of them may need for a step or to start.

    Raises:
        UnityPlayerDiedError: A player cannot be started, or ended before it was connected.
        UnityTimeoutError: One did not connect in time.
        UnityVersionError: One speaks another version of the protocol.
    """

    def __init__(
        self,
        spec: WorldSpec,
        arrays: RosterArrays,
        openers: Sequence[Callable[[RosterArrays], UnityRoster]],
        sizes: Sequence[int],
        timeout_s: float,
    ) -> None:
        if sum(sizes) != arrays.num_envs or len(sizes) != len(openers):
            raise SpecMismatchError(
                f"UnityPlayers: expected {len(openers)} players with {arrays.num_envs} environments, got {list(sizes)}."
            )
        self._spec = spec
        self._arrays = arrays
        self._timeout_s = timeout_s + _EXTRA_WAIT_S
        self._threads = ThreadPoolExecutor(len(openers), "agv-bridge-player")
        borders = np.cumsum([0, *sizes]).tolist()
        self._ranges = list(pairwise(borders))
        self._rosters: list[UnityRoster] = []
        views = [arrays.envs(start, stop) for start, stop in self._ranges]
        opened = [self._threads.submit(opener, view) for opener, view in zip(openers, views, strict=True)]
        wait(opened, self._timeout_s)
        self._rosters = [job.result() for job in opened if job.done() and job.exception() is None]
        if len(self._rosters) < len(opened):
            for job in opened:
                job.add_done_callback(_close_late)
            self.close()
            for job in opened:
                job.result(0.0)

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        return self._spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill."""
        return self._arrays

    @property
    def rosters(self) -> tuple[UnityRoster, ...]:
        """The players, in the order of their environments."""
        return tuple(self._rosters)

    @property
    def restarts(self) -> int:
        """How often players were started again after they had failed."""
        return sum(roster.restarts for roster in self._rosters)

    def set_scenario(self, scenario: Mapping[str, Any]) -> None:
        """Let all players play another scenario; see :meth:`bridge.unity.roster.UnityRoster.set_scenario`."""
        for roster in self._rosters:
            roster.set_scenario(scenario)

    def reset(self, seed: int | None = None, env_mask: NDArray[np.bool_] | None = None) -> None:
        """Start an episode in every environment, or in those of ``env_mask``: whole players only.

        Raises:
            CallOrderError: The mask takes only some of a player's environments; or as
                :meth:`bridge.unity.roster.UnityRoster.reset`, as are all other errors.
        """
        mask = np.ones(self._arrays.num_envs, np.bool_) if env_mask is None else np.asarray(env_mask, np.bool_)
        chosen = []
        for roster, (start, stop) in zip(self._rosters, self._ranges, strict=True):
            part = mask[start:stop]
            if part.any() and not part.all():
                raise CallOrderError(
                    f"UnityPlayers.reset: expected all or none of the environments {start} to {stop - 1} to be reset, "
                    "got a mask that takes some. A player resets all its areas together: use 'areas: 1'."
                )
            if part.any():
                chosen.append(roster)
        self._together([lambda roster=roster: roster.reset(seed) for roster in chosen])  # type: ignore[misc]

    def step(self) -> None:
        """Step all players at once; see :meth:`bridge.unity.roster.UnityRoster.step`."""
        self._together([roster.step for roster in self._rosters])

    def close(self) -> None:
        """Make the players quit; may be called twice."""
        for job in [self._threads.submit(roster.close) for roster in self._rosters] if self._rosters else []:
            job.result(self._timeout_s)
        self._rosters = []
        self._threads.shutdown(wait=False)

    def _together(self, calls: Sequence[Callable[[], None]]) -> None:
        """Run calls side by side; when all have ended, raise the first error."""
        if not self._rosters:
            raise CallOrderError("UnityPlayers: expected open players, got a call after close.")
        jobs = [self._threads.submit(call) for call in calls]
        wait(jobs)  # each of them has time limits of its own
        for job in jobs:
            job.result(0.0)


def _close_late(job: Future[UnityRoster]) -> None:
    """Close a player that was opened after another one had failed."""
    if job.exception() is None:
        job.result().close()
