"""A sequence as preq runs it, when something is forbidden around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steward.decide.rules.matching.pattern import (
    NEVER,
    Counts,
    MatchPattern,
    Occurrence,
    PatternMatch,
)
from steward.decide.rules.matching.preq_negation import PreqNegation

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PreqNegatedSequence"]


class PreqNegatedSequence(PreqNegation):
    """Fill slots from the left; a full row is pending until it can no longer be denied.

    A quirk that is kept: what is forbidden counts only once the first slot holds something, unless
    some negation looks back.
    """

    __slots__ = ("_active",)

    def __init__(self, pattern: MatchPattern, *, most: int, counts: Counts) -> None:
        super().__init__(pattern, most=most, counts=counts)
        self._active = 0

    def add(self, seen: Occurrence, mask: int, clock_ns: int) -> Sequence[PatternMatch]:
        """Add an occurrence; it is not older than anything before."""
        self.clock_ns = clock_ns
        self._forget()
        if not (self._queues[0] or self._pattern.look_back_ns or mask & 1):
            return ()
        self._forbid(mask, clock_ns)
        for slot in range(self._active):
            if mask >> slot & 1:
                self._add(slot, seen)
        if self._active < len(self._queues) and not self._grow(seen, mask):
            return ()
        return self._settle()

    def tick(self, clock_ns: int) -> Sequence[PatternMatch]:
        """Advance time; a time before the last one changes nothing."""
        if clock_ns <= self.clock_ns:
            return ()
        self.clock_ns = clock_ns
        return self._settle()

    def _grow(self, seen: Occurrence, mask: int) -> bool:
        """Add an occurrence to the next slot, if it fits; return whether the row is full now."""
        slot = self._active
        if not mask >> slot & 1:
            return False
        self._add(slot, seen)
        self._active += len(self._queues[slot]) >= self._pattern.needed[slot]
        return self._active == len(self._queues)

    def _settle(self) -> list[PatternMatch]:
        """Decide full rows, oldest first, until one is pending or none is left."""
        matches: list[PatternMatch] = []
        self.due_ns = NEVER
        while self._active == len(self._queues):
            row = [
                each
                for queue, needed in zip(self._queues, self._pattern.needed, strict=True)
                for each in queue[:needed]
            ]
            anchor: int | None = 0
            if row[-1].last_ns - row[0].last_ns <= self._pattern.window_ns:
                anchor = self._denied_by(row)
            if anchor is not None:
                self._drop(anchor)
            elif self._waits:
                return matches
            else:
                matches.append(self._consume())
            self._repair()
        return matches

    def _drop(self, anchor: int) -> None:
        places = [
            (queue, place)
            for queue, needed in zip(self._queues, self._pattern.needed, strict=True)
            for place in range(needed)
        ]
        queue, place = places[anchor]
        del queue[place]

    def _repair(self) -> None:
        """Keep what can still follow, slot by slot, and count the slots that are full."""
        self._active = 0
        begun_ns = self._queues[0][0].last_ns if self._queues[0] else 0
        whole = True
        for queue, needed in zip(self._queues, self._pattern.needed, strict=True):
            if whole:
                while queue and queue[0].last_ns < begun_ns:
                    del queue[0]
                begun_ns = queue[0].last_ns if queue else begun_ns
            else:
                queue.clear()
            whole = whole and len(queue) >= needed
            self._active += whole

    def _forget(self) -> None:
        """Drop what is too old to be part of anything, unless a row is pending."""
        if self._active == len(self._queues):
            return
        oldest_ns = self.clock_ns - self._pattern.keep_ns
        first = self._queues[0]
        if first and first[0].last_ns < oldest_ns:
            while first and first[0].last_ns < oldest_ns:
                del first[0]
            self._repair()
        self._forget_denials(oldest_ns - self._pattern.look_back_ns)
