"""The page in a real browser: numbers, keys, clicks, and what is drawn, against the recorded arrays."""

from __future__ import annotations

import dataclasses
import io
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bridge.policy import FleetPolicy, RandomPolicy
from bridge.registry import open_world
from bridge.replay import Recording, ReplayEvent, RobotField, record_replay, write_replay
from bridge.replay.encoding import quantise
from bridge.replay.writer import page_text
from bridge.scenario import load_scenario
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.simulator import WarehouseSimulator

Record = Callable[..., tuple[Path, Recording]]
Policies = Callable[[WarehouseSimulator, str], FleetPolicy]
SHIFT = 8


def delivered(recording: Recording, step: int) -> int:
    events = recording.events
    sizes = np.diff(events.end, prepend=0)
    chosen = (events.kind == events.kinds.index("delivery")) & (events.step <= step)
    return int(sizes[chosen].sum())


def collided(recording: Recording, step: int) -> str:
    return f"{recording.num_half_contacts[: step + 1].sum() / 2:g}"


def on_screen(page: Any, x_m: float, y_m: float) -> tuple[int, int]:
    """Column and row of the pixel that shows a place of the floor."""
    x, y = page.run(
        "(() => { const box = document.getElementById('fleet').getBoundingClientRect();"
        f" return [box.left + agvReplay.camera.screenX({x_m}), box.top + agvReplay.camera.screenY({y_m})]; }})()"
    )
    return round(x), round(y)


@pytest.mark.parametrize(
    ("scenario", "policy", "step", "robot"),
    [
        ("warehouse_two_roles", "pibt", 120, 3),
        ("warehouse_two_roles", "pibt", 400, 7),
        ("warehouse_small_despawn", "random", 97, 1),
        ("warehouse_drive", "driver", 333, 0),
    ],
)
def test_page_shows_the_recorded_numbers_at_a_step(
    scenario: str, policy: str, step: int, robot: int, page: Any, record: Record
) -> None:
    path, recording = record(scenario, policy)
    page.open(path, f"step={step}&robot={robot}&paused")
    assert page.text("scenario") == scenario
    assert (page.text("step"), page.text("steps")) == (str(step), str(recording.num_steps))
    per_hour = delivered(recording, step) * 3600 / (step * recording.step_s)
    assert float(page.text("kpi-rate")) == pytest.approx(per_hour, abs=0.5)
    assert page.text("kpi-collisions") == collided(recording, step)
    assert page.text("kpi-blocked") == str(recording.num_refused[: step + 1].sum())
    assert page.text("kpi-robots") == str(recording.alive[step].sum())
    x, y = recording.positions_m[step, robot]
    assert [float(word) for word in page.text("robot-place").split() if word[0].isdigit()] == pytest.approx(
        [x, y], abs=0.0076
    )
    assert float(page.text("robot-charge").split()[0]) == pytest.approx(100 * recording.charge[step, robot], abs=0.06)
    goal = int(recording.goal_cells[step, robot])
    row, column = divmod(goal, recording.layout.width)
    assert page.text("robot-target").endswith(f"row {row}, column {column}" if goal >= 0 else "none")
    expected = {True: "brings a load to its delivery", False: "fetches a load"}
    assert page.text("robot-task") == expected[bool(recording.loaded[step, robot])]


def test_page_ends_with_the_figures_of_the_episode(page: Any, record: Record) -> None:
    path, recording = record("warehouse_small_despawn", "random")
    page.open(path)
    page.key("End")
    figures = {name: value for name, _, value in recording.figures}
    assert page.text("kpi-collisions") == f"{figures['collisions']:g}"
    assert page.text("kpi-blocked") == f"{figures['blocked_moves']:g}"
    assert float(page.text("kpi-rate")) == pytest.approx(figures["deliveries_per_h"], abs=0.5)
    assert f"despawns{figures['despawns']:g}" in page.text("figures")
    assert f"Despawns {figures['despawns']:g}" in page.text("lane-labels")


