"""Matchers without an order, in both modes: any single line, and a set within a window."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from steward.decide.rules.matching.pattern import (
    NEVER,
    Counts,
    MatchPattern,
    Occurrence,
    PatternMatch,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SingleMatcher", "UnorderedMatcher"]


class SingleMatcher:
    """Match every fitting line, in both modes and at any time."""

    __slots__ = ()
    due_ns = NEVER
    held = 0

    def add(self, seen: Occurrence, mask: int, clock_ns: int) -> Sequence[PatternMatch]:
        """Return the occurrence as a match."""
        del mask
        return (PatternMatch(clock_ns, (seen,)),)

    def tick(self, clock_ns: int) -> Sequence[PatternMatch]:
        """Advance time, which completes no match."""
        del clock_ns
        return ()


class UnorderedMatcher:
    """Fire with the oldest occurrences of each slot as soon as every slot is full.

    One line can fill several slots. What is not part of a match may be part of the next.
    """

    __slots__ = ("_clock_ns", "_counts", "_most", "_pattern", "_queues")
    due_ns = NEVER

    def __init__(self, pattern: MatchPattern, *, most: int, counts: Counts) -> None:
        self._pattern = pattern
        self._most = most
        self._counts = counts
        self._queues: list[list[Occurrence]] = [[] for _ in pattern.needed]
        self._clock_ns = -NEVER

    @property
    def held(self) -> int:
        """Number of occurrences in memory."""
        return sum(map(len, self._queues))

    def add(self, seen: Occurrence, mask: int, clock_ns: int) -> Sequence[PatternMatch]:
        """Add an occurrence that fits the slots of the mask."""
        self._clock_ns = clock_ns = max(self._clock_ns, clock_ns)
        oldest_ns = clock_ns - self._pattern.window_ns
        full = True
        for slot, needed in enumerate(self._pattern.needed):
            queue = self._queues[slot]
            while queue and queue[0].last_ns < oldest_ns:
                del queue[0]
            if mask >> slot & 1 and seen.last_ns >= oldest_ns:
                self._add(queue, seen)
            full = full and len(queue) >= needed
        return (self._fire(),) if full else ()

    def tick(self, clock_ns: int) -> Sequence[PatternMatch]:
        """Advance time, which completes no match."""
        self._clock_ns = max(self._clock_ns, clock_ns)
        return ()

    def _add(self, queue: list[Occurrence], seen: Occurrence) -> None:
        if not queue or queue[-1] < seen:
            queue.append(seen)
        else:
            insort(queue, seen)
        if len(queue) > self._most:
            del queue[0]
            self._counts.evicted += 1

    def _fire(self) -> PatternMatch:
        parts: list[Occurrence] = []
        for queue, needed in zip(self._queues, self._pattern.needed, strict=True):
            parts += queue[:needed]
            del queue[:needed]
        return PatternMatch(self._clock_ns, tuple(parts))
