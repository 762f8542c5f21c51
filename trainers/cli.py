"""The command ``agv-bridge``.

Reads arguments, calls the part that does the work, prints. An expected error
prints its message and exits with 2; anything else shows its traceback and
exits with 1; Ctrl-C exits with 130.
"""

# typer reads annotations at run time: no `from __future__ import annotations` here.

import errno
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bridge.errors import AgvBridgeError, MissingExtraError
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.scenario_listening import listen_on
from trainers import cli_scenarios
from trainers.config import parse_overrides, train_config

__all__ = ["app", "main"]

app = typer.Typer(
    name="agv-bridge",
    help="Train fleets of warehouse robots and put the policies back into Unity.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(cli_scenarios.app, name="scenarios")

ScenarioName = Annotated[str, typer.Argument(help="Name of a shipped scenario, or a scenario file or folder.")]
RunFolderArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder that training wrote.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a training setting, e.g. num_envs=32. Repeatable."),
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="ADDRESS",
        help="Unity: IPv4 address to listen on for players, in place of the scenario's; loopback by default.",
    ),
]
BestOption = Annotated[bool, typer.Option("--best", help="Use the best checkpoint instead of the latest.")]

_REFUSALS = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENAMETOOLONG,
    }
)
"""What a disk refuses: the path that the user gave is at fault, or the disk is."""


