"""MovingAI map files: reading, writing, and what is said about a malformed one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import LayoutError
from bridge.maps import load_layout_file, write_layout_file
from bridge.maps.import_warnings import ImportWarnings
from bridge.maps.movingai import format_movingai, parse_movingai
from bridge.warehouse.layout import MAX_CELLS

SMALL = "type octile\nheight 3\nwidth 4\nmap\nS.@E\n.PT.\nC..G\n"


def _marks(layout: object) -> list[list[int]]:
    return [getattr(layout, name).tolist() for name in ("pickups", "deliveries", "parking", "chargers")]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", ["", "\n\n", "  \n"])
def test_parse_movingai_reads_cells_and_stations_whatever_the_line_ends(ending: str, tail: str) -> None:
    layout = parse_movingai((SMALL + tail).replace("\n", ending), 1.5, "a.map")
    assert layout.blocked.tolist() == [
        [False, False, True, False],
        [False, False, True, False],
        [False, False, False, False],
    ]
    assert _marks(layout) == [[0], [3], [5], [8]]
    assert layout.cell_size_m == 1.5


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("S.@E\n", "S.@E \t \n", "Rows have blanks behind their cells."),
        ("height 3\nwidth 4\n", "width 4\nheight 3\n", "The width stands before the height."),
    ],
)
def test_parse_movingai_warns_about_what_is_loose(old: str, new: str, warning: str) -> None:
    warnings = ImportWarnings()
    layout = parse_movingai(SMALL.replace(old, new), 1.0, "a.map", warnings)
    assert layout.to_drawing() == parse_movingai(SMALL, 1.0, "a.map").to_drawing()
    assert warnings.lines() == (warning,)


def test_parse_movingai_reads_street_maps_of_1024_by_1024_cells() -> None:
    text = "type octile\nheight 1024\nwidth 1024\nmap\n" + ("." * 1023 + "@\n") * 1024
    assert parse_movingai(text, 1.0, "a.map").num_free == 1023 * 1024


def test_parse_movingai_reads_the_last_row_without_a_line_end() -> None:
    assert parse_movingai(SMALL.removesuffix("\n"), 1.0, "a.map").height == 3


@given(st.integers(1, 6).flatmap(lambda width: st.lists(st.text("#.SEPC", min_size=width, max_size=width), min_size=1)))
def test_format_movingai_is_read_back_as_the_same_layout(rows: list[str]) -> None:
    rows[0] = "." + rows[0][1:]
    header = f"type octile\nheight {len(rows)}\nwidth {len(rows[0])}\nmap\n"
    layout = parse_movingai(header + "\n".join(rows), 1.0, "a.map")
    again = parse_movingai(format_movingai(layout), 1.0, "b.map")
    assert np.array_equal(again.blocked, layout.blocked)
    assert _marks(again) == _marks(layout)


def test_parse_movingai_reads_a_map_of_another_type_and_says_so() -> None:
    warnings = ImportWarnings()
    layout = parse_movingai(SMALL.replace("octile", "tile"), 1.0, "a.map", warnings)
    assert _marks(layout) == _marks(parse_movingai(SMALL, 1.0, "a.map"))
    assert warnings.lines() == ("The type is 'tile', not 'octile'; robots move up, right, down and left all the same.",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("type octile", "kind octile", r"a\.map: line 1: expected 'type octile', got 'kind octile'\."),
        ("height 3", "depth 4", r"a\.map: line 2: expected 'height N' with N from 1 to 4194304, got 'depth 4'\."),
        ("height 3", "width 4", r"a\.map: line 2: expected 'height N' with N from 1 to 4194304, got 'width 4'\."),
        ("height 3", "height three", r"line 2: expected 'height N' .*, got 'height three'\."),
        ("height 3", "height -3", r"line 2: expected 'height N' .*, got 'height -3'\."),
        ("height 3", "height 0", r"line 2: expected a height from 1 to 4194304, got 0\."),
        ("width 4", "width 4 4", r"line 3: expected 'width N' .*, got 'width 4 4'\."),
        ("width 4", "width " + "9" * 60, r"line 3: expected 'width N' .*, got 'width 9+\.\.\.'\."),
        (
            "height 3\nwidth 4",
            "height 5000\nwidth 5000",
            r"line 3: expected at most 4194304 cells, got 5000 x 5000 = 25",
        ),
        ("\nmap\n", "\nmaps\n", r"line 4: expected 'map', got 'maps'\."),
        (".PT.", ".PT", r"line 6: expected 4 cells as the header says, got 3\."),
        (".PT.", ".PT. .", r"line 6: expected 4 cells as the header says, got 6\."),
        (".PT.", ".PT ", r"line 6, character 4: expected one of .*, got ' '\."),
        (".PT.", ".Px.", r"line 6, character 3: expected one of # \. @ C E G O P S T W, got 'x'\."),
        (".PT.", ".P\xe9.", r"line 6, character 3: expected one of .*, got 'é'\."),
        ("C..G\n", "", r"line 7: expected 3 rows as the header says, got 2\."),
        ("C..G\n", "C..G\n....\n", r"line 8: expected 3 rows as the header says, got 4\."),
    ],
)
def test_parse_movingai_names_file_and_line_when_a_line_is_wrong(old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(LayoutError, match=message):
        parse_movingai(SMALL.replace(old, new), 1.0, "a.map")


@pytest.mark.parametrize(("lines", "line"), [(0, 1), (1, 2), (2, 3), (3, 4)])
def test_parse_movingai_names_the_line_that_is_missing_when_the_file_ends_early(lines: int, line: int) -> None:
    text = "".join(SMALL.splitlines(keepends=True)[:lines])
    with pytest.raises(LayoutError, match=rf"line {line}: expected .*, got the end of the file\."):
        parse_movingai(text, 1.0, "a.map")


def test_load_layout_file_recognises_a_map_by_its_content_whatever_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "floor.txt"
    path.write_bytes(SMALL.encode())
    assert load_layout_file(path, 1.0).width == 4


def test_load_layout_file_reads_what_write_layout_file_wrote(tmp_path: Path) -> None:
    layout = parse_movingai(SMALL, 1.0, "a.map")
    write_layout_file(layout, tmp_path / "b.map")
    assert load_layout_file(tmp_path / "b.map", 1.0).to_drawing() == ["S.#E", ".P#.", "C..."]


def test_load_layout_file_names_the_file_when_it_is_of_no_known_format(tmp_path: Path) -> None:
    path = tmp_path / "floor.json"
    path.write_text("{}")
    with pytest.raises(
        LayoutError, match=r"floor\.json: expected a map file, got one of an unknown format\. Supported"
    ):
        load_layout_file(path, 1.0)


def test_load_layout_file_names_the_line_when_a_binary_file_calls_itself_a_map(tmp_path: Path) -> None:
    path = tmp_path / "floor.map"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(LayoutError, match=r"floor\.map: line 1: expected 'type octile', got "):
        load_layout_file(path, 1.0)


def test_load_layout_file_refuses_a_file_that_is_too_large_for_a_map(tmp_path: Path) -> None:
    path = tmp_path / "huge.map"
    with path.open("wb") as file:
        file.truncate(10 * MAX_CELLS)
    with pytest.raises(LayoutError, match=r"huge\.map: expected at most 37752832 bytes, got more"):
        load_layout_file(path, 1.0)


def test_load_layout_file_names_the_file_when_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match=r"none\.map: expected a map file that can be read, got: No such file"):
        load_layout_file(tmp_path / "none.map", 1.0)


@pytest.mark.parametrize("size", [0.0, -1.0, float("nan"), float("inf")])
def test_load_layout_file_refuses_a_cell_size_that_is_no_length(tmp_path: Path, size: float) -> None:
    with pytest.raises(LayoutError, match=r"expected a cell size > 0 m, got "):
        load_layout_file(tmp_path / "a.map", size)


@pytest.mark.parametrize(
    ("name", "shape", "num_free"),
    [
        ("movingai/warehouse-10-20-10-2-1.map", (63, 161), 5699),
        ("movingai/random-32-32-10.map", (32, 32), 922),
        ("lorr/random.domain/maps/random-64-64-10.map", (64, 64), 3687),
    ],
)
def test_load_layout_file_reads_real_benchmark_maps(
    public_maps: Path, name: str, shape: tuple[int, int], num_free: int
) -> None:
    layout = load_layout_file(public_maps / name, 1.0)
    assert layout.blocked.shape == shape
    assert layout.num_free == num_free
