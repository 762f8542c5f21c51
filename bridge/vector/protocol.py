"""What serial and asynchronous vector environments have in common."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bridge.errors import CallOrderError, SpecMismatchError
from bridge.roster import Roster
from bridge.scenario import Scenario
from bridge.scenario_mix import ScenarioMix, require_weights

__all__ = ["VectorEnv", "VectorState", "require_mix", "require_resettable", "require_state"]


class VectorState(Enum):
    """Where a vector environment is in its life.

        NEW --reset--> READY --step_async--> STEPPING --step_wait--> READY
        any --a world or worker fails--> FAILED
        any --close--> CLOSED

    ``reset`` is also allowed in READY; in FAILED only ``close`` is.
    """

    NEW = "not reset yet"
    READY = "ready for a step"
    STEPPING = "waiting for step_wait"
    FAILED = "failed"
    CLOSED = "closed"


def require_state(call: str, state: VectorState, allowed: tuple[VectorState, ...], advice: str) -> None:
    """Raise unless a call is allowed now.

    Raises:
        CallOrderError: Names the call, the states that allow it and the present one.
    """
    if state not in allowed:
        expected = " or ".join(repr(choice.value) for choice in allowed)
        raise CallOrderError(f"{call}: expected the environment to be {expected}, got {state.value!r}. {advice}")


def require_resettable(call: str, state: VectorState, seed: int | None, env_mask: NDArray[np.bool_] | None) -> None:
    """Raise unless a reset is allowed now; the first one needs a seed and all environments.

    Raises:
        CallOrderError: The environment failed, is closed or in a step, or the first reset is partial or unseeded.
    """
    require_state(call, state, (VectorState.NEW, VectorState.READY), "Make a new environment.")
    if state is VectorState.NEW and (seed is None or env_mask is not None):
        found = "no seed" if seed is None else "an env_mask"
        raise CallOrderError(f"{call}: expected the first reset to seed all environments, got {found}. Pass seed=...")


def require_mix(call: str, state: VectorState, scenario: Scenario | ScenarioMix, weights: Sequence[float]) -> None:
    """Raise unless the weights of scenarios can be changed to ``weights`` now.

    Raises:
        CallOrderError: The environment failed, is closed or in a step.
        SpecMismatchError: It plays a single scenario, or there is not one weight for each.
    """
    require_state(call, state, (VectorState.NEW, VectorState.READY), "Wait for the step first.")
    if not isinstance(scenario, ScenarioMix):
        raise SpecMismatchError(
            f"{call}: expected an environment made with a ScenarioMix, got one of the single scenario "
            f"{scenario.name!r}."
        )
    require_weights(weights, scenario.names)


@runtime_checkable
class VectorEnv(Roster, Protocol):
    """A roster whose step can be started and awaited separately, and which is a context manager.

    Between ``step_async`` and ``step_wait`` the arrays belong to the
    environment: neither read nor write them.
    """

    @property
    def num_envs(self) -> int:
        """Number of environments E."""
        ...

    @property
    def state(self) -> VectorState:
        """Which calls are allowed now."""
        ...

    def step_async(self) -> None:
        """Start a step with the actions in the arrays.

        Raises:
            CallOrderError: Not READY.
        """
        ...

    def step_wait(self) -> None:
        """Wait for the step that was started; afterwards the arrays hold its outcome.

        After any error but a CallOrderError the state is FAILED.

        Raises:
            CallOrderError: Not STEPPING.
            ActionError: As :meth:`bridge.roster.Roster.step`.
            WorldDiedError: As :meth:`bridge.roster.Roster.step`.
            WorldTimeoutError: As :meth:`bridge.roster.Roster.step`.
        """
        ...

    def set_scenario_weights(self, weights: Sequence[float]) -> None:
        """Change how likely each scenario of the mix is for episodes that begin from now on.

        Weights that are 0 but for one make every environment swap to that scenario when its episode ends,
        or at the next reset.

        Raises:
            CallOrderError: Neither NEW nor READY.
            SpecMismatchError: The environments play a single scenario, or there is not one weight for each.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
