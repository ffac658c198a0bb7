"""A sequence as preq runs it, when nothing is forbidden."""

from __future__ import annotations

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

__all__ = ["PreqSequence"]


class PreqSequence:
    """Fill slots from the left: a line goes to slots that are full already and to the next one.

    `_active` is how many slots from the left have what they need. Quirks that are kept: a sequence
    of one repeated term never expires, and with four slots and more, what is left over after a
    match is compared with the first slot only.
    """

    __slots__ = ("_active", "_counts", "_most", "_pattern", "_queues")
    due_ns = NEVER

    def __init__(self, pattern: MatchPattern, *, most: int, counts: Counts) -> None:
        self._pattern = pattern
        self._most = most
        self._counts = counts
        self._queues: list[list[Occurrence]] = [[] for _ in pattern.needed]
        self._active = 0

    @property
    def held(self) -> int:
        """Number of occurrences in memory."""
        return sum(map(len, self._queues))

    def add(self, seen: Occurrence, mask: int, clock_ns: int) -> Sequence[PatternMatch]:
        """Add an occurrence; it is not older than anything before."""
        self._expire(clock_ns)
        for slot in range(self._active):
            if mask >> slot & 1:
                self._add(slot, seen)
        if not mask >> self._active & 1:
            return ()
        self._add(self._active, seen)
        if len(self._queues[self._active]) < self._pattern.needed[self._active]:
            return ()
        self._active += 1
        return (self._fire(clock_ns),) if self._active == len(self._queues) else ()

    def tick(self, clock_ns: int) -> Sequence[PatternMatch]:
        """Advance time, which completes no match."""
        del clock_ns
        return ()

    def _expire(self, clock_ns: int) -> None:
        first = self._queues[0]
        oldest_ns = clock_ns - self._pattern.window_ns
        if self._active and first[0].last_ns < oldest_ns:
            while first and first[0].last_ns < oldest_ns:
                del first[0]
            self._repair()

    def _add(self, slot: int, seen: Occurrence) -> None:
        queue = self._queues[slot]
        queue.append(seen)
        if len(queue) > self._most:
            del queue[0]
            self._counts.evicted += 1

    def _fire(self, clock_ns: int) -> PatternMatch:
        parts: list[Occurrence] = []
        for queue, needed in zip(self._queues, self._pattern.needed, strict=True):
            parts += queue[:needed]
            del queue[:needed]
        self._repair()
        return PatternMatch(clock_ns, tuple(parts))

    def _repair(self) -> None:
        """Keep what can still follow the first slot, and count the slots that are full."""
        self._active = 0
        first, needed = self._queues[0], self._pattern.needed
        whole = len(first) >= needed[0]
        begun_ns = first[needed[0] - 1].last_ns if whole else 0
        for slot, queue in enumerate(self._queues):
            if slot and whole:
                while queue and queue[0].last_ns < begun_ns:
                    del queue[0]
            elif slot:
                queue.clear()
            whole = whole and len(queue) >= needed[slot]
            self._active += whole
