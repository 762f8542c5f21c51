"""Pictures of a running warehouse, drawn without a display.

Reads the simulator through :class:`bridge.warehouse.view.WarehouseView` only, and works for
robots that move from cell to cell and for robots that drive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from bridge.errors import SpecMismatchError
from bridge.warehouse.layout import Layout
from bridge.warehouse.render_traffic import draw_special_borders, draw_zone_limits, draw_zones
from bridge.warehouse.view import WarehouseView

__all__ = ["render_floor", "render_rgb", "write_gif"]

Rgb = tuple[int, int, int]
Point = tuple[float, float]

_OVERSAMPLING = 2  # drawn this much larger and scaled down: smooth edges
_TARGET_PX = 800  # longer side of a picture, unless the cells would be too large or too small for it
_MIN_CELL_PX, _MAX_CELL_PX = 4, 72
_MIN_LABEL_PX = 14  # stations get letters from this cell size on
_MIN_NUMBERED_PX = 6  # robots get numbers from this radius on
_CAPTION_PX = 22

_FLOOR: Rgb = (247, 247, 244)
_LINES: Rgb = (228, 228, 222)
_RACK: Rgb = (92, 101, 115)
_RACK_EDGE: Rgb = (66, 74, 87)
_INK: Rgb = (45, 50, 58)
_RIM: Rgb = (255, 255, 255)
_LOAD: Rgb = (255, 196, 61)
_PICKUP: Rgb = (190, 225, 196)
_DELIVERY: Rgb = (247, 199, 160)
_PARKING: Rgb = (216, 220, 230)
_CHARGER: Rgb = (250, 232, 150)
# Told apart by people with any kind of colour vision (Okabe and Ito 2008).
_ROLES: tuple[Rgb, ...] = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (148, 103, 189),
    (120, 120, 60),
    (90, 90, 90),
)


def render_rgb(simulator: WarehouseView, env_index: int = 0, cell_px: int | None = None) -> NDArray[np.uint8]:
    """Draw one environment as it is now.

    Racks are dark; pick-ups green, deliveries orange, parking places grey, chargers yellow.
    Robots have the colour of their role and the number of their slot in it; a yellow box is a
    load, a thin line leads to the target, a bar shows the heading of a robot that drives.
    Rectangular footprints are drawn as such, turned by the heading. Speed zones are hatched, with
    the limit in m/s in their first cell; a triangle shows the way across a border of cells that is
    open one way, a line one that is closed.

    Args:
        simulator: The running warehouse.
        env_index: Which of its environments.
        cell_px: Edge length of a cell in the picture; None: chosen for a picture of about 800 pixels.

    Returns:
        (h, w, 3) uint8.

    Raises:
        SpecMismatchError: There is no such environment, or the cells are too small to be drawn.
    """
    if cell_px is None:
        layout = simulator.layout
        cell_px = min(max(round(_TARGET_PX / max(layout.height, layout.width)), _MIN_CELL_PX), _MAX_CELL_PX)
    picture = _draw(simulator, env_index, cell_px, "render_rgb")
    legend = _legend(simulator.layout) if cell_px >= _MIN_LABEL_PX else []
    return np.asarray(_with_caption(picture, [_caption(simulator, env_index), *legend]))


def render_floor(simulator: WarehouseView, env_index: int, cell_px: int) -> NDArray[np.uint8]:
    """The picture of :func:`render_rgb` without its caption.

    Returns:
        (layout.height * cell_px, layout.width * cell_px, 3) uint8.

    Raises:
        SpecMismatchError: There is no such environment, or the cells are too small to be drawn.
    """
    return np.asarray(_draw(simulator, env_index, cell_px, "render_floor"))


def write_gif(frames: Iterable[NDArray[np.uint8]], path: Path, fps: float) -> None:
    """Write frames as an animated GIF that repeats for ever.

    Args:
        frames: (h, w, 3) uint8 each, all of one size.
        path: File to write; its folder must exist.
        fps: Frames per second, from 1 to 50 (viewers play faster ones slowly).

    Raises:
        SpecMismatchError: No frames, frames of different sizes, or a speed out of range.
    """
    if not 1 <= fps <= 50:
        raise SpecMismatchError(f"write_gif: expected an fps from 1 to 50, got {fps}.")
    pictures = [Image.fromarray(frame) for frame in frames]
    if not pictures:
        raise SpecMismatchError("write_gif: expected at least one frame, got none.")
    for index, picture in enumerate(pictures):
        if picture.size != pictures[0].size:
            raise SpecMismatchError(
                f"write_gif: expected frames of {pictures[0].size} pixels, got {picture.size} in frame {index}."
            )
    # One palette for all frames: no flicker, and what does not change costs nothing.
    palette = pictures[len(pictures) // 2].quantize(colors=128, method=Image.Quantize.MEDIANCUT)
    flat = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    flat[0].save(path, format="GIF", save_all=True, append_images=flat[1:], duration=round(1000 / fps), loop=0)


def _draw(simulator: WarehouseView, env_index: int, cell_px: int, where: str) -> Image.Image:
    """The floor and everything on it."""
    num_envs = simulator.cells.shape[0]
    if not 0 <= env_index < num_envs:
        raise SpecMismatchError(f"{where}: expected an env_index from 0 to {num_envs - 1}, got {env_index}.")
    if not 2 <= cell_px <= 200:
        raise SpecMismatchError(f"{where}: expected a cell_px from 2 to 200, got {cell_px}.")
    picture = _floor_picture(simulator.layout, cell_px).copy()
    _draw_targets(picture, simulator, env_index, cell_px)
    _draw_robots(picture, simulator, env_index, cell_px)
    return picture.reduce(_OVERSAMPLING)


@lru_cache(maxsize=4)
def _floor_picture(layout: Layout, cell_px: int) -> Image.Image:
    """Everything that does not move, oversampled."""
    cell = cell_px * _OVERSAMPLING
    picture = Image.new("RGB", (layout.width * cell, layout.height * cell), _FLOOR)
    draw = ImageDraw.Draw(picture)
    draw_zones(draw, layout, cell)
    if cell_px >= 8:
        for column in range(1, layout.width):
            draw.line([(column * cell, 0), (column * cell, picture.height)], _LINES)
        for row in range(1, layout.height):
            draw.line([(0, row * cell), (picture.width, row * cell)], _LINES)
    for row, column in np.argwhere(layout.blocked).tolist():
        draw.rectangle(_square(row, column, cell, 0), _RACK)
    _draw_rack_edges(draw, layout, cell)
    for letter, colour, places in (
        ("P", _PARKING, layout.parking),
        ("C", _CHARGER, layout.chargers),
        ("S", _PICKUP, layout.pickups),
        ("E", _DELIVERY, layout.deliveries),
    ):
        for place in places.tolist():
            row, column = divmod(place, layout.width)
            draw.rounded_rectangle(_square(row, column, cell, cell // 12), cell // 6, colour)
            if cell_px >= _MIN_LABEL_PX:
                middle = ((column + 0.5) * cell, (row + 0.5) * cell)
                draw.text(middle, letter, _mixed(colour, _INK, 0.25), _font(cell * 2 // 5), anchor="mm")
    draw_special_borders(draw, layout, cell, cell_px)
    draw_zone_limits(draw, layout, cell, cell_px, _font(cell * 3 // 10))
    return picture


def _draw_rack_edges(draw: ImageDraw.ImageDraw, layout: Layout, cell: int) -> None:
    """A line wherever a rack meets the floor."""
    width = max(1, cell // 14)
    blocked = layout.blocked
    for row, column in np.argwhere(blocked[1:] != blocked[:-1]).tolist():
        draw.line([(column * cell, (row + 1) * cell), ((column + 1) * cell, (row + 1) * cell)], _RACK_EDGE, width)
    for row, column in np.argwhere(blocked[:, 1:] != blocked[:, :-1]).tolist():
        draw.line([((column + 1) * cell, row * cell), ((column + 1) * cell, (row + 1) * cell)], _RACK_EDGE, width)


def _draw_targets(picture: Image.Image, simulator: WarehouseView, env: int, cell_px: int) -> None:
    """A thin line from every robot with a transport to its target."""
    cell = cell_px * _OVERSAMPLING
    draw = ImageDraw.Draw(picture)
    shown = simulator.alive[env] & simulator.has_task[env]
    goals, centres = simulator.goal_cells[env], _centres(simulator, env, cell)
    dot = max(1.0, cell / 9)
    for colour, role in _coloured_roles(simulator):
        pale = _mixed(colour, _FLOOR, 0.45)
        for robot in range(role.start, role.stop):
            if shown[robot]:
                row, column = divmod(int(goals[robot]), simulator.layout.width)
                x, y = (column + 0.5) * cell, (row + 0.5) * cell
                draw.line([centres[robot], (x, y)], pale, max(1, cell // 20))
                draw.ellipse([x - dot, y - dot, x + dot, y + dot], _mixed(colour, _FLOOR, 0.75))


def _draw_robots(picture: Image.Image, simulator: WarehouseView, env: int, cell_px: int) -> None:
    cell = cell_px * _OVERSAMPLING
    draw = ImageDraw.Draw(picture)
    centres = _centres(simulator, env, cell)
    drives, rim = simulator.config.drive.kind != "grid", max(1, cell // 24)
    for (colour, role), config in zip(_coloured_roles(simulator), simulator.config.fleet, strict=True):
        # On large floors robots are drawn larger than they are, to be seen at all.
        radius = max(config.outer_radius_m / simulator.layout.cell_size_m * cell, _OVERSAMPLING * 2.5)
        for robot in range(role.start, role.stop):
            if not simulator.alive[env, robot]:
                continue
            x, y = centres[robot]
            heading, loaded = float(simulator.heading_rad[env, robot]), bool(simulator.loaded[env, robot])
            if config.length_m is None:
                front = inner = radius
                disc = [x - radius, y - radius, x + radius, y + radius]
                draw.ellipse(disc, colour, _RIM, rim)
                if loaded:
                    half = radius * 0.62
                    draw.rounded_rectangle([x - half, y - half, x + half, y + half], radius / 6, _LOAD)
            else:
                front, side = (radius * half / config.outer_radius_m for half in config.half_sides_m)
                inner = min(front, side)
                draw.polygon(_corners((x, y), heading, front, side), colour, _RIM, rim)
                if loaded:
                    draw.polygon(_corners((x, y), heading, 0.62 * front, 0.62 * side), _LOAD)
            if drives:
                _draw_heading(draw, (x, y), front, inner, heading)
            if inner >= _MIN_NUMBERED_PX * _OVERSAMPLING:
                ink = _INK if loaded else _RIM
                draw.text((x, y), str(robot - role.start), ink, _font(round(inner * 0.95)), anchor="mm")


def _corners(centre: Point, heading_rad: float, front: float, side: float) -> list[Point]:
    """Of a rectangle that reaches so far ahead and back, and to the sides; y points down in a picture."""
    x, y = math.cos(heading_rad), -math.sin(heading_rad)
    return [
        (centre[0] + ahead * front * x - aside * side * y, centre[1] + ahead * front * y + aside * side * x)
        for ahead, aside in ((1, 1), (1, -1), (-1, -1), (-1, 1))
    ]


def _draw_heading(draw: ImageDraw.ImageDraw, centre: Point, front: float, inner: float, heading_rad: float) -> None:
    """A bar across the front of the robot's rim; y points down in a picture, up on the floor."""
    x, y = math.cos(heading_rad), -math.sin(heading_rad)
    ends = [(centre[0] + x * front * share, centre[1] + y * front * share) for share in (0.7, 1.35)]
    draw.line(ends, _INK, max(2, round(inner / 4)))


