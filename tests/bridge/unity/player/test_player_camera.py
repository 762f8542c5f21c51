"""Cameras: what they show, now and at the end of a life, and how it is sent."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from PIL import Image

from bridge.registry import open_world
from bridge.roster import Roster
from bridge.scenario import load_scenario
from bridge.unity import messages
from bridge.unity.images import ImageFormat
from bridge.unity.player.agent_bytes import SensorMessages
from bridge.unity.player.camera import CELL_PX, CameraSensor, TopView
from bridge.unity.player.camera_options import CameraOptions
from bridge.unity.player.floors import Floors
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.scene import Scene
from bridge.unity.player.sensors import SensorRows
from bridge.warehouse.render import render_floor
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.variant_roster import VariantRoster, simulator_of

CARRIER_BLUE, RACK, BLACK = (0, 114, 178), (92, 101, 115), (0, 0, 0)
SMALL = CameraOptions(20, 12)

Open = Callable[..., WarehouseSimulator]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens a scenario with some keys of its warehouse replaced, two areas, reset."""
    simulators = []

    def open_changed(scenario: Path, seed: int = 3, **changes: Any) -> WarehouseSimulator:
        data = yaml.safe_load(scenario.read_text())
        data["warehouse"].update(changes)
        path = tmp_path / f"changed_{len(simulators)}.yaml"
        path.write_text(yaml.safe_dump(data))
        roster = open_world(load_scenario(path)).roster(2)
        assert isinstance(roster, WarehouseSimulator)
        roster.reset(seed)
        simulators.append(roster)
        return roster

    yield open_changed
    for simulator in simulators:
        simulator.close()


@pytest.fixture
def simulator(opened: Open, small_scenario: Path) -> WarehouseSimulator:
    simulator = opened(small_scenario)
    for _ in range(4):
        move(simulator, np.random.default_rng(1))
    return simulator


def move(simulator: Roster, rng: np.random.Generator) -> None:
    """A step of random allowed moves."""
    for arrays in simulator.arrays.roles.values():
        keys = np.where(arrays.action_mask, rng.random(arrays.action_mask.shape), -1.0)
        arrays.discrete_actions[..., 0] = keys.argmax(axis=-1)
    simulator.step()


def rows(simulator: WarehouseSimulator, agents: NDArray[np.bool_] | None = None, *, final: bool = False) -> SensorRows:
    """Some agents of both areas; all living ones by default."""
    arrays = simulator.arrays.roles["carrier"]
    areas, slots = np.nonzero(arrays.agent_mask if agents is None else agents)
    return SensorRows(areas, slots, arrays.observations[areas, slots], final)


def read(encoded: SensorMessages) -> list[Any]:
    head, data = encoded.head.tobytes(), encoded.data.tobytes()
    return [messages.Observation.FromString(head + data[start:stop]) for start, stop in pairwise(encoded.starts)]


def values(found: list[Any], channels_first: bool = True) -> NDArray[np.float32]:
    """(n, C, H, W) float32 of observations, as a trainer makes them."""
    decoded = np.empty((len(found), int(np.prod(found[0].shape))), np.float32)
    for row, one in zip(decoded, found, strict=True):
        if one.compression_type == messages.COMPRESSION_PNG:
            image = ImageFormat.of(tuple(one.shape), one.compressed_channel_mapping, channels_first)
            image.decode(one.compressed_data, row)
        else:
            row[:] = one.float_data.data
    shaped = decoded.reshape(len(found), *found[0].shape)
    return shaped if channels_first else shaped.transpose(0, 3, 1, 2)


def pixels(found: list[Any]) -> NDArray[np.uint8]:
    """(n, H, W, 3) uint8 of observations with one picture."""
    return np.rint(values(found).transpose(0, 2, 3, 1) * 255).astype(np.uint8)


