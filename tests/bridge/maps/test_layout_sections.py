"""Exits and speed limits in layout files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bridge.errors import LayoutError
from bridge.maps import load_layout_file, write_layout_file
from bridge.maps.movingai import format_movingai, parse_movingai
from bridge.warehouse.layout import EXIT_DOWN, EXIT_LEFT, EXIT_RIGHT, EXIT_UP, Layout

FILE = """\
type octile
height 2
width 3
map
S.@
P.E
exits
460
3af
speed_limits a=0.5 b=1.2
a..
abb
"""


def test_parse_movingai_reads_exits_and_speed_limits_behind_the_rows() -> None:
    layout = parse_movingai(FILE, 1.0, "a.map")
    assert layout.exits is not None
    assert layout.exits.tolist() == [
        EXIT_DOWN,
        EXIT_RIGHT | EXIT_DOWN,
        0,
        EXIT_UP | EXIT_RIGHT,
        EXIT_RIGHT | EXIT_LEFT,
        15,
    ]
    assert layout.exits.dtype == np.uint8
    assert layout.speed_limit_mps is not None
    expected = np.array([0.5, np.nan, np.nan, 0.5, 1.2, 1.2], np.float32)
    assert np.array_equal(layout.speed_limit_mps, expected, equal_nan=True)


def test_format_movingai_writes_no_section_for_a_plain_layout() -> None:
    text = "type octile\nheight 1\nwidth 2\nmap\n.@\n"
    assert format_movingai(parse_movingai(text, 1.0, "a.map")) == text


@settings(deadline=None)
@given(
    arrays(np.uint8, 12, elements=st.integers(0, 15)),
    st.none() | arrays(np.float32, 12, elements=st.sampled_from([0.1, 0.3, 2.0, float("nan")])),
    arrays(np.bool_, (3, 4)),
)
def test_format_movingai_is_read_back_with_exits_and_limits(
    exits: np.ndarray, limits: np.ndarray | None, blocked: np.ndarray
) -> None:
    blocked[0, 0] = False
    none = np.empty(0, np.int32)
    layout = Layout(blocked, none, none, none, none, 1.0, np.where(blocked.ravel(), 0, exits).astype(np.uint8), limits)
    again = parse_movingai(format_movingai(layout), 1.0, "a.map")
    assert again.exits is not None
    assert np.array_equal(again.exits, layout.exits)
    if limits is None:
        assert again.speed_limit_mps is None
    else:
        assert again.speed_limit_mps is not None
        assert np.array_equal(again.speed_limit_mps, limits, equal_nan=True)


def test_write_layout_file_rounds_speed_limits_down_when_there_are_more_than_letters(tmp_path: Path) -> None:
    layout = parse_movingai("type octile\nheight 10\nwidth 10\nmap\n" + "..........\n" * 10, 1.0, "a.map")
    limits = (1.0 + np.arange(100) / 100).astype(np.float32)
    write_layout_file(replace(layout, speed_limit_mps=limits), tmp_path / "b.map")
    again = load_layout_file(tmp_path / "b.map", 1.0).speed_limit_mps
    assert again is not None
    assert (again <= limits).all()
    assert (limits - again).max() < 0.021


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("460\n", "46g\n", r"a\.map: line 8, character 3: expected a digit from 0 to f, got 'g'"),
        ("460\n", "46f\n", r"a\.map: line 8, character 3: expected 0 in a blocked cell, got 'f'"),
        ("460\n", "46\n", r"a\.map: line 8: expected 3 characters, got 2"),
        ("a..\nabb\n", "a..\n", r"a\.map: line 12: expected 2 rows, got the end of the file after 1"),
        ("a..\n", "c..\n", r"a\.map: line 11, character 1: expected one of \. a b, got 'c'"),
        ("b=1.2", "b=0", r"a\.map: line 10: expected letters with speeds > 0 m/s .*got 'b=0'"),
        ("b=1.2", "b=nan", r"line 10: expected letters with speeds .*got 'b=nan'"),
        ("b=1.2", "a=1.2", r"line 10: expected letters .* each once, got 'a=1.2'"),
        ("abb\n", "abb\nexits\n", r"a\.map: line 13: expected the end of the file, got 'exits'"),
        ("exits\n460\n3af\n", "exit\n460\n3af\n", r"a\.map: line 7: expected 2 rows as the header says, got 8"),
    ],
)
def test_parse_movingai_names_the_line_of_a_wrong_section(old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(LayoutError, match=message):
        parse_movingai(FILE.replace(old, new), 1.0, "a.map")
