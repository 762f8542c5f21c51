"""What serial and asynchronous vector environments have in common."""

from __future__ import annotations

from enum import Enum
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bridge.errors import CallOrderError
from bridge.roster import Roster

__all__ = ["VectorEnv", "VectorState", "require_resettable", "require_state"]


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

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
