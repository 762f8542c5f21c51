"""The table of every importer on every sample file in ``docs/importing.md`` is what the importers do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bridge.maps import Imported, ImportOptions, read_layout

PAGE = Path(__file__).parents[3] / "docs" / "importing.md"
SAMPLES = (
    ("movingai/warehouse-10-20-10-2-1.map", 64),
    ("movingai/random-32-32-10.map", 16),
    ("movingai/random-32-32-10-random-1.scen", 32),
    ("lorr/random.domain/random-example_400.json", None),
    ("lorr/random.domain/maps/random-64-64-10.map", 100),
    ("lif/lif1_10_2_bidirectional-edge.json", 2),
    ("lif/lif1_10_7_station-with-two-nodes.json", 2),
    ("lif/lif1_10_13_battery-charging-station.json", 1),
    ("rmf/office.building.yaml", None),
)


def test_sample_table_in_the_documentation_is_what_the_importers_do(public_maps: Path) -> None:
    lines = ["| file | robots | cells | size | free | pick-ups | deliveries | parking | chargers | warnings |"]
    lines.append("|---" * 10 + "|")
    notes: list[str] = []
    for name, robots in SAMPLES:
        imported = read_layout(public_maps / name, ImportOptions(), robots)
        lines.append(_row(name, robots, imported))
        notes += _notes(name, imported)
    expected = "\n".join([*lines, "", *notes]).rstrip("\n")
    assert expected in PAGE.read_text(encoding="utf-8"), f"put this into docs/importing.md:\n\n{expected}\n"


def test_sample_table_has_every_sample(public_maps: Path) -> None:
    parts = (".agents", ".tasks", ".md")
    names = {path.relative_to(public_maps).as_posix() for path in public_maps.rglob("*") if path.is_file()}
    assert {name for name in names if not name.endswith(parts)} == {name for name, _ in SAMPLES}


def _row(name: str, robots: int | None, imported: Imported) -> str:
    layout = imported.layout
    counts = (len(cells) for cells in (layout.pickups, layout.deliveries, layout.parking, layout.chargers))
    cells = [
        f"`{Path(name).name}`",
        f"`--robots {robots}`" if robots is not None else f"{imported.num_robots} by the file",
        f"{layout.height} x {layout.width}",
        f"{layout.cell_size_m:g} m",
        *map(str, (layout.num_free, *counts, len(imported.warnings))),
    ]
    return f"| {' | '.join(cells)} |"


def _notes(name: str, imported: Imported) -> Iterator[str]:
    """The warnings of a file as a list, wrapped nowhere: each line is one that the command prints."""
    if imported.warnings:
        yield f"`{Path(name).name}`:"
        yield ""
        yield from (f"- {line}" for line in imported.warnings)
        yield ""
