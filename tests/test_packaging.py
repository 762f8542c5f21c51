"""The wheel holds what it needs and works from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("agv_bridge-*.whl"))


def test_wheel_holds_packages_scenarios_and_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "bridge/_scenarios/warehouse_small.yaml" in names
    assert "bridge/_scenarios/maps/small.map" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"bridge", "trainers"}


def test_wheel_trains_a_shipped_scenario_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import bridge, trainers.cli, sys; "
        f"assert bridge.__file__.startswith({str(site)!r}), bridge.__file__; trainers.cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "train", "warehouse_small", "--updates", "2", "--set", "rollout_steps=8"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=170,
        env={**os.environ, "PYTHONPATH": str(site)},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "warehouse_small" / "checkpoints" / "latest.npz").is_file()
