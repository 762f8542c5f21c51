"""One readable file per algorithm, and the registry of their names.

Adding an algorithm is a learner, its configuration model (free of torch) and
one line here; see ``docs/adding_an_algorithm.md``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from bridge.specs import WorldSpec
    from trainers.config import TrainConfig
    from trainers.learner import Learner

__all__ = ["AlgorithmKind", "algorithm_kind", "algorithm_kinds", "make_learner"]


class AlgorithmKind(NamedTuple):
    """Where an algorithm's configuration model and its learner are, each as ``module:class``."""

    name: str
    config: str
    learner: str

    def config_model(self) -> type[Any]:
        """The subclass of ``TrainConfig`` that holds the algorithm's hyper-parameters."""
        model: type[Any] = _load(self.config)
        return model


_KINDS = {
    kind.name: kind
    for kind in (
        AlgorithmKind(
            "mappo", "trainers.algorithms.mappo_config:MappoConfig", "trainers.algorithms.mappo:MappoLearner"
        ),
    )
}


def algorithm_kinds() -> tuple[AlgorithmKind, ...]:
    """Every algorithm, in a fixed order."""
    return tuple(_KINDS.values())


def algorithm_kind(name: str) -> AlgorithmKind:
    """The algorithm of this name.

    Raises:
        KeyError: There is no such algorithm.
    """
    return _KINDS[name]


def make_learner(spec: WorldSpec, config: TrainConfig) -> Learner:
    """A fresh learner of the configured algorithm for a world."""
    learner: Learner = _load(_KINDS[config.algorithm].learner)(spec, config)
    return learner


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