def crop(simulator: WarehouseSimulator, area: int, place_m: NDArray[np.float64], camera: CameraOptions) -> NDArray[Any]:
    """What a camera must show, pixel by pixel."""
    floor = render_floor(simulator, area, CELL_PX)
    x, y = place_m / simulator.layout.cell_size_m * CELL_PX
    left, top = round(x) - camera.width // 2, floor.shape[0] - round(y) - camera.height // 2
    picture = np.zeros((camera.height, camera.width, 3), np.uint8)
    for row in range(camera.height):
        for column in range(camera.width):
            if 0 <= top + row < floor.shape[0] and 0 <= left + column < floor.shape[1]:
                picture[row, column] = floor[top + row, left + column]
    return picture


@pytest.mark.parametrize("channels_first", [True, False])
@pytest.mark.parametrize("camera", [SMALL, replace(SMALL, grey=True), replace(SMALL, stack=3)])
def test_camera_sends_the_same_pictures_raw_and_as_png(
    simulator: WarehouseSimulator, camera: CameraOptions, channels_first: bool
) -> None:
    channels = camera.num_channels
    shape, properties = ([channels, 12, 20], [1, 2, 2]) if channels_first else ([12, 20, channels], [2, 2, 1])
    seen = []
    for png in (True, False):
        options = replace(camera, png=png)
        found = read(
            CameraSensor(TopView(Floors(simulator), [options]), 0, options, channels_first).encode(rows(simulator))
        )
        assert {one.name for one in found} == {camera.name}
        assert [list(one.shape) for one in found] == [shape] * 6
        assert [list(one.dimension_properties) for one in found] == [properties] * 6
        assert [one.compression_type for one in found] == [int(png)] * 6
        seen.append(values(found, channels_first))
    assert seen[0].shape == (6, channels, 12, 20)
    np.testing.assert_allclose(seen[0], seen[1], atol=1e-6)
    assert len(np.unique(seen[0].reshape(6, -1), axis=0)) > 1


@pytest.mark.parametrize(
    ("camera", "mapping"),
    [
        (SMALL, []),
        (replace(SMALL, grey=True), []),
        (replace(SMALL, stack=2), [0, 1, 2, 3, 4, 5]),
        (replace(SMALL, stack=3, grey=True), [0, 0, 0, 1, 1, 1, 2, 2, 2]),
    ],
)
def test_camera_sends_a_png_in_colour_for_each_picture_and_says_where_its_channels_go(
    simulator: WarehouseSimulator, camera: CameraOptions, mapping: list[int]
) -> None:
    sensor = CameraSensor(TopView(Floors(simulator), [camera]), 0, camera, channels_first=True)
    for one in read(sensor.encode(rows(simulator))):
        assert list(one.compressed_channel_mapping) == mapping
        parts = one.compressed_data.split(b"\x89PNG")[1:]
        assert len(parts) == camera.stack
        for part in parts:
            image = Image.open(io.BytesIO(b"\x89PNG" + part))
            assert (image.mode, image.size) == ("RGB", (20, 12))


