"""Things in any order within a window, in both modes."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from steward.decide.rules.matching.shape import NEVER, Counts, Match, Seen, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AnyOrder"]


class AnyOrder:
    """Fires with the oldest things of each slot as soon as every slot has what it needs.

    One line can fill several slots. Whatever is not part of the match may be part of the next.
    """

    __slots__ = ("_clock_ns", "_counts", "_most", "_queues", "_shape")
    due_ns = NEVER

    def __init__(self, shape: Shape, *, most: int, counts: Counts) -> None:
        self._shape = shape
        self._most = most
        self._counts = counts
        self._queues: list[list[Seen]] = [[] for _ in shape.needed]
        self._clock_ns = -NEVER

    @property
    def held(self) -> int:
        """How many things it remembers."""
        return sum(map(len, self._queues))

    def take(self, seen: Seen, mask: int, clock_ns: int) -> Sequence[Match]:
        """Take something in that fits the slots of the mask."""
        self._clock_ns = clock_ns = max(self._clock_ns, clock_ns)
        oldest_ns = clock_ns - self._shape.window_ns
        full = True
        for slot, needed in enumerate(self._shape.needed):
            queue = self._queues[slot]
            while queue and queue[0].last_ns < oldest_ns:
                del queue[0]
            if mask >> slot & 1 and seen.last_ns >= oldest_ns:
                self._add(queue, seen)
            full = full and len(queue) >= needed
        return (self._fire(),) if full else ()

    def tick(self, clock_ns: int) -> Sequence[Match]:
        """Let time pass, which completes nothing."""
        self._clock_ns = max(self._clock_ns, clock_ns)
        return ()

    def _add(self, queue: list[Seen], seen: Seen) -> None:
        if not queue or queue[-1] < seen:
            queue.append(seen)
        else:
            insort(queue, seen)
        if len(queue) > self._most:
            del queue[0]
            self._counts.evicted += 1

    def _fire(self) -> Match:
        parts: list[Seen] = []
        for queue, needed in zip(self._queues, self._shape.needed, strict=True):
            parts += queue[:needed]
            del queue[:needed]
        return Match(self._clock_ns, tuple(parts))
