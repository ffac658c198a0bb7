"""A set as preq runs it, when something is forbidden around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steward.decide.rules.matching.pattern import NEVER, Occurrence, PatternMatch
from steward.decide.rules.matching.preq_negation import PreqNegation

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PreqNegatedSet"]


class PreqNegatedSet(PreqNegation):
    """Hold the oldest occurrences of each slot until they can no longer be denied.

    A quirk that is kept: what is forbidden counts only once some slot has all that it needs,
    unless some negation looks back. Where preq reads past the end of a slot that lost something by
    its age, the slot is not full here.
    """

    __slots__ = ()

    def add(self, seen: Occurrence, mask: int, clock_ns: int) -> Sequence[PatternMatch]:
        """Add an occurrence; it is not older than anything before."""
        self.clock_ns = clock_ns
        self._forget()
        whole = False
        for slot, needed in enumerate(self._pattern.needed):
            if mask >> slot & 1:
                self._add(slot, seen)
            whole = whole or len(self._queues[slot]) >= needed
        if whole or self._pattern.look_back_ns:
            self._forbid(mask, clock_ns)
        return self._settle()

    def tick(self, clock_ns: int) -> Sequence[PatternMatch]:
        """Advance time; a time before the last one changes nothing."""
        if clock_ns <= self.clock_ns:
            return ()
        self.clock_ns = clock_ns
        return self._settle()

    def _is_full(self) -> bool:
        return all(map(_holds, self._queues, self._pattern.needed))

    def _settle(self) -> list[PatternMatch]:
        """Decide candidates, oldest first, until one is pending or none is left."""
        matches: list[PatternMatch] = []
        self.due_ns = NEVER
        while self._is_full():
            row = sorted(
                (
                    (each.last_ns, slot, place, each)
                    for slot, needed in enumerate(self._pattern.needed)
                    for place, each in enumerate(self._queues[slot][:needed])
                ),
            )
            anchor: int | None = 0
            if row[-1][0] - row[0][0] <= self._pattern.window_ns:
                anchor = self._denied_by([each for *_, each in row])
            if anchor is not None:
                _, slot, place, _ = row[anchor]
                del self._queues[slot][place]
            elif self._waits:
                return matches
            else:
                matches.append(self._consume())
        return matches

    def _forget(self) -> None:
        """Drop what is too old to be part of anything, unless a candidate is pending."""
        if self._is_full():
            return
        oldest_ns = self.clock_ns - self._pattern.keep_ns
        for queue in self._queues:
            while queue and queue[0].last_ns < oldest_ns:
                del queue[0]
        self._forget_denials(oldest_ns - self._pattern.look_back_ns)


def _holds(queue: list[Occurrence], needed: int) -> bool:
    return len(queue) >= needed
