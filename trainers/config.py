"""The ``train:`` section of a scenario: what every algorithm shares.

:class:`TrainConfig` says how long, on how many environments and how often to
save; an algorithm's own model (``trainers/algorithms``) adds its
hyper-parameters. Nothing here imports torch, so that scenarios can be checked
where learning is not installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from bridge.errors import ScenarioError
from bridge.scenario import Scenario, parse_section
from bridge.scenario_faults import did_you_mean
from trainers.algorithms import algorithm_kind, algorithm_kinds
from trainers.scenario_config import CurriculumStage, ScenarioShare

__all__ = ["MAX_SEED", "TrainConfig", "parse_overrides", "train_config"]

MAX_SEED = 2**31 - 1
"""Largest seed that a user may give; larger ones are derived (:func:`trainers.runs.environment_seed`)."""


class TrainConfig(BaseModel):
    """How to train, whatever the algorithm."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    algorithm: str = Field("mappo", description="Name of the algorithm.")
    seed: int = Field(1, ge=0, le=MAX_SEED, description="Seed of networks, actions, minibatches and environments.")
    total_env_steps: int = Field(
        1_000_000, ge=1, description="Length of training in environment steps, summed over all environments."
    )
    updates: int | None = Field(
        None, ge=1, description="Length of training in updates; overrides total_env_steps. null: total_env_steps."
    )
    num_envs: int = Field(16, ge=1, le=65_536, description="Environments E that are stepped together.")
    num_workers: int = Field(
        0, ge=0, le=1024, description="Processes that step the environments; 0: this process does it."
    )
    rollout_steps: int = Field(128, ge=1, le=100_000, description="Steps T of every environment between two updates.")
    torch_threads: int = Field(
        0,
        ge=0,
        le=1024,
        description="Threads of torch in the learner; 0: one per core that the workers leave, at least one.",
    )
    checkpoint_every: int = Field(25, ge=1, description="Updates between two checkpoints; the last one is always kept.")
    restart_episodes_at_checkpoints: bool = Field(
        False,
        description="Begin new episodes after every checkpoint (the open ones are truncated), so that a resumed run "
        "equals an uninterrupted one bit for bit. Needs checkpoints further apart than episodes are long.",
    )
    eval_episodes: int = Field(20, ge=1, le=100_000, description="Episodes per policy of an evaluation.")
    eval_seed: int = Field(
        1_000_000, ge=0, le=MAX_SEED, description="Seed of the evaluation's episodes; differs from `seed`."
    )
    scenarios: tuple[ScenarioShare, ...] = Field(
        (),
        max_length=64,
        description="Scenarios to draw from at the start of every episode, by weight; empty: the file's own world.",
    )
    curriculum: tuple[CurriculumStage, ...] = Field(
        (),
        max_length=64,
        description="Scenarios to play one after the other, from easy to hard; empty: the file's own world.",
    )
    debug: bool = Field(False, description="Fill buffers with NaN before use and check that none is left.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.num_workers > self.num_envs:
            raise ValueError(
                f"expected num_workers <= num_envs, got num_workers={self.num_workers} > num_envs={self.num_envs}."
            )
        if self.eval_seed == self.seed:
            raise ValueError(
                f"expected an eval_seed that is never trained on, got eval_seed={self.eval_seed} = seed={self.seed}."
            )
        return self

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.scenarios and self.curriculum:
            raise ValueError("expected either scenarios or curriculum, got both. Remove one.")
        for index, stage in enumerate(self.curriculum):
            advance = {key: value for key, value in stage.thresholds.items() if key.startswith("advance")}
            if bool(advance) == (index == len(self.curriculum) - 1):
                wanted = f"no {next(iter(advance))} on the last stage" if advance else "advance_above or advance_below"
                got = next(iter(advance.values())) if advance else "neither"
                raise ValueError(f"expected {wanted}, got {got} in curriculum[{index}].")
        for key, value in self.curriculum[0].thresholds.items() if self.curriculum else ():
            if key.startswith("fall_back"):
                raise ValueError(f"expected no {key} on the first stage, got {value}.")
        return self

    @property
    def member_scenarios(self) -> tuple[str, ...]:
        """The entries of the list of scenarios, or of the curriculum, as they stand in the file."""
        return (*(share.scenario for share in self.scenarios), *(stage.scenario for stage in self.curriculum))

    @property
    def env_steps_per_update(self) -> int:
        """Environment steps E * T between two updates."""
        return self.num_envs * self.rollout_steps

    @property
    def num_updates(self) -> int:
        """Length of training in updates."""
        return self.updates if self.updates is not None else -(-self.total_env_steps // self.env_steps_per_update)


def train_config(scenario: Scenario, overrides: Mapping[str, Any] | None = None) -> TrainConfig:
    """The training configuration of a scenario, of the model that its algorithm defines.

    Args:
        scenario: Its ``train:`` section states what differs from the defaults.
        overrides: Values by key that replace those of the section.

    Raises:
        ScenarioError: Lists every fault, with file and dotted key.
    """
    data = {**scenario.train, **(overrides or {})}
    name = data.get("algorithm", TrainConfig.model_fields["algorithm"].default)
    names = [kind.name for kind in algorithm_kinds()]
    if name not in names:
        raise ScenarioError(
            f"{scenario.path}: train.algorithm: expected one of {', '.join(names)}, got {name!r}."
            f"{did_you_mean(str(name), names)}"
        )
    model: type[TrainConfig] = algorithm_kind(name).config_model()
    return parse_section(model, data, scenario.path, "train")


def parse_overrides(assignments: Iterable[str]) -> dict[str, Any]:
    """``KEY=VALUE`` from a command line as values by key.

    A value is JSON where it is valid JSON (so ``1e-3`` is a number), else YAML.

    Raises:
        ScenarioError: An assignment has no key or no readable value.
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ScenarioError(f"override: expected KEY=VALUE, got {assignment!r}. Write for example num_envs=32.")
        try:
            values[key.strip()] = _plain_value(text)
        except yaml.YAMLError as error:
            raise ScenarioError(f"override {key.strip()}: expected a YAML value, got {text!r}.") from error
    return values


def _plain_value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return yaml.safe_load(text)
