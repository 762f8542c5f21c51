"""Every exception that agv-bridge raises on purpose.

    AgvBridgeError
    ├── ScenarioError (ValueError)          a scenario file, key by key
    ├── LayoutError (ValueError)            a map file that cannot become a layout
    ├── SpecMismatchError (ValueError)      two parts disagree on observations, actions or roles
    ├── ActionError (ValueError)            an action that the world cannot take
    ├── CallOrderError (RuntimeError)       step before reset, use after close, ...
    ├── CheckpointError (ValueError)        a run folder or checkpoint that cannot be read
    ├── ExportError (ValueError)            a model that Unity would refuse or run differently
    ├── TrainingError (RuntimeError)        learning cannot go on (NaN, no data)
    ├── MissingExtraError (ImportError)     an optional dependency is not installed
    ├── WorldDiedError (RuntimeError)       a process that runs the world has ended
    │   ├── WorkerDiedError                 a vector-environment worker
    │   └── UnityPlayerDiedError            a Unity player
    ├── WorldTimeoutError (TimeoutError)    a process that runs the world did not answer in time
    │   ├── WorkerTimeoutError
    │   └── UnityTimeoutError
    ├── UnityPortError (OSError)            a port that cannot be listened on
    └── UnityProtocolError (ValueError)     bytes from a player that break the protocol
        └── UnityVersionError               a player of another protocol version

Messages have one form: ``<where>: expected <what>, got <value>. <what to do>``.
"""

from __future__ import annotations

__all__ = [
    "ActionError",
    "AgvBridgeError",
    "CallOrderError",
    "CheckpointError",
    "ExportError",
    "LayoutError",
    "MissingExtraError",
    "ScenarioError",
    "SpecMismatchError",
    "TrainingError",
    "UnityPlayerDiedError",
    "UnityPortError",
    "UnityProtocolError",
    "UnityTimeoutError",
    "UnityVersionError",
    "WorkerDiedError",
    "WorkerTimeoutError",
    "WorldDiedError",
    "WorldTimeoutError",
]


class AgvBridgeError(Exception):
    """Base of every error that agv-bridge raises on purpose."""


class ScenarioError(AgvBridgeError, ValueError):
    """A scenario file is wrong; the message lists every fault of the file."""


class LayoutError(AgvBridgeError, ValueError):
    """A map file cannot be turned into a layout."""


class SpecMismatchError(AgvBridgeError, ValueError):
    """Two parts disagree on an observation layout, an action space or the roles."""


class ActionError(AgvBridgeError, ValueError):
    """An action has the wrong shape, range or is masked."""


class CallOrderError(AgvBridgeError, RuntimeError):
    """A method was called in a state that does not allow it."""


class CheckpointError(AgvBridgeError, ValueError):
    """A run folder or a checkpoint is missing, damaged or of another version."""


class ExportError(AgvBridgeError, ValueError):
    """A model breaks Unity's contract or acts differently from its policy."""


class TrainingError(AgvBridgeError, RuntimeError):
    """Learning cannot go on."""


class MissingExtraError(AgvBridgeError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class WorldDiedError(AgvBridgeError, RuntimeError):
    """A process that runs the world has ended."""


class WorkerDiedError(WorldDiedError):
    """A worker of a vector environment raised or was killed."""


class UnityPlayerDiedError(WorldDiedError):
    """A Unity player has crashed or quit."""


class WorldTimeoutError(AgvBridgeError, TimeoutError):
    """A process that runs the world did not answer in time."""


class WorkerTimeoutError(WorldTimeoutError):
    """A worker of a vector environment did not answer in time."""


class UnityTimeoutError(WorldTimeoutError):
    """A Unity player did not connect or answer in time."""


class UnityPortError(AgvBridgeError, OSError):
    """A port on which a player was to connect cannot be listened on."""


class UnityProtocolError(AgvBridgeError, ValueError):
    """A player sent something that the ML-Agents protocol does not allow."""


class UnityVersionError(UnityProtocolError):
    """A player speaks another version of the ML-Agents protocol."""