def test_page_restores_every_array(page: Any, record: Record) -> None:
    path, recording = record("warehouse_drive", "driver")
    page.open(path)
    arrays = page.run("Object.fromEntries(Object.entries(agvReplay.replay.arrays).map(([k, v]) => [k, Array.from(v)]))")
    assert recording.lidar is not None
    expected = {
        "x": quantise(recording.positions_m[..., 0], 0.005),
        "y": quantise(recording.positions_m[..., 1], 0.005),
        "goal": recording.goal_cells,
        "charge": quantise(recording.charge, 0.001),
        "lidar": quantise(recording.lidar.values, 0.005),
        "blocked": recording.layout.blocked,
        "pickups": recording.layout.pickups,
        "event_step": recording.events.step,
        "event_robots": recording.events.robots,
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(arrays[name], values.ravel(), err_msg=name)


def test_page_is_played_paused_and_scrubbed_by_keys(page: Any, record: Record) -> None:
    path, recording = record("warehouse_small_despawn", "random")
    page.open(path, "step=50&paused")
    page.key("ArrowRight", "ArrowRight")
    assert page.text("step") == "51"
    page.key("ArrowLeft", "ArrowLeft", SHIFT)
    assert page.text("step") == "41"
    page.key("Home")
    page.key("]")
    alarms = np.unique(recording.events.step[np.isin(recording.events.kind, (1, 2))])
    assert page.text("step") == str(alarms[0])
    page.key("]")
    assert page.text("step") == str(alarms[1])
    page.key("[")
    assert page.text("step") == str(alarms[0])
    page.key(" ", "Space")
    assert "Pause" in page.text("play")
    page.wait(f"agvReplay.player.time > {alarms[0] + 1}")
    page.key(" ", "Space")
    assert "Play" in page.text("play")
    stopped = page.run("agvReplay.player.time")
    page.settle()
    assert page.run("agvReplay.player.time") == stopped


def test_page_goes_to_where_the_time_line_is_clicked(page: Any, record: Record) -> None:
    path, recording = record("warehouse_small_despawn", "random")
    page.open(path)
    box = page.run(
        "(({left, top, width}) => ({left, top, width}))(document.getElementById('lane-marks').getBoundingClientRect())"
    )
    page.click(box["left"] + 8 + 0.25 * (box["width"] - 16), box["top"] + 25)
    assert int(page.text("step")) == pytest.approx(recording.num_steps / 4, abs=1)


def test_page_follows_the_robot_that_is_clicked(page: Any, record: Record) -> None:
    path, recording = record("warehouse_two_roles", "pibt")
    page.open(path, "step=120&paused&zoom=60")
    for robot in (0, 6):
        x, y = recording.positions_m[120, robot]
        page.run(f"location.hash = 'x={x}&y={y}'")
        page.settle()
        place = page.run(
            f"(() => {{ const box = document.getElementById('fleet').getBoundingClientRect();"
            f" return [box.left + agvReplay.camera.screenX({x}), box.top + agvReplay.camera.screenY({y})]; }})()"
        )
        page.click(*place)
        assert page.run("agvReplay.selected") == robot
        assert page.text("inspector").startswith(["carrier_0", "tugger_1"][robot > 4])
    page.key("Escape")
    assert page.run("agvReplay.selected") == -1
    page.key("n")
    page.key("f")
    page.key("End")
    x, y = recording.positions_m[-1, 0]
    assert page.run("[agvReplay.camera.x, agvReplay.camera.y]") == pytest.approx([x, y], abs=0.01)


def test_page_moves_robots_smoothly_between_steps_but_never_across_a_respawn(page: Any, record: Record) -> None:
    path, recording = record("warehouse_small_despawn", "random")
    page.open(path)
    where = "[Array.from(agvReplay.fleet.x), Array.from(agvReplay.fleet.shown)]"
    x, alive = recording.positions_m[..., 0], recording.alive
    moving = np.argwhere(alive[:-1] & alive[1:] & (x[:-1] != x[1:]))[0]
    leaving = np.argwhere(alive[:-1] & ~alive[1:])[0]
    coming = np.argwhere(~alive[:-1] & alive[1:])[0]
    for step, robot in (moving, leaving, coming):
        page.run(f"agvReplay.player.seek({step}.5)")
        page.settle()
        places, shown = page.run(where)
        assert bool(shown[robot]) == bool(alive[step, robot])
        both = alive[step, robot] and alive[step + 1, robot]
        expected = (x[step, robot] + x[step + 1, robot]) / 2 if both else x[step, robot]
        assert places[robot] == pytest.approx(expected, abs=0.006)


def test_page_says_that_a_robot_is_off_the_floor(page: Any, record: Record) -> None:
    path, recording = record("warehouse_small_despawn", "random")
    step, robot = np.argwhere(~recording.alive)[0]
    page.open(path, f"step={step}&robot={robot}&paused")
    assert page.text("robot-task") == "off the floor"
    assert page.text("robot-place") == "-"
    assert page.text("robot-charge").strip() == "-"


def test_page_knows_the_shortest_way_to_the_target(page: Any, record: Record) -> None:
    path, recording = record("warehouse_two_roles", "pibt")
    simulator = open_world(load_scenario("warehouse_two_roles")).roster(1)
    assert isinstance(simulator, WarehouseSimulator)
    simulator.reset(5)
    page.open(path, "step=0&paused")
    for robot in range(recording.num_robots):
        cell, goal = int(simulator.cells[0, robot]), int(simulator.goal_cells[0, robot])
        way = page.run(f"agvReplay.routes.path({cell}, {goal})")
        assert (way[0], way[-1]) == (cell, goal)
        assert len(way) - 1 == simulator.goal_distances[simulator.goal_index[0, robot], cell]
        for here, there in itertools.pairwise(way):
            assert there in simulator.moves[here]
    simulator.close()


def test_page_shows_what_the_lidar_saw(page: Any, record: Record) -> None:
    path, recording = record("warehouse_drive", "driver")
    page.open(path, "step=200&robot=2&paused")
    assert recording.lidar is not None
    scan = recording.lidar.values[200, 2] * recording.lidar.range_m
    told = re.search(r"(\d+) hit something, the nearest ([\d.]+) m away", page.text("robot-lidar"))
    assert told is not None
    assert int(told[1]) == (scan < 7.98).sum()
    assert float(told[2]) == pytest.approx(scan.min(), abs=0.026)


def test_page_shows_what_the_followed_robot_says_and_hears(page: Any, record: Record) -> None:
    path, recording = record("warehouse_messages", "random")
    talk = recording.messages
    assert talk is not None
    said = np.rint(talk.said * 100.0) / 100.0 + 0.0  # as it is kept, and no -0.00
    old, forgotten = talk.age.max(axis=2) > 1, ((talk.heard_from >= 0) & (talk.age < 0)).any(axis=2)
    for step, robot in (np.argwhere(old)[0], np.argwhere(forgotten)[-1]):
        page.open(path, f"step={step}&robot={robot}&paused")
        assert page.text("robot-sent") == ", ".join(f"{value:.2f}" for value in said[step, robot])
        lines = []
        for sender, age in zip(talk.heard_from[step, robot], talk.age[step, robot], strict=True):
            if sender >= 0:
                words = ", ".join(f"{value:.2f}" for value in said[step - age, sender])
                lines.append(f"carrier_{sender}: " + (f"{words}; {age:g}\u00a0s\u00a0old" if age >= 0 else "nothing"))
        assert lines
        assert page.run("Array.from(document.getElementById('robot-received').children, (e) => e.textContent)") == lines
    step, robot = np.argwhere(talk.heard_from[1:, :, 0] < 0)[0] + (1, 0)
    page.open(path, f"step={step}&robot={robot}&paused")
    assert page.text("robot-received") == "none: no robot in range"
    page.key("Home")
    assert page.text("robot-sent") == "none"
    page.key("End")
    assert page.text("robot-sent") == ", ".join(f"{value:.2f}" for value in said[-1, robot])


def test_page_shows_further_fields_and_events(page: Any, tmp_path: Path) -> None:
    simulator = open_world(load_scenario("warehouse_small")).roster(1)
    assert isinstance(simulator, WarehouseSimulator)
    heard = np.where(np.arange(8)[:, None] == 2, np.nan, [[0.25, -0.5]])
    fields = [
        RobotField("message", "Message", lambda simulator, env: heard, resolution=0.01),
        RobotField("age", "Age of message", lambda simulator, env: simulator.steps[env] + np.zeros(8), unit="steps"),
        RobotField("mood", "Mood", lambda simulator, env: np.arange(8) % 2, choices=("calm", "in a hurry")),
    ]

    def find(simulator: WarehouseSimulator, env: int) -> list[ReplayEvent]:
        return [ReplayEvent(7, "deadlock", (1, 2)), ReplayEvent(9, "<odd>", (1,))] if simulator.steps[env] == 9 else []

    path = tmp_path / "replay.html"
    policy = RandomPolicy(simulator.spec, 3)
    record_replay(simulator, policy, path, seed=5, max_steps=20, scenario_name="x", fields=fields, read_events=find)
    page.open(path, "step=9&robot=carrier_1&paused")
    assert page.text("robot-field-0") == "0.25, -0.50"
    assert page.text("robot-field-1") == "9 steps"
    assert page.text("robot-field-2") == "in a hurry"
    assert "Deadlocks 1" in page.text("lane-labels")
    assert "<odd> 1" in page.text("lane-labels")
    assert "9: <odd>7: deadlock" in page.text("inspector")
    page.key("p")
    page.key("n")
    page.key("n")
    assert page.text("robot-field-0") == "-"


def test_page_shows_hostile_names_as_text(page: Any, record: Record, tmp_path: Path) -> None:
    _, recording = record("warehouse_small", "pibt", 50)
    name = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>{{script}}"
    path = tmp_path / "replay.html"
    write_replay(dataclasses.replace(recording, scenario=name, policy=name), path)
    page.open(path)
    assert page.text("scenario") == name
    assert page.run("document.title") == f"{name} - replay"
    assert name in page.text("about")
    assert page.run("window.hacked === undefined && document.images.length === 0")


def test_page_says_so_when_its_data_are_damaged(page: Any, record: Record, tmp_path: Path) -> None:
    _, recording = record("warehouse_small", "pibt", 50)
    text = page_text(recording)
    start = text.index('type="application/octet-stream">') + 500
    path = tmp_path / "replay.html"
    path.write_text(text[:start] + "A" * 40 + text[start + 40 :], encoding="utf-8")
    page.open(path)
    assert page.run("document.documentElement.dataset.state") == "failed"
    assert "The replay cannot be shown." in page.text("notice")
    assert page.problems  # the cause stands in the console, too
    page.problems.clear()


def test_page_draws_racks_robots_and_event_signs(page: Any, record: Record) -> None:
    path, recording = record("warehouse_small_despawn", "random")
    step = int(recording.events.step[recording.events.kind == recording.events.kinds.index("collision")][0])
    page.open(path, f"step={step}&paused&theme=light")
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))

    def colours(x_m: float, y_m: float, radius: int) -> set[tuple[int, ...]]:
        x, y = page.run(
            "(() => { const box = document.getElementById('fleet').getBoundingClientRect();"
            f" return [box.left + agvReplay.camera.screenX({x_m}), box.top + agvReplay.camera.screenY({y_m})]; }})()"
        )
        seen = picture[round(y) - radius : round(y) + radius + 1, round(x) - radius : round(x) + radius + 1]
        return {tuple(colour) for colour in seen.reshape(-1, 3).tolist()}

    rack = np.argwhere(recording.layout.blocked)[0]
    assert colours(rack[1] + 0.5, recording.layout.height - rack[0] - 0.5, 0) == {(0x5C, 0x65, 0x73)}
    for robot in np.flatnonzero(recording.alive[step]):
        assert (0x00, 0x72, 0xB2) in colours(*recording.positions_m[step, robot], 12)
    for robot in np.flatnonzero(recording.contacts[step]):
        assert (0xB3, 0x26, 0x1E) in colours(*recording.positions_m[step - 1, robot], 8)


