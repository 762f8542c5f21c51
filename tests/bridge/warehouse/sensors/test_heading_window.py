"""The block ``window`` of robots that turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.policy import RandomPolicy
from bridge.warehouse.config import HeadingGridConfig
from bridge.warehouse.sensors.heading_window import turn_windows
from bridge.warehouse.simulator import WarehouseSimulator

HALL = "S.P.P.E\n.##.##.\n.#..##.\nP..P..P"


@pytest.mark.parametrize("radius", [1, 3])
def test_turn_windows_puts_the_row_ahead_first(make_scene: Any, radius: int) -> None:
    scene = make_scene(HALL, 6)
    edge = 2 * radius + 1
    for robot, heading in enumerate((0.5 * np.pi, 0.0, -0.5 * np.pi, -np.pi, 0.0)):
        scene.place(0, robot, 2 * robot if robot < 4 else 21, heading)
    observations = np.random.default_rng(1).random((1, 6, 3 * edge * edge + 2)).astype(np.float32)
    before = observations.copy()
    turn_windows(scene.fleet, scene.pose, 1, np.zeros((edge, edge), np.float32), 0, np.ones(1, np.bool_), observations)
    # Up, right, down, left, right; the last slot is empty.
    for robot, quarters in enumerate((0, 1, 2, 3, 1, 0)):
        maps = before[0, robot, 1:-1].reshape(3, edge, edge)
        expected = np.rot90(maps, quarters, axes=(1, 2))
        np.testing.assert_array_equal(observations[0, robot, 1:-1].reshape(3, edge, edge), expected)
    np.testing.assert_array_equal(observations[..., [0, -1]], before[..., [0, -1]])


def test_window_shows_a_rack_ahead_in_its_first_rows_whichever_way_the_robot_faces(make_warehouse: Any) -> None:
    blocks = ({"block": "self"}, {"block": "window", "radius": 1})
    config, layout = make_warehouse(HALL, 3, drive=HeadingGridConfig(), observation=blocks, mask_blocked_moves=True)
    simulator = WarehouseSimulator(config, layout, 8)
    simulator.reset(seed=2)
    layout_of = simulator.spec.roles[0].observation
    assert "the row ahead first" in next(block.description for block in layout_of.blocks if block.name == "window")
    ahead = layout_of.slice_of("window").start + 1
    policy = RandomPolicy(simulator.spec, 3)
    seen = set()
    for _ in range(40):
        values = simulator.arrays.roles["carrier"]
        blocked = values.observations[..., ahead] == 1.0
        # The mask forbids forward into racks and walls.
        np.testing.assert_array_equal(blocked, ~values.action_mask[..., 1])
        seen |= set(blocked.ravel().tolist())
        policy.act(simulator.arrays)
        simulator.step()
    assert seen == {True, False}


def test_window_is_for_robots_that_move_from_cell_to_cell(make_warehouse: Any) -> None:
    with pytest.raises(ValidationError, match="expected no 'window' block with drive 'differential', got one"):
        make_warehouse(HALL, 1, drive={"kind": "differential"}, observation=({"block": "window"},))
