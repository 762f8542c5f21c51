"""The shape of VDMA LIF documents: versions, layouts, levels and vehicle types."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from bridge.errors import LayoutError
from bridge.maps.documents import Item

__all__ = [
    "EDGE_PROPERTIES",
    "NODE_PROPERTIES",
    "LifGroup",
    "choose_level",
    "choose_vehicle_type",
    "lif_groups",
    "lif_version",
    "properties_for",
    "text_of",
]


# Files mix the names of both versions and of the drafts between them, whatever lifVersion says: every name counts.
NODE_PROPERTIES: Final = ("vehicleTypeNodeProperties", "mobileRobotTypeNodeProperties")
EDGE_PROPERTIES: Final = ("vehicleTypeEdgeProperties", "mobileRobotTypeEdgeProperties")


def lif_version(document: Item) -> str:
    """The version that a document states, or else that of its frame, with a warning where the two differ."""
    has_origins = document.get("origins") is not None
    meta = document.get("metaInformation")
    stated = meta.get("lifVersion") if meta is not None else None
    if stated is None:
        document.warnings.add("The file states no lifVersion.")
        return "2" if has_origins else "1"
    text = stated.text().strip()
    major = text.split(".")[0]
    if major not in ("0", "1", "2"):
        document.warnings.add(
            f"lifVersion {text[:20]!r} is unknown; the file was read as the version that it looks like."
        )
    elif major == "0":
        document.warnings.add(f"lifVersion {text[:20]!r} is a draft; the names of 1.0 and of 2.0 were both understood.")
    elif (major == "2") != has_origins:
        document.warnings.add(
            f"lifVersion {text[:20]!r} does not fit the file, which has {'origins' if has_origins else 'no origins'}; "
            "it was read as what it looks like."
        )
    return text[:20]


@dataclass(frozen=True)
class LifGroup:
    """Layouts that share a plane: one level, in one coordinate frame."""

    name: str
    aliases: frozenset[str]
    layouts: tuple[Item, ...]

    def entries(self, key: str) -> list[Item]:
        """The elements of a list of all layouts."""
        return [entry for layout in self.layouts for entry in layout.entries(key)]


def lif_groups(document: Item) -> list[LifGroup]:
    """The levels of a document: layouts with the same origin and ``layoutLevelId``.

    Raises:
        LayoutError: There is no layout.
    """
    has_origins = document.get("origins") is not None
    frames = document.entries("origins") if has_origins else [document]
    groups: dict[tuple[str, str], LifGroup] = {}
    for index, frame in enumerate(frames):
        origin = text_of(frame, "originId") or str(index)
        for layout in frame.entries("layouts"):
            level = text_of(layout, "layoutLevelId")
            aliases = {text_of(layout, key) for key in ("layoutId", "layoutName", "layoutLevelId")}
            aliases |= {text_of(frame, "originId")} if has_origins else set()
            key = (origin, level)
            name = f"layout {text_of(layout, 'layoutId') or str(len(groups) + 1)!r}"
            before = groups.get(key, LifGroup(name, frozenset(), ()))
            groups[key] = LifGroup(before.name, before.aliases | aliases - {""}, (*before.layouts, layout))
    if not groups:
        raise document.fault("a LIF file with at least one layout", "The key 'layouts' is missing or empty.")
    return list(groups.values())


def choose_level(groups: list[LifGroup], level: str | None, document: Item) -> LifGroup:
    """The level that a person asks for by any of its names, or the one with the most edges.

    Raises:
        LayoutError: No level, or more than one, has this name.
    """
    if level is not None:
        chosen = [group for group in groups if level in group.aliases]
        if len(chosen) != 1:
            known = ", ".join(sorted(alias for group in groups for alias in group.aliases)[:20])
            raise LayoutError(
                f"{document.file}: level: expected one of {known or 'the unnamed layout'}, got {level!r}."
            )
        # A layout that is named by its own id is taken alone, without its neighbours on the level.
        alone = [
            layout
            for layout in chosen[0].layouts
            if level in (text_of(layout, "layoutId"), text_of(layout, "layoutName"))
        ]
        return replace(chosen[0], name=f"layout {level!r}", layouts=tuple(alone) or chosen[0].layouts)
    if len(groups) == 1:
        return groups[0]
    largest = max(groups, key=lambda group: len(group.entries("edges")))
    others = ", ".join(group.name for group in groups if group is not largest)
    document.warnings.add(
        f"The file has {len(groups)} levels; {largest.name}, the one with the most edges, was taken, not {others}. "
        "Choose with --level."
    )
    return largest


def _types(properties: Item) -> list[str]:
    """Vehicle types of a property set; empty if it is for all."""
    single = properties.get("vehicleTypeId", "mobileRobotTypeId")
    if single is not None:
        return [single.text()]
    return [
        entry.text()
        if isinstance(entry.value, str)
        else "/".join(filter(None, (text_of(entry, "manufacturer"), text_of(entry, "seriesName"))))
        for entry in properties.entries("mobileRobotTypes")
    ]


def choose_vehicle_type(group: LifGroup, wanted: str | None, document: Item) -> str | None:
    """The vehicle type that a person asks for, or the one with the most edges; None if the level has none.

    Raises:
        LayoutError: The level has no such type.
    """
    counts = Counter(
        vehicle_type
        for edge in group.entries("edges")
        for properties in edge.entries(*EDGE_PROPERTIES)
        for vehicle_type in _types(properties)
    )
    known = ", ".join(sorted(counts)[:20])
    if wanted is not None:
        if wanted not in counts:
            raise LayoutError(
                f"{document.file}: vehicle_type: expected one of {known or 'none at all'}, got {wanted!r}."
            )
        return wanted
    if not counts:
        return None
    chosen = counts.most_common(1)[0][0]
    if len(counts) > 1:
        document.warnings.add(
            f"The file has the vehicle types {known}; {chosen}, the one with the most edges, was taken. "
            "Choose with --vehicle-type."
        )
    return chosen


def text_of(item: Item, key: str) -> str:
    """The string under a key; empty if there is none."""
    value = item.get(key)
    return "" if value is None else value.text()


def properties_for(element: Item, keys: tuple[str, ...], vehicle_type: str | None) -> list[Item] | None:
    """What is said about a vehicle type on a node or edge; None if the type may not use it.

    Args:
        element: The node or edge.
        keys: Names of the list of property sets.
        vehicle_type: The type; None for all.
    """
    sets = element.entries(*keys)
    if not sets:
        element.warnings.add(f"A node or edge has no {keys[0]}; it was taken for all vehicle types.")
        return []
    if vehicle_type is None:
        return sets
    fitting = [properties for properties in sets if not (types := _types(properties)) or vehicle_type in types]
    return fitting or None
