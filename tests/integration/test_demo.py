"""The demo, shortened: every part, every file that it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from PIL import Image

SCENARIO = """\
schema: 1
world: warehouse
warehouse:
  layout:
    grid: |
      P.S.P
      .....
      ..E..
  fleet: [{role: carrier, count: 2}]
  episode_steps: 60
train: {num_envs: 4, num_workers: 2, rollout_steps: 16, hidden_sizes: [8], eval_episodes: 4}
"""
COMMAND = (sys.executable, "-P", "-c", "from trainers.cli import main; main()")


def test_demo_leaves_everything_that_it_promises_when_training_is_short(tmp_path: Path) -> None:
    (tmp_path / "dock.yaml").write_text(SCENARIO)
    run = tmp_path / "demo"
    run.mkdir()
    for leftover in ("demo.json", "older.txt"):
        (run / leftover).write_text("{}")
    done = subprocess.run(
        [*COMMAND, "demo", "dock.yaml", "--run", str(run), "--updates", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=170,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert not (run / "older.txt").exists()
    summary = json.loads((run / "demo.json").read_text())
    assert set(summary["policies"]) == {"random", "trained", "exported", "pibt", "token_passing"}
    assert summary["decisions_compared"] == 60 * 2
    assert summary["decisions_different"] == 0
    # Over the protocol the exported policy plays the very episodes of the checkpoint.
    trained, exported = (
        {name: value["mean"] for name, value in summary["policies"][policy].items()}
        for policy in ("trained", "exported")
    )
    assert exported == pytest.approx(trained, rel=1e-6)  # Figures are float32 on the wire.
    assert all(policy["collisions"]["mean"] == 0 for policy in summary["policies"].values())
    onnx.checker.check_model(onnx.load(run / "export" / "carrier.onnx"))
    for picture in ("learning_curves.png", "evaluation.png", "fleet.gif"):
        with Image.open(run / picture) as image:
            image.verify()
    for file in ("config.yaml", "metrics.jsonl", "evaluation.csv", "checkpoints/latest.npz", "scenario"):
        assert (run / file).exists(), file
    assert list((run / "tensorboard").iterdir())
