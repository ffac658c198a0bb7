"""Search for the oldest candidate of a set, and of a sequence."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steward.decide.rules.matching.pattern import MatchPattern, Occurrence

__all__ = ["Places", "oldest_row", "oldest_set"]

Places = list[tuple[int, int]]  # slot and place in its queue, by slot


def oldest_set(pattern: MatchPattern, queues: Sequence[list[Occurrence]]) -> Places | None:
    """Return the oldest occurrences of each slot that lie within the window.

    Queues are ordered by end. Where the first ones do not fit into the window, the one that began
    first cannot be part of a match: every other choice ends later still.
    """
    if pattern.needed == (1,) and not pattern.intervals:
        return [(0, 0)]  # any occurrence matches, and the caller knows that there is one
    skipped: set[tuple[int, int]] = set()
    while True:
        places = _firsts(pattern, queues, skipped)
        if places is None:
            return None
        last_ns = max(queues[slot][place].last_ns for slot, place in places)
        first = min(places, key=lambda each: queues[each[0]][each[1]].first_ns)
        if last_ns - queues[first[0]][first[1]].first_ns <= pattern.window_ns:
            return places
        skipped.add(first)


def _firsts(
    pattern: MatchPattern, queues: Sequence[list[Occurrence]], skipped: set[tuple[int, int]]
) -> Places | None:
    places: Places = []
    for slot, (queue, needed) in enumerate(zip(queues, pattern.needed, strict=True)):
        place, found = 0, 0
        while found < needed:
            if place >= len(queue):
                return None
            if (slot, place) not in skipped:
                places.append((slot, place))
                found += 1
            place += 1
    return places


def oldest_row(pattern: MatchPattern, queues: Sequence[list[Occurrence]]) -> Places | None:
    """Return the oldest occurrences in the order of slots that lie within the window.

    From a beginning, the earliest end is found greedily: always the next occurrence that ends
    first.
    """
    first = 0
    while first < len(queues[0]):
        places = _row_from(first, pattern, queues)
        if places is None:
            if not pattern.intervals:
                return None  # a later beginning leaves even less to choose from
            first += 1
            continue
        begun_ns = min(queues[slot][place].first_ns for slot, place in places)
        slot, place = places[-1]
        oldest_ns = queues[slot][place].last_ns - pattern.window_ns
        if begun_ns >= oldest_ns:
            return places
        # An earlier beginning ends too late as well.
        first = first + 1 if pattern.intervals else bisect_left(queues[0], (oldest_ns,), first)
    return None


def _row_from(
    first: int, pattern: MatchPattern, queues: Sequence[list[Occurrence]]
) -> Places | None:
    places: Places = [(0, first)]
    before = queues[0][first]
    for slot, (queue, needed) in enumerate(zip(queues, pattern.needed, strict=True)):
        for _ in range(needed - (slot == 0)):
            place = _next(queue, before, intervals=pattern.intervals)
            if place == len(queue):
                return None
            places.append((slot, place))
            before = queue[place]
    return places


def _next(queue: list[Occurrence], before: Occurrence, *, intervals: bool) -> int:
    if not intervals:
        return bisect_left(queue, (before.last_ns, before.serial + 1))
    place = bisect_left(queue, (before.last_ns,))
    while place < len(queue) and (
        queue[place].first_ns < before.last_ns or queue[place].serial == before.serial
    ):
        place += 1
    return place
