"""The blocks ``position`` and ``history``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bridge.warehouse.config import (
    ContactConfig,
    HistoryBlock,
    NeighboursBlock,
    PathBlock,
    PositionBlock,
    SelfBlock,
    TargetBlock,
)
from bridge.warehouse.config_randomisation import RandomisationConfig
from bridge.warehouse.simulator import WarehouseSimulator

FLOOR = """
S..P....E
.##..##..
.##..##..
....P...S
E..P.....
"""
BLOCKS = (
    HistoryBlock(of=("target", "neighbours"), steps=3),
    SelfBlock(),
    TargetBlock(),
    PositionBlock(range_m=20.0),
    NeighboursBlock(count=1),
)


@pytest.mark.parametrize("respawn_after_s", [0.0, 2.0])
def test_history_is_what_the_robot_saw_before_in_this_life(make_warehouse: Any, respawn_after_s: float) -> None:
    config, layout = make_warehouse(
        FLOOR,
        4,
        observation=BLOCKS,
        contact=ContactConfig(rule="despawn", respawn_after_s=respawn_after_s),
        randomisation=RandomisationConfig(position_noise_m=0.1),
        episode_steps=17,
    )
    simulator = WarehouseSimulator(config, layout, 3)
    simulator.reset(seed=2)
    layout_of = simulator.spec.roles[0].observation
    places = [layout_of.slice_of(name) for name in ("target", "neighbours")]
    rng = np.random.default_rng(0)
    carriers = simulator.arrays.roles["carrier"]

    def seen(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values[..., place] for place in places], axis=-1)

    memory = [[[seen(carriers.observations)[env, slot]] for slot in range(4)] for env in range(3)]
    lives = 0
    for _ in range(60):
        carriers.discrete_actions[..., 0] = rng.integers(0, 5, (3, 4))
        simulator.step()
        for env in range(3):
            for slot in range(4):
                past = memory[env][slot]
                if carriers.terminated[env, slot] or simulator.arrays.episode_over[env]:
                    past.clear()
                    lives += 1
                if not carriers.agent_mask[env, slot]:
                    assert not carriers.observations[env, slot].any()
                    continue
                expected = [*past[-1:-4:-1], *[np.zeros(15, np.float32)] * 3][:3]
                got = carriers.observations[env, slot, layout_of.slice_of("history")]
                np.testing.assert_array_equal(got, np.concatenate(expected))
                past.append(seen(carriers.observations)[env, slot].copy())
    assert lives > 20


def test_position_is_given_only_where_it_is_asked_for(make_warehouse: Any) -> None:
    config, layout = make_warehouse(FLOOR, 3, observation=BLOCKS)
    simulator = WarehouseSimulator(config, layout, 2)
    simulator.reset(seed=2)
    place = simulator.spec.roles[0].observation.slice_of("position")
    seen = simulator.arrays.roles["carrier"].observations[..., place]
    np.testing.assert_allclose(seen, simulator.positions_m / 20.0, rtol=1e-6)
    config, layout = make_warehouse(FLOOR, 3)
    assert "position" not in [
        block.name for block in WarehouseSimulator(config, layout, 1).spec.roles[0].observation.blocks
    ]


def test_history_of_a_block_that_there_is_not_is_refused(make_warehouse: Any) -> None:
    message = "expected history.of to be distinct blocks among path, got self"
    with pytest.raises(ValidationError, match=message):
        make_warehouse(FLOOR, 2, observation=(PathBlock(), HistoryBlock(of=("self",))))
