"""Variants of a floor plan: what is changed, what never is, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.errors import ScenarioError
from bridge.warehouse.config_randomisation import LayoutVariationConfig, RandomisationConfig
from bridge.warehouse.layout import ALL_EXITS, EXIT_DOWN, EXIT_LEFT, EXIT_RIGHT, EXIT_UP, Layout, distances_from
from bridge.warehouse.layout_variation import layout_variants, racks_of, vary_layout

HALL = """
P.P.P.P.P.P
...........
..##.##.##.
...........
S.##.##.##E
...........
..##.##.##.
...........
"""


def _layout(drawing: str) -> Layout:
    return Layout.from_drawing(drawing.split(), 1.0, "test")


def _drawings(layout: Layout, **variation: Any) -> list[str]:
    config = LayoutVariationConfig(**variation)
    return ["\n".join(vary_layout(layout, config, number).layout.to_drawing()) for number in range(config.variants)]


def test_racks_of_are_groups_off_the_edge_joined_by_their_sides() -> None:
    layout = _layout("""
        .......
        .##.#..
        ....##.
        #......
        ##.#...
        ...#...
    """)
    racks = [{(int(row), int(column)) for row, column in rack} for rack in racks_of(layout.blocked)]
    assert racks == [{(1, 1), (1, 2)}, {(1, 4), (2, 4), (2, 5)}]


def test_variants_lack_whole_racks_up_to_the_share() -> None:
    layout = _layout(HALL)
    numbers = set()
    for number in range(40):
        variant = vary_layout(layout, LayoutVariationConfig(max_missing_racks=0.5), number)
        numbers.add(variant.num_missing)
        gone = layout.blocked & ~variant.layout.blocked
        assert gone.sum() == 2 * variant.num_missing
        assert (variant.num_moved, variant.num_blocked) == (0, 0)
        assert len(racks_of(variant.layout.blocked)) == 9 - variant.num_missing
    assert numbers == {0, 1, 2, 3, 4}


def test_every_rack_is_missing_somewhere_when_variants_lack_racks() -> None:
    layout = _layout(HALL)
    variation = LayoutVariationConfig(max_missing_racks=0.5)
    gone = sum((layout.blocked & ~vary_layout(layout, variation, n).layout.blocked).astype(int) for n in range(60))
    assert (np.asarray(gone)[layout.blocked] > 0).all()


def test_moved_racks_stay_whole_in_their_row_and_apart() -> None:
    layout = _layout(HALL)
    seen = set()
    for number in range(40):
        variant = vary_layout(layout, LayoutVariationConfig(max_rack_offset_cells=2), number)
        blocked = variant.layout.blocked
        assert blocked.sum(axis=1).tolist() == layout.blocked.sum(axis=1).tolist()
        racks = racks_of(blocked)
        assert sorted(len(rack) for rack in racks) == [2] * 9
        seen |= {int(column) for rack in racks for column in rack[:, 1]}
        for places in (layout.pickups, layout.deliveries, layout.parking):
            assert not blocked.ravel()[places].any()
    # Up to the cells beside the edge, which stay free for whoever drives round the racks.
    assert seen == set(range(1, 10))


def test_a_rack_does_not_move_onto_a_mark_the_edge_or_another_rack() -> None:
    layout = _layout("""
        P......
        .S###E.
        .......
        ..#.#..
        ..#.#..
        .......
    """)
    assert set(_drawings(layout, variants=30, max_rack_offset_cells=5)) == {"\n".join(layout.to_drawing())}


def test_the_longer_side_decides_where_racks_move() -> None:
    layout = _layout("""
        P......
        .......
        .##.#..
        ....#..
        .......
        S.....E
    """)
    drawings = _drawings(layout, variants=60, max_rack_offset_cells=1)
    tall = {"".join(row[4] for row in drawing.splitlines()) for drawing in drawings}
    assert tall == {".##...", "..##..", "...##."}
    # The flat one has the edge to its left and, one cell on, the tall one to its right.
    assert {drawing.splitlines()[2][:4] for drawing in drawings if drawing.splitlines()[2][4] == "#"} == {".##."}


def test_blocked_cells_lie_beside_racks_and_never_on_marks() -> None:
    layout = _layout(HALL)
    numbers = set()
    for number in range(40):
        variant = vary_layout(layout, LayoutVariationConfig(max_blocked_cells=3), number)
        new = np.argwhere(variant.layout.blocked & ~layout.blocked)
        numbers.add(len(new))
        assert len(new) == variant.num_blocked
        for row, column in new:
            sides = ((row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1))
            assert any(0 <= r < 8 and 0 <= c < 11 and layout.blocked[r, c] for r, c in sides)
    assert numbers == {0, 1, 2, 3}


def test_variants_depend_on_seed_and_number_alone() -> None:
    layout = _layout(HALL)
    every = {"max_missing_racks": 0.5, "max_rack_offset_cells": 1, "max_blocked_cells": 3}
    few, many = _drawings(layout, variants=4, **every), _drawings(layout, variants=12, **every)
    assert many[:4] == few
    assert len(set(many)) > 8
    assert not set(_drawings(layout, variants=12, seed=1, **every)) & set(many)


def test_one_kind_of_change_does_not_alter_another_one() -> None:
    layout = _layout(HALL)
    for number in range(10):
        alone = vary_layout(layout, LayoutVariationConfig(max_missing_racks=0.5), number)
        both = vary_layout(layout, LayoutVariationConfig(max_missing_racks=0.5, max_blocked_cells=9), number)
        assert (both.layout.blocked | ~alone.layout.blocked).all()
        assert both.num_missing == alone.num_missing


def test_variants_are_drawn_anew_until_every_station_can_be_reached(make_warehouse: Any) -> None:
    variation = LayoutVariationConfig(variants=20, max_blocked_cells=3)
    # One cell above and one below the rack cut the hall in two.
    config, layout = make_warehouse("P.....\nS.##.E\n......", 2, randomisation=RandomisationConfig(layout=variation))

    def way(plan: Layout) -> int:
        return int(distances_from(plan, int(plan.pickups[0]))[plan.deliveries[0]])

    assert any(way(vary_layout(layout, variation, number).layout) < 0 for number in range(20))
    found = layout_variants(config, layout, "warehouse")
    assert len(found) == 20
    assert all(way(variant.layout) > 0 for variant in found)


def test_scenarios_without_the_section_have_no_variants(make_warehouse: Any) -> None:
    config, layout = make_warehouse(HALL, randomisation=RandomisationConfig(start="anywhere"))
    assert layout_variants(config, layout, "warehouse") == ()


def test_a_variant_that_cannot_be_found_is_an_error_with_its_fault(make_warehouse: Any) -> None:
    floor = """
        S.P.E
        .....
        .#.#.
        .....
    """
    variation = LayoutVariationConfig(variants=1, max_blocked_cells=10_000, seed=3)
    config, layout = make_warehouse(floor, 12, randomisation=RandomisationConfig(layout=variation))
    with pytest.raises(ScenarioError, match=r"layout: expected variant 0 of seed 3 .* got none in 100 draws, of which"):
        layout_variants(config, layout, "warehouse")


def test_a_plan_without_racks_is_refused(make_warehouse: Any) -> None:
    variation = LayoutVariationConfig(max_blocked_cells=1)
    config, layout = make_warehouse("SP.E\n#...", 1, randomisation=RandomisationConfig(layout=variation))
    with pytest.raises(ScenarioError, match=r"randomisation\.layout: expected racks .* got none"):
        layout_variants(config, layout, "warehouse")


def test_too_many_variants_for_the_memory_are_refused(make_warehouse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.warehouse.layout_variation.MAX_ROUTE_BYTES", 5_000)
    variation = LayoutVariationConfig(variants=8, max_blocked_cells=1)
    config, layout = make_warehouse(HALL, 1, randomisation=RandomisationConfig(layout=variation))
    with pytest.raises(ScenarioError, match=r"variants: expected at most 5000 bytes of route tables, got \d+ for 8"):
        layout_variants(config, layout, "warehouse")


def test_a_section_in_which_nothing_varies_is_refused() -> None:
    with pytest.raises(ValidationError, match="got 0 for all: no variant would differ"):
        LayoutVariationConfig(variants=4)


def test_exits_follow_the_floor_when_racks_are_missing_and_cells_blocked() -> None:
    plan = _layout("""
        P....
        ..#..
        S...E
    """)
    one_way = np.full(15, EXIT_RIGHT | EXIT_LEFT | EXIT_UP | EXIT_DOWN, np.uint8)
    one_way[[6, 8]] = EXIT_UP  # beside the rack, one way up
    one_way[7] = 0
    layout = replace(plan, exits=one_way)
    variation = LayoutVariationConfig(max_missing_racks=1.0)
    gone = next(v.layout for n in range(9) if (v := vary_layout(layout, variation, n)).num_missing)
    assert gone.exits is not None
    assert gone.exits[7] == ALL_EXITS
    assert (gone.exits[6], gone.exits[8]) == (EXIT_UP | EXIT_RIGHT, EXIT_UP | EXIT_LEFT)
    variation = LayoutVariationConfig(max_blocked_cells=1)
    shut = next(v.layout for n in range(9) if (v := vary_layout(layout, variation, n)).num_blocked)
    assert shut.exits is not None
    assert (shut.exits[shut.blocked.ravel()] == 0).all()
    assert (shut.exits[~shut.blocked.ravel()] == one_way[~shut.blocked.ravel()]).all()
