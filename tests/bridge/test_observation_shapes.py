"""Observation blocks of several dimensions, and goals: what tells layouts apart, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bridge.errors import SpecMismatchError
from bridge.specs import ObservationBlock, ObservationLayout

PLAIN = ObservationBlock("self", 4, "m", fields=("x", "y", "vx", "vy"))
PICTURE = ObservationBlock("camera", 24, sensor=1, shape=(3, 2, 4))
LAYOUT = ObservationLayout((PLAIN, PICTURE))


def test_digest_is_what_it_always_was_when_all_blocks_are_vectors() -> None:
    # Checkpoints and exported models hold it.
    assert ObservationLayout((PLAIN,)).digest == "45bfdddf6e3caf01"
    assert ObservationLayout((replace(PLAIN, shape=(4,)),)).digest == "45bfdddf6e3caf01"


def test_digest_differs_when_shapes_or_goals_do() -> None:
    others = [replace(PICTURE, shape=shape) for shape in ((2, 4, 3), (6, 4), ())] + [replace(PICTURE, is_goal=True)]
    digests = {ObservationLayout((PLAIN, block)).digest for block in [PICTURE, *others]}
    assert len(digests) == 5


def test_layouts_are_told_apart_when_only_a_shape_differs() -> None:
    other = ObservationLayout((PLAIN, replace(PICTURE, shape=(2, 4, 3), is_goal=True)))
    with pytest.raises(
        SpecMismatchError,
        match=r"block 1: expected 'camera' \(24 values, unit 1, sensor 1, shape \(3, 2, 4\)\), "
        r"got 'camera' \(.*, shape \(2, 4, 3\), a goal\)",
    ):
        LAYOUT.require_equal(other, "test")


def test_layout_returns_from_json_with_its_shapes() -> None:
    layout = ObservationLayout((PLAIN, replace(PICTURE, is_goal=True)))
    assert ObservationLayout.from_json(json.loads(json.dumps(layout.to_json()))) == layout


def test_layout_is_read_when_it_was_written_before_there_were_shapes() -> None:
    old = [{key: value for key, value in b.items() if key not in ("shape", "is_goal")} for b in LAYOUT.to_json()]
    assert ObservationLayout.from_json(old).blocks == (PLAIN, replace(PICTURE, shape=()))


@pytest.mark.parametrize("shape", [(3, 2), (0, 24), (-3, -8), (24, 1, 2)])
def test_block_is_refused_when_its_shape_has_another_size(shape: tuple[int, ...]) -> None:
    with pytest.raises(SpecMismatchError, match=r"block 'camera': expected a shape of 24 values, got"):
        replace(PICTURE, shape=shape)
