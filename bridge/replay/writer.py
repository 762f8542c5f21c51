"""Writes a recording as one HTML file that opens from disk and loads nothing.

Everything that comes from a scenario or a policy (names, figures, fields) travels inside the deflated,
base64-coded payload and is shown as text by the page; the title alone is markup, and is escaped. The
page's policy (CSP) allows its own script and style, by their hashes, and no connection at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import SpecMismatchError
from bridge.replay.encoding import MISSING, encode, quantise
from bridge.replay.recording import EVENT_LABELS, MessageRecord, Recording
from bridge.warehouse.config import RoleConfig
from bridge.warehouse.metrics import make_clock

__all__ = ["page_text", "write_replay"]

_FORMAT: Final = 1
_POSITION_RESOLUTION_M: Final = 0.005
_HEADING_LEVELS: Final = 1024
_CHARGE_LEVELS: Final = 1000
_LIDAR_LEVELS: Final = 200
_LIMIT_RESOLUTION_MPS: Final = 0.001
_MESSAGE_LEVELS: Final = 100

_PAGE: Final = files("bridge.replay").joinpath("page")
# In the order in which they are joined; each defines names that later ones use.
_SCRIPTS: Final = (
    "data.js", "traffic.js", "camera.js", "routes.js", "floor.js", "shapes.js", "fleet.js",
    "timeline.js", "charts.js", "messages.js", "inspector.js", "legend.js", "player.js", "app.js",
)  # fmt: skip


def write_replay(recording: Recording, path: Path) -> None:
    """Write the page of a recording; equal recordings give equal files.

    Raises:
        SpecMismatchError: The folder of ``path`` does not exist, or cannot be written to.
    """
    try:
        path.write_text(page_text(recording), encoding="utf-8")
    except OSError as error:
        raise SpecMismatchError(f"replay: expected to write {path}, got {error.strerror}. Check the path.") from error


def page_text(recording: Recording) -> str:
    """The whole page."""
    style = _read("style.css")
    script = "(() => {\n'use strict';\n" + "\n".join(_code(name) for name in _SCRIPTS) + "\n})();\n"
    parts = {
        "title": html.escape(f"{recording.scenario} - replay"),
        "policy": (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
            "form-action 'none'"
        ),
        "style": style,
        "script": script,
        "payload": base64.b64encode(encode(_header(recording), _arrays(recording))).decode("ascii"),
    }
    # One pass: what is put in is never searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read("page.html"))


def _read(name: str) -> str:
    return _PAGE.joinpath(name).read_text(encoding="utf-8")


def _code(name: str) -> str:
    """A script without the lines that are comments alone."""
    return re.sub(r"^ *(//.*|/\*\*.*\*/)\n", "", _read(name), flags=re.MULTILINE)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _header(recording: Recording) -> dict[str, Any]:
    """What is not an array: names, sizes, units and resolutions."""
    layout, lidar = recording.layout, recording.lidar
    return {
        "format": _FORMAT,
        "scenario": recording.scenario,
        "policy": recording.policy,
        "seed": str(recording.seed),
        "steps": recording.num_steps,
        "warm_up_steps": _warm_up_steps(recording),
        "step_s": recording.step_s,
        "drive": recording.config.drive.kind,
        "contact_rule": recording.config.contact.rule,
        "width": layout.width,
        "height": layout.height,
        "cell_size_m": layout.cell_size_m,
        "roles": [_role(role) for role in recording.config.fleet],
        "position_resolution_m": _POSITION_RESOLUTION_M,
        "heading_levels": _HEADING_LEVELS,
        "charge_levels": _CHARGE_LEVELS,
        "missing": MISSING,
        "limit_resolution_mps": None if layout.speed_limit_mps is None else _LIMIT_RESOLUTION_MPS,
        "lidar": None
        if lidar is None
        else {
            "beams": int(lidar.values.shape[2]),
            "range_m": lidar.range_m,
            "stride": lidar.stride,
            "levels": _LIDAR_LEVELS,
        },
        "messages": None if recording.messages is None else _messages(recording.messages),
        "fields": [
            {
                "name": field.name,
                "label": field.label,
                "unit": field.unit,
                "resolution": field.resolution,
                "choices": list(field.choices),
                "size": int(np.prod(field.values.shape[2:])),
            }
            for field in recording.fields
        ],
        "kinds": [{"name": kind, "label": EVENT_LABELS.get(kind, kind)} for kind in recording.events.kinds],
        "figures": [{"name": name, "meaning": text, "value": value} for name, text, value in recording.figures],
    }


def _warm_up_steps(recording: Recording) -> int:
    config = recording.config
    return make_clock(config.metrics.warm_up_s, config.episode_steps, recording.step_s).warm_up_steps


def _messages(record: MessageRecord) -> dict[str, Any]:
    return {
        "discrete": record.discrete,
        "size": record.size,
        "kept": int(record.said.shape[2]),
        "shown": record.num_shown,
        "senders": int(record.heard_from.shape[2]),
        "levels": _MESSAGE_LEVELS,
    }


def _role(role: RoleConfig) -> dict[str, Any]:
    """Name, number and footprint; of a rectangle, the radius is that of the circle around it."""
    described: dict[str, Any] = {
        "name": role.role,
        "count": role.count,
        "job": role.job,
        "radius_m": role.outer_radius_m,
    }
    if role.length_m is not None:
        described |= {"length_m": role.length_m, "width_m": role.width_m}
    return described


def _message_arrays(record: MessageRecord) -> dict[str, NDArray[Any]]:
    """Numbers from 1 on; 0 for a silent robot, for no sender and for no message."""
    lowest, levels = (0.0, 1) if record.discrete else (-1.0, _MESSAGE_LEVELS)
    said = np.rint((np.nan_to_num(record.said) - lowest) * levels).astype(np.int32) + 1
    return {
        "said": np.where(np.isnan(record.said), 0, said),
        "heard_from": record.heard_from + 1,
        "heard_age": record.age + 1,
    }


def _arrays(recording: Recording) -> dict[str, NDArray[Any]]:
    layout, events, lidar = recording.layout, recording.events, recording.lidar
    heading = np.rint(recording.heading_rad * (_HEADING_LEVELS / (2.0 * np.pi))).astype(np.int64) % _HEADING_LEVELS
    flags = (recording.alive, recording.loaded, recording.has_task, recording.refused, recording.jumped)
    arrays: dict[str, NDArray[Any]] = {
        "x": quantise(recording.positions_m[..., 0], _POSITION_RESOLUTION_M),
        "y": quantise(recording.positions_m[..., 1], _POSITION_RESOLUTION_M),
        "heading": heading,
        "flags": np.stack([flag.astype(np.uint8) << bit for bit, flag in enumerate(flags)]).sum(axis=0),
        "goal": recording.goal_cells,
        "charge": quantise(recording.charge, 1.0 / _CHARGE_LEVELS),
        "pauses": recording.pauses,
        "num_refused": recording.num_refused,
        "num_half_contacts": recording.num_half_contacts,
        "blocked": layout.blocked.ravel(),
        "open_moves": recording.open_moves,
        "pickups": layout.pickups,
        "deliveries": layout.deliveries,
        "parking": layout.parking,
        "chargers": layout.chargers,
        "event_step": events.step,
        "event_kind": events.kind,
        "event_end": events.end,
        "event_robots": events.robots,
    }
    if layout.speed_limit_mps is not None:
        limits = np.where(layout.blocked.ravel(), np.nan, layout.speed_limit_mps)
        arrays["limit"] = quantise(limits, _LIMIT_RESOLUTION_MPS)
    if recording.messages is not None:
        arrays |= _message_arrays(recording.messages)
    if lidar is not None:
        arrays["lidar"] = quantise(lidar.values, 1.0 / _LIDAR_LEVELS)
    for number, field in enumerate(recording.fields):
        arrays[f"field_{number}"] = quantise(field.values, field.resolution)
    return arrays
