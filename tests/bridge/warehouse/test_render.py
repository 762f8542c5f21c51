"""Pictures of a running warehouse: what is where, and in which colour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bridge.errors import SpecMismatchError
from bridge.planners.pibt import PibtPolicy
from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.warehouse.render import render_floor, render_rgb, write_gif
from bridge.warehouse.simulator import WarehouseSimulator

FLOOR, RACK, CARRIER, TUGGER, LOAD = (247, 247, 244), (92, 101, 115), (0, 114, 178), (213, 94, 0), (255, 196, 61)
CAPTION_PX = 22


def _simulator(name: str, num_envs: int = 1) -> WarehouseSimulator:
    simulator = open_world(load_scenario(name)).roster(num_envs)
    assert isinstance(simulator, WarehouseSimulator)
    simulator.reset(5)
    return simulator


@pytest.fixture(scope="module")
def grid() -> Iterator[WarehouseSimulator]:
    simulator = _simulator("warehouse_two_roles", num_envs=2)
    policy = PibtPolicy(simulator)
    for _ in range(40):
        policy.act(simulator.arrays)
        simulator.step()
    yield simulator
    simulator.close()


def _has(picture: np.ndarray, colour: tuple[int, int, int]) -> bool:
    return bool((picture == np.array(colour)).all(axis=-1).any())


def test_render_rgb_draws_one_square_per_cell_and_a_caption(grid: WarehouseSimulator) -> None:
    picture = render_rgb(grid, cell_px=20)
    layout = grid.layout
    assert picture.shape == (layout.height * 20 + CAPTION_PX, layout.width * 20, 3)
    assert picture.dtype == np.uint8
    assert (picture[-CAPTION_PX:] < 128).any()


def test_render_floor_is_the_picture_without_its_caption(grid: WarehouseSimulator) -> None:
    np.testing.assert_array_equal(render_floor(grid, 1, 20), render_rgb(grid, 1, 20)[:-CAPTION_PX])
    with pytest.raises(SpecMismatchError, match=r"render_floor: expected an env_index from 0 to 1, got 2"):
        render_floor(grid, 2, 20)


def test_render_rgb_draws_racks_where_the_layout_has_them(grid: WarehouseSimulator) -> None:
    picture = render_rgb(grid, cell_px=20)
    layout = grid.layout
    centres = picture[10 : layout.height * 20 : 20, 4 : layout.width * 20 : 20]
    is_rack = (centres == np.array(RACK)).all(axis=-1)
    # Lines to targets may cross a rack; the floor is never as dark as one.
    assert not (is_rack & ~layout.blocked).any()
    assert (is_rack & layout.blocked).sum() > 0.8 * layout.blocked.sum()


@pytest.mark.parametrize("env", [0, 1])
def test_render_rgb_draws_every_robot_in_the_colour_of_its_role_where_it_is(grid: WarehouseSimulator, env: int) -> None:
    picture = render_rgb(grid, env, cell_px=40)
    for (role, place), colour in zip(grid.role_slices.items(), (CARRIER, TUGGER), strict=True):
        radius = {"carrier": 0.3, "tugger": 0.45}[role]
        for robot in range(place.start, place.stop):
            x_m, y_m = grid.positions_m[env, robot]
            # Above the load and the number, inside the disc.
            row = round((grid.layout.height - y_m - 0.8 * radius) * 40)
            assert tuple(picture[row, round(x_m * 40)]) == colour
            assert _has(picture[row : row + 24, round(x_m * 40) - 8 : round(x_m * 40) + 8], LOAD) == bool(
                grid.loaded[env, robot]
            )


def test_render_rgb_leaves_out_robots_that_are_off_the_floor() -> None:
    simulator = _simulator("warehouse_small_despawn")
    simulator.alive[:] = False
    assert not _has(render_rgb(simulator, cell_px=20), CARRIER)


def test_render_rgb_points_the_heading_up_when_a_robot_faces_up() -> None:
    simulator = _simulator("warehouse_drive")
    simulator.heading_rad[:] = np.pi / 2
    picture = render_rgb(simulator, cell_px=60)
    scale = 60 / simulator.layout.cell_size_m
    ink = np.array((45, 50, 58))
    for x_m, y_m in simulator.positions_m[0]:
        x, y = round(x_m * scale), round((simulator.layout.height * simulator.layout.cell_size_m - y_m) * scale)
        tip = round(0.35 * 1.2 * scale)
        if y > tip:
            assert (picture[y - tip, x] == ink).all()
        assert not (picture[y + tip, x] == ink).all()


@pytest.mark.parametrize("cell_px", [2, 5, None])
def test_render_rgb_draws_at_any_size(grid: WarehouseSimulator, cell_px: int | None) -> None:
    picture = render_rgb(grid, cell_px=cell_px)
    assert _has(picture, CARRIER)
    assert _has(picture, RACK)
    if cell_px is None:
        assert 700 <= picture.shape[1] <= 900


def test_render_rgb_is_the_same_when_nothing_has_moved(grid: WarehouseSimulator) -> None:
    assert np.array_equal(render_rgb(grid), render_rgb(grid))


def test_render_rgb_says_which_environments_there_are(grid: WarehouseSimulator) -> None:
    with pytest.raises(SpecMismatchError, match=r"render_rgb: expected an env_index from 0 to 1, got 2\."):
        render_rgb(grid, 2)
    with pytest.raises(SpecMismatchError, match=r"render_rgb: expected a cell_px from 2 to 200, got 1\."):
        render_rgb(grid, cell_px=1)


def test_write_gif_writes_every_frame_at_the_speed_asked_for(grid: WarehouseSimulator, tmp_path: Path) -> None:
    first = render_rgb(grid, 0)
    second = render_rgb(grid, 1)
    write_gif([first, second, first], tmp_path / "a.gif", fps=5)
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.n_frames == 3
        assert gif.info["duration"] == 200
        assert gif.info["loop"] == 0
        gif.seek(1)
        shown = np.asarray(gif.convert("RGB")).astype(int)
    assert np.abs(shown - second).mean() < 4


def test_write_gif_refuses_frames_that_make_no_film(tmp_path: Path) -> None:
    frame = np.zeros((4, 5, 3), np.uint8)
    with pytest.raises(SpecMismatchError, match=r"write_gif: expected at least one frame, got none\."):
        write_gif([], tmp_path / "a.gif", fps=10)
    with pytest.raises(SpecMismatchError, match=r"expected frames of \(5, 4\) pixels, got \(4, 5\) in frame 1\."):
        write_gif([frame, frame.transpose(1, 0, 2)], tmp_path / "a.gif", fps=10)
    with pytest.raises(SpecMismatchError, match=r"write_gif: expected an fps from 1 to 50, got 0\."):
        write_gif([frame], tmp_path / "a.gif", fps=0)
