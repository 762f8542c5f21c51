"""Which scenarios a training plays: ``train.scenarios`` or ``train.curriculum``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bridge.errors import ScenarioError
from bridge.scenario import Scenario, load_scenario, resolve_inside, shipped_scenarios
from bridge.scenario_faults import did_you_mean
from bridge.scenario_mix import ScenarioMix

__all__ = ["OWN_WORLD", "CurriculumStage", "ScenarioShare", "describe_training", "find_member", "training_scenarios"]

OWN_WORLD = "self"
"""In a list of scenarios: the world of the file that holds the list."""

_SCENARIO = (
    "Name of a shipped scenario, or a file or folder inside the scenario's folder; `self` for the file's own world."
)


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    scenario: str = Field(min_length=1, description=_SCENARIO)


class ScenarioShare(_Entry):
    """One of several scenarios that are played side by side."""

    weight: float = Field(1.0, gt=0, description="How likely an episode is played on it, against the others' weights.")


class CurriculumStage(_Entry):
    """One of several scenarios that are played one after the other."""

    metric: str = Field(
        "return_mean",
        description="Figure that decides: one of the world's of which more, or less, is better; or return_sum, "
        "return_mean, of which more is.",
    )
    advance_above: float | None = Field(
        None, description="More is better: go on to the next stage when the mean is above this; not on the last stage."
    )
    advance_below: float | None = Field(
        None, description="Less is better: go on to the next stage when the mean is below this; not on the last stage."
    )
    fall_back_below: float | None = Field(
        None, description="More is better: go back to the stage before when the mean is below this; null: never."
    )
    fall_back_above: float | None = Field(
        None, description="Less is better: go back to the stage before when the mean is above this; null: never."
    )
    episodes: int = Field(
        50, ge=1, le=100_000, description="Number of episodes of the stage, the last ones, that the mean is taken over."
    )

    @property
    def thresholds(self) -> dict[str, float]:
        """What is stated of the four keys ``advance_above`` to ``fall_back_above``."""
        keys = ("advance_above", "advance_below", "fall_back_below", "fall_back_above")
        return {key: getattr(self, key) for key in keys if getattr(self, key) is not None}

    @property
    def more_is_better(self) -> bool | None:
        """What the thresholds take for better: more, or less; None without any."""
        if not self.thresholds:
            return None
        return self.advance_above is not None or self.fall_back_below is not None

    def verdict(self, mean: float) -> tuple[int, str]:
        """By how many stages a mean moves on, 1, 0 or -1, and which threshold says so, in words."""
        if self.advance_above is not None and mean > self.advance_above:
            return 1, f"above {self.advance_above:g}"
        if self.advance_below is not None and mean < self.advance_below:
            return 1, f"below {self.advance_below:g}"
        if self.fall_back_below is not None and mean < self.fall_back_below:
            return -1, f"below {self.fall_back_below:g}"
        if self.fall_back_above is not None and mean > self.fall_back_above:
            return -1, f"above {self.fall_back_above:g}"
        return 0, ""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        more = {"advance_above", "fall_back_below"} & self.thresholds.keys()
        less = {"advance_below", "fall_back_above"} & self.thresholds.keys()
        if more and less:
            raise ValueError(
                "expected advance_above and fall_back_below where more is better, or advance_below and fall_back_above "
                f"where less is, got {' and '.join(sorted(more | less))}."
            )
        advance, back = self.advance_above, self.fall_back_below
        if advance is not None and back is not None and back >= advance:
            raise ValueError(
                f"expected fall_back_below < advance_above, got fall_back_below={back} >= advance_above={advance}."
            )
        advance, back = self.advance_below, self.fall_back_above
        if advance is not None and back is not None and back <= advance:
            raise ValueError(
                f"expected fall_back_above > advance_below, got fall_back_above={back} <= advance_below={advance}."
            )
        return self


def describe_training(shares: Sequence[ScenarioShare], stages: Sequence[CurriculumStage]) -> list[str]:
    """Lines on what a training plays and when it goes on; none where it plays its own world alone."""
    total = sum(share.weight for share in shares)
    lines = [f"{share.scenario}: {share.weight / total:.0%} of the episodes" for share in shares]
    for number, stage in enumerate(stages, 1):
        rules = [
            f"{'on' if key.startswith('advance') else 'back'} when {stage.metric} is {key.rsplit('_', 1)[1]} {value:g}"
            for key, value in stage.thresholds.items()
        ]
        over = f": {', '.join(rules)}, over {stage.episodes} episodes" if rules else ""
        lines.append(f"stage {number}: {stage.scenario}{over}")
    return lines


def training_scenarios(
    scenario: Scenario, shares: Sequence[ScenarioShare], stages: Sequence[CurriculumStage]
) -> Scenario | ScenarioMix:
    """What a training plays: the scenario itself, a weighted list, or the stages of a curriculum.

    A curriculum begins with all weight on its first stage.

    Args:
        scenario: The file that training was started with.
        shares: Its ``train.scenarios``.
        stages: Its ``train.curriculum``.

    Raises:
        ScenarioError: An entry names no scenario, or one that is wrong itself.
        SpecMismatchError: Two entries have the same name.
    """
    entries = [share.scenario for share in shares] + [stage.scenario for stage in stages]
    if not entries:
        return scenario
    key = "scenarios" if shares else "curriculum"
    members = tuple(
        find_member(scenario, entry, f"{scenario.path}: train.{key}[{index}].scenario")
        for index, entry in enumerate(entries)
    )
    weights = tuple(share.weight for share in shares) or (1.0, *(0.0 for _ in stages[1:]))
    return ScenarioMix(members, weights)


def find_member(scenario: Scenario, entry: str, where: str) -> Scenario:
    """The scenario that an entry of a list names: what lies beside the file goes before what is shipped.

    Raises:
        ScenarioError: There is none, or it is wrong itself.
    """
    if entry == OWN_WORLD:
        return scenario
    for relative in (entry, str(Path(entry) / "scenario.yaml")):
        if not Path(entry).is_absolute() and ".." not in Path(entry).parts and (scenario.folder / relative).is_file():
            return load_scenario(resolve_inside(scenario.folder, relative, where))
    shipped = shipped_scenarios()
    if entry in shipped:
        return load_scenario(shipped[entry])
    raise ScenarioError(
        f"{where}: expected {OWN_WORLD!r}, a file in {scenario.folder} or one of the shipped scenarios "
        f"{', '.join(shipped)}, got {entry!r}.{did_you_mean(entry, shipped)}"
    )