def test_page_draws_rectangles_turned_by_their_heading(page: Any, policies: Policies, tmp_path: Path) -> None:
    forklift = {"role": "forklift", "count": 3, "length_m": 1.2, "width_m": 0.6}
    layout = {"grid": "S..P..E\n.......\n.......", "cell_size_m": 2.0}
    config = WarehouseConfig.model_validate({"layout": layout, "fleet": (forklift,), "drive": {"kind": "differential"}})
    simulator = WarehouseSimulator(config, Layout.from_drawing(layout["grid"].split(), 2.0, "test"), 1)
    path = tmp_path / "replay.html"
    recording = record_replay(
        simulator, policies(simulator, "random"), path, seed=3, max_steps=30, scenario_name="forklifts"
    )
    simulator.close()
    page.open(path, "step=30&paused&theme=light")
    page.key("l")  # no lines to targets
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    inside = [(0.5, 0.2), (0.5, -0.2), (-0.5, 0.2), (-0.5, -0.2)]
    outside = [(0.0, 0.36), (0.0, -0.36), (0.66, 0.2), (-0.66, -0.2)]
    ahead, left = np.array(inside + outside).T
    assert np.abs(np.sin(2.0 * recording.heading_rad[30])).max() > 0.3  # not all along an axis
    for (x, y), heading in zip(recording.positions_m[30], recording.heading_rad[30], strict=True):
        xs, ys = (
            x + ahead * np.cos(heading) - left * np.sin(heading),
            y + ahead * np.sin(heading) + left * np.cos(heading),
        )
        places = page.run(
            "(() => { const box = document.getElementById('fleet').getBoundingClientRect();"
            f" const xs = {xs.tolist()}; const ys = {ys.tolist()}; return xs.map((x, k) =>"
            " [box.left + agvReplay.camera.screenX(x), box.top + agvReplay.camera.screenY(ys[k])]); })()"
        )
        columns, rows = np.rint(places).astype(int).T
        blue = (picture[rows, columns] == (0x00, 0x72, 0xB2)).all(axis=1)
        assert blue.tolist() == [True] * 4 + [False] * 4


