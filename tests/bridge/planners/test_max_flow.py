"""Maximum flow against the smallest of all cuts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bridge.planners.max_flow import make_network, maximum_flow


@pytest.mark.parametrize("seed", range(20))
def test_maximum_flow_is_the_smallest_of_all_cuts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tails, heads = rng.integers(0, 8, (2, 24))
    there = rng.uniform(0.0, 3.0, 24)
    back = np.where(rng.random(24) < 0.3, there, 0.0)
    there[rng.random(24) < 0.1] = np.inf
    sources, is_sink = np.array([0, 1], np.int32), np.arange(8) >= 6
    smallest = np.inf
    for sides in product((False, True), repeat=4):
        inside = np.array([True, True, *sides, False, False])
        out, into = inside[tails] & ~inside[heads], ~inside[tails] & inside[heads]
        smallest = min(smallest, float(there[out].sum() + back[into].sum()))
    if smallest < np.inf:
        network = make_network(8, tails, heads, there, back)
        assert maximum_flow(network, sources, is_sink) == pytest.approx(smallest)


def test_maximum_flow_takes_a_detour_back_over_an_edge_that_it_has_used() -> None:
    # The shortest way 0-1-4-5 has to be undone in part: 0-1-3-5 and 0-2-4-5.
    tails, heads = np.array([0, 0, 1, 1, 2, 3, 4]), np.array([1, 2, 4, 3, 4, 5, 5])
    network = make_network(6, tails, heads, np.ones(7), np.zeros(7))
    assert maximum_flow(network, np.array([0], np.int32), np.arange(6) == 5) == 2.0


def test_maximum_flow_is_nothing_where_no_way_leads_to_a_sink() -> None:
    network = make_network(3, np.array([1]), np.array([0]), np.ones(1), np.zeros(1))
    assert maximum_flow(network, np.array([0], np.int32), np.array([False, False, True])) == 0.0
