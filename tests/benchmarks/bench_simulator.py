"""How many robots the built-in simulator steps per second, beside two other warehouse simulators.

    python tests/benchmarks/bench_simulator.py [--peers-python PATH]

One agent-step is one robot moved, paid and shown its new observation. The
simulator is called from Python once per step of all its environments; choosing
the (random) actions is not timed. Times are CPU times of the process, which a
busy machine disturbs least. ``rware`` and ``pogema`` need
older packages than agv-bridge: install them into an environment of their own
and name its interpreter.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PEERS = ("rware", "pogema")
PEER_ROBOTS = 64
PEER_TIMEOUT_S = 120.0
BATCH_ROBOTS = 1024
"""Robots stepped by one call in the column of many environments."""

HALLS = {16: (15, 26), 64: (33, 46), 256: (63, 96), 1024: (129, 188)}
"""Rows and columns of the halls for so many robots: 24 cells for each."""

VECTOR = "[{block: self}, {block: target}, {block: path}, {block: neighbours}]"
WINDOW = "[{block: self}, {block: target}, {block: path}, {block: window, radius: 5}]"
LIDAR = "[{block: self}, {block: target}, {block: path}, {block: lidar}]"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="time per measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that has rware and pogema")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer is not None:
        print(json.dumps(peer_rate(options.peer, options.seconds)))
        return
    print("agent-steps per second of CPU time; median of repeats")
    print(f"{'world':<36} {'robots':>6} {'floats':>6} {'1 env':>12} {f'{BATCH_ROBOTS} robots':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in scenarios(Path(folder)).items():
            print_simulator(name, path, options.seconds, options.repeats)
    for peer in PEERS:
        print_peer(peer, options.peers_python, options.seconds)


def scenarios(folder: Path) -> dict[str, Path]:
    """The shipped warehouses, and a larger one with 64 robots in three forms."""
    from bridge.scenario import load_scenario, shipped_scenarios

    found = {name: path for name, path in shipped_scenarios().items() if load_scenario(path).world == "warehouse"}
    worlds = [
        ("64 robots, grid, vector", "{kind: grid}", VECTOR, 64),
        ("64 robots, grid, 11x11 window", "{kind: grid}", WINDOW, 64),
        ("64 robots, drive, lidar", "{kind: differential}", LIDAR, 64),
    ]
    worlds += [(f"{robots:,} robots, same density, grid", "{kind: grid}", VECTOR, robots) for robots in HALLS]
    worlds += [(f"{robots:,} robots, same density, drive", "{kind: differential}", LIDAR, robots) for robots in HALLS]
    for name, drive, observation, robots in worlds:
        found[name] = folder / f"{len(found)}.yaml"
        found[name].write_text(hall(drive, observation, robots), encoding="utf-8")
    return found


def hall(drive: str, observation: str, robots: int) -> str:
    """A hall full of racks, of 33 x 46 cells for 64 robots; they start anywhere, as in the other simulators."""
    height, width = HALLS[robots]
    cells = [["."] * width for _ in range(height)]
    for row in range(3, height - 4, 6):
        cells[row][0] = "E"
        for column in range(3, width - 3, 5):
            for k in range(8):
                cells[row + k // 4][column + k % 4] = "#"
            cells[row + 2][column + 1] = "S"
    cells[height - 1][:16] = "P" * 16
    grid = "\n".join("      " + "".join(row) for row in cells)
    return (
        "schema: 1\nworld: warehouse\nwarehouse:\n"
        f"  layout:\n    cell_size_m: 2.0\n    grid: |\n{grid}\n"
        f"  fleet: [{{role: carrier, count: {robots}}}]\n"
        f"  drive: {drive}\n  tasks: {{open: {robots}}}\n"
        f"  randomisation: {{start: anywhere}}\n  observation: {observation}\n"
    )


def print_simulator(name: str, path: Path, seconds: float, repeats: int) -> None:
    """Measure one scenario with one environment and with many."""
    from bridge.registry import open_world
    from bridge.scenario import load_scenario

    world = open_world(load_scenario(path))
    robots = sum(role.num_slots for role in world.spec.roles)
    floats = max(role.observation.size for role in world.spec.roles)
    rates = []
    for num_envs in (1, max(1, BATCH_ROBOTS // robots)):
        simulator_rate(world, num_envs, 0.05)  # compiled code and caches
        rates.append(statistics.median(simulator_rate(world, num_envs, seconds) for _ in range(repeats)))
    print(f"{name:<36} {robots:>6} {floats:>6} {rates[0]:>12,.0f} {rates[1]:>12,.0f}", flush=True)


def simulator_rate(world: Any, num_envs: int, seconds: float) -> float:
    """Agent-steps per second of the built-in simulator."""
    from bridge.policy import RandomPolicy

    roster = world.roster(num_envs)
    roster.reset(0)
    policy = RandomPolicy(world.spec, 0)
    robots = sum(role.num_slots for role in world.spec.roles)
    rate = timed_rate(num_envs * robots, roster.step, lambda: policy.act(roster.arrays), seconds)
    roster.close()
    return rate


def timed_rate(robots: int, step: Callable[[], Any], prepare: Callable[[], Any], seconds: float) -> float:
    """Agent-steps per second of ``step``; ``prepare`` runs before each step and is not timed."""
    count, elapsed = 0, 0.0
    while elapsed < seconds:
        prepare()
        start = time.process_time()
        step()
        elapsed += time.process_time() - start
        count += robots
    return count / elapsed


def print_peer(peer: str, python: str, seconds: float) -> None:
    """Measure another simulator in its own interpreter."""
    command = [python, "-W", "ignore", str(Path(__file__).resolve()), "--peer", peer, "--seconds", str(seconds)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PEER_TIMEOUT_S)
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines()
        print(f"{peer:<36} skipped: {lines[-1] if lines else f'exit code {ended.returncode}'}")
        return
    print(f"{peer:<36} {PEER_ROBOTS:>6} {'':>6} {json.loads(ended.stdout.splitlines()[-1]):>12,.0f}", flush=True)


def peer_rate(peer: str, seconds: float) -> float:
    """Agent-steps per second of ``rware`` or ``pogema``, 64 robots with the usual small window."""
    import random

    env = open_rware() if peer == "rware" else open_pogema()
    actions = [0] * PEER_ROBOTS
    random.seed(0)

    def prepare() -> None:
        actions[:] = [random.randrange(5) for _ in range(PEER_ROBOTS)]

    def step() -> None:
        result = env.step(actions)
        if _all_over(result[2]) or _all_over(result[3]):
            env.reset()

    env.reset(seed=0)
    timed_rate(PEER_ROBOTS, step, prepare, 0.05)
    return timed_rate(PEER_ROBOTS, step, prepare, seconds)


def _all_over(flags: Any) -> bool:
    return all(flags) if isinstance(flags, list) else bool(flags)


def open_rware() -> Any:
    """A hall with 45 racks, in 5 rows and 9 columns: the number of columns has to be odd."""
    from rware.warehouse import RewardType, Warehouse

    return Warehouse(9, 4, 5, PEER_ROBOTS, 0, 1, PEER_ROBOTS, None, 500, RewardType.INDIVIDUAL)


def open_pogema() -> Any:
    """An area of 40 x 40 cells, a fifth of them blocked, where goals follow one another."""
    from pogema import GridConfig, pogema_v0

    config = GridConfig(
        num_agents=PEER_ROBOTS,
        size=40,
        density=0.2,
        seed=1,
        max_episode_steps=500,
        obs_radius=5,
        on_target="restart",
    )
    return pogema_v0(config)


if __name__ == "__main__":
    main()
