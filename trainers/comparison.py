"""A trained run beside what needs no learning: a random policy, and the world's planners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from bridge.planners.bound import ThroughputBound
from bridge.policy import PolicyFactory, RandomPolicy
from bridge.registry import World, open_world
from bridge.scenario import Scenario
from bridge.scenario_listening import listen_on
from trainers.efficiency import bound_of, with_efficiency
from trainers.evaluation import EvaluationRow, evaluation_row, play
from trainers.loading import load_policy
from trainers.report import plot_comparison, write_evaluation_csv, write_robots_csv
from trainers.runs import CheckpointName, RunFolder

__all__ = ["Comparison", "compare_run", "compared_policies", "planners_left_out"]


@runtime_checkable
class _PlannedWorld(Protocol):
    """A world that says why some planners do not drive it."""

    def planners_left_out(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Comparison:
    """Where the figures of an evaluation stand.

    Attributes:
        rows: One per policy: random, trained, sampled if it was asked for, and the planners by name; with
            ``efficiency`` where there is a bound.
        bound: How much could be delivered at most; None where the world does not know.
        csv_file: The same as a table.
        plot_file: The same as bars.
        left_out: Why other planners that the world knows have no row, by name.
    """

    rows: list[EvaluationRow]
    bound: ThroughputBound | None
    csv_file: Path
    plot_file: Path
    left_out: Mapping[str, str]


def compared_policies(world: World, run_dir: Path, checkpoint: CheckpointName, seed: int) -> dict[str, PolicyFactory]:
    """Everything that a run is compared on: a random policy of ``seed``, the trained one, the world's planners."""
    return {
        "random": lambda roster: RandomPolicy(roster.spec, seed),
        "trained": lambda roster: load_policy(run_dir, roster.spec, checkpoint=checkpoint),
        **world.planners,
    }


def planners_left_out(world: World) -> Mapping[str, str]:
    """Why planners that the world knows do not drive it, by name."""
    return world.planners_left_out() if isinstance(world, _PlannedWorld) else {}


def compare_run(
    run_dir: Path,
    *,
    scenario: Scenario | None = None,
    num_episodes: int | None = None,
    seed: int | None = None,
    checkpoint: CheckpointName = "latest",
    listen: str | None = None,
    sampled: bool = False,
    robots_file: Path | None = None,
) -> Comparison:
    """Let the trained policy play greedily, and the others play the same episodes.

    Args:
        run_dir: Folder that training wrote; ``evaluation.csv`` and ``evaluation.png`` are written into it,
            with the scenario's name in theirs when it is another than the run's.
        scenario: Another scenario with the same roles; the run's own by default.
        num_episodes: Episodes per policy; the run's ``eval_episodes`` by default.
        seed: Seed of the episodes; the run's ``eval_seed`` by default.
        checkpoint: Which checkpoint to evaluate.
        listen: Address on which the world listens for players, in place of the scenario's.
        sampled: Let the trained policy play once more and draw its actions, as in training.
        robots_file: Also write the figures of each robot in each episode into this CSV file.

    Raises:
        CheckpointError: There is no such run or checkpoint.
        ScenarioError: The seed is the one of the training, ``listen`` does not fit the world, or ``robots_file`` was
            asked of a world that has no such figures; the other files have been written then.
        SpecMismatchError: The policy cannot drive the scenario's robots.
    """
    run = RunFolder(run_dir)
    config = run.config()
    suffix = "" if scenario is None else f"_{scenario.name}"
    scenario = listen_on(run.scenario() if scenario is None else scenario, listen)
    world = open_world(scenario)
    policies = compared_policies(world, run_dir, checkpoint, config.eval_seed)
    if sampled:
        policies["sampled"] = lambda roster: load_policy(
            run_dir, roster.spec, deterministic=False, checkpoint=checkpoint, seed=config.eval_seed
        )
    seed = config.eval_seed if seed is None else seed
    played = play(world, policies, seed, num_episodes or config.eval_episodes, training_seed=config.seed)
    num_slots = sum(role.num_slots for role in world.spec.roles)
    bound = bound_of(world)
    rows = [with_efficiency(evaluation_row(name, results, num_slots), bound) for name, results in played.items()]
    csv_file, plot_file = run_dir / f"evaluation{suffix}.csv", run_dir / f"evaluation{suffix}.png"
    write_evaluation_csv(rows, csv_file, bound)
    plot_comparison(rows, world.spec.metrics, plot_file, bound)
    if robots_file is not None:
        write_robots_csv(played, robots_file)
    return Comparison(rows, bound, csv_file, plot_file, planners_left_out(world))