def test_camera_shows_each_robot_in_the_middle_and_black_outside_of_the_floor(simulator: WarehouseSimulator) -> None:
    layout = simulator.layout
    camera = CameraOptions(2 * layout.width * CELL_PX, 2 * layout.height * CELL_PX)
    view = TopView(Floors(simulator), [camera])
    for robot in range(3):
        picture = view.around(0, robot, camera)
        assert picture.shape == (2 * layout.height * CELL_PX, 2 * layout.width * CELL_PX, 3)
        row, column = divmod(int(simulator.cells[0, robot]), layout.width)
        # Where the floor must lie when this robot's cell has its centre in the middle of the picture.
        top = picture.shape[0] // 2 - row * CELL_PX - CELL_PX // 2
        left = picture.shape[1] // 2 - column * CELL_PX - CELL_PX // 2
        inside = np.zeros(picture.shape[:2], np.bool_)
        inside[top : top + layout.height * CELL_PX, left : left + layout.width * CELL_PX] = True
        np.testing.assert_array_equal((picture == BLACK).all(axis=-1), ~inside)
        racks = np.argwhere(layout.blocked)[:, ::-1] * CELL_PX + (left + 1, top + 1)
        shown = np.array([picture[y, x] for x, y in racks])
        assert (np.abs(shown.astype(int) - RACK).max(axis=1) < 60).mean() > 0.6
        middle = picture[picture.shape[0] // 2 - 2 : picture.shape[0] // 2 + 2, picture.shape[1] // 2 - 2 :][:, :4]
        assert (np.abs(middle.reshape(-1, 3).astype(int) - CARRIER_BLUE).max(axis=1) < 60).any()


def test_cameras_of_different_sizes_share_the_floor(simulator: WarehouseSimulator) -> None:
    cameras = [CameraOptions(9, 30), CameraOptions(31, 4, number=1)]
    view = TopView(Floors(simulator), cameras)
    for camera in cameras:
        for robot in range(3):
            place = simulator.positions_m[1, robot]
            np.testing.assert_array_equal(view.around(1, robot, camera), crop(simulator, 1, place, camera))


def test_camera_draws_anew_only_with_a_new_frame(simulator: WarehouseSimulator) -> None:
    camera = CameraOptions(80, 80)
    view = TopView(Floors(simulator), [camera])
    view.around(0, 0, camera)
    cells = simulator.cells[0].copy()
    arrays = simulator.arrays.roles["carrier"]
    while (simulator.cells[0] == cells).all():
        arrays.discrete_actions[..., 0] = arrays.action_mask[..., 1:].argmax(axis=-1) + 1
        simulator.step()
    robot = int((simulator.cells[0] != cells).argmax())
    stale = view.around(0, robot, camera).copy()
    view.new_frame()
    assert (view.around(0, robot, camera) != stale).any()


def test_camera_shows_the_end_of_an_episode_in_terminal_infos(opened: Open, small_scenario: Path) -> None:
    """Checked against the same warehouse with longer episodes, in which that moment can be looked at."""
    ends, goes_on = (opened(small_scenario, episode_steps=steps) for steps in (7, 100))
    view = TopView(Floors(ends), [SMALL])
    sensor = CameraSensor(view, 0, SMALL, channels_first=True)
    for episode in range(2):
        for step in range(7):
            for simulator in (ends, goes_on):
                move(simulator, np.random.default_rng([episode, step]))
            view.new_frame()
            if step == 5:
                before = pixels(read(sensor.encode(rows(ends))))
        assert ends.arrays.roles["carrier"].truncated.all()
        found = pixels(read(sensor.encode(rows(ends, final=True))))
        places = goes_on.positions_m
        expected = [crop(goes_on, area, places[area, robot], SMALL) for area in range(2) for robot in range(3)]
        np.testing.assert_array_equal(found, expected)
        assert (found != before).any()
        # What they see next is the next episode.
        goes_on.reset()
        expected = [
            crop(goes_on, area, goes_on.positions_m[area, robot], SMALL) for area in range(2) for robot in range(3)
        ]
        np.testing.assert_array_equal(pixels(read(sensor.encode(rows(ends)))), expected)


def test_camera_shows_the_floor_plan_that_each_episode_is_played_on(varied_scenario: Callable[[int], Path]) -> None:
    """The same check, where each area may have another simulator in each episode."""
    ends, goes_on = (open_world(load_scenario(varied_scenario(steps))).roster(3) for steps in (5, 100))
    assert isinstance(ends, VariantRoster)
    assert isinstance(goes_on, VariantRoster)
    ends.reset(2)
    goes_on.reset(2)
    view = TopView(Floors(ends), [SMALL])
    sensor = CameraSensor(view, 0, SMALL, channels_first=True)
    agents = np.argwhere(np.ones((3, 2), np.bool_)).tolist()
    areas, slots = np.array(agents).T
    blank = np.zeros((6, 1), np.float32)

    def expected() -> list[NDArray[Any]]:
        played = [simulator_of(goes_on, area) for area in range(3)]
        return [crop(played[area], area, played[area].positions_m[area, robot], SMALL) for area, robot in agents]

    plans = set()
    for episode in range(4):
        for step in range(5):
            found = pixels(read(sensor.encode(SensorRows(areas, slots, blank, final=False))))
            np.testing.assert_array_equal(found, expected())
            plans.update(ends.playing.tolist())
            for roster in (ends, goes_on):
                move(roster, np.random.default_rng([episode, step]))
            view.new_frame()
        assert ends.arrays.episode_over.all()
        found = pixels(read(sensor.encode(SensorRows(areas, slots, blank, final=True))))
        np.testing.assert_array_equal(found, expected())
        goes_on.reset()
    assert len(plans) > 1
    ends.close()
    goes_on.close()


@pytest.mark.parametrize("respawn_after_s", [3, 0])
def test_camera_shows_where_a_robot_left_the_floor_that_goes_on(
    opened: Open, crowded_scenario: Path, respawn_after_s: int
) -> None:
    simulator = opened(crowded_scenario, contact={"rule": "despawn", "respawn_after_s": respawn_after_s})
    view = TopView(Floors(simulator), [SMALL])
    sensor = CameraSensor(view, 0, SMALL, channels_first=True)
    arrays = simulator.arrays.roles["carrier"]
    rng = np.random.default_rng(2)
    num_left = num_back = 0
    for _ in range(39):  # an episode has 40 steps
        places = simulator.positions_m
        move(simulator, rng)
        view.new_frame()
        if not arrays.terminated.any():
            continue
        # Who is back at once is elsewhere already: the place is the one before.
        back = arrays.terminated & arrays.agent_mask
        places[~back] = simulator.positions_m[~back]
        found = pixels(read(sensor.encode(rows(simulator, arrays.terminated, final=True))))
        where = np.argwhere(arrays.terminated)
        expected = [crop(simulator, area, places[area, robot], SMALL) for area, robot in where.tolist()]
        np.testing.assert_array_equal(found, expected)
        num_left += len(where)
        num_back += int(back.sum())
    assert num_left > 3
    assert (num_back > 0) == (respawn_after_s == 0)


def test_stacked_pictures_are_those_of_the_last_decisions_of_a_life(opened: Open, small_scenario: Path) -> None:
    simulator = opened(small_scenario, episode_steps=4)
    stacked, single = replace(SMALL, stack=3), replace(SMALL, number=1)
    view = TopView(Floors(simulator), [stacked, single])
    sensors = [CameraSensor(view, 0, camera, channels_first=True) for camera in (stacked, single)]
    black = np.zeros((6, 3, 12, 20), np.float32)
    history = [black, black]
    rng = np.random.default_rng(1)

    def look(*, final: bool) -> None:
        stack, now = (values(read(sensor.encode(rows(simulator, final=final)))) for sensor in sensors)
        history.append(now)
        np.testing.assert_array_equal(stack, np.concatenate(history[-3:], axis=1))

    for _ in range(2):
        for step in range(4):
            look(final=False)
            move(simulator, rng)
            view.new_frame()
            assert simulator.arrays.episode_over.all() == (step == 3)
        look(final=True)
        history = [black, black]
    look(final=False)
    simulator.reset()
    view.new_frame()
    sensors[0].restart()
    history = [black, black]
    look(final=False)


def test_scene_gives_each_role_cameras_around_its_own_robots() -> None:
    roster = open_world(load_scenario("warehouse_two_roles")).roster(1)
    assert isinstance(roster, WarehouseSimulator)
    roster.reset(5)
    options = PlayerOptions("warehouse_two_roles", cameras=(SMALL, CameraOptions(8, 8, png=False, number=1)))
    scene = Scene(roster, options)
    sensors = {role.name: scene.sensors(role)[1:] for role in roster.spec.roles}
    scene.reset()
    for name, slots in roster.role_slices.items():
        arrays = roster.arrays.roles[name]
        areas, places = np.nonzero(arrays.agent_mask)
        for sensor, camera in zip(sensors[name], options.cameras, strict=True):
            found = pixels(read(sensor.encode(SensorRows(areas, places, arrays.observations[areas, places], False))))
            expected = [
                crop(roster, 0, roster.positions_m[0, robot], camera) for robot in range(slots.start, slots.stop)
            ]
            np.testing.assert_array_equal(found, expected)
    roster.close()
