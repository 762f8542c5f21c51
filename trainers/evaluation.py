"""Compares policies on equal episodes that were never trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bridge.episodes import EpisodeResult, run_episodes
from bridge.errors import ScenarioError
from bridge.policy import PolicyFactory
from bridge.registry import World, open_world
from bridge.scenario import Scenario

__all__ = ["Estimate", "EvaluationRow", "evaluate", "evaluation_row", "plain_number", "play"]

_MAX_ENVS = 16


@dataclass(frozen=True)
class Estimate:
    """A mean over episodes.

    Attributes:
        mean: The mean.
        half_width: Half of its 95% confidence interval (Student's t); NaN for a single episode.
    """

    mean: float
    half_width: float

    def __str__(self) -> str:
        return self.text()

    def text(self, most_decimals: int = 6) -> str:
        """Mean ± half width, both to the second digit of the half width: what lies beyond is noise."""
        if math.isnan(self.half_width) or self.half_width == 0.0:
            return plain_number(self.mean)
        decimals = min(most_decimals, max(0, 1 - math.floor(math.log10(self.half_width))))
        return f"{self.mean:.{decimals}f} ± {self.half_width:.{decimals}f}"


def plain_number(value: float) -> str:
    """Four digits at least, never an exponent for what people count."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"


@dataclass(frozen=True)
class EvaluationRow:
    """What one policy reached.

    Attributes:
        policy: Name of the policy.
        num_episodes: Number of episodes.
        figures: ``return_sum`` (all robots together), ``return_mean`` (per slot), ``length`` (steps), then the
            world's own metrics.
        decision_ms: Time that the policy took per robot and decision, in ms, on this machine; rows that differ in it
            alone are equal.
    """

    policy: str
    num_episodes: int
    figures: dict[str, Estimate]
    decision_ms: float = field(default=math.nan, compare=False)


def evaluate(
    scenario: Scenario,
    policies: Mapping[str, PolicyFactory],
    *,
    seed: int,
    num_episodes: int,
    training_seed: int | None = None,
    world: World | None = None,
) -> list[EvaluationRow]:
    """Let each policy play the same episodes.

    Args:
        scenario: What is played.
        policies: Factories by name of the policy.
        seed: Seed of the episodes.
        num_episodes: Episodes per policy.
        training_seed: Seed that a policy was trained with; it must not be used here.
        world: The scenario's world, where it is open already.

    Raises:
        ScenarioError: ``seed`` is the training seed, or the scenario makes no world.
        WorldDiedError: A process that runs the world has ended.
        WorldTimeoutError: The world did not answer in time.
    """
    world = open_world(scenario) if world is None else world
    played = play(world, policies, seed, num_episodes, training_seed=training_seed)
    num_slots = sum(role.num_slots for role in world.spec.roles)
    return [evaluation_row(name, results, num_slots) for name, results in played.items()]


def play(
    world: World,
    policies: Mapping[str, PolicyFactory],
    seed: int,
    num_episodes: int,
    *,
    training_seed: int | None = None,
) -> dict[str, list[EpisodeResult]]:
    """The episodes of each policy by name; arguments and errors as in :func:`evaluate`."""
    if seed == training_seed:
        raise ScenarioError(
            f"evaluation: eval_seed: expected a seed that was never trained on, got {seed}, the seed of the training. "
            "Choose another one."
        )
    played = {}
    for name, factory in policies.items():
        # A roster of its own for each: nothing that a policy leaves behind reaches the next one.
        roster = world.roster(min(num_episodes, _MAX_ENVS))
        try:
            played[name] = run_episodes(roster, factory(roster), seed=seed, num_episodes=num_episodes)
        finally:
            roster.close()
    return played


def evaluation_row(name: str, results: list[EpisodeResult], num_slots: int) -> EvaluationRow:
    """Means over the episodes of one policy, one at least; ``num_slots`` robots of all roles."""
    totals = [sum(part.total for part in result.returns.values()) for result in results]
    figures = {
        "return_sum": totals,
        "return_mean": [total / num_slots for total in totals],
        "length": [float(result.steps) for result in results],
    }
    for metric in results[0].metrics:
        figures[metric] = [result.metrics[metric] for result in results]
    decision_ms = float(np.mean([result.decision_ms for result in results]))
    return EvaluationRow(name, len(results), {key: _estimate(values) for key, values in figures.items()}, decision_ms)


def _estimate(values: list[float]) -> Estimate:
    samples = np.array(values)
    if len(samples) < 2:
        return Estimate(float(samples.mean()), math.nan)
    error = float(samples.std(ddof=1)) / math.sqrt(len(samples))
    return Estimate(float(samples.mean()), _student_t(len(samples) - 1) * error)


def _student_t(degrees: int) -> float:
    """97.5% quantile of Student's t, within 0.1% from 4 degrees on (Abramowitz and Stegun 1964, 26.7.5)."""
    z = 1.959963984540054
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / float(degrees) ** (power + 1) for power, term in enumerate(terms))