def _coloured_roles(simulator: WarehouseView) -> list[tuple[Rgb, slice]]:
    return [(_ROLES[index % len(_ROLES)], place) for index, place in enumerate(simulator.role_slices.values())]


def _centres(simulator: WarehouseView, env: int, cell: int) -> list[Point]:
    """Centres of the robots in pixels of the oversampled picture, whose y points down."""
    pixels = simulator.positions_m[env] * (cell / simulator.layout.cell_size_m)
    return [(float(x), simulator.layout.height * cell - float(y)) for x, y in pixels]


def _square(row: int, column: int, cell: int, margin: int) -> list[int]:
    return [
        column * cell + margin,
        row * cell + margin,
        (column + 1) * cell - 1 - margin,
        (row + 1) * cell - 1 - margin,
    ]


def _mixed(first: Rgb, second: Rgb, share: float) -> Rgb:
    """``share`` of the first colour and the rest of the second."""
    red, green, blue = (round(a * share + b * (1.0 - share)) for a, b in zip(first, second, strict=True))
    return red, green, blue


def _caption(simulator: WarehouseView, env: int) -> str:
    drive = simulator.config.drive
    step_s = drive.step_s * (drive.decision_steps if drive.kind == "differential" else 1)
    alive = simulator.alive[env]
    loaded = int((alive & simulator.loaded[env]).sum())
    num_robots = int(alive.sum())
    robots = f"{num_robots} {'robot' if num_robots == 1 else 'robots'}"
    return f"{int(simulator.steps[env]) * step_s:.0f} s   {robots}, {loaded} loaded"


def _legend(layout: Layout) -> list[str]:
    """What letters and hatching mean, where there are any."""
    stations = {"S pick-up": layout.pickups, "E delivery": layout.deliveries, "P parking": layout.parking}
    stations["C charger"] = layout.chargers
    entries = [text for text, places in stations.items() if len(places)]
    return entries if layout.speed_limit_mps is None else [*entries, "hatched: limit in m/s"]


def _with_caption(picture: Image.Image, parts: list[str]) -> Image.Image:
    """The picture with a line below it: the first part, and of the others those that there is room for."""
    font, caption = _font(13), parts[0]
    for part in parts[1:]:
        longer = f"{caption}   {part}"
        caption = longer if font.getlength(longer) <= picture.width - 12 else caption
    framed = Image.new("RGB", (picture.width, picture.height + _CAPTION_PX), (255, 255, 255))
    framed.paste(picture, (0, 0))
    draw = ImageDraw.Draw(framed)
    draw.text((6, picture.height + _CAPTION_PX // 2), caption, _INK, font, anchor="lm")
    return framed


@lru_cache(maxsize=32)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(max(size, 6))
