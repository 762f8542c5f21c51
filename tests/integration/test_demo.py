"""The demo, shortened: every part, every file that it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
from PIL import Image

from bridge.scenario import shipped_scenarios

COMMAND = (sys.executable, "-P", "-c", "from trainers.cli import main; main()")


def test_demo_leaves_everything_that_it_promises_when_training_is_short(tmp_path: Path) -> None:
    run = tmp_path / "demo"
    for _ in range(2):  # The second one replaces the first.
        done = subprocess.run(
            [*COMMAND, "demo", "warehouse_small", "--run", str(run), "--updates", "1"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=170,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
    summary = json.loads((run / "demo.json").read_text())
    assert set(summary["policies"]) == {"random", "trained", "exported", "pibt"}
    assert summary["decisions_compared"] > 1000
    assert summary["decisions_different"] == 0
    # Over the protocol the exported policy plays the very episodes of the checkpoint.
    assert summary["policies"]["exported"] == summary["policies"]["trained"]
    assert all(policy["collisions"]["mean"] == 0 for policy in summary["policies"].values())
    onnx.checker.check_model(onnx.load(run / "export" / "carrier.onnx"))
    for picture in ("learning_curves.png", "evaluation.png", "fleet.gif"):
        with Image.open(run / picture) as image:
            image.verify()
    for file in ("config.yaml", "metrics.jsonl", "evaluation.csv", "checkpoints/latest.npz", "scenario"):
        assert (run / file).exists(), file
    assert list((run / "tensorboard").iterdir())
    assert "warehouse_small" in shipped_scenarios()
