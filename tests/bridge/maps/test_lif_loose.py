"""VDMA LIF files that are loose, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bridge.errors import LayoutError
from tests.bridge.maps.lif_files import Read, edge, lif_1, loop, node, reader


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a document as a LIF file for one robot."""
    return reader(tmp_path)


def test_import_lif_leaves_out_edges_to_nodes_that_do_not_exist_and_names_them(read: Read) -> None:
    document = loop()
    document["layouts"][0]["edges"] += [edge("C", "X9"), edge("X8", "X9")]
    imported = read(document)
    assert imported.layout.num_free == 26
    assert imported.warnings == (
        "Edges lead to nodes that the file does not have ('X9', 'X8'); they were left out. The first one: "
        "layouts[0].edges[6].endNodeId.",
    )


def test_import_lif_takes_a_node_once_that_is_listed_twice_at_one_place(read: Read) -> None:
    document = loop()
    document["layouts"][0]["nodes"].append(node("B", 8, 0, "drop"))
    imported = read(document)
    assert (len(imported.layout.pickups), len(imported.layout.deliveries)) == (1, 2)
    assert imported.warnings == ("Node 'B' is listed more than once, at the same place; it was taken once.",)


def test_import_lif_leaves_out_actions_without_a_type(read: Read) -> None:
    document = loop()
    document["layouts"][0]["nodes"][1] = node("B", 8, 0, "drop")
    properties = document["layouts"][0]["nodes"][1]["vehicleTypeNodeProperties"][0]
    properties["actions"].append({"blockingType": "HARD"})
    imported = read(document)
    assert len(imported.layout.deliveries) == 2
    assert imported.warnings == ("An action has no actionType; it was left out.",)


def test_import_lif_takes_the_levels_of_a_rack_for_one_place(read: Read) -> None:
    # Whoever stands at RB, where no edge leads away from, stands at RA.
    nodes = [node("RA", 0, 0, "pick"), node("RB", 0, 0, "drop"), node("N", 4, 0, "drop")]
    imported = read(lif_1(nodes, [edge("RA", "N"), edge("N", "RB")]), derive_stations=False)
    assert (imported.layout.num_free, len(imported.layout.pickups), len(imported.layout.deliveries)) == (5, 1, 1)
    assert not [line for line in imported.warnings if "left out" in line or "opened" in line]


def test_import_lif_takes_the_part_where_loads_are_fetched_and_brought_of_equally_large_ones(read: Read) -> None:
    nodes = [node("A", 0, 0, "pick"), node("B", 4, 0), node("C", 0, 9, "pick", "drop"), node("D", 6, 9)]
    imported = read(lif_1(nodes, [edge("A", "B"), edge("B", "A"), edge("C", "D"), edge("D", "C")]))
    assert imported.layout.num_free == 7
    assert any(line.endswith("from the rest to them and back: A, B.") for line in imported.warnings)


@pytest.mark.parametrize(("unit", "warns"), [(None, True), ("mm", False)])
def test_import_lif_reads_millimetres_where_metres_make_no_sense_or_when_it_is_told(
    read: Read, unit: str | None, warns: bool
) -> None:
    document = loop(maxSpeed=800.0)
    layout = document["layouts"][0]
    for one in layout["nodes"]:
        one["nodePosition"] = {axis: 1000.0 * value for axis, value in one["nodePosition"].items()}
    points = [{"x": 0.0, "y": 0.0}, {"x": 4000.0, "y": 0.0}, {"x": 8000.0, "y": 0.0}]
    layout["edges"][0]["vehicleTypeEdgeProperties"][0]["trajectory"] = {
        "degree": 1,
        "knotVector": [0, 0, 0.5, 1, 1],
        "controlPoints": points,
    }
    imported = read(document, unit=unit)
    plain = read(loop(maxSpeed=0.8))
    np.testing.assert_array_equal(imported.layout.blocked, plain.layout.blocked)
    assert imported.layout.speed_limit_mps is not None
    assert plain.layout.speed_limit_mps is not None
    np.testing.assert_allclose(imported.layout.speed_limit_mps, plain.layout.speed_limit_mps)
    sentence = (
        "In metres, as the standard has it, the level would be 8,000 m large and every second edge longer than "
        "4,000 m; its lengths were taken for millimetres. --unit m, cm or mm says what they are."
    )
    assert imported.warnings == ((sentence,) if warns else ())


def test_import_lif_reads_the_unit_that_it_is_told(read: Read) -> None:
    document = lif_1([node("A", 0, 0, "pick"), node("B", 900, 0, "drop")], [edge("A", "B"), edge("B", "A")])
    assert read(document, unit="cm").layout.num_free == 10
    assert read(document, unit="m").layout.num_free == 901
    with pytest.raises(LayoutError, match=r"import: unit: expected one of m, cm, mm, got 'ft'\."):
        read(document, unit="ft")


def test_import_lif_opens_lanes_without_a_way_back_where_most_places_would_be_lost(read: Read) -> None:
    # A one-way ring of three, and a spur of five that nothing leads back from.
    spur = [node(f"S{index}", 4 + 3 * index, 0) for index in range(5)]
    nodes = [node("A", 0, 0, "pick"), node("B", 0, 4), node("C", -4, 0), *spur[:-1], node("S4", 16, 0, "drop")]
    ring = [edge("A", "B"), edge("B", "C"), edge("C", "A")]
    out = [edge("A", "S0"), *(edge(f"S{index}", f"S{index + 1}") for index in range(4))]
    imported = read(lif_1(nodes, ring + out))
    assert imported.warnings == (
        "Only 3 of 8 places have a way there and back; the lanes from which no way leads back (5 of 8) were opened in "
        "both directions. --no-two-way keeps all lanes as they are.",
    )
    assert imported.layout.exits is not None
    kept = read(lif_1(nodes, ring + out), two_way=False)
    assert any("S0, S1, S2, S3, S4" in line for line in kept.warnings)
