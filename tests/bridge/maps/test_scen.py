"""MovingAI ``.scen`` files as layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import LayoutError
from bridge.maps import Imported, ImportOptions, StationRules, read_layout

MAP = "type octile\nheight 4\nwidth 6\nmap\n......\n..@@..\n......\n@@@@.@\n"
ROWS = [
    "0\tfloor.map\t6\t4\t0\t0\t5\t0\t5.0",
    "0\tfloor.map\t6\t4\t0\t1\t5\t1\t5.0",
    "1\tfloor.map\t6\t4\t0\t2\t5\t2\t0",
    "1\tfloor.map\t6\t4\t1\t0\t4\t0\t3.82842712",
    "1\tfloor.map\t6\t4\t1\t1\t4\t3\t3.82842712",
]
SCEN = "\n".join(["version 1", *ROWS, ""])

Read = Callable[..., Imported]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a text as a ``.scen`` file beside its map."""
    (tmp_path / "floor.map").write_text(MAP)

    def read_text(text: str, robots: int | None = 2, name: str = "a.scen", **options: Any) -> Imported:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return read_layout(path, ImportOptions(**options), robots)

    return read_text


def test_import_scen_parks_the_first_robots_at_their_starts_and_makes_stations_of_goals(read: Read) -> None:
    imported = read(SCEN)
    layout = imported.layout
    # Cells are numbered row * width + column, and a file gives x (the column) first.
    assert layout.parking.tolist() == [0, 6]
    assert sorted([*layout.pickups.tolist(), *layout.deliveries.tolist()]) == [4, 5, 11, 17, 22]
    # Six stations were wanted, two of them deliveries; of five goals one is left for them.
    assert layout.deliveries.tolist() == [22]
    assert imported.warnings == ("The file has 5 goals for 4 pick-ups and 2 deliveries.",)
    assert imported.num_robots == 2
    assert imported.source == "MovingAI .scen on floor.map"


def test_import_scen_makes_as_many_stations_as_it_is_asked_for(read: Read) -> None:
    layout = read(SCEN, stations=StationRules(num_pickups=1, num_deliveries=1)).layout
    assert (layout.pickups.tolist(), layout.deliveries.tolist()) == ([5], [11])


@pytest.mark.parametrize(
    "text",
    [
        SCEN.replace("\n", "\r\n"),
        SCEN + "\n\n  \n",
        SCEN.replace("version 1", "version 1.0"),
        SCEN.replace("version 1", "version\t1.000"),
        SCEN.replace("\t", " "),
        SCEN.replace("\t6\t4\t", "\t6.0\t4\t"),
        SCEN.replace("floor.map", "maps/2019/floor.map"),
        SCEN.replace("floor.map", "C:\\maps\\floor.map"),
        "\ufeff" + SCEN,
        "\n" + SCEN,
    ],
)
def test_import_scen_reads_the_variants_that_occur(read: Read, text: str) -> None:
    assert read(text).layout.to_drawing() == read(SCEN).layout.to_drawing()


def test_import_scen_warns_when_the_version_is_missing(read: Read) -> None:
    imported = read("\n".join(ROWS))
    assert imported.warnings[0] == "The file has no version line; it was read as version 1."


def test_import_scen_reads_a_map_name_with_blanks(read: Read, tmp_path: Path) -> None:
    (tmp_path / "hall 7.map").write_text(MAP)
    for text in (SCEN, SCEN.replace("\t", "  ")):
        assert read(text.replace("floor.map", "hall 7.map")).source == "MovingAI .scen on hall 7.map"


def test_import_scen_takes_the_map_that_it_is_told(read: Read, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.map").write_text(MAP)
    with pytest.raises(LayoutError, match=r"a\.scen: line 2: expected the map 'gone\.map' in the same folder, .*--map"):
        read(SCEN.replace("floor.map", "gone.map"))
    assert read(SCEN.replace("floor.map", "gone.map"), map_file=tmp_path / "other" / "x.map").num_robots == 2


@pytest.mark.parametrize("name", ["..", ".", "/", "\\", "a\0b"])
def test_import_scen_never_leaves_its_folder_for_a_map(read: Read, name: str) -> None:
    with pytest.raises(LayoutError, match=r"line 2: expected the map .* in the same folder"):
        read(SCEN.replace("floor.map", name))


def test_import_scen_rescales_when_it_is_told_to(read: Read, tmp_path: Path) -> None:
    doubled = "\n".join("".join(cell * 2 for cell in row) for row in MAP.splitlines()[4:] for _ in range(2))
    (tmp_path / "floor.map").write_text(f"type octile\nheight 8\nwidth 12\nmap\n{doubled}\n")
    with pytest.raises(LayoutError, match=r"line 2: expected the size of floor\.map, 12 x 8, got 6 x 4\. .*--rescale"):
        read(SCEN)
    layout = read(SCEN, rescale=True).layout
    assert layout.parking.tolist() == [0, 2 * 12]
    assert layout.deliveries.tolist() == [6 * 12 + 8]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version 1\n", "version 2\n", r"a\.scen: line 1: expected 'version 1', got 'version 2'"),
        ("version 1\n", "version 10\n", r"a\.scen: line 1: expected 'version 1', got 'version 10'"),
        (ROWS[0], "0\tfloor.map\t6", r"line 2: expected 9 fields \(bucket, map, .*got 3"),
        (
            ROWS[1],
            ROWS[1].replace("\t5\t1\t", "\tx\t1\t"),
            r"line 3: expected a whole number from 0 .* in field 7, got 'x'",
        ),
        (ROWS[1], ROWS[1].replace("\t5\t1\t", "\t-5\t1\t"), r"line 3: expected a whole number .* in field 7, got '-5'"),
        (ROWS[1], ROWS[1].replace("\t5\t1\t", "\t6\t1\t"), r"line 3: expected a goal within 6 x 4 cells, got x=6, y=1"),
        (ROWS[1], ROWS[1].replace("\t0\t1\t", "\t2\t1\t"), r"line 3: expected a start on a free cell .*blocked"),
        ("\n".join(ROWS), "", r"a\.scen: expected at least one robot's line, got none"),
    ],
)
def test_import_scen_names_the_line_that_is_wrong(read: Read, old: str, new: str, message: str) -> None:
    assert old in SCEN
    with pytest.raises(LayoutError, match=message):
        read(SCEN.replace(old, new))


def test_import_scen_needs_the_number_of_robots(read: Read) -> None:
    with pytest.raises(LayoutError, match=r"a\.scen: expected the number of robots, got none"):
        read(SCEN, robots=None)


def test_import_scen_warns_about_more_robots_than_starts(read: Read) -> None:
    imported = read(SCEN, robots=7)
    assert len(imported.layout.parking) == 5
    assert "The file has 5 starts for 7 robots; the others start on free cells." in imported.warnings


def test_import_scen_reads_a_real_file_on_its_real_map(public_maps: Path) -> None:
    imported = read_layout(public_maps / "movingai" / "random-32-32-10-random-1.scen", None, 32)
    counts = [len(cells) for cells in (imported.layout.pickups, imported.layout.deliveries, imported.layout.parking)]
    assert counts == [64, 8, 32]
    assert imported.warnings == ()
    # The first row of the file starts at x=11, y=6.
    assert 6 * 32 + 11 in imported.layout.parking
