"""All environments in this process: the simplest vector environment, and the oracle for the others."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bridge.mixed_roster import MixedRoster, open_scenarios
from bridge.roster import RosterArrays
from bridge.scenario import Scenario
from bridge.scenario_mix import ScenarioMix
from bridge.specs import WorldSpec
from bridge.swapped_roster import SwappedRoster
from bridge.vector.protocol import VectorState, require_mix, require_resettable, require_state

__all__ = ["SerialVectorEnv"]


class SerialVectorEnv:
    """Steps the environments of a scenario one after the other, without workers."""

    def __init__(self, scenario: Scenario | ScenarioMix, num_envs: int) -> None:
        """Open the world.

        Args:
            scenario: The scenario, or several to swap between episodes.
            num_envs: Number of environments E.

        Raises:
            ScenarioError: As :func:`bridge.registry.open_world`.
            MissingExtraError: As :func:`bridge.registry.open_world`.
            SpecMismatchError: One policy could not drive all scenarios of a mix.
        """
        self._scenario = scenario
        self._roster = open_scenarios(scenario).roster(num_envs)
        self._state = VectorState.NEW

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        return self._roster.spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill."""
        return self._roster.arrays

    @property
    def num_envs(self) -> int:
        """Number of environments E."""
        return self.arrays.num_envs

    @property
    def state(self) -> VectorState:
        """Which calls are allowed now."""
        return self._state

    def reset(self, seed: int | None = None, env_mask: NDArray[np.bool_] | None = None) -> None:
        """See :meth:`bridge.roster.Roster.reset`."""
        require_resettable("SerialVectorEnv.reset", self._state, seed, env_mask)
        self._state = VectorState.FAILED  # unless what follows succeeds
        self._roster.reset(seed, env_mask)
        self._state = VectorState.READY

    def step_async(self) -> None:
        """Start a step; the work is done in :meth:`step_wait`."""
        require_state("SerialVectorEnv.step_async", self._state, (VectorState.READY,), "Call reset first.")
        self._state = VectorState.STEPPING

    def step_wait(self) -> None:
        """Do the step that was started."""
        require_state("SerialVectorEnv.step_wait", self._state, (VectorState.STEPPING,), "Call step_async first.")
        self._state = VectorState.FAILED  # unless what follows succeeds
        self._roster.step()
        self._state = VectorState.READY

    def step(self) -> None:
        """``step_async`` and ``step_wait``."""
        self.step_async()
        self.step_wait()

    def set_scenario_weights(self, weights: Sequence[float]) -> None:
        """See :meth:`bridge.vector.VectorEnv.set_scenario_weights`."""
        require_mix("SerialVectorEnv.set_scenario_weights", self._state, self._scenario, weights)
        assert isinstance(self._roster, MixedRoster | SwappedRoster)
        self._roster.set_weights(weights)

    def close(self) -> None:
        """Release the world; may be called twice."""
        if self._state is not VectorState.CLOSED:
            self._state = VectorState.CLOSED
            self._roster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
