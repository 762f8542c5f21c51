"""Errors of :class:`~bridge.unity.environment.UnityEnvironment` that are ``mlagents_envs``' own at the same time.

Code written for Unity's package catches the classes of ``mlagents_envs.exception``;
code written for this one those of :mod:`bridge.errors`. At the border an error
becomes one that both catch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bridge.errors import (
    ActionError,
    AgvBridgeError,
    CallOrderError,
    SpecMismatchError,
    UnityPlayerDiedError,
    UnityPortError,
    UnityProtocolError,
    UnityTimeoutError,
    UnityVersionError,
)
from bridge.unity.compat import import_mlagents_envs

import_mlagents_envs()

from mlagents_envs.exception import (  # noqa: E402
    UnityActionException,
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityObservationException,
    UnitySideChannelException,
    UnityTimeOutException,
    UnityWorkerInUseException,
)

__all__ = ["mlagents_errors"]


class _TimeoutError(UnityTimeoutError, UnityTimeOutException):  # type: ignore[misc]
    """The player did not connect or answer in time."""


class _DiedError(UnityPlayerDiedError, UnityEnvironmentException, UnityCommunicatorStoppedException):  # type: ignore[misc]
    """The player crashed (an environment exception there) or quit (a stopped communicator)."""


class _VersionError(UnityVersionError, UnityEnvironmentException):  # type: ignore[misc]
    """The player speaks another version of the protocol."""


class _UnreadableError(UnityEnvironmentException, UnityCommunicationException, UnityObservationException):  # type: ignore[misc]
    """Whatever ``mlagents_envs`` may raise for a message."""


class _ProtocolError(UnityProtocolError, _UnreadableError):
    """The player sent something that cannot be."""


class _PortError(UnityPortError, UnityWorkerInUseException, UnityEnvironmentException):  # type: ignore[misc]
    """The port is taken."""


class _ActionError(ActionError, UnityActionException):  # type: ignore[misc]
    """An action that the agents cannot take."""


class _CallOrderError(CallOrderError, UnityEnvironmentException):  # type: ignore[misc]
    """A call before the reset, or after close."""


class _ChannelError(SpecMismatchError, UnitySideChannelException):  # type: ignore[misc]
    """Two side channels have one id."""


# A class stands before those that it inherits from.
_TWINS: Final[tuple[tuple[type[AgvBridgeError], type[AgvBridgeError]], ...]] = (
    (UnityTimeoutError, _TimeoutError),
    (UnityPlayerDiedError, _DiedError),
    (UnityVersionError, _VersionError),
    (UnityProtocolError, _ProtocolError),
    (UnityPortError, _PortError),
    (ActionError, _ActionError),
    (CallOrderError, _CallOrderError),
    (SpecMismatchError, _ChannelError),
)


@contextmanager
def mlagents_errors() -> Iterator[None]:
    """Let errors of this package leave as ones that are also ``mlagents_envs``' own; also a decorator."""
    try:
        yield
    except AgvBridgeError as error:
        for mine, twin in _TWINS:
            if isinstance(error, mine):
                both = twin(*error.args)
                for note in getattr(error, "__notes__", ()):
                    both.add_note(note)
                raise both.with_traceback(error.__traceback__) from error.__cause__
        raise
