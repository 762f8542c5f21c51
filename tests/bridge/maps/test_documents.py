"""Bounded JSON and YAML, and items that know their place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.errors import LayoutError
from bridge.maps.documents import Item, parse_json, parse_yaml
from bridge.maps.import_warnings import ImportWarnings

BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{index}: &a{index} [{', '.join([f'*a{index - 1}'] * 9)}]\n" for index in range(1, 30)
)


def _short(value: Any) -> str:
    return repr(value)[:20]


def _item(value: Any) -> Item:
    return Item(value, "a.json", ImportWarnings())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_parse_json_reads_every_encoding_that_json_may_have(encoding: str) -> None:
    assert parse_json('{"name": "Halle Süd"}'.encode(encoding), "a.json") == {"name": "Halle Süd"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": 1,\n "b" 2}', r"a\.json: line 2, column 6: expected JSON, got a fault: Expecting ':'"),
        (b"", r"a\.json: line 1, column 1: expected JSON"),
        (b'{"a": NaN}', r"a\.json: expected JSON with finite numbers, got NaN"),
        (b'{"a": "\xff\xfe"}', r"a\.json: expected text in UTF-8, got byte 7 of another encoding"),
        (b"[" * 200_000, r"a\.json: expected JSON that nests a few levels deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", r"a\.json: expected JSON with numbers of ordinary length"),
    ],
)
def test_parse_json_names_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        parse_json(data, "a.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1, *x]\n", r"a\.yaml: line 1: expected an alias of something complete, got one of an outer or"),
        ("a: *x\n", r"a\.yaml: line 1: expected an alias of something complete, got one of an outer or unknown part"),
        (BOMB, r"a\.yaml: line 7: expected at most 2000000 values, got more"),
        ("a: !!python/name:os.system x\n", r"a\.yaml: line 1: expected no tag, got .*python/name"),
        ("a: !custom 1\n", r"a\.yaml: line 1: expected no tag, got '!custom'"),
        ("a: [1, 2\nb: 3\n", r"a\.yaml: line 2: expected YAML, got a fault"),
        ("a: 1\n\tb: 2\n", r"a\.yaml: line 2: expected YAML, got a fault: found "),
        ("[" * 80 + "]" * 80, r"a\.yaml: line 1: expected at most 64 levels of nesting, got more"),
        ("a: 1\n---\nb: 2\n", r"a\.yaml: line 2: expected YAML, got a fault: but found another document"),
        ("a: " + "9" * 5000, r"a\.yaml: expected YAML with ordinary numbers"),
        ("a: \x00", r"a\.yaml: expected YAML, got a fault|special characters"),
        ("? [1, 2]\n: 3\n", r"a\.yaml: line 1: expected YAML, got a fault: found unhashable key"),
    ],
)
def test_parse_yaml_names_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        parse_yaml(text.encode(), "a.yaml")


def test_parse_yaml_refuses_another_encoding() -> None:
    with pytest.raises(LayoutError, match=r"a\.yaml: expected text in UTF-8, got byte 3"):
        parse_yaml(b"a: \xff", "a.yaml")


def test_parse_yaml_reads_numbers_without_a_dot_and_leaves_dates_alone() -> None:
    text = "a: 1e-05\nb: 2024-13-45\nc: 1.5\nd: -3\ne: !!str 12\n"
    assert parse_yaml(text.encode(), "a.yaml") == {"a": 1e-05, "b": "2024-13-45", "c": 1.5, "d": -3, "e": "12"}


def test_parse_yaml_follows_aliases_that_stand_for_little() -> None:
    assert parse_yaml(b"a: &x {p: &y 1}\nb: *x\nc: [*y, *x]\n", "a.yaml") == {
        "a": {"p": 1},
        "b": {"p": 1},
        "c": [1, {"p": 1}],
    }


def test_item_names_the_place_of_a_value_in_nested_lists_and_mappings() -> None:
    document = _item({"layouts": [{"nodes": [{"x": "east"}]}]})
    node = document.entries("layouts")[0].entries("nodes")[0]
    with pytest.raises(LayoutError, match=r"a\.json: layouts\[0\]\.nodes\[0\]\.x: expected a number, got 'east'\."):
        node.require("x").number()
    with pytest.raises(LayoutError, match=r"a\.json: layouts\[0\]\.nodes\[0\]: expected the key 'y', got the keys x\."):
        node.require("y")
    with pytest.raises(LayoutError, match=r"a\.json: layouts: expected a mapping, got a list of 1 values\."):
        document.require("layouts").get("x")


def test_item_takes_a_number_in_a_string_with_a_warning() -> None:
    warnings = ImportWarnings()
    item = Item(["9.5", " 2 "], "a.json", warnings)
    assert [entry.number() for entry in item.entries()] == [9.5, 2.0]
    assert warnings.lines() == ("A number is written as a string; it was read as a number. (2 times.)",)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 1e300, "nan", True, None, [], {}, "", 10**400], ids=_short
)
def test_item_refuses_what_is_no_length(value: Any) -> None:
    with pytest.raises(LayoutError, match=r"a\.json: expected a (finite )?number"):
        _item(value).number()


@pytest.mark.parametrize(("value", "expected"), [(True, True), ("True", True), (0, False), ("no", False), (1, True)])
def test_item_reads_truth_values_in_their_usual_spellings(value: Any, expected: bool) -> None:
    assert _item(value).boolean() is expected


def test_item_writes_out_names_that_yaml_took_for_numbers_or_truth_values() -> None:
    value = parse_yaml(b"[on, 12, 1.5, name]", "a.yaml")
    assert [_item(entry).text() for entry in value] == ["true", "12", "1.5", "name"]
    with pytest.raises(LayoutError, match="expected a string, got a mapping of 0 keys"):
        _item({}).text()


def test_item_bounds_whole_numbers() -> None:
    assert _item(3.0).integer(0, 3) == 3
    for value in (4, -1, 2.5):
        with pytest.raises(LayoutError, match=rf"expected a whole number from 0 to 3, got {value}"):
            _item(value).integer(0, 3)


def test_item_shortens_what_it_shows() -> None:
    with pytest.raises(LayoutError) as caught:
        _item(json.loads(json.dumps("x" * 10_000))).number()
    assert len(str(caught.value)) < 150


def test_import_warnings_are_cut_when_there_is_a_flood_of_them() -> None:
    warnings = ImportWarnings()
    for index in range(100):
        warnings.add(f"Warning {index}.")
    assert len(warnings.lines()) == 21
    assert warnings.lines()[-1] == "80 further warnings are left out."
