"""Pictures of a running warehouse: what is where, and in which colour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def _luminance(pixels: np.ndarray) -> np.ndarray:
    """Relative luminance (WCAG 2) of (..., 3) uint8 colours."""
    share = pixels / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ [0.2126, 0.7152, 0.0722])


def test_render_rgb_writes_the_letters_of_stations_so_that_they_can_be_read() -> None:
    simulator = _simulator("warehouse_shift")
    simulator.empty_floors(np.ones(1, np.bool_))
    picture, layout = render_rgb(simulator, cell_px=40), simulator.layout
    for cell in (layout.pickups[0], layout.deliveries[0], layout.parking[0], layout.chargers[0]):
        row, column = divmod(int(cell), layout.width)
        square = picture[row * 40 + 6 : row * 40 + 34, column * 40 + 6 : column * 40 + 34]
        light, dark = _luminance(square[0, 0]), _luminance(square).min()
        assert (light + 0.05) / (dark + 0.05) > 4.5
    simulator.close()


def test_render_rgb_explains_the_letters_that_there_are_where_there_is_room() -> None:
    def ends(name: str, cell_px: int) -> int:
        simulator = _simulator(name)
        caption = render_rgb(simulator, cell_px=cell_px)[-CAPTION_PX:]
        simulator.close()
        return int(np.flatnonzero((caption < 128).any(axis=(0, 2)))[-1])

    assert ends("warehouse_small", 40) < ends("warehouse_shift", 40)  # no chargers
    assert 2 * ends("warehouse_shift", 14) < ends("warehouse_shift", 40)


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


@pytest.mark.parametrize(("length_m", "width_m"), [(1.2, 0.6), (0.5, 1.1)])
def test_render_rgb_draws_rectangles_turned_by_their_heading(
    make_warehouse: Any, length_m: float, width_m: float
) -> None:
    forklift = {"role": "carrier", "count": 4, "length_m": length_m, "width_m": width_m}
    config, layout = make_warehouse(
        "S.....E\n.......", fleet=(forklift,), drive={"kind": "differential"}, cell_size_m=2
    )
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=4)
    places = np.array([[2.9, 2.6], [5.1, 1.2], [8.2, 2.4], [11.0, 1.0]])
    simulator._pose.x[0], simulator._pose.y[0] = places.T
    simulator.heading_rad[0] = headings = np.array([0.3, 1.4, -2.0, 0.0])
    simulator._fleet.pickup[0] = -1  # no lines to targets
    picture = render_floor(simulator, 0, 120)
    row, column = np.mgrid[: picture.shape[0], : picture.shape[1]]
    x, y = (column + 0.5) / 60, layout.height * 2 - (row + 0.5) / 60
    blue, white = ((picture == np.array(colour)).all(axis=-1) for colour in (CARRIER, (255, 255, 255)))
    # How far outside the nearest footprint each pixel lies, in pixels; negative within.
    outside = np.full(x.shape, np.inf)
    for (x_m, y_m), heading in zip(places, headings, strict=True):
        dx, dy = x - x_m, y - y_m
        ahead = np.abs(dx * np.cos(heading) + dy * np.sin(heading)) - length_m / 2
        aside = np.abs(dy * np.cos(heading) - dx * np.sin(heading)) - width_m / 2
        outside = np.minimum(outside, np.maximum(ahead, aside) * 60)
    assert not (blue | white)[outside > 1.5].any()
    # A rim of 5 pixels, and the number and half the bar within.
    assert white[(outside > -4) & (outside < -1)].mean() > 0.95
    assert blue[outside < -6].mean() > 0.85
    simulator.close()


def test_render_rgb_draws_the_load_of_a_rectangle_as_a_smaller_one(make_warehouse: Any) -> None:
    forklift = {"role": "carrier", "count": 1, "length_m": 1.2, "width_m": 0.6}
    config, layout = make_warehouse("S.E", fleet=(forklift,), drive={"kind": "differential"}, cell_size_m=2)
    simulator = WarehouseSimulator(config, layout, 1)
    simulator.reset(seed=4)
    simulator._pose.x[0], simulator._pose.y[0] = 3.0, 1.0
    simulator.heading_rad[0] = np.pi / 2
    simulator._fleet.loaded[0] = True
    yellow = (render_floor(simulator, 0, 120) == np.array(LOAD)).all(axis=-1)
    rows, columns = np.nonzero(yellow)
    # 62 % of 1.2 m up and down, and of 0.6 m to the sides, at 60 pixels a metre.
    assert (np.ptp(rows) + 1, np.ptp(columns) + 1) == pytest.approx((0.62 * 72, 0.62 * 36), abs=2)
    assert (rows.mean(), columns.mean()) == pytest.approx((60, 180), abs=3)
    simulator.close()


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
