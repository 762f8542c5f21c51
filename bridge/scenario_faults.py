"""What is wrong with a section of a scenario file, in words that its author can act on.

Turns pydantic's errors into lines ``<file>: <dotted key>: expected <what>, got <value>. <what
to do>``, with the keys as they stand in the file and with "did you mean" where a name is near
a known one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

__all__ = ["describe_faults", "did_you_mean"]

Location = tuple[int | str, ...]

_MAX_SHOWN = 80

_PLAIN = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_from_float": "an integer",
    "int_type": "an integer",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_type": "a string",
    "tuple_type": "a list",
}
_BOUNDS = {
    "greater_than": "a value > {gt:g}",
    "greater_than_equal": "a value >= {ge:g}",
    "less_than": "a value < {lt:g}",
    "less_than_equal": "a value <= {le:g}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
}
_LENGTHS = {"too_short": ">= {min_length}", "too_long": "<= {max_length}"}


def describe_faults(error: ValidationError, model: type[BaseModel], data: Any, path: Path, section: str) -> list[str]:
    """One line per fault.

    Args:
        error: What pydantic found.
        model: The model that refused the data.
        data: The section as it stands in the file.
        path: The file.
        section: Dotted key of the section; empty for the whole file.
    """
    lines = []
    for detail in error.errors():
        text = _describe(detail, model, data)
        if text is not None:
            key = _dotted(section, _location_in_file(detail, data))
            lines.append(f"{path}: {key}: {text}" if key else f"{path}: {text}")
    return lines


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """A hint that begins with a blank if a known name is near the one found; else nothing."""
    close = difflib.get_close_matches(found, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _describe(detail: ErrorDetails, model: type[BaseModel], data: Any) -> str | None:
    kind, found, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return _unknown_key(detail, model)
    if kind == "missing":
        return "expected a value, got none. Add the key."
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_tag(detail, model)
    if kind in ("literal_error", "enum"):
        choices = _choices(detail["loc"], model) or [context["expected"]]
        words = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
        return f"expected {words}, got {_shown(found)}.{did_you_mean(str(found), choices)}"
    if kind in _LENGTHS:
        # Elements that are wrong themselves are reported; pydantic counts them as absent, too.
        number = len(_value_at(data, _location_in_file(detail, data)))
        if number >= context.get("min_length", 0) and kind == "too_short":
            return None
        return f"expected a list of length {_LENGTHS[kind].format(**context)}, got one of length {number}."
    if kind in _BOUNDS:
        return f"expected {_BOUNDS[kind].format(**context)}, got {_shown(found)}."
    expected = _PLAIN.get(kind)
    if expected is None:
        return f"expected a valid value, got {_shown(found)}: {detail['msg']}."
    return f"expected {expected}, got {_shown(found)}.{_type_hint(kind, found)}"


def _type_hint(kind: str, found: Any) -> str:
    """What to do about a value of the wrong type, where that can be told."""
    if kind in ("int_type", "float_type") and isinstance(found, str):
        try:
            float(found)
        except ValueError:
            return ""
        return " Remove the quotes."
    if kind == "bool_type" and isinstance(found, str | int):
        return " Write true or false, without quotes."
    if kind == "string_type" and isinstance(found, bool | int | float):
        return " Put it in quotes."
    if kind in ("list_type", "tuple_type") and isinstance(found, dict):
        return " Begin each element with '- '."
    if found is None:
        return " Give it a value, or remove the key."
    return ""


def _unknown_key(detail: ErrorDetails, model: type[BaseModel]) -> str:
    siblings = _field_names(model, detail["loc"][:-1])
    name = str(detail["loc"][-1])
    return f"expected one of the keys {', '.join(siblings)}, got {name!r}.{did_you_mean(name, siblings)}"


def _unknown_tag(detail: ErrorDetails, model: type[BaseModel]) -> str:
    context = detail["ctx"]
    key = context["discriminator"].strip("'")
    schema, definitions = _schema(model)
    choices: list[str] = []
    for node in _expand(_nodes_at(schema, detail["loc"], definitions), definitions):
        choices.extend(node.get("discriminator", {}).get("mapping", {}))
    if "tag" not in context:
        return f"expected the key {key!r} with one of {', '.join(choices)}, got none. Add the key."
    tag = str(context["tag"])
    return f"expected {key!r} to be one of {', '.join(choices)}, got {tag!r}.{did_you_mean(tag, choices)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _location_in_file(detail: ErrorDetails, data: Any) -> Location:
    """The location without the names of union members, which pydantic adds and the file does not have."""
    place: list[int | str] = []
    value = data
    last = len(detail["loc"]) - 1
    for index, part in enumerate(detail["loc"]):
        is_key_that_lacks = index == last and detail["type"] == "missing"
        if isinstance(value, dict) and part not in value and not is_key_that_lacks:
            continue
        place.append(part)
        value = _value_at(value, (part,))
    return tuple(place)


def _value_at(value: Any, location: Location) -> Any:
    for part in location:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _dotted(section: str, location: Location) -> str:
    key = section
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else str(part)
    return key


def _schema(model: type[BaseModel]) -> tuple[dict[str, Any], dict[str, Any]]:
    schema = model.model_json_schema(by_alias=True)
    return schema, schema.get("$defs", {})


def _field_names(model: type[BaseModel], location: Location) -> list[str]:
    """Names of the keys allowed at a location, found through the model's JSON schema."""
    schema, definitions = _schema(model)
    names: list[str] = []
    for node in _expand(_nodes_at(schema, location, definitions), definitions):
        names.extend(name for name in node.get("properties", {}) if name not in names)
    return names


def _choices(location: Location, model: type[BaseModel]) -> list[str]:
    """The values allowed at a location, if they can be counted."""
    schema, definitions = _schema(model)
    choices: list[str] = []
    for node in _expand(_nodes_at(schema, location, definitions), definitions):
        values = node.get("enum", [node["const"]] if "const" in node else [])
        choices.extend(str(value) for value in values)
    return choices


def _nodes_at(schema: dict[str, Any], location: Location, definitions: dict[str, Any]) -> list[dict[str, Any]]:
    nodes = [schema]
    for part in location:
        nodes = [child for node in nodes for child in _children(node, part, definitions)]
    return nodes


def _children(node: dict[str, Any], part: int | str, definitions: dict[str, Any]) -> list[dict[str, Any]]:
    children: list[dict[str, Any]] = []
    for choice in _expand([node], definitions):
        if isinstance(part, int):
            children.extend([choice["items"]] if isinstance(choice.get("items"), dict) else [])
        elif part in choice.get("properties", {}):
            children.append(choice["properties"][part])
        elif isinstance(choice.get("additionalProperties"), dict):
            children.append(choice["additionalProperties"])
        elif part in choice.get("discriminator", {}).get("mapping", {}):
            children.append({"$ref": choice["discriminator"]["mapping"][part]})
    return children


def _expand(nodes: list[dict[str, Any]], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """References followed and unions opened."""
    expanded: list[dict[str, Any]] = []
    for node in nodes:
        if "$ref" in node:
            expanded.extend(_expand([definitions[node["$ref"].rsplit("/", 1)[-1]]], definitions))
            continue
        expanded.append(node)
        for union in ("anyOf", "oneOf", "allOf"):
            expanded.extend(_expand(node.get(union, []), definitions))
    return expanded
