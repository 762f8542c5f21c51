"""A trained policy on warehouses, fleets and seeds that it was not trained on, beside planners and the bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bridge.episodes import EpisodeResult
from bridge.errors import ScenarioError
from bridge.fleet_size import fleet_size, with_fleet
from bridge.layout_seed import with_layout_seed
from bridge.registry import World, open_world
from bridge.scenario import Scenario
from bridge.scenario_listening import listen_on
from trainers.comparison import compared_policies, planners_left_out
from trainers.cross_report import CrossRow, plot_across, write_cross_csv
from trainers.cross_table import LeftOut
from trainers.efficiency import bound_of
from trainers.evaluation import evaluation_row, play
from trainers.loading import load_policy
from trainers.runs import CheckpointName, RunFolder

__all__ = ["CrossEvaluation", "evaluate_across"]


@dataclass(frozen=True)
class CrossEvaluation:
    """Where the figures stand.

    Attributes:
        rows: Scenario after scenario, fleet after fleet, policy after policy, over all seeds.
        seed_rows: The same, and seed after seed.
        left_out: Planners that have no row, and why.
        csv_file: All figures of ``rows``.
        seeds_file: All figures of ``seed_rows``.
        plot_file: Throughput and efficiency over the size of the fleet.
    """

    rows: list[CrossRow]
    seed_rows: list[CrossRow]
    left_out: list[LeftOut]
    csv_file: Path
    seeds_file: Path
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
        run_dir: Folder that training wrote; ``evaluation_across.csv`` and ``.png``, and
            ``evaluation_across_seeds.csv``, are written into it.
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
        ScenarioError: A seed is the one of the training, a seed, fleet or name of a scenario is given twice, a fleet
            does not fit into a warehouse, a floor plan has no variants, or ``listen`` does not fit a world.
        SpecMismatchError: The policy cannot drive a scenario's robots; names the first block that differs.
    """
    run = RunFolder(run_dir)
    config = run.config()
    seeds = list(seeds) or [config.eval_seed]
    wanted = _on_layouts(list(scenarios) or [run.scenario()], layout_seed)
    _require_distinct("seeds", "distinct seeds", seeds)
    _require_distinct("fleets", "distinct numbers of robots", fleets)
    _require_distinct("scenarios", "scenarios of distinct names", [scenario.name for scenario in wanted])
    cases = [
        case
        for scenario in [listen_on(scenario, listen) for scenario in wanted]
        for case in ([with_fleet(scenario, size) for size in fleets] or [scenario])
    ]
    # Everything that cannot be played is found before anything is.
    worlds = [open_world(case) for case in cases]
    for world in worlds:
        load_policy(run_dir, world.spec, checkpoint=checkpoint)
    episodes = num_episodes or config.eval_episodes
    rows, seed_rows, left_out = [], [], []
    for case, world in zip(cases, worlds, strict=True):
        policies = compared_policies(world, run_dir, checkpoint, config.eval_seed)
        played = {seed: play(world, policies, seed, episodes, training_seed=config.seed) for seed in seeds}
        rows += _rows(case, world, played)
        seed_rows += [row for seed in seeds for row in _rows(case, world, {seed: played[seed]})]
        left_out += [LeftOut(case.name, _num_robots(case, world), *why) for why in planners_left_out(world).items()]
    csv_file, plot_file = run_dir / "evaluation_across.csv", run_dir / "evaluation_across.png"
    seeds_file = run_dir / "evaluation_across_seeds.csv"
    write_cross_csv(rows, csv_file)
    write_cross_csv(seed_rows, seeds_file)
    plot_across(rows, plot_file)
    return CrossEvaluation(rows, seed_rows, left_out, csv_file, seeds_file, plot_file)


def _require_distinct(what: str, expected: str, given: Sequence[object]) -> None:
    """Rows are told apart by scenario, fleet and seed."""
    if len(set(given)) != len(given):
        raise ScenarioError(f"evaluation: {what}: expected {expected}, got {', '.join(map(str, given))}. Drop one.")


def _on_layouts(scenarios: list[Scenario], seed: int | None) -> list[Scenario]:
    return scenarios if seed is None else [with_layout_seed(scenario, seed) for scenario in scenarios]


def _num_robots(case: Scenario, world: World) -> int:
    return fleet_size(case) or _num_slots(world)


def _num_slots(world: World) -> int:
    return sum(role.num_slots for role in world.spec.roles)


def _rows(case: Scenario, world: World, played: dict[int, dict[str, list[EpisodeResult]]]) -> list[CrossRow]:
    """A row per policy over the episodes of all seeds, which ``played`` has by seed and policy."""
    bound = bound_of(world)
    results = {
        name: [episode for of_seed in played.values() for episode in of_seed[name]] for name in played[min(played)]
    }
    return [
        CrossRow(
            case.name, _num_robots(case, world), tuple(played), evaluation_row(name, episodes, _num_slots(world)), bound
        )
        for name, episodes in results.items()
    ]
