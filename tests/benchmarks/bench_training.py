"""Speed of training: environment steps and agent steps per second, rollout and update together.

Run: python tests/benchmarks/bench_training.py [--updates N] [--threads N] [--workers N]

``mpe_spread`` has the settings of the MAPPO paper's code (128 environments x 25 steps, 10 epochs, 1 minibatch,
64-64), so that its figure can be held against that code's own. An agent step is one decision of one robot.
The first update of each row is warm-up and not counted.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from bridge.scenario import load_scenario
from bridge.vector import AsyncVectorEnv, SerialVectorEnv
from trainers.algorithms import make_learner
from trainers.config import train_config
from trainers.episode_statistics import EpisodeStatistics
from trainers.rollout import RolloutCollector

PAPER: dict[str, Any] = {
    "num_envs": 128,
    "rollout_steps": 25,
    "epochs": 10,
    "minibatches": 1,
    "hidden_sizes": [64, 64],
    "critic_input": "state",
}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("mpe_spread, settings of the paper's code", "mpe_spread", PAPER),
    ("warehouse_small, its own settings", "warehouse_small", {}),
    ("warehouse_small, 128 envs", "warehouse_small", {"num_envs": 128, "rollout_steps": 64}),
]


@dataclass(frozen=True)
class Speed:
    """Seconds and counts of the measured updates."""

    rollout_s: float
    update_s: float
    env_steps: int
    decisions: int


def measure(scenario_name: str, settings: dict[str, Any], updates: int, workers: int) -> Speed:
    """Run one warm-up update, then ``updates`` measured ones."""
    scenario = load_scenario(scenario_name)
    config = train_config(scenario, {**settings, "num_workers": workers})
    world = (
        AsyncVectorEnv(scenario, config.num_envs, workers) if workers else SerialVectorEnv(scenario, config.num_envs)
    )
    with world:
        world.reset(config.seed)
        learner = make_learner(world.spec, config)
        statistics = EpisodeStatistics(world.spec, config.num_envs)
        collector = RolloutCollector(world, learner.policy, config.rollout_steps, statistics)
        rollout_s = update_s = 0.0
        decisions = 0
        for update in range(updates + 1):
            begun = time.perf_counter()
            rollout = collector.collect()
            assert rollout is not None
            collected = time.perf_counter()
            learner.update(rollout)
            if update > 0:
                rollout_s += collected - begun
                update_s += time.perf_counter() - collected
                decisions += rollout.num_decisions
    return Speed(rollout_s, update_s, updates * config.env_steps_per_update, decisions)


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--updates", type=int, default=3, help="measured updates per case")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--workers", type=int, default=0, help="processes that step the environments")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    table = Table(title=f"training speed, {arguments.threads} torch thread(s), {arguments.workers} worker(s)")
    for column in ("case", "env steps/s", "agent steps/s", "rollout s", "update s"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for label, name, settings in CASES:
        speed = measure(name, settings, arguments.updates, arguments.workers)
        total = speed.rollout_s + speed.update_s
        table.add_row(
            label,
            f"{speed.env_steps / total:,.0f}",
            f"{speed.decisions / total:,.0f}",
            f"{speed.rollout_s:.2f}",
            f"{speed.update_s:.2f}",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
