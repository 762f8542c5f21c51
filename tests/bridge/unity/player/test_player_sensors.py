"""Sensors beside the vector of the layout: goal signal and buffer of neighbours; cameras: test_player_camera.py."""

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
from bridge.unity.player.camera_options import CameraOptions
from bridge.unity.player.observed import observed_layout
from bridge.unity.player.options import parse_options
from bridge.unity.player.sensors import SensorRows, block_sensor, buffer_sensor, layout_sensor
from bridge.warehouse.simulator import WarehouseSimulator

CARRIER = "carrier?team=0"


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


@pytest.mark.parametrize(("package", "shape"), [("3.0.0", [3, 10, 16]), ("2.0.1", [10, 16, 3]), ("4.1.0", [3, 10, 16])])
def test_player_process_sends_sensors_sorted_by_name(
    trainer: Any, start_player: Any, small_scenario: Path, package: str, shape: list[int]
) -> None:
    sensors = ["--visual", "16x10", "--buffer-neighbours", "2", "--goal-signal", "target"]
    where = ["--scenario", str(small_scenario), "--mlagents-port", str(trainer.port)]
    start_player(*where, *sensors, "--package-version", package)
    trainer.shake_hands()
    request = trainer.receive()
    observation = open_world(load_scenario(small_scenario)).spec.role("carrier").observation
    layout = observed_layout(observation, parse_options([*where, *sensors, "--package-version", package]))
    assert [block.sensor for block in layout.blocks[-3:]] == [1, 2, 3]
    for _ in range(31):  # past the end of the episode
        infos = request.unity_output.rl_output.agentInfos[CARRIER].value
        for info in infos:
            names = [one.name for one in info.observations]
            assert names[0] == f"agv_{observation.digest}"
            assert names[1:] == ["buffer_neighbours", "camera_top", "goal_target"]
            assert names[1:] == [block.name for block in layout.blocks[-3:]]
            assert list(info.observations[2].shape) == shape
            assert Image.open(io.BytesIO(info.observations[2].compressed_data)).size == (16, 10)
        stay = messages.AgentAction(discrete_actions=[0])
        trainer.reply(agent_actions={CARRIER: messages.ListAgentAction(value=[stay] * 3)})
        request = trainer.receive()
    assert len(infos) == 6
    trainer.quit()


def test_player_process_sends_plain_values_to_a_trainer_that_cannot_read_its_pngs(
    trainer: Any, start_player: Any, small_scenario: Path, wait_for_log: Any
) -> None:
    where = ["--scenario", str(small_scenario), "--mlagents-port", str(trainer.port)]
    start_player(*where, "--visual", "8x6,8x6:x2,8x6:x2:grey")
    trainer.shake_hands(capabilities=messages.Capabilities(baseRLCapabilities=True, compressedChannelMapping=True))
    info = trainer.receive().unity_output.rl_output.agentInfos[CARRIER].value[0]
    forms = {one.name: (one.compression_type, len(one.float_data.data)) for one in info.observations[1:]}
    assert forms == {
        "camera_top": (messages.COMPRESSION_PNG, 0),
        "StackingSensor_size2_camera_top_2": (messages.COMPRESSION_NONE, 6 * 48),
        "StackingSensor_size2_camera_top_3": (messages.COMPRESSION_PNG, 0),  # 2 channels of 2 PNGs, with a mapping
    }
    wait_for_log("The trainer cannot read several PNGs in one observation")
    trainer.quit()


@pytest.mark.parametrize(
    ("several", "mapping", "png"),
    [(True, True, [1, 1, 1]), (True, False, [1, 1, 0]), (False, True, [1, 0, 1]), (False, False, [1, 0, 0])],
)
def test_cameras_fall_back_to_plain_values_as_unity_does(several: bool, mapping: bool, png: list[int]) -> None:
    given = messages.Capabilities(concatenatedPngObservations=several, compressedChannelMapping=mapping)
    cameras = [CameraOptions(8, 6), CameraOptions(8, 6, stack=2), CameraOptions(8, 6, stack=2, grey=True)]
    assert [camera.understood_by(given).png for camera in cameras] == png
