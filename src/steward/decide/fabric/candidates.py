"""Placements worth a look: packed, in the smallest domain, balanced over leaves, per pod, spread.

A candidate says how many GPUs of which nodes, in the order of the ring: nodes of one leaf stand
next to each other, so that few flows leave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.node_map import NodeMap

__all__ = ["Candidate", "candidates", "ring_order"]

Ints = NDArray[np.int64]

_MOST_PODS = 4
_MOST_LEAVES = 4
_NONE: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Where a job could go. `lent` are GPUs that have to be borrowed for it."""

    kind: str
    nodes: tuple[int, ...]
    gpus: tuple[int, ...]
    lent: int = 0


def candidates(
    place: NodeMap, free: Ints, gpus: int, *, lendable: Ints | None = None
) -> tuple[Candidate, ...]:
    """Return different placements of so many GPUs; none if they do not fit.

    Those on GPUs that their holders would lend come only where nothing else fits.
    """
    if gpus < 1:
        return ()
    found = _distinct(place, _ways(place, free, gpus))
    if found or lendable is None:
        return found
    both = free + lendable
    return tuple(
        Candidate(
            kind=f"{each.kind}, lent",
            nodes=each.nodes,
            gpus=each.gpus,
            lent=sum(
                max(0, taken - int(free[node]))
                for node, taken in zip(each.nodes, each.gpus, strict=True)
            ),
        )
        for each in _distinct(place, _ways(place, both, gpus))
    )


def _distinct(place: NodeMap, ways: Iterator[tuple[str, Ints]]) -> tuple[Candidate, ...]:
    seen: dict[bytes, Candidate] = {}
    for kind, taken in ways:
        if len(taken) and taken.tobytes() not in seen:
            nodes = ring_order(place, np.flatnonzero(taken))
            chosen = tuple(int(taken[node]) for node in nodes)
            seen[taken.tobytes()] = Candidate(kind=kind, nodes=tuple(nodes.tolist()), gpus=chosen)
    return tuple(seen.values())


def ring_order(place: NodeMap, nodes: Ints) -> Ints:
    """Return nodes so that a ring over them leaves each NVLink domain, leaf and pod once."""
    return nodes[np.lexsort((nodes, place.domain[nodes], place.leaf[nodes], place.pod[nodes]))]


def _ways(place: NodeMap, free: Ints, gpus: int) -> Iterator[tuple[str, Ints]]:
    size = int(place.gpus.max())
    if gpus > size:  # a node that gives fewer GPUs than the others slows the ring of all
        free = (
            np.where(free == place.gpus, free, 0)
            if gpus % size == 0
            else _mostly(place, free, gpus)
        )
    everywhere = np.ones(len(free), np.bool_)
    yield "packed", _packed(place, free, gpus, everywhere)
    for name, of in (("domain", place.domain), ("leaf", place.leaf), ("pod", place.pod)):
        room = np.bincount(of[of >= 0], free[of >= 0]) if (of >= 0).any() else np.zeros(0)
        fits = np.flatnonzero(room >= gpus)
        order = fits[np.argsort(room[fits], kind="stable")]
        some = _ends(order, _MOST_PODS if name == "pod" else _MOST_LEAVES)
        for each in some.tolist():
            yield f"one {name}", _packed(place, free, gpus, of == each)
    for leaves in (2, 3, 4):
        yield f"balanced over {leaves} leaves", _balanced(place, free, gpus, leaves)
    if gpus > size:
        yield "spread", _spread(place, free, gpus)


def _ends(order: Ints, most: int) -> Ints:
    """Return the tightest and the roomiest."""
    if len(order) <= most:
        return order
    half = most // 2
    return np.concatenate([order[:half], order[-half:]])


def _packed(place: NodeMap, free: Ints, gpus: int, where: NDArray[np.bool_]) -> Ints:
    """Take one node that holds all, else full nodes of the leaves with most of them."""
    here = np.where(where, free, 0)
    taken = np.zeros(len(free), np.int64)
    fits = np.flatnonzero(here >= gpus)
    if len(fits):
        taken[fits[np.argmin(here[fits])]] = gpus
        return taken
    if here.sum() < gpus or gpus <= int(place.gpus.max()):
        return _NONE
    whole = here == place.gpus
    rest = gpus
    by_leaf = np.bincount(place.leaf, np.where(whole, here, 0))
    holds = np.flatnonzero(by_leaf >= rest)
    first = int(holds[np.argmin(by_leaf[holds])]) if len(holds) else -1
    order = np.lexsort(
        (np.arange(len(here)), -here, -by_leaf[place.leaf], place.leaf != first, ~whole)
    )
    following = iter(order.tolist())
    while rest > 0:
        node = next(following)
        if here[node] >= rest:  # the last part: the node that it fills best
            last = np.flatnonzero((here >= rest) & (taken == 0))
            same = last[place.leaf[last] == place.leaf[node]]
            node = int(same[np.argmin(here[same])])
        part = min(int(here[node]), rest)
        taken[node] += part
        rest -= part
    return taken


def _balanced(place: NodeMap, free: Ints, gpus: int, leaves: int) -> Ints:
    """Take as many GPUs under each of some leaves, on whole nodes; those with most room."""
    size = int(place.gpus.max())
    parts = gpus // size
    if parts < leaves or gpus % size:
        return _NONE
    whole = np.flatnonzero(free >= size)
    room = np.bincount(place.leaf[whole], minlength=int(place.leaf.max()) + 1)
    share = -(-parts // leaves)
    able = np.flatnonzero(room >= share)
    able = able[np.argsort(-room[able], kind="stable")][:leaves]
    if len(able) < leaves:
        return _NONE
    taken = np.zeros(len(free), np.int64)
    for turn, leaf in enumerate(able.tolist()):
        count = parts // leaves + (1 if turn < parts % leaves else 0)
        taken[whole[place.leaf[whole] == leaf][:count]] = size
    return taken


def _mostly(place: NodeMap, free: Ints, gpus: int) -> Ints:
    """Return the whole nodes, and nodes that could hold the last part of the job."""
    rest = gpus % int(place.gpus.max())
    return np.where((free == place.gpus) | (free >= rest), free, 0)


def _spread(place: NodeMap, free: Ints, gpus: int) -> Ints:
    """Take one node of each leaf in turn, those with most room first."""
    size = int(place.gpus.max())
    whole = np.flatnonzero(free >= size)
    if gpus % size or len(whole) * size < gpus:
        return _NONE
    room = np.bincount(place.leaf[whole], minlength=int(place.leaf.max()) + 1)
    leaf = place.leaf[whole]
    turn = np.zeros(len(whole), np.int64)
    for each in np.unique(leaf).tolist():
        turn[leaf == each] = np.arange(int(room[each]))
    order = np.lexsort((leaf, -room[leaf], turn))
    taken = np.zeros(len(free), np.int64)
    taken[whole[order[: gpus // size]]] = size
    return taken
