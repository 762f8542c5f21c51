"""What the page says of robots and figures, in a real browser, against the recorded arrays."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bridge.policy import FleetPolicy
from bridge.registry import open_world
from bridge.replay import Recording, record_replay
from bridge.scenario import load_scenario
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.config_monitoring import MetricsConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.pauses import SERVED
from bridge.warehouse.simulator import WarehouseSimulator

Record = Callable[..., tuple[Path, Recording]]
Policies = Callable[[WarehouseSimulator, str], FleetPolicy]


def test_page_says_what_pickers_do(page: Any, record: Record) -> None:
    path, recording = record("warehouse_picking", "pibt")
    pickers_goals = recording.goal_cells[:, 8:]
    called = ~np.isin(pickers_goals, recording.layout.parking) & (pickers_goals >= 0)
    step, picker = np.argwhere(called)[60]
    page.open(path, f"step={step}&robot=picker_{picker}&paused")
    assert page.text("robot-task").startswith("called to a pick-up")
    step, robot = np.argwhere(recording.pauses[:, 8:] == SERVED)[40] + (0, 8)
    page.open(path, f"step={step}&robot={robot}&paused")
    assert page.text("robot-did") == "helped"
    events, kind = recording.events, recording.events.kinds.index("help")
    helpers = np.split(events.robots, events.end[:-1])
    done = [k for k in np.flatnonzero((events.kind == kind) & (events.step <= step)) if robot in helpers[k]]
    assert page.text("robot-deliveries") == f"{len(done)} loads so far"
    assert "helped" in page.run("document.querySelector('.log').textContent")


def test_page_says_who_parks_charges_and_has_run_flat(page: Any, policies: Policies, tmp_path: Path) -> None:
    battery = {"time_factor": 400, "initial_min": 0.3, "initial_max": 0.6, "charging": {"rate_per_h": 0.5}}
    rows = ["P.P.P", ".....", "S.C.E"]
    section = {
        "layout": {"grid": "\n".join(rows)},
        "fleet": (
            {"role": "carrier", "count": 2, "battery": battery},
            {"role": "spare", "count": 1, "battery": {"initial_min": 0.0, "initial_max": 0.0}},
        ),
        "tasks": {"arrival": "poisson", "rate_per_h": 60.0},
        "episode_steps": 200,
    }
    config = WarehouseConfig.model_validate(section)
    simulator = WarehouseSimulator(config, Layout.from_drawing(rows, 1.0, "test"), 1)
    path = tmp_path / "replay.html"
    recording = record_replay(simulator, policies(simulator, "pibt"), path, seed=3, scenario_name="flat")
    simulator.close()
    row, column = np.divmod(recording.goal_cells, 5)
    idle = ~recording.has_task & (recording.goal_cells >= 0)
    there = (recording.positions_m == np.stack([column + 0.5, 2.5 - row], axis=-1)).all(axis=2)
    flat = recording.charge <= 0.0
    for words, holds in (
        ("none: parks", there & (row == 0)),
        ("none: charges", there & (row == 2)),
        ("none: goes to a charger", ~there & (row == 2)),
    ):
        step, robot = np.argwhere(holds & idle & ~flat)[-1]
        page.open(path, f"step={step}&robot={robot}&paused")
        assert page.text("robot-task") == words
    step, robot = np.argwhere(flat)[-1]
    page.open(path, f"step={step}&robot={robot}&paused&theme=light")
    assert page.text("robot-did") == "stood: battery empty"
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    x, y = recording.positions_m[step, robot]
    colours = [
        picture[round(row), round(column)].tolist()
        for column, row in page.run(
            "(() => { const box = document.getElementById('fleet').getBoundingClientRect();"
            f" return [-0.2, 0.2].map((side) => [box.left + agvReplay.camera.screenX({x} + side),"
            f" box.top + agvReplay.camera.screenY({y} - 0.2)]); }})()"
        )
    ]
    assert colours == [[0xB3, 0x26, 0x1E], [0xD5, 0x5E, 0x00]]
    assert "battery empty" in page.text("legend-items")


def test_page_leaves_the_warm_up_out_of_its_figures(page: Any, policies: Policies, tmp_path: Path) -> None:
    world = open_world(load_scenario("warehouse_small"))
    changed = {"metrics": MetricsConfig(warm_up_s=100.0), "episode_steps": 200}
    simulator = WarehouseSimulator(world.config.model_copy(update=changed), world.layout, 1)
    path = tmp_path / "replay.html"
    recording = record_replay(simulator, policies(simulator, "random"), path, seed=3, scenario_name="warm")
    figures = {name: value for name, _, value in recording.figures}
    simulator.close()
    page.open(path, "step=60&paused")
    assert page.text("kpi-blocked") == str(recording.num_refused[:61].sum())
    page.key("End")
    assert page.text("kpi-blocked") == f"{figures['blocked_moves']:g}" != str(recording.num_refused.sum())
    assert float(page.text("kpi-rate")) == pytest.approx(figures["deliveries_per_h"], abs=0.5)
    assert f"Livelocks {figures['livelocks']:g}" in page.text("lane-labels")
    assert "Blocked moves since the warm-up" in page.text("kpis")
    assert "warm-up" in page.text("legend-items")
