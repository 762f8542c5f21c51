"""Learning: what turns a world into a policy.

Names are loaded at first use, so that importing the package does not import
torch; what needs it says which extra to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bridge.errors import MissingExtraError

if TYPE_CHECKING:
    from trainers.algorithms import make_learner
    from trainers.comparison import Comparison, compare_run
    from trainers.config import TrainConfig, parse_overrides, train_config
    from trainers.evaluation import EvaluationRow, evaluate
    from trainers.exporting import export_run
    from trainers.loading import load_policy
    from trainers.policy import TorchPolicy
    from trainers.progress import ProgressListener, TrainProgress, TrainResult, console_progress
    from trainers.runs import RunFolder
    from trainers.training import train

__all__ = [
    "Comparison",
    "EvaluationRow",
    "ProgressListener",
    "RunFolder",
    "TorchPolicy",
    "TrainConfig",
    "TrainProgress",
    "TrainResult",
    "compare_run",
    "console_progress",
    "evaluate",
    "export_run",
    "load_policy",
    "make_learner",
    "parse_overrides",
    "train",
    "train_config",
]

_MODULES = {
    "Comparison": "trainers.comparison",
    "EvaluationRow": "trainers.evaluation",
    "ProgressListener": "trainers.progress",
    "RunFolder": "trainers.runs",
    "TorchPolicy": "trainers.policy",
    "TrainConfig": "trainers.config",
    "TrainProgress": "trainers.progress",
    "TrainResult": "trainers.progress",
    "compare_run": "trainers.comparison",
    "console_progress": "trainers.progress",
    "evaluate": "trainers.evaluation",
    "export_run": "trainers.exporting",
    "load_policy": "trainers.loading",
    "make_learner": "trainers.algorithms",
    "parse_overrides": "trainers.config",
    "train": "trainers.training",
    "train_config": "trainers.config",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'trainers' has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "tensorboard", "matplotlib"):
            raise
        raise MissingExtraError(
            f"trainers.{name}: expected the package {error.name!r} to be installed, got none. "
            "Run: pip install 'agv-bridge[train]'"
        ) from error
