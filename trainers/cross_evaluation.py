"""A trained policy on warehouses, fleets and seeds that it was not trained on, beside planners and the bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from bridge.episodes import EpisodeResult
from bridge.errors import ScenarioError
from bridge.fleet_size import fleet_size, with_fleet
from bridge.layout_seed import with_layout_seed
from bridge.planners.bound import ThroughputBound
from bridge.registry import World, open_world
from bridge.scenario import Scenario
from bridge.scenario_listening import listen_on
from trainers.comparison import compared_policies
from trainers.cross_report import CrossRow, plot_across, write_cross_csv
from trainers.evaluation import evaluation_row, play
from trainers.loading import load_policy
from trainers.runs import CheckpointName, RunFolder

__all__ = ["CrossEvaluation", "evaluate_across"]


@runtime_checkable
class _BoundedWorld(Protocol):
    """A world that knows how much could be delivered at most."""

    def throughput_bound(self) -> ThroughputBound: ...


@dataclass(frozen=True)
class CrossEvaluation:
    """Where the figures stand.

    Attributes:
        rows: Scenario after scenario, fleet after fleet, policy after policy.
        csv_file: All figures.
        plot_file: Throughput and efficiency over the size of the fleet.
    """

    rows: list[CrossRow]
    csv_file: Path
    plot_file: Path


def evaluate_across(
    run_dir: Path,
    scenarios: Sequence[Scenario] = (),
    *,
    seeds: Sequence[int] = (),
    fleets: Sequence[int] = (),
    layout_seed: int | None = None,
    num_episodes: int | None = None,
    checkpoint: CheckpointName = "latest",
    listen: str | None = None,
) -> CrossEvaluation:
    """Play every scenario with every fleet on every seed: the trained policy greedily, and what needs no learning.

    Args:
        run_dir: Folder that training wrote; ``evaluation_across.csv`` and ``.png`` are written into it.
        scenarios: Scenarios with the roles and the observation of the run's; its own by default.
        seeds: Seeds of the episodes, none of which the policy may have been trained on; the run's
            ``eval_seed`` by default.
        fleets: Numbers of robots; each scenario's own by default.
        layout_seed: Seed of the variants of the floor plans; each scenario's own by default.
        num_episodes: Episodes per policy, fleet, scenario and seed; the run's ``eval_episodes`` by default.
        checkpoint: Which checkpoint to evaluate.
        listen: Address on which the worlds listen for players, in place of the scenarios'.

    Raises:
        CheckpointError: There is no such run or checkpoint.
        ScenarioError: A seed is the one of the training or given twice, a fleet does not fit into a warehouse, a
            floor plan has no variants, or ``listen`` does not fit a world.
        SpecMismatchError: The policy cannot drive a scenario's robots; names the first block that differs.
    """
    run = RunFolder(run_dir)
    config = run.config()
    seeds = list(seeds) or [config.eval_seed]
    if len(set(seeds)) != len(seeds):
        raise ScenarioError(f"evaluation: seeds: expected distinct seeds, got {', '.join(map(str, seeds))}.")
    wanted = _on_layouts(list(scenarios) or [run.scenario()], layout_seed)
    cases = [
        case
        for scenario in [listen_on(scenario, listen) for scenario in wanted]
        for case in ([with_fleet(scenario, size) for size in fleets] or [scenario])
    ]
    # Everything that cannot be played is found before anything is.
    worlds = [open_world(case) for case in cases]
    for world in worlds:
        load_policy(run_dir, world.spec, checkpoint=checkpoint)
    rows = []
    for case, world in zip(cases, worlds, strict=True):
        policies = compared_policies(world, run_dir, checkpoint, config.eval_seed)
        results: dict[str, list[EpisodeResult]] = {name: [] for name in policies}
        for seed in seeds:
            episodes = num_episodes or config.eval_episodes
            for name, played in play(world, policies, seed, episodes, training_seed=config.seed).items():
                results[name] += played
        rows += _rows(case, world, results)
    csv_file, plot_file = run_dir / "evaluation_across.csv", run_dir / "evaluation_across.png"
    write_cross_csv(rows, csv_file)
    plot_across(rows, plot_file)
    return CrossEvaluation(rows, csv_file, plot_file)


def _on_layouts(scenarios: list[Scenario], seed: int | None) -> list[Scenario]:
    return scenarios if seed is None else [with_layout_seed(scenario, seed) for scenario in scenarios]


def _rows(case: Scenario, world: World, results: dict[str, list[EpisodeResult]]) -> list[CrossRow]:
    num_slots = sum(role.num_slots for role in world.spec.roles)
    bound = world.throughput_bound() if isinstance(world, _BoundedWorld) else None
    num_robots = fleet_size(case) or num_slots
    return [
        CrossRow(case.name, num_robots, evaluation_row(name, played, num_slots), bound)
        for name, played in results.items()
    ]
