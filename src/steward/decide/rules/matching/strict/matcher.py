"""Sets and sequences as the language means them, with whatever is forbidden around them."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from steward.decide.rules.matching.shape import NEVER, Counts, Match, Seen, Shape
from steward.decide.rules.matching.strict.denials import Denials
from steward.decide.rules.matching.strict.searching import Places, oldest_row, oldest_set

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["StrictMatcher"]


class StrictMatcher:
    """Looks for the oldest candidate, decides about it when that is certain, and looks again.

    What comes late is put where its time belongs: it can complete something, but does not undo
    what was decided.
    """

    __slots__ = (
        "_clock_ns",
        "_counts",
        "_denials",
        "_last",
        "_most",
        "_queues",
        "_search",
        "_shape",
        "due_ns",
    )

    def __init__(self, shape: Shape, *, most: int, counts: Counts) -> None:
        self._shape = shape
        self._most = most
        self._counts = counts
        self._search = oldest_row if shape.ordered else oldest_set
        # In order, only what fits the last slot can complete a row.
        slots = len(shape.needed)
        self._last = 1 << slots - 1 if shape.ordered and not shape.intervals else (1 << slots) - 1
        self._queues: list[list[Seen]] = [[] for _ in shape.needed]
        self._denials = Denials(shape.guards, most=most, counts=counts)
        self._clock_ns = -NEVER
        self.due_ns = NEVER

    @property
    def held(self) -> int:
        """How many things it remembers."""
        return sum(map(len, self._queues)) + self._denials.held

    def take(self, seen: Seen, mask: int, clock_ns: int) -> Sequence[Match]:
        """Take something in that fits the slots and guards of the mask."""
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

    def tick(self, clock_ns: int) -> Sequence[Match]:
        """Let time pass; a time before the last one changes nothing."""
        if clock_ns <= self._clock_ns:
            return ()
        self._clock_ns = clock_ns
        return self._settle() if clock_ns >= self.due_ns else ()

    def _add(self, seen: Seen, mask: int) -> None:
        """Put it where its time belongs, unless nothing has begun that it could follow."""
        shape = self._shape
        if seen.last_ns < self._clock_ns - shape.window_ns - shape.lag_ns:
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
        """Whether things come in their order, so that nothing counts before the first slot."""
        return self._shape.ordered and not self._shape.intervals

    def _settle(self) -> list[Match]:
        """Decide about candidates, oldest first, until one has to wait or none is left."""
        matches: list[Match] = []
        self.due_ns = NEVER
        while all(self._queues):
            places = self._search(self._shape, self._queues)
            if places is None:
                break
            in_order = self._shape.ordered or len(places) == 1
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

    def _consume(self, places: Places) -> Match:
        parts = tuple(self._queues[slot][place] for slot, place in places)
        for slot, place in sorted(places, reverse=True):
            del self._queues[slot][place]
        return Match(self._clock_ns, parts)

    def _forget(self) -> None:
        """Let go of what is too old for anything to come, and of what came before a beginning."""
        shape, queues = self._shape, self._queues
        oldest_ns = self._clock_ns - shape.window_ns - shape.lag_ns
        for queue in queues:
            while queue and queue[0].last_ns < oldest_ns:
                del queue[0]
        if self._begins:
            begun = queues[0][0] if queues[0] else None
            for queue in queues[1:]:
                while queue and (begun is None or queue[0] < begun):
                    del queue[0]
        if shape.guards and self._denials.held:
            held = (each.first_ns for queue in queues for each in queue)
            self._denials.forget(min(self._clock_ns - shape.lag_ns, *held, NEVER))
