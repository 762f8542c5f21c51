"""Pictures and buffers from a real player, through all three ways to run one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.unity.blank_images import EXCHANGES_UNTIL_WARNING
from bridge.unity.environment import UnityEnvironment
from bridge.unity.player.build import write_build

WIDTH, HEIGHT, NEIGHBOURS = 12, 10, 2
HALL = """
schema: 1
world: warehouse
warehouse:
  layout:
    grid: |
      P.S.E.
      P.##..
      P.S.E.
  fleet: [{role: carrier, count: 3}]
  episode_steps: 6
"""
FIRST = "carrier?team=0"


@pytest.fixture
def build(tmp_path: Path) -> str:
    """The headless player as a build, with a buffer sensor and a goal signal."""
    (tmp_path / "hall.yaml").write_text(HALL)
    sensors = ["--buffer-neighbours", str(NEIGHBOURS), "--goal-signal", "target"]
    write_build(tmp_path / "hall", tmp_path / "hall.yaml", arguments=sensors)
    return str(tmp_path / "hall")


def seen(build: str, *arguments: str) -> tuple[Any, list[list[NDArray[np.float32]]]]:
    """The sensors of a player, and what they send in some exchanges, also past the end of an episode."""
    env = UnityEnvironment(build, seed=5, timeout_wait=120, additional_args=arguments)
    try:
        env.reset()
        found = []
        for _ in range(8):
            decisions, terminals = env.get_steps(FIRST)
            found.append([*decisions.obs, *terminals.obs])
            env.step()
        return env.behavior_specs[FIRST].observation_specs, found
    finally:
        env.close()


def test_environment_gives_the_same_pictures_when_they_travel_in_different_forms(build: str) -> None:
    size = f"{WIDTH}x{HEIGHT}"
    specs, compressed = seen(build, "--visual", size)
    plain_specs, plain = seen(build, "--visual", f"{size}:raw")
    old_specs, old = seen(build, "--visual", size, "--package-version", "2.0.1")
    assert [spec.name for spec in specs][1:] == ["buffer_neighbours", "camera_top", "goal_target"]
    assert [tuple(spec.shape) for spec in specs][1:3] == [(NEIGHBOURS, 8), (3, HEIGHT, WIDTH)]
    assert [spec.shape for spec in plain_specs] == [spec.shape for spec in specs]
    assert tuple(old_specs[2].shape) == (HEIGHT, WIDTH, 3)
    assert [spec.observation_type.value for spec in specs] == [0, 0, 0, 1]
    assert [[int(flag) for flag in spec.dimension_property] for spec in specs][1:3] == [[4, 1], [1, 2, 2]]
    for mine, its, older in zip(compressed, plain, old, strict=True):
        for index, values in enumerate(mine):
            np.testing.assert_array_equal(values, its[index])
            transposed = older[index].transpose(0, 3, 1, 2) if values.ndim == 4 else older[index]
            np.testing.assert_array_equal(values, transposed)
    picture = compressed[0][2]
    assert picture.shape == (3, 3, HEIGHT, WIDTH)
    assert 0 <= picture.min() < picture.max() <= 1
    assert any(len(arrays[4]) for arrays in compressed)  # lives that ended send pictures too


def world(folder: Path, *arguments: str, **section: Any) -> Any:
    path = folder / "unity.yaml"
    given = {"player": "hall", "timeout_s": 120, "arguments": list(arguments), **section}
    path.write_text(json.dumps({"schema": 1, "world": "unity", "unity": given}))
    return open_world(load_scenario(path))


@pytest.mark.usefixtures("build")
def test_roster_and_parallel_env_carry_pictures_flat_and_the_layout_tells_their_shapes(tmp_path: Path) -> None:
    opened = world(tmp_path, "--visual", f"{WIDTH}x{HEIGHT}")
    layout = opened.spec.role("carrier").observation
    blocks = {block.name: block for block in layout.blocks}
    assert blocks["camera_top"].shape == (3, HEIGHT, WIDTH)
    assert blocks["buffer_neighbours"].shape == (NEIGHBOURS, 8)
    assert [block.is_goal for block in layout.blocks] == [False, False, False, True]
    roster = opened.roster(1)
    try:
        roster.reset(3)
        observations = roster.arrays.roles["carrier"].observations[0].copy()
        # (A, F) -> (A, 3, H, W); the robots stand in different places.
        pictures = observations[:, layout.slice_of("camera_top")].reshape(3, *blocks["camera_top"].shape)
        assert len(np.unique(pictures, axis=0)) == 3
        assert 0 <= pictures.min() < pictures.max() <= 1
        neighbours = observations[:, layout.slice_of("buffer_neighbours")].reshape(3, NEIGHBOURS, 8)
        assert neighbours.any(axis=-1).any()
        roster.step()
    finally:
        roster.close()
    env = opened.parallel_env()
    try:
        first, _ = env.reset(seed=3)
        for slot, values in enumerate(observations):
            np.testing.assert_array_equal(first[f"carrier_{slot}"], values)
            assert env.observation_space(f"carrier_{slot}").contains(values)
    finally:
        env.close()


@pytest.mark.usefixtures("build")
def test_roster_refuses_a_player_when_its_channels_come_in_another_order(tmp_path: Path) -> None:
    from bridge.unity.launch import PlayerCommand
    from bridge.unity.roster import RosterOptions, UnityRoster
    from bridge.unity.session import SessionOptions

    spec = world(tmp_path, "--visual", f"{WIDTH}x{HEIGHT}").spec
    arguments = ("--visual", f"{WIDTH}x{HEIGHT}", "--package-version", "2.0.1")
    command = PlayerCommand((str(tmp_path / "hall.x86_64"),), additional=arguments)
    roster = UnityRoster(command, spec, SessionOptions(timeout_s=120), RosterOptions())
    try:
        with pytest.raises(SpecMismatchError, match=r"sensor 2: expected the shape \(3, 10, 12\) .* got \(10, 12, 3\)"):
            roster.reset(1)
    finally:
        roster.close()


@pytest.mark.parametrize(
    ("no_graphics", "last", "warned"), [(True, 0.0, True), (True, 0.5, False), (False, 0.0, False)]
)
def test_warning_names_the_sensor_when_pictures_are_blank_without_graphics(
    scripted_player: Callable[..., Any], caplog: pytest.LogCaptureFixture, no_graphics: bool, last: float, warned: bool
) -> None:
    def exchange(value: float, **more: Any) -> dict[str, Any]:
        entry = {"id": 1, "obs": [[1.0], [0.0] * 26 + [value]], "shapes": [[1], [3, 3, 3]], "names": ["v", "camera"]}
        return {"agents": {"AGV": [entry]}, **more}

    first = exchange(0.0, behaviors={"AGV": {"continuous": 1}})
    count = EXCHANGES_UNTIL_WARNING
    player = scripted_player(exchanges=[first, *[exchange(0.0)] * (count - 2), exchange(last), exchange(0.0)])
    env = UnityEnvironment(player.build, no_graphics=no_graphics, timeout_wait=20)
    try:
        env.reset()
        for _ in range(count):
            env.step()
    finally:
        env.close()
    said = [record.getMessage() for record in caplog.records if "without graphics" in record.getMessage()]
    assert len(said) == warned
    assert all("behavior 'AGV': sensor 1 ('camera'): expected pictures, got nothing but 0 in" in text for text in said)
