"""Files of every format that can be imported, told apart by their content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from bridge.errors import LayoutError
from bridge.maps.documents import MAX_DOCUMENT_BYTES, Item, parse_json, parse_yaml
from bridge.maps.files import MAX_MAP_BYTES, load_layout_file, read_bounded
from bridge.maps.import_options import FORMATS, Imported, ImportOptions, fleet_size
from bridge.maps.import_warnings import ImportWarnings
from bridge.maps.lif import import_lif, looks_like_lif
from bridge.maps.lorr import import_lorr, looks_like_lorr
from bridge.maps.movingai import looks_like_movingai
from bridge.maps.rmf import import_building, import_nav_graph, is_nav_graph, looks_like_rmf
from bridge.maps.scen import import_scen, looks_like_scen
from bridge.maps.stations import derive_stations
from bridge.warehouse.layout import Layout

__all__ = ["read_layout"]

# What people try instead, by keys that tell.
_KNOWN_KEYS: Final = {
    frozenset({"world", "schema"}): "It is a scenario already.",
    frozenset({"format_version", "anchors", "levels"}): (
        "It is a file of Open-RMF's site editor; export its navigation graphs and import one of those."
    ),
    frozenset({"image", "resolution", "origin"}): (
        "It is an occupancy map, which has no lanes; draw them on its image in Open-RMF's traffic editor."
    ),
}


def read_layout(path: Path, options: ImportOptions | None = None, robots: int | None = None) -> Imported:
    """Read a file of any supported format as a layout with stations.

    Formats: MovingAI ``.map`` and ``.scen``, problems of the League of Robot Runners (their JSON
    file), VDMA LIF 1.0 and 2.0, Open-RMF buildings and navigation graphs.

    Args:
        path: The file.
        options: Choices; the defaults of :class:`ImportOptions` if None.
        robots: Size of the fleet; None: as the file states.

    Raises:
        LayoutError: Names the file and the line or key of what nothing sensible can be made of.
    """
    options = ImportOptions() if options is None else options
    where = str(path)
    data = read_bounded(path, max(MAX_MAP_BYTES, MAX_DOCUMENT_BYTES), "map file")
    # Latin-1 decodes anything, a byte order mark as these three letters.
    text = data[:4096].decode("latin-1").removeprefix("\xef\xbb\xbf")
    suffix = path.suffix.lower()
    if looks_like_movingai(text) or suffix == ".map":
        FORMATS["map"].check(options, where)
        return _read_map(data, path, options, robots)
    if looks_like_scen(text) or suffix == ".scen":
        FORMATS["scen"].check(options, where)
        return import_scen(data.decode("utf-8-sig", errors="replace"), path, options, robots)
    if suffix in (".agents", ".tasks"):
        raise LayoutError(f"{path}: expected a map file, got a part of a problem. Import the JSON file that names it.")
    return _read_document(data, path, options, robots)


def _read_map(data: bytes, path: Path, options: ImportOptions, robots: int | None) -> Imported:
    num_robots = fleet_size(robots, None, str(path))
    warnings = ImportWarnings()
    layout = load_layout_file(path, options.cell_size_m or 1.0, warnings)
    rules = options.stations
    if rules.keep_marks is None:
        rules = replace(rules, keep_marks=not _is_swamp(layout, data, warnings))
    stationed = derive_stations(layout, num_robots, rules, str(path))
    return Imported(stationed.layout, "MovingAI .map", num_robots, stationed.notes, warnings.lines())


def _is_swamp(layout: Layout, data: bytes, warnings: ImportWarnings) -> bool:
    """Whether the letter S means swamp, as in maps of games, and not pick-up.

    Games have water (W) or cells out of bounds (O); warehouses mark where loads are brought, too.
    """
    others = len(layout.deliveries) + len(layout.parking) + len(layout.chargers)
    if not len(layout.pickups) or others:
        return False
    # The header is in lower case.
    if b"W" in data or b"O" in data:
        warnings.add(
            f"{len(layout.pickups)} cells with S were taken for swamp, that is for floor, because the map has W or O "
            "and neither E, P nor C, as maps of games have. --keep-marks makes them pick-ups."
        )
        return True
    warnings.add(
        f"{len(layout.pickups)} cells with S were taken for pick-ups, but the map has no E. In maps of games S is "
        "swamp: --no-keep-marks makes it floor."
    )
    return False


def _read_document(data: bytes, path: Path, options: ImportOptions, robots: int | None) -> Imported:
    where = str(path)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise LayoutError(f"{path}: expected at most {MAX_DOCUMENT_BYTES} bytes, got more. Is it a map file?")
    # A NUL among the first bytes is JSON in UTF-16 or UTF-32.
    is_json = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") or b"\0" in data[:4] or data[:2] == b"\xff\xfe"
    if is_json and path.suffix.lower() not in (".yaml", ".yml"):
        document = Item(parse_json(data, where), where, ImportWarnings())
    else:
        document = Item(parse_yaml(data, where), where, ImportWarnings())
    value = document.value
    if looks_like_lorr(value):
        FORMATS["lorr"].check(options, where)
        return import_lorr(document, path, options, robots)
    if looks_like_lif(value):
        FORMATS["lif"].check(options, where)
        return import_lif(document, options, robots)
    if looks_like_rmf(value):
        if is_nav_graph(document):
            FORMATS["nav_graph"].check(options, where)
            return import_nav_graph(document, options, robots)
        FORMATS["building"].check(options, where)
        return import_building(document, options, robots)
    known = ", ".join(known_format.name for known_format in FORMATS.values())
    raise document.fault(f"one of the formats {known}", _hint(value))


def _hint(value: object) -> str:
    if not isinstance(value, dict):
        return "Its content is none of them."
    for telling, sentence in _KNOWN_KEYS.items():
        if value.keys() >= telling:
            return sentence
    keys = ", ".join(str(key)[:40] for key in list(value)[:8])
    return f"Its keys are {keys}." if keys else "It is empty."