def test_page_shows_the_heading_of_robots_that_turn_in_quarters(page: Any, record: Record) -> None:
    path, recording = record("warehouse_shift", "random", 40)
    page.open(path, "step=40&paused&theme=light&robot=carrier_1")
    assert "6 robots, cell by cell with quarter turns" in page.text("about")
    assert len(set(np.rint(recording.heading_rad[40] / (np.pi / 2)) % 4)) > 1
    assert page.text("robot-heading") == f"{np.rint(np.rad2deg(recording.heading_rad[40, 1])) % 360:g}\u00b0"
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    for (x, y), heading in zip(recording.positions_m[40], recording.heading_rad[40], strict=True):
        ahead, left = np.array([np.cos(heading), np.sin(heading)]), np.array([-np.sin(heading), np.cos(heading)])
        places = [np.array([x, y]) + 1.2 * 0.35 * side for side in (ahead, -ahead, left, -left)]
        dark = [picture[rows, columns].max() < 0x40 for columns, rows in (on_screen(page, *place) for place in places)]
        assert dark == [True, False, False, False]


def test_page_draws_one_way_borders_closed_ones_and_speed_zones(page: Any, record: Record, tmp_path: Path) -> None:
    _, recording = record("warehouse_small", "pibt", 50)
    layout, config = recording.layout, recording.config
    limits = np.full(layout.blocked.shape, np.nan, np.float32)
    row, column = 0, 9
    assert not layout.blocked[:2, 9:11].any()
    limits[row, :] = 0.25
    open_moves = recording.open_moves.reshape(layout.blocked.shape).copy()
    open_moves[row, column + 1] &= 0b0111
    open_moves[row, column] &= 0b1011
    open_moves[row + 1, column] &= 0b1110
    path = tmp_path / "traffic.html"
    layout = dataclasses.replace(layout, speed_limit_mps=limits.ravel())
    write_replay(dataclasses.replace(recording, layout=layout, config=config, open_moves=open_moves.ravel()), path)
    page.open(path, f"paused&theme=light&zoom=60&x={column + 1}&y={layout.height - row - 1}&robot=0")
    cell = int(row * layout.width + column)
    assert page.run("[agvReplay.replay.traffic.oneWay, agvReplay.replay.traffic.closed]") == [
        [[cell, cell + 1]],
        [[cell, cell + layout.width]],
    ]
    free = np.flatnonzero(~layout.blocked[row]) + row * layout.width
    assert page.run(f"{free.tolist()}.map((cell) => agvReplay.replay.traffic.limit(cell))") == [0.25] * len(free)
    place = np.array([column + 1.0, layout.height - row - 0.5])
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    x, y = on_screen(page, *place)
    assert tuple(picture[y, x]) == (0x1F, 0x25, 0x30)  # the triangle
    x, y = on_screen(page, place[0] - 0.5, place[1] - 0.5)
    assert tuple(picture[y, x]) == (0x1F, 0x25, 0x30)  # the line
    x, y = on_screen(page, 2.5, place[1] + 0.3)
    assert (0xD9, 0xE9, 0xF3) in {tuple(colour) for colour in picture[y - 3 : y + 4, x].tolist()}
    assert all(word in page.text("legend-items") for word in ("speed limit in m/s", "one way", "closed border"))
    on_limit = recording.positions_m[0, 0, 1] // 1 == layout.height - row - 1
    assert page.text("robot-limit") == ("0.25 m/s" if on_limit else "none")


