"""Decides which stage of a curriculum is played, from the episodes that ended on it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

from bridge.errors import SpecMismatchError
from bridge.specs import WorldSpec
from trainers.scenario_config import CurriculumStage

__all__ = ["RETURN_FIGURES", "Curriculum"]

RETURN_FIGURES = ("return_sum", "return_mean")
"""Figures of an episode that every world has, beside its own."""


class Curriculum:
    """The running stage, and the figures that decide when it ends.

    A stage is left when the mean over its last ``episodes`` episodes, all of them played on it since it was
    entered, is above ``advance_above`` or below ``fall_back_below``. Episodes that began on another stage and
    end after the change do not count.

    Args:
        stages: The stages, at least one.
        spec: What the worlds look like.

    Raises:
        SpecMismatchError: A stage names a figure that the worlds do not have, or of which less is better.
    """

    def __init__(self, stages: Sequence[CurriculumStage], spec: WorldSpec) -> None:
        self._stages = tuple(stages)
        for index, stage in enumerate(self._stages):
            _require_metric(stage.metric, spec, f"train.curriculum[{index}].metric")
        self._stage = self._highest = 0
        self._values: deque[float] = deque(maxlen=self._stages[0].episodes)

    @property
    def stage(self) -> int:
        """Index of the running stage."""
        return self._stage

    @property
    def highest(self) -> int:
        """Index of the latest stage that was ever entered."""
        return self._highest

    @property
    def is_highest(self) -> bool:
        """No later stage than the running one has been played yet."""
        return self._stage == self._highest

    @property
    def weights(self) -> tuple[float, ...]:
        """Weights of the scenarios: 1 for the running stage, 0 for the others."""
        return tuple(float(index == self._stage) for index in range(len(self._stages)))

    def record(self, scenario: int, figures: dict[str, float]) -> None:
        """Take in an episode that ended.

        Args:
            scenario: The stage that it was played on.
            figures: Its figures by name.
        """
        if scenario == self._stage:
            self._values.append(figures[self._stages[self._stage].metric])

    def advance(self) -> str | None:
        """Change the stage if the last episodes say so; a sentence for people if it did."""
        stage = self._stages[self._stage]
        if len(self._values) < stage.episodes:
            return None
        mean = math.fsum(self._values) / len(self._values)
        if stage.advance_above is not None and mean > stage.advance_above:
            return self._enter(self._stage + 1, f"above {stage.advance_above:g}", mean)
        if stage.fall_back_below is not None and mean < stage.fall_back_below:
            return self._enter(self._stage - 1, f"below {stage.fall_back_below:g}", mean)
        return None

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {"stage": self._stage, "highest": self._highest, "values": list(self._values)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state`."""
        self._stage, self._highest = int(state["stage"]), int(state["highest"])
        self._values = deque(state["values"], maxlen=self._stages[self._stage].episodes)

    def _enter(self, stage: int, why: str, mean: float) -> str:
        left = self._stages[self._stage]
        self._stage, self._highest = stage, max(stage, self._highest)
        self._values = deque(maxlen=self._stages[stage].episodes)
        return (
            f"curriculum: {left.metric} was {mean:.4g} over {left.episodes} episodes of {left.scenario}, {why}; "
            f"new episodes are played on stage {stage + 1} of {len(self._stages)}, {self._stages[stage].scenario}."
        )


def _require_metric(name: str, spec: WorldSpec, where: str) -> None:
    better = {metric.name: metric.higher_is_better for metric in spec.metrics}
    known = [*RETURN_FIGURES, *(metric for metric, higher in better.items() if higher is not False)]
    if name not in known:
        found = f"{name!r}, of which less is better" if better.get(name) is False else repr(name)
        raise SpecMismatchError(f"{where}: expected one of {', '.join(known)}, got {found}.")
