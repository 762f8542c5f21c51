"""Maximum flow through a network, which is as large as its minimum cut (Ford and Fulkerson 1956)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import kernel

__all__ = ["Network", "make_network", "maximum_flow"]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Integers = NDArray[np.signedinteger[Any]]

_NOT_REACHED = -1
_SOURCE = -2
_NOTHING = 1e-12


class Network(NamedTuple):
    """Edges of limited capacity, each beside the one that leads back; V nodes, 2 K edges sorted by their beginning.

    Attributes:
        first: (V + 1,) int32, first edge of each node, and the number of edges.
        head: (2 K,) int32, node that each edge leads to.
        back: (2 K,) int32, the edge that leads back.
        capacity: (2 K,) float64, may be infinite.
    """

    first: Int32
    head: Int32
    back: Int32
    capacity: Float64


def make_network(num_nodes: int, tails: Integers, heads: Integers, there: Float64, back: Float64) -> Network:
    """A network of K edges.

    Args:
        num_nodes: V.
        tails: (K,) integers, node that each edge begins at.
        heads: (K,) integers, node that it leads to.
        there: (K,) float64, its capacity.
        back: (K,) float64, capacity the other way.
    """
    begins = np.concatenate([tails, heads])
    order = np.argsort(begins, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    opposite = np.concatenate([place[len(tails) :], place[: len(tails)]])
    first = np.searchsorted(begins[order], np.arange(num_nodes + 1))
    return Network(
        first=first.astype(np.int32),
        head=np.concatenate([heads, tails])[order].astype(np.int32),
        back=opposite[order],
        capacity=np.concatenate([there, back])[order].astype(np.float64),
    )


@kernel
def maximum_flow(network: Network, sources: Int32, is_sink: Bool) -> float:
    """Send flow along shortest ways until there is none left (Edmonds and Karp 1972).

    Args:
        network: The edges.
        sources: (S,) int32, nodes from which flow comes without limit; no sink is among them.
        is_sink: (V,) bool, nodes that take any flow.
    """
    left = network.capacity.copy()
    came = np.empty(len(is_sink), np.int32)
    queue = np.empty(len(is_sink), np.int32)
    total = 0.0
    while True:
        end = _nearest_sink(network, left, sources, is_sink, came, queue)
        if end < 0:
            return total
        total += _send(network, left, came, end)


@kernel
def _nearest_sink(network: Network, left: Float64, sources: Int32, is_sink: Bool, came: Int32, queue: Int32) -> int:
    """Breadth-first search: the first sink that is reached, or -1; ``came``: (V,), the edge that led to each node."""
    came[:] = _NOT_REACHED
    came[sources] = _SOURCE
    queue[: len(sources)] = sources
    head, tail = 0, len(sources)
    while head < tail:
        node = queue[head]
        head += 1
        if is_sink[node]:
            return int(node)
        for edge in range(network.first[node], network.first[node + 1]):
            other = network.head[edge]
            if came[other] == _NOT_REACHED and left[edge] > _NOTHING:
                came[other] = edge
                queue[tail] = other
                tail += 1
    return -1


@kernel
def _send(network: Network, left: Float64, came: Int32, end: int) -> float:
    """Send as much as the way to ``end`` can take; how much that is."""
    least, node = np.inf, end
    while came[node] != _SOURCE:
        least = min(least, left[came[node]])
        node = network.head[network.back[came[node]]]
    node = end
    while came[node] != _SOURCE:
        edge = came[node]
        left[edge] -= least
        left[network.back[edge]] += least
        node = network.head[network.back[edge]]
    return least
