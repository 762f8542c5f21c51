"""The command line as a user meets it: real processes, exit codes, one-line errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trainers.cli import app

TINY = """\
schema: 1
description: Two robots in a hall.
world: warehouse
warehouse:
  layout:
    grid: |
      P.S.P
      .....
      ..E..
  fleet: [{role: carrier, count: 2}]
  observation: [{block: self}, {block: target}, {block: path}]
  reward: {delivery: 1.0, pickup: 0.5}
  tasks: {open: 2}
  episode_steps: 16
train: {num_envs: 4, rollout_steps: 16, hidden_sizes: [8], eval_episodes: 4, updates: 2, torch_threads: 1}
"""


def run_cli(*arguments: str | Path, cwd: Path, blocked: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run ``agv-bridge``; ``blocked`` packages look as if they were not installed."""
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); from trainers.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=150,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``tiny.yaml`` and ``runs/tiny``, trained by the command."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "tiny.yaml").write_text(TINY)
    done = run_cli("train", "tiny.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_cli_train_writes_a_run_that_the_other_commands_take(trained: Path) -> None:
    run = Path("runs/tiny")
    evaluated = run_cli("evaluate", run, "--sampled", "--per-robot", "robots.csv", cwd=trained)
    assert evaluated.returncode == 0, evaluated.stderr
    assert (trained / "robots.csv").read_text().startswith("policy,env,episode,agent,deliveries,pickups,distance_m,")
    assert "decision_ms" in evaluated.stdout
    assert all(policy in evaluated.stdout for policy in ("random", "trained", "sampled", "pibt"))
    across = run_cli("evaluate", run, "--seeds", "0,6", "--fleet", "2", "--episodes", "1", cwd=trained)
    assert across.returncode == 0, across.stderr
    assert "efficiency" in across.stdout
    assert "of seeds 0, 6" in across.stdout
    assert (trained / run / "evaluation_across.csv").is_file()
    exported = run_cli("export", run, cwd=trained)
    assert exported.returncode == 0, exported.stderr
    assert (trained / run / "export" / "carrier.onnx").is_file()
    gif, page = trained / "fleet.gif", trained / "fleet.html"
    pictures = ("--gif", gif, "--replay", page)
    played = run_cli("play", "--policy", run / "export", "--scenario", "tiny.yaml", *pictures, cwd=trained)
    assert played.returncode == 0, played.stderr
    assert "episode 0: 16 steps" in played.stdout
    assert gif.read_bytes().startswith(b"GIF8")
    assert "<title>tiny - replay</title>" in page.read_text(encoding="utf-8")


def test_cli_train_goes_on_when_resumed(trained: Path) -> None:
    run = trained / "runs" / "tiny"
    before = [json.loads(line)["update"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    done = run_cli("train", "--resume", run, "--updates", "4", cwd=trained)
    assert done.returncode == 0, done.stderr
    after = [json.loads(line)["update"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert before == [1, 2]
    assert after == [1, 2, 3, 4]


def test_cli_train_saves_and_ends_when_interrupted(trained: Path) -> None:
    command = [sys.executable, "-P", "-c", "from trainers.cli import main; main()", "train", "tiny.yaml"]
    process = subprocess.Popen(
        [*command, "--run", "long", "--updates", "1000000", "--set", "num_workers=2"],
        cwd=trained,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    metrics = trained / "long" / "metrics.jsonl"
    deadline = time.monotonic() + 100
    while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "interrupted after" in output
    assert (trained / "long" / "checkpoints" / "latest.npz").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "warehouse_smal"), "Did you mean 'warehouse_small'?"),
        (("train", "tiny.yaml", "--run", "new", "--set", "learning_rat=1"), "Did you mean 'learning_rate'?"),
        (("train", "tiny.yaml"), "expected a new or empty folder"),
        (("train", "tiny.yaml", "--run", "tiny.yaml/run"), "tiny.yaml/run/checkpoints: expected a path that can be"),
        (("train", "--resume", "runs/tiny", "--run", "other"), "leave out --run"),
        (("evaluate", "nowhere"), "nowhere"),
        (("evaluate", "runs/tiny", "--seeds", "0,-1"), "--seeds: expected whole numbers >= 0 such as 0,1, got '0,-1'"),
        (("evaluate", "runs/tiny", "--seed", "1"), "expected a seed that was never trained on"),
        (("evaluate", "runs/tiny", "--sampled", "--seeds", "5,6"), "--sampled goes with one scenario, seed and fleet"),
        (("evaluate", "runs/tiny", "--per-robot", "x.csv", "--fleet", "2"), "--per-robot goes with one scenario, seed"),
        (
            ("evaluate", "runs/tiny", "--listen", "127.0.0.1"),
            "expected a world that listens for players",
        ),
        (("play", "--policy", "runs", "--scenario", "tiny.yaml"), "runs"),
        (("scenarios", "validate", "nowhere.yaml"), "nowhere.yaml"),
        (("demo", "tiny.yaml", "--run", "runs/tiny"), "expected a new folder or an older demo"),
        (("demo", "mpe_spread", "--run", "elsewhere"), "expected a scenario with `world: warehouse`"),
        (("train", "--resume", "runs/tiny", "--updates", "1"), "expected a run of less than 1 updates"),
        (("play", "--policy", "runs/tiny", "--scenario", "tiny.yaml"), "agv-bridge export RUN"),
    ],
)
def test_cli_prints_one_message_and_exits_2_when_the_user_errs(
    trained: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run_cli(*arguments, cwd=trained)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "no-run", "--per-robot", "no/x"),
        ("play", "--policy", "no-run", "--scenario", "warehouse_small", "--gif", "no/x"),
        ("play", "--policy", "no-run", "--scenario", "warehouse_small", "--replay", "no/x"),
    ],
)
def test_cli_refuses_files_in_folders_that_do_not_exist_before_anything_is_played(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert f"{command[-2]}: expected a file in a folder that exists, got no/x" in " ".join(
        result.output.replace("│", " ").split()
    )


@pytest.mark.parametrize("command", [("train", "tiny.yaml"), ("evaluate", "runs/tiny"), ("export", "runs/tiny")])
def test_cli_names_the_extra_when_torch_is_missing(trained: Path, command: tuple[str, ...]) -> None:
    done = run_cli(*command, cwd=trained, blocked=("torch",))
    assert done.returncode == 2
    assert "pip install 'agv-bridge[train]'" in done.stderr


def test_cli_works_without_torch_where_nothing_is_learnt(trained: Path) -> None:
    blocked = ("torch", "tensorboard", "matplotlib")
    for arguments in (
        ("scenarios", "list"),
        ("scenarios", "show", "tiny.yaml"),
        ("scenarios", "validate", "tiny.yaml"),
    ):
        done = run_cli(*arguments, cwd=trained, blocked=blocked)
        assert done.returncode == 0, done.stderr


def test_cli_names_the_extra_of_a_world_when_it_is_missing(trained: Path) -> None:
    done = run_cli("scenarios", "show", "mamujoco_ant_4x2", cwd=trained, blocked=("gymnasium_robotics",))
    assert done.returncode == 2
    assert "pip install 'agv-bridge[mamujoco]'" in done.stderr


def test_cli_scenarios_validate_checks_every_file_when_an_early_one_is_wrong(trained: Path) -> None:
    (trained / "empty.yaml").write_text("")
    (trained / "list.yaml").write_text("- 1")
    done = run_cli("scenarios", "validate", "empty.yaml", "tiny.yaml", "list.yaml", cwd=trained)
    assert done.returncode == 2
    assert "tiny.yaml: ok" in done.stdout
    assert "empty.yaml: expected a mapping" in done.stderr
    assert "list.yaml: expected a mapping" in done.stderr


def test_cli_scenarios_schema_is_json(trained: Path) -> None:
    done = run_cli("scenarios", "schema", cwd=trained)
    assert json.loads(done.stdout)["properties"]["world"]["enum"][0] == "warehouse"


def test_cli_scenarios_show_prints_every_block(trained: Path) -> None:
    done = run_cli("scenarios", "show", "tiny.yaml", cwd=trained)
    assert all(block in done.stdout for block in ("self", "target", "path", "P.S.P", "2 robots"))


def test_cli_player_explains_itself(trained: Path) -> None:
    done = run_cli("player", "--help", cwd=trained)
    assert done.returncode == 0
    assert "--mlagents-port PORT" in done.stdout


def test_cli_player_says_so_when_there_is_no_port(trained: Path) -> None:
    done = run_cli("player", "--scenario", "tiny.yaml", cwd=trained)
    assert done.returncode == 2
    assert "--mlagents-port" in done.stdout + done.stderr