def test_page_is_never_empty_when_its_size_changes(page: Any, record: Record) -> None:
    path, _ = record("warehouse_small", "pibt", 50)
    page.open(path, "paused&theme=light")
    # The corner of the canvas right after the page was laid out anew, before any other frame is drawn.
    seen = page.run(
        "new Promise((done) => { const floor = document.getElementById('floor');"
        " document.querySelector('aside').style.width = '200px'; document.body.style.gridTemplateColumns = '1fr 200px';"
        " new ResizeObserver(([entry], observer) => { if (floor.width === 1366 - 200) { observer.disconnect();"
        " done(Array.from(floor.getContext('2d').getImageData(0, 0, 1, 1).data)); } })"
        ".observe(document.getElementById('stage')); })"
    )
    assert seen == [0xE6, 0xE8, 0xEC, 255]


def test_page_changes_between_light_and_dark(page: Any, record: Record) -> None:
    path, _ = record("warehouse_small", "pibt", 50)
    page.open(path, "paused&theme=dark")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    page.key("t")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(244, 245, 247)"


def test_page_lists_its_keys_and_starts_still_for_people_who_asked_for_less_motion(page: Any, record: Record) -> None:
    path, _ = record("warehouse_small", "pibt", 50)
    page.open(path, "")
    assert "Play" in page.text("play")
    page.key("?")
    assert page.run("document.getElementById('keys').open")
    page.key("?")
    assert not page.run("document.getElementById('keys').open")
