"""A queue of future events in arrays, in the total order (time, rank, sequence)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = ["Heap", "empty_heap", "pop", "push"]

Array = NDArray[Any]


class Heap(NamedTuple):
    """A binary heap. `stamp` lets an event be called off: it counts only if it is still current."""

    time_s: Array
    rank: Array
    sequence: Array
    subject: Array
    stamp: Array
    size: Array  # how many there are, and the next sequence number


def empty_heap(room: int) -> Heap:
    """Make room for so many events."""
    ints = np.int64
    return Heap(
        time_s=np.zeros(room),
        rank=np.zeros(room, ints),
        sequence=np.zeros(room, ints),
        subject=np.zeros(room, ints),
        stamp=np.zeros(room, ints),
        size=np.zeros(2, ints),
    )


@njit
def _before(heap: Heap, i: int, j: int) -> bool:
    if heap.time_s[i] != heap.time_s[j]:
        return bool(heap.time_s[i] < heap.time_s[j])
    if heap.rank[i] != heap.rank[j]:
        return bool(heap.rank[i] < heap.rank[j])
    return bool(heap.sequence[i] < heap.sequence[j])


@njit
def _swap(heap: Heap, i: int, j: int) -> None:
    heap.time_s[i], heap.time_s[j] = heap.time_s[j], heap.time_s[i]
    heap.rank[i], heap.rank[j] = heap.rank[j], heap.rank[i]
    heap.sequence[i], heap.sequence[j] = heap.sequence[j], heap.sequence[i]
    heap.subject[i], heap.subject[j] = heap.subject[j], heap.subject[i]
    heap.stamp[i], heap.stamp[j] = heap.stamp[j], heap.stamp[i]


@njit
def push(heap: Heap, time_s: float, rank: int, subject: int, stamp: int) -> None:
    """Add an event. There is room: the engine keeps enough."""
    i = heap.size[0]
    heap.time_s[i], heap.rank[i], heap.sequence[i] = time_s, rank, heap.size[1]
    heap.subject[i], heap.stamp[i] = subject, stamp
    heap.size[0] += 1
    heap.size[1] += 1
    while i > 0 and _before(heap, i, (i - 1) // 2):
        _swap(heap, i, (i - 1) // 2)
        i = (i - 1) // 2


@njit
def pop(heap: Heap) -> None:
    """Remove the first event; it was read at position 0."""
    heap.size[0] -= 1
    n = heap.size[0]
    _swap(heap, 0, n)
    i = 0
    while True:
        least = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < n and _before(heap, child, least):
                least = child
        if least == i:
            return
        _swap(heap, i, least)
        i = least
