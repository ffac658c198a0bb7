"""Sets and sequences as the language defines them, with negations around them."""

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
from steward.decide.rules.matching.strict_denials import Denials
from steward.decide.rules.matching.strict_search import Places, oldest_row, oldest_set

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["StrictMatcher"]


class StrictMatcher:
    """Find the oldest candidate, decide it when that is certain, and repeat.

    A late occurrence is inserted by its time: it can complete a candidate, but does not undo a
    decision.
    """

    __slots__ = (
        "_clock_ns",
        "_counts",
        "_denials",
        "_last",
        "_most",
        "_pattern",
        "_queues",
        "_search",
        "due_ns",
    )

    def __init__(self, pattern: MatchPattern, *, most: int, counts: Counts) -> None:
        self._pattern = pattern
        self._most = most
        self._counts = counts
        self._search = oldest_row if pattern.ordered else oldest_set
        # Only an occurrence of the last slot can complete a sequence.
        slots = len(pattern.needed)
        self._last = (
            1 << slots - 1 if pattern.ordered and not pattern.intervals else (1 << slots) - 1
        )
        self._queues: list[list[Occurrence]] = [[] for _ in pattern.needed]
        self._denials = Denials(pattern.negations, most=most, counts=counts)
        self._clock_ns = -NEVER
        self.due_ns = NEVER

    @property
    def held(self) -> int:
        """Number of occurrences in memory."""
        return sum(map(len, self._queues)) + self._denials.held

    def add(self, seen: Occurrence, mask: int, clock_ns: int) -> Sequence[PatternMatch]:
        """Add an occurrence that fits the slots and negations of the mask."""
        self._clock_ns = clock_ns = max(self._clock_ns, clock_ns)
        waits = self.due_ns != NEVER
        if not waits:
            self._forget()
        forbidden = mask >> len(self._queues)
        if forbidden:
            self._denials.add(seen, forbidden)
        self._add(seen, mask)
        late = seen.last_ns < clock_ns
        if late or (forbidden or clock_ns >= self.due_ns if waits else mask & self._last):
            return self._settle()
        return ()

    def tick(self, clock_ns: int) -> Sequence[PatternMatch]:
        """Advance time; a time before the last one changes nothing."""
        if clock_ns <= self._clock_ns:
            return ()
        self._clock_ns = clock_ns
        return self._settle() if clock_ns >= self.due_ns else ()

    def _add(self, seen: Occurrence, mask: int) -> None:
        """Insert an occurrence by its time, unless no sequence has begun that it could follow."""
        pattern = self._pattern
        if seen.last_ns < self._clock_ns - pattern.window_ns - pattern.lag_ns:
            return
        cold = self._begins and not self._queues[0] and not mask & 1
        for slot, queue in enumerate(self._queues):
            if not mask >> slot & 1 or cold:
                continue
            if not queue or queue[-1] < seen:
                queue.append(seen)
            else:
                insort(queue, seen)
            if len(queue) > self._most:
                del queue[0]
                self._counts.evicted += 1

    @property
    def _begins(self) -> bool:
        """Whether input is ordered, so that a sequence begins with the first slot."""
        return self._pattern.ordered and not self._pattern.intervals

    def _settle(self) -> list[PatternMatch]:
        """Decide candidates, oldest first, until one is pending or none is left."""
        matches: list[PatternMatch] = []
        self.due_ns = NEVER
        while all(self._queues):
            places = self._search(self._pattern, self._queues)
            if places is None:
                break
            in_order = self._pattern.ordered or len(places) == 1
            anchored = places if in_order else sorted(places, key=self._when)
            candidate = [self._queues[slot][place] for slot, place in anchored]
            anchor, until_ns = self._denials.verdict(candidate, self._clock_ns)
            if anchor is not None:
                slot, place = anchored[anchor]
                del self._queues[slot][place]
            elif until_ns:
                self.due_ns = until_ns
                break
            else:
                matches.append(self._consume(places))
        return matches

    def _when(self, at: tuple[int, int]) -> tuple[int, int, int]:
        slot, place = at
        return self._queues[slot][place].first_ns, slot, place

    def _consume(self, places: Places) -> PatternMatch:
        parts = tuple(self._queues[slot][place] for slot, place in places)
        for slot, place in sorted(places, reverse=True):
            del self._queues[slot][place]
        return PatternMatch(self._clock_ns, parts)

    def _forget(self) -> None:
        """Drop occurrences that are too old to match, and those before the first slot."""
        pattern, queues = self._pattern, self._queues
        oldest_ns = self._clock_ns - pattern.window_ns - pattern.lag_ns
        for queue in queues:
            while queue and queue[0].last_ns < oldest_ns:
                del queue[0]
        if self._begins:
            begun = queues[0][0] if queues[0] else None
            for queue in queues[1:]:
                while queue and (begun is None or queue[0] < begun):
                    del queue[0]
        if pattern.negations and self._denials.held:
            held = (each.first_ns for queue in queues for each in queue)
            self._denials.forget(min(self._clock_ns - pattern.lag_ns, *held, NEVER))
