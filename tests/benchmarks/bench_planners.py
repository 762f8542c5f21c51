"""PIBT in the simulator beside published throughputs: a check of both.

    python tests/benchmarks/bench_planners.py [--map FILE.map] [--seeds 6]

Lifelong multi-agent path finding: every robot has a goal anywhere on the floor, and gets the next
one where it reaches it. In the simulator that is a warehouse in which every free cell without a
robot at the start is both a pick-up and a delivery, and one task waits at a time: an idle robot takes
whatever comes, so that legs are as long as if drawn uniformly. Goals per step are pick-ups and
deliveries. The layout of our own has the proportions of the classic Kiva map (33 x 46 cells, 1,278 of
them free); ``--map`` adds another file, for example the MovingAI warehouse. Not a test: it takes minutes.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bridge.episodes import run_episodes
from bridge.maps import load_layout_file
from bridge.maps.floor import largest_component, without_dead_ends
from bridge.planners.pibt import PibtPolicy
from bridge.scenario import scenario_folder
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout, distances_from
from bridge.warehouse.simulator import WarehouseSimulator

KIVA_ROBOTS = (32, 64, 96, 128, 160, 192)
KIVA_STEPS = 256
# Goals per step on the 33 x 46 warehouse of the POGEMA benchmark, 256 steps (mean over 128 seeds), and of an
# independent PIBT with goals on any free cell (6 seeds).
PUBLISHED = {
    "RHCR": (1.18, 2.27, 3.10, 3.49, 2.46, 1.57),
    "Follower": (1.13, 1.96, 2.61, 3.15, 3.60, 3.94),
    "PIBT, another implementation": (1.03, 1.96, 2.77, 3.38, 3.97, 4.35),
}
MAP_ROBOTS = (50, 100, 200, 400)
MAP_STEPS = 500
# The same independent PIBT on MovingAI's warehouses, one seed.
PUBLISHED_MAPS = {
    "warehouse-10-20-10-2-1": (0.53, 1.00, 1.81, 3.04),
    "warehouse-10-20-10-2-2": (0.54, 1.03, 2.10, 3.98),
}


def lifelong(layout: Layout, num_robots: int, steps: int, seeds: int) -> np.ndarray:
    """Goals per step of PIBT, one figure per seed."""
    free = np.flatnonzero(without_dead_ends(largest_component(~layout.blocked))).astype(np.int32)
    starts = np.sort(np.random.default_rng(0).permutation(free)[:num_robots])
    others = np.setdiff1d(free, starts)
    floor = replace(layout, pickups=others, deliveries=others, parking=starts, chargers=others[:0])
    config = WarehouseConfig.model_validate(
        {
            "layout": {"grid": "."},
            "fleet": ({"role": "carrier", "count": num_robots},),
            "tasks": {"open": 1},
            "observation": ({"block": "self"},),
            "episode_steps": steps,
        }
    )
    simulator = WarehouseSimulator(config, floor, 1)
    goals = []
    for seed in range(seeds):
        (result,) = run_episodes(simulator, PibtPolicy(simulator, seed), seed=seed, num_episodes=1)
        assert result.metrics["collisions"] == result.metrics["blocked_moves"] == 0
        goals.append((result.metrics["pickups"] + result.metrics["deliveries"]) / steps)
    return np.array(goals)


def mean_leg(layout: Layout) -> float:
    """Mean shortest path in cells between two free cells, over a sample of 200 sources."""
    free = np.flatnonzero(without_dead_ends(largest_component(~layout.blocked)))
    sample = np.random.default_rng(0).permutation(free)[:200]
    return float(np.mean([distances_from(layout, int(cell))[free].mean() for cell in sample]))


def print_row(name: str, values: tuple[float, ...] | list[str]) -> None:
    """One line of the table, in Markdown."""
    cells = [value if isinstance(value, str) else f"{value:.2f}" for value in values]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def report(title: str, layout: Layout, robots: tuple[int, ...], steps: int, seeds: int) -> None:
    """A table of one floor."""
    known = PUBLISHED if title == "kiva" else {"PIBT, another implementation": PUBLISHED_MAPS.get(title)}
    leg = mean_leg(layout)
    print(f"\n{title}: {layout.height} x {layout.width}, {layout.num_free} free cells, {steps} steps, seeds: {seeds}")
    print_row("robots", [str(number) for number in robots])
    print_row("---", ["---"] * len(robots))
    begun = time.perf_counter()
    measured = [lifelong(layout, number, steps, seeds) for number in robots]
    seconds = time.perf_counter() - begun
    spread = [f" ± {row.std(ddof=1):.2f}" if seeds > 1 else "" for row in measured]
    print_row("PIBT in this simulator", [f"{row.mean():.2f}{text}" for row, text in zip(measured, spread, strict=True)])
    for name, row in known.items():
        if row is not None:
            print_row(name, row)
    print_row(f"robots / mean leg of {leg:.1f}", tuple(number / leg for number in robots))
    print(f"({seconds:.0f} s)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--map", type=Path, action="append", default=[], help="another map file; repeatable")
    parser.add_argument("--seeds", type=int, default=6)
    arguments = parser.parse_args()
    kiva = load_layout_file(scenario_folder() / "maps" / "kiva.map", 1.0)
    report("kiva", kiva, KIVA_ROBOTS, KIVA_STEPS, arguments.seeds)
    for file in arguments.map:
        report(file.stem, load_layout_file(file, 1.0), MAP_ROBOTS, MAP_STEPS, max(1, arguments.seeds // 6))


if __name__ == "__main__":
    main()
