"""The JSON schema of scenario files, for editors, agrees with what is read."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from bridge.registry import world_kinds
from bridge.scenario import scenario_json_schema, shipped_scenarios

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def accepts(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """The part of JSON Schema 2020-12 that the schema of scenarios uses."""
    if "$ref" in schema:
        return accepts(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root)
    if "anyOf" in schema and not any(accepts(choice, value, root) for choice in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(accepts(choice, value, root) for choice in schema["oneOf"]) != 1:
        return False
    if "type" in schema:
        is_a = isinstance(value, _TYPES[schema["type"]])
        if not is_a or (isinstance(value, bool) and schema["type"] != "boolean"):
            return False
    if ("const" in schema and value != schema["const"]) or ("enum" in schema and value not in schema["enum"]):
        return False
    if isinstance(value, dict):
        return _accepts_mapping(schema, value, root)
    if isinstance(value, list):
        items = schema.get("items", {})
        return len(value) >= schema.get("minItems", 0) and all(accepts(items, item, root) for item in value)
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, int | float):
        low, high = schema.get("minimum", -float("inf")), schema.get("maximum", float("inf"))
        return bool(low <= value <= high and value > schema.get("exclusiveMinimum", -float("inf")))
    return True


def _accepts_mapping(schema: dict[str, Any], value: dict[str, Any], root: dict[str, Any]) -> bool:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if any(key not in value for key in schema.get("required", ())):
        return False
    for key, child in value.items():
        child_schema = properties.get(key, others)
        if child_schema is False or (child_schema is not True and not accepts(child_schema, child, root)):
            return False
    return True


def test_scenario_json_schema_has_a_section_for_every_kind_of_world() -> None:
    schema = scenario_json_schema()
    kinds = {kind.name for kind in world_kinds()}
    assert set(schema["properties"]["world"]["enum"]) == kinds
    assert set(schema["properties"]) == {"schema", "name", "description", "world", "train", *kinds}
    assert all(schema["properties"][kind].get("description") for kind in kinds)


@pytest.mark.parametrize("name", sorted(shipped_scenarios()))
def test_scenario_json_schema_accepts_every_shipped_file(name: str) -> None:
    schema = scenario_json_schema()
    assert accepts(schema, yaml.safe_load(shipped_scenarios()[name].read_text()), schema)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"wrld": "warehouse"},
        {"world": "warehose"},
        {"warehouse": {"fleet": [{"role": "carrier", "count": 1}]}},
        {"warehouse": {"layout": {"file": "a.map"}, "fleet": [{"role": "carrier", "count": 0}]}},
        {
            "warehouse": {
                "layout": {"file": "a.map"},
                "fleet": [{"role": "carrier", "count": 1}],
                "drive": {"kind": "x"},
            }
        },
    ],
)
def test_scenario_json_schema_refuses_what_the_reader_refuses(change: dict[str, Any]) -> None:
    schema = scenario_json_schema()
    good = yaml.safe_load(shipped_scenarios()["warehouse_small"].read_text())
    assert not accepts(schema, {**good, **change}, schema)
