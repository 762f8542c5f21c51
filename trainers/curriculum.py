"""Decides which stage of a curriculum is played, from the episodes that ended on it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.errors import SpecMismatchError
from bridge.scenario_faults import did_you_mean
from bridge.specs import WorldSpec
from trainers.scenario_config import CurriculumStage

__all__ = ["RETURN_FIGURES", "Curriculum", "require_steering"]

RETURN_FIGURES = ("return_sum", "return_mean")
"""Figures of an episode that every world has, beside its own."""


class Curriculum:
    """The running stage, and the figures that decide when it ends.

    A stage is left when the mean over its last ``episodes`` episodes, all of them played on it since it was
    entered, crosses one of its thresholds. Episodes that began on another stage and end after the change do not
    count.

    Args:
        stages: The stages, at least one.
        spec: What the worlds look like.

    Raises:
        SpecMismatchError: As :func:`require_steering`.
    """

    def __init__(self, stages: Sequence[CurriculumStage], spec: WorldSpec) -> None:
        self._stages = tuple(stages)
        require_steering(stages, spec, "train.curriculum")
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
        step, why = stage.verdict(mean)
        return self._enter(self._stage + step, why, mean) if step else None

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


def require_steering(stages: Sequence[CurriculumStage], spec: WorldSpec, where: str) -> None:
    """Raise unless every stage names a figure that can decide, and thresholds that go its way.

    Args:
        stages: The stages of a curriculum.
        spec: What the worlds look like.
        where: Key of the curriculum, for messages.

    Raises:
        SpecMismatchError: A line for every stage with a figure that the worlds do not have, of which neither more nor
            less is better, or with thresholds that take the worse for the better.
    """
    better = {**dict.fromkeys(RETURN_FIGURES, True), **{one.name: one.higher_is_better for one in spec.metrics}}
    faults = [
        f"{where}[{index}].{fault}" for index, stage in enumerate(stages) if (fault := _steering_fault(stage, better))
    ]
    if faults:
        raise SpecMismatchError("\n".join(faults))


def _steering_fault(stage: CurriculumStage, better: Mapping[str, bool | None]) -> str | None:
    steering = [name for name, more in better.items() if more is not None]
    if stage.metric not in steering:
        found = repr(stage.metric)
        if stage.metric in better:
            found += ", of which neither more nor less is better"
        return f"metric: expected one of {', '.join(steering)}, got {found}.{did_you_mean(stage.metric, steering)}"
    more = better[stage.metric]
    if stage.more_is_better is None or stage.more_is_better == more:
        return None
    wrong = next(iter(stage.thresholds))
    right = {
        "advance_above": "advance_below",
        "advance_below": "advance_above",
        "fall_back_above": "fall_back_below",
        "fall_back_below": "fall_back_above",
    }[wrong]
    return (
        f"{wrong}: expected {right}, because {'more' if more else 'less'} is better of {stage.metric!r}, "
        f"got {wrong}={stage.thresholds[wrong]:g}."
    )
