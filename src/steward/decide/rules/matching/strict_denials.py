"""Occurrences that may deny a candidate, and the verdict on it."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from steward.decide.rules.matching.pattern import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steward.decide.rules.matching.pattern import Counts, NegationWindow, Occurrence

__all__ = ["Denials"]


class Denials:
    """One list of occurrences per negation, ordered by end; open ones come last."""

    __slots__ = ("_counts", "_lists", "_most", "_negations")

    def __init__(self, negations: Sequence[NegationWindow], *, most: int, counts: Counts) -> None:
        self._negations = negations
        self._most = most
        self._counts = counts
        self._lists: list[list[Occurrence]] = [[] for _ in negations]

    @property
    def held(self) -> int:
        """Number of occurrences in memory."""
        return sum(map(len, self._lists))

    def add(self, seen: Occurrence, mask: int) -> None:
        """Add an occurrence for the negations of the mask."""
        for place, held in enumerate(self._lists):
            if mask >> place & 1:
                self._close(held, seen)
                insort(held, seen)
                if len(held) > self._most:
                    del held[0]
                    self._counts.evicted += 1

    def _close(self, held: list[Occurrence], seen: Occurrence) -> None:
        """Replace an open occurrence, now that its end is known."""
        place = bisect_left(held, (NEVER, seen.serial))
        if place < len(held) and held[place].serial == seen.serial:
            del held[place]

    def verdict(self, candidate: Sequence[Occurrence], clock_ns: int) -> tuple[int | None, int]:
        """Return the anchor of the first negation that denies, or the time at which it is certain.

        Without either, nothing denies the candidate or still can; the time is then 0.
        """
        first_ns = min([each.first_ns for each in candidate])
        last_ns = max([each.last_ns for each in candidate])
        for negation, held in zip(self._negations, self._lists, strict=True):
            start_ns, stop_ns = negation.span(candidate, last_ns - first_ns)
            if held and _any_within(held, start_ns, stop_ns):
                return negation.anchor, 0
            if stop_ns + negation.slack_ns >= clock_ns:
                return None, stop_ns + negation.slack_ns + 1
        return None, 0

    def forget(self, before_ns: int) -> None:
        """Drop what cannot deny a candidate that begins at that time or later."""
        for negation, held in zip(self._negations, self._lists, strict=True):
            if held and held[0].last_ns < before_ns + negation.slide_ns:
                del held[: bisect_left(held, (before_ns + negation.slide_ns,))]


def _any_within(held: list[Occurrence], start_ns: int, stop_ns: int) -> bool:
    """Return whether any occurrence overlaps an interval."""
    return any(each.first_ns <= stop_ns for each in held[bisect_left(held, (start_ns,)) :])
