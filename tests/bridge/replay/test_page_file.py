"""The file: whole, safe, equal for equal recordings, and small."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.errors import SpecMismatchError
from bridge.policy import RandomPolicy
from bridge.replay import Recording, record_episode, write_replay
from bridge.replay.writer import page_text
from bridge.warehouse.config import (
    DifferentialDriveConfig,
    LayoutConfig,
    LidarBlock,
    PathBlock,
    RoleConfig,
    TargetBlock,
    WarehouseConfig,
)
from bridge.warehouse.config_communication import CommunicationConfig, MessagesBlock
from bridge.warehouse.layout import Layout
from bridge.warehouse.simulator import WarehouseSimulator

Record = Callable[..., tuple[Path, Recording]]


def test_page_loads_nothing_and_allows_nothing_but_its_own_script_and_style(record: Record) -> None:
    path, _ = record("warehouse_small", "pibt", 50)
    text = path.read_text(encoding="utf-8")
    assert not re.search(
        r"https?:|\bsrc=|\bhref=|url\(|@import|\bimport\(|fetch\(|XMLHttpRequest|WebSocket|eval\(", text
    )
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    for tag in ("script", "style"):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(inside) == 1
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]


def test_page_is_the_same_for_the_same_episode(record: Record) -> None:
    path, recording = record("warehouse_small", "pibt", 50)
    assert page_text(recording).encode() == path.read_bytes()


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", "{{payload}}", "\\1 & \"'<b>", "\u2028\u202e Halle ä"]
)
def test_page_takes_any_name_as_text(name: str, record: Record) -> None:
    _, recording = record("warehouse_small", "pibt", 50)
    text = page_text(dataclasses.replace(recording, scenario=name, policy=name))
    assert len(re.findall(r"<script", text)) == 2
    assert len(re.findall(r"</script", text)) == 2
    title = re.search(r"<title>(.*?)</title>", text)
    assert title is not None
    assert "<" not in title[1]


def test_write_replay_names_the_path_that_cannot_be_written(record: Record, tmp_path: Path) -> None:
    _, recording = record("warehouse_small", "pibt", 50)
    missing = tmp_path / "nowhere" / "replay.html"
    with pytest.raises(SpecMismatchError, match=r"replay: expected to write .*nowhere/replay\.html, got No such file"):
        write_replay(recording, missing)


def header_of(text: str) -> dict[str, Any]:
    """What stands before the arrays in the payload of a page."""
    payload = re.search(r'type="application/octet-stream">\s*([A-Za-z0-9+/=]+)', text)
    assert payload is not None
    data = zlib.decompress(base64.b64decode(payload[1]))
    return dict(json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")]))


def test_page_tells_the_sides_of_rectangles_and_nothing_of_them_for_discs(record: Record) -> None:
    _, recording = record("warehouse_small", "pibt", 50)
    (carrier,) = header_of(page_text(recording))["roles"]
    assert carrier.keys() == {"name", "count", "job", "radius_m"}
    forklift = RoleConfig(role="forklift", count=8, length_m=0.6, width_m=0.8)
    config = recording.config.model_copy(update={"fleet": (forklift,)})
    (described,) = header_of(page_text(dataclasses.replace(recording, config=config)))["roles"]
    expected = {"name": "forklift", "count": 8, "job": "carry", "radius_m": 0.5, "length_m": 0.6, "width_m": 0.8}
    assert described == expected


def test_page_carries_no_comments_of_its_scripts(record: Record) -> None:
    _, recording = record("warehouse_small", "pibt", 50)
    script = re.search(r"<script>(.*?)</script>", page_text(recording), re.DOTALL)
    assert script is not None
    lines = script[1].splitlines()
    assert len(lines) > 1_000
    assert not [line for line in lines if line.strip().startswith(("//", "/*", "*"))]


def hall(rows: int, columns: int) -> list[str]:
    """Racks two deep between aisles, stations in the aisles, deliveries on both sides, parking at top and bottom."""
    cells = np.full((rows, columns), ".")
    row, column = np.mgrid[:rows, :columns]
    storage = (row >= 4) & (row < rows - 4) & (column >= 8) & (column < columns - 8) & ((column - 8) % 12 < 10)
    aisle = (row - 4) % 3 == 2
    cells[storage & ~aisle] = "#"
    cells[storage & aisle & (column % 4 == 1)] = "S"
    cells[(row % 3 == 1) & np.isin(column, (1, columns - 2))] = "E"
    cells[np.isin(row, (0, rows - 1)) & (column % 2 == 0)] = "P"
    return ["".join(line) for line in cells]


@pytest.mark.slow
def test_page_of_500_robots_and_1000_steps_stays_below_10_mb(tmp_path: Path) -> None:
    """With random driving, talk, and a lidar of 36 beams, which compress worst; discs and rectangles."""
    rows = hall(81, 140)
    config = WarehouseConfig(
        layout=LayoutConfig(grid="\n".join(rows), cell_size_m=1.5),
        fleet=(
            RoleConfig(role="carrier", count=250),
            RoleConfig(role="forklift", count=250, length_m=0.9, width_m=0.65),
        ),
        drive=DifferentialDriveConfig(),
        observation=(TargetBlock(), PathBlock(), LidarBlock(), MessagesBlock()),
        communication=CommunicationConfig(range_m=20.0, loss=0.1, latency_jitter_steps=2),
        episode_steps=2_000,
    )
    simulator = WarehouseSimulator(config, Layout.from_drawing(rows, 1.5, "test"), 1)
    recording = record_episode(
        simulator, RandomPolicy(simulator.spec, 3), seed=5, max_steps=1_000, scenario_name="hall"
    )
    assert recording.alive.shape == (1_001, 500)
    path = tmp_path / "replay.html"
    write_replay(recording, path)
    assert path.stat().st_size < 10e6


def test_docs_example_writes_a_page(tmp_path: Path) -> None:
    docs = Path(__file__).resolve().parents[3] / "docs" / "replay.md"
    example = re.search(r"```python\n(.*?)```", docs.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    done = subprocess.run(
        [sys.executable, "-c", example[1]], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "<title>warehouse_small - replay</title>" in (tmp_path / "pibt.html").read_text(encoding="utf-8")