def main() -> None:
    """Run the command and turn errors into exit codes."""
    try:
        app()
    except AgvBridgeError as error:
        print(f"agv-bridge: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno not in _REFUSALS or error.filename is None:
            raise
        print(
            f"agv-bridge: {error.filename}: expected a path that can be read or written, got: {error.strerror}. "
            "Check the path, its permissions and the space on the disk.",
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:
        print("agv-bridge: interrupted.", file=sys.stderr)
        sys.exit(130)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(version("agv-bridge"))
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train fleets of warehouse robots and put the policies back into Unity."""


def _require_train_extra(command: str) -> None:
    for package in ("torch", "tensorboard", "matplotlib"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"agv-bridge {command}: expected the package {package!r} to be installed, got none. "
                "Run: pip install 'agv-bridge[train]'"
            )


@app.command()
def train(
    scenario: Annotated[str | None, typer.Argument(help="Scenario name, file or folder; not with --resume.")] = None,
    run: Annotated[Path | None, typer.Option(help="Run folder; runs/<scenario> by default.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Continue the run in this folder.")] = None,
    updates: Annotated[int | None, typer.Option(min=1, help="Length of the whole training in updates.")] = None,
    listen: ListenOption = None,
    overrides: Overrides = None,
) -> None:
    """Train a policy for every role of a scenario."""
    _require_train_extra("train")
    from trainers.progress import console_progress
    from trainers.runs import RunFolder
    from trainers.training import train as run_training

    settings = parse_overrides(overrides or [])
    if updates is not None:
        settings["updates"] = updates
    if (scenario is None) == (resume is None):
        raise typer.BadParameter("give either a scenario or --resume RUN")
    if resume is not None and run is not None:
        raise typer.BadParameter("--resume RUN goes on in its own folder: leave out --run")
    if resume is not None:
        folder = RunFolder(resume)
        config = folder.config(settings)
        run_training(folder.scenario(), config, resume, resume=True, listener=console_progress(), listen=listen)
        return
    assert scenario is not None
    loaded = load_scenario(scenario)
    config = train_config(loaded, settings)
    run_training(loaded, config, run or Path("runs") / loaded.name, listener=console_progress(), listen=listen)


@app.command()
def evaluate(
    run: RunFolderArgument,
    scenario: Annotated[str | None, typer.Option(help="Another scenario with the same roles.")] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes per policy (and seed).")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the episodes; never the training seed.")] = None,
    scenarios: Annotated[str | None, typer.Option(metavar="A,B", help="Several scenarios with the same roles.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="1,2", help="Several seeds.")] = None,
    fleet: Annotated[str | None, typer.Option(metavar="16,32", help="Several numbers of robots.")] = None,
    layout_seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of other variants of the floor plan than the scenario's."),
    ] = None,
    sampled: Annotated[
        bool, typer.Option("--sampled", help="Also drive it once with actions drawn as in training.")
    ] = False,
    per_robot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Also write the figures of each robot in each episode (warehouse only)."),
    ] = None,
    best: BestOption = False,
    listen: ListenOption = None,
) -> None:
    """Drive the fleet greedily on seeds never trained on, beside a random policy, planners and the bound."""
    _require_train_extra("evaluate")
    _require_folder("--per-robot", per_robot)
    if scenarios is None and seeds is None and fleet is None and layout_seed is None:
        _evaluate_one(run, scenario, episodes, seed, sampled, per_robot, best, listen)
        return
    if sampled or per_robot is not None:
        option = "--sampled" if sampled else "--per-robot"
        raise typer.BadParameter(f"{option} goes with one scenario, seed and fleet")
    if (scenario and scenarios) or (seed is not None and seeds):
        raise typer.BadParameter("give --scenario or --scenarios, and --seed or --seeds, not both")
    from trainers.cross_evaluation import evaluate_across
    from trainers.cross_table import cross_lines

    names = scenarios.split(",") if scenarios else [scenario] if scenario else []
    across = evaluate_across(
        run,
        [load_scenario(name.strip()) for name in names],
        seeds=_integers(seeds, "--seeds", least=0) or ([] if seed is None else [seed]),
        fleets=_integers(fleet, "--fleet", least=1),
        layout_seed=layout_seed,
        num_episodes=episodes,
        checkpoint="best" if best else "latest",
        listen=listen,
    )
    print("\n".join(cross_lines(across.rows, across.left_out, Console().width)))
    print(f"wrote {across.csv_file}, {across.seeds_file} and {across.plot_file}")


def _evaluate_one(
    run: Path,
    scenario: str | None,
    episodes: int | None,
    seed: int | None,
    sampled: bool,
    per_robot: Path | None,
    best: bool,
    listen: str | None,
) -> None:
    from trainers.comparison import compare_run
    from trainers.efficiency import bound_text
    from trainers.report import evaluation_table

    comparison = compare_run(
        run,
        scenario=None if scenario is None else load_scenario(scenario),
        num_episodes=episodes,
        seed=seed,
        checkpoint="best" if best else "latest",
        listen=listen,
        sampled=sampled,
        robots_file=per_robot,
    )
    Console().print(evaluation_table(comparison.rows))
    if comparison.bound is not None:
        print(f"{bound_text(comparison.bound)}\nefficiency = deliveries / bound")
    for planner, reason in comparison.left_out.items():
        print(f"no {planner}: {reason}.")
    files = [comparison.csv_file, comparison.plot_file, *([] if per_robot is None else [per_robot])]
    print(f"wrote {', '.join(map(str, files[:-1]))} and {files[-1]}")


def _require_folder(option: str, file: Path | None) -> None:
    """Files are written after everything has been played: that must not be in vain."""
    if file is not None and not file.parent.is_dir():
        raise typer.BadParameter(f"{option}: expected a file in a folder that exists, got {file}")


def _integers(text: str | None, option: str, *, least: int) -> list[int]:
    """Whole numbers of ``least`` or more from ``1,2,3``."""
    parts = [] if text is None else text.split(",")
    if not all(part.strip().isdecimal() and int(part) >= least for part in parts):
        raise typer.BadParameter(
            f"{option}: expected whole numbers >= {least} such as {least},{least + 1}, got {text!r}"
        )
    return [int(part) for part in parts]


@app.command()
def export(
    run: RunFolderArgument,
    out: Annotated[Path | None, typer.Option(help="Folder for the files; RUN/export by default.")] = None,
    best: BestOption = False,
) -> None:
    """Write one ONNX file per role, check it as Unity would, and compare it with the trained policy."""
    _require_train_extra("export")
    from trainers.exporting import export_run

    for path in export_run(run, out or run / "export", checkpoint="best" if best else "latest"):
        print(f"{path}: meets Unity's contract and acts like the checkpoint")


@app.command()
def play(
    policy: Annotated[Path, typer.Option(metavar="DIR", help="Folder that `agv-bridge export` wrote.")],
    scenario: Annotated[str, typer.Option(help="Scenario name, file or folder.")],
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episodes.")] = 1_000_000,
    sampled: Annotated[bool, typer.Option("--sampled", help="Sample actions instead of taking the best.")] = False,
    gif: Annotated[Path | None, typer.Option(help="Write the first episode as a GIF (warehouse only).")] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write the first episode as a web page (warehouse only).")
    ] = None,
    listen: ListenOption = None,
) -> None:
    """Drive a fleet with exported policies, each robot from its own observation only."""
    from bridge.episodes import run_episodes
    from bridge.export import OnnxFleetPolicy
    from bridge.replay import record_replay
    from bridge.warehouse.recording import record_gif

    _require_folder("--gif", gif)
    _require_folder("--replay", replay)
    loaded = listen_on(load_scenario(scenario), listen)
    roster = open_world(loaded).roster(1)
    try:
        fleet_policy = OnnxFleetPolicy(policy, roster.spec, deterministic=not sampled, seed=seed)
        if gif is not None:
            record_gif(roster, fleet_policy, gif, seed=seed)
        if replay is not None:
            record_replay(roster, fleet_policy, replay, seed=seed, scenario_name=loaded.name, policy_name=str(policy))
        for result in run_episodes(roster, fleet_policy, seed=seed, num_episodes=episodes):
            figures = ", ".join(f"{name} {value:.4g}" for name, value in result.metrics.items())
            returns = ", ".join(f"{role} {value.total:.4g}" for role, value in result.returns.items())
            print(f"episode {result.episode}: {result.steps} steps, return {returns}{', ' if figures else ''}{figures}")
    finally:
        roster.close()


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def player(context: typer.Context) -> None:
    """Run the headless player with the arguments of a Unity build (--scenario F --mlagents-port P ...)."""
    from bridge.unity.player import main as run_player

    raise typer.Exit(run_player(context.args))


@app.command()
def demo(
    scenario: ScenarioName = "warehouse_small",
    run: Annotated[Path, typer.Option(help="Run folder; an older demo in it is replaced.")] = Path("runs/demo"),
    updates: Annotated[int | None, typer.Option(min=1, help="Length of the training in updates.")] = None,
) -> None:
    """The whole way: train, evaluate, export, drive the fleet over the ML-Agents protocol."""
    _require_train_extra("demo")
    from trainers.demo import run_demo

    run_demo(scenario, run, updates)
