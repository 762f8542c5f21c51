"""Sensors beside the vector of the layout: goal signal, buffer of neighbours, and the camera."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.unity import messages
from bridge.unity.player.agent_bytes import SensorMessages
from bridge.unity.player.camera import CELL_PX, CameraSensor, TopView
from bridge.unity.player.options import VisualOptions
from bridge.unity.player.sensors import SensorRows, block_sensor, buffer_sensor, layout_sensor
from bridge.warehouse.simulator import WarehouseSimulator

CARRIER = "carrier?team=0"
CARRIER_BLUE, RACK, BLACK = (0, 114, 178), (92, 101, 115), (0, 0, 0)


@pytest.fixture
def simulator(small_scenario: Path) -> Iterator[WarehouseSimulator]:
    roster = open_world(load_scenario(small_scenario)).roster(2)
    assert isinstance(roster, WarehouseSimulator)
    roster.reset(3)
    for _ in range(4):
        roster.step()
    yield roster
    roster.close()


def rows(simulator: WarehouseSimulator, *, final: bool = False) -> SensorRows:
    """All agents of both areas."""
    areas, slots = np.nonzero(simulator.arrays.roles["carrier"].agent_mask)
    return SensorRows(areas, slots, simulator.arrays.roles["carrier"].observations[areas, slots], final)


def read(encoded: SensorMessages) -> list[Any]:
    head, data = encoded.head.tobytes(), encoded.data.tobytes()
    return [messages.Observation.FromString(head + data[start:stop]) for start, stop in pairwise(encoded.starts)]


def test_layout_sensor_sends_the_whole_observation(simulator: WarehouseSimulator) -> None:
    layout = simulator.spec.role("carrier").observation
    found = read(layout_sensor(layout).encode(rows(simulator)))
    observations = simulator.arrays.roles["carrier"].observations.reshape(6, -1)
    np.testing.assert_array_equal([one.float_data.data for one in found], observations)
    assert {one.name for one in found} == {f"agv_{layout.digest}"}


def test_block_sensor_repeats_a_block_as_goal_signal(simulator: WarehouseSimulator) -> None:
    layout = simulator.spec.role("carrier").observation
    found = read(block_sensor(layout, "target").encode(rows(simulator)))
    observations = simulator.arrays.roles["carrier"].observations.reshape(6, -1)
    np.testing.assert_array_equal([one.float_data.data for one in found], observations[:, layout.slice_of("target")])
    assert [(one.name, list(one.shape), one.observation_type) for one in found] == [("goal_target", [6], 1)] * 6


def test_buffer_sensor_lists_the_nearest_robots_and_pads_with_zeros(simulator: WarehouseSimulator) -> None:
    layout = simulator.spec.role("carrier").observation
    found = read(buffer_sensor(layout, 3).encode(rows(simulator)))
    block = simulator.arrays.roles["carrier"].observations.reshape(6, -1)[:, layout.slice_of("neighbours")]
    neighbours = block.reshape(6, 4, 9)[:, :3]
    for one, expected in zip(found, neighbours, strict=True):
        assert (one.name, list(one.shape)) == ("buffer_neighbours", [3, 8])
        assert list(one.dimension_properties) == [4, 1]
        values = np.array(one.float_data.data).reshape(3, 8)
        np.testing.assert_array_equal(values, expected[:, 1:])
        # A robot that is there is never a row of zeros: it has, or has not, the right of way.
        np.testing.assert_array_equal(values.any(axis=1), expected[:, 0] == 1)
    assert (neighbours[..., 0] == 0).any()
    assert (neighbours[..., 0] == 1).any()


def pictures(found: list[Any], channels_first: bool) -> np.ndarray:
    """(n, H, W, 3) uint8."""
    if found[0].compression_type == messages.COMPRESSION_PNG:
        return np.stack([np.asarray(Image.open(io.BytesIO(one.compressed_data))) for one in found])
    values = np.array([np.array(one.float_data.data).reshape(one.shape) for one in found])
    return np.rint((values.transpose(0, 2, 3, 1) if channels_first else values) * 255).astype(np.uint8)


@pytest.mark.parametrize("channels_first", [True, False])
def test_camera_sends_the_same_picture_raw_and_as_png(simulator: WarehouseSimulator, channels_first: bool) -> None:
    shape, properties = ([3, 12, 20], [1, 2, 2]) if channels_first else ([12, 20, 3], [2, 2, 1])
    seen = []
    for png in (True, False):
        options = VisualOptions(20, 12, png)
        camera = CameraSensor(TopView(simulator, options), 0, options, channels_first)
        found = read(camera.encode(rows(simulator)))
        assert {one.name for one in found} == {"camera_top"}
        assert [list(one.shape) for one in found] == [shape] * 6
        assert [list(one.dimension_properties) for one in found] == [properties] * 6
        assert [one.compression_type for one in found] == [int(png)] * 6
        seen.append(pictures(found, channels_first))
    assert seen[0].shape == (6, 12, 20, 3)
    np.testing.assert_array_equal(seen[0], seen[1])
    assert len(np.unique(seen[0].reshape(6, -1), axis=0)) > 1


def test_camera_shows_each_robot_in_the_middle_and_black_outside_of_the_floor(simulator: WarehouseSimulator) -> None:
    layout = simulator.layout
    options = VisualOptions(2 * layout.width * CELL_PX, 2 * layout.height * CELL_PX)
    view = TopView(simulator, options)
    for robot in range(3):
        picture = view.around(0, robot)
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


def test_camera_draws_anew_only_with_a_new_frame(simulator: WarehouseSimulator) -> None:
    view = TopView(simulator, VisualOptions(80, 80))
    view.around(0, 0)
    cells = simulator.cells[0].copy()
    arrays = simulator.arrays.roles["carrier"]
    while (simulator.cells[0] == cells).all():
        arrays.discrete_actions[..., 0] = arrays.action_mask[..., 1:].argmax(axis=-1) + 1
        simulator.step()
    robot = int((simulator.cells[0] != cells).argmax())
    stale = view.around(0, robot).copy()
    view.new_frame()
    assert (view.around(0, robot) != stale).any()


def test_camera_repeats_the_last_picture_of_an_ended_life_once(simulator: WarehouseSimulator) -> None:
    options = VisualOptions(8, 8)
    camera = CameraSensor(TopView(simulator, options), 0, options, channels_first=True)
    last = read(camera.encode(rows(simulator)))
    assert read(camera.encode(rows(simulator, final=True))) == last
    black = pictures(read(camera.encode(rows(simulator, final=True))), channels_first=True)
    assert not black.any()


@pytest.mark.parametrize(("package", "shape"), [("3.0.0", [3, 10, 16]), ("2.0.1", [10, 16, 3]), ("4.1.0", [3, 10, 16])])
def test_player_process_sends_sensors_sorted_by_name(
    trainer: Any, start_player: Any, small_scenario: Path, package: str, shape: list[int]
) -> None:
    sensors = ["--visual", "16x10", "--buffer-neighbours", "2", "--goal-signal", "target"]
    where = ["--scenario", str(small_scenario), "--mlagents-port", str(trainer.port)]
    start_player(*where, *sensors, "--package-version", package)
    trainer.shake_hands()
    request = trainer.receive()
    for _ in range(31):  # past the end of the episode
        infos = request.unity_output.rl_output.agentInfos[CARRIER].value
        for info in infos:
            names = [one.name for one in info.observations]
            assert names[0].startswith("agv_")
            assert names[1:] == ["buffer_neighbours", "camera_top", "goal_target"]
            assert list(info.observations[2].shape) == shape
            assert Image.open(io.BytesIO(info.observations[2].compressed_data)).size == (16, 10)
        stay = messages.AgentAction(discrete_actions=[0])
        trainer.reply(agent_actions={CARRIER: messages.ListAgentAction(value=[stay] * 3)})
        request = trainer.receive()
    assert len(infos) == 6
    trainer.quit()
