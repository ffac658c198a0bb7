"""State shared by both negated matchers of preq: occurrences, denials, and the verdict."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, TypeVar

from steward.decide.rules.matching.pattern import (
    NEVER,
    Counts,
    MatchPattern,
    Occurrence,
    PatternMatch,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PreqNegation"]

T = TypeVar("T")


class PreqNegation:
    """Queues of occurrences, times of forbidden ones, and the verdict on a candidate."""

    __slots__ = ("_counts", "_denials_ns", "_most", "_pattern", "_queues", "clock_ns", "due_ns")

    def __init__(self, pattern: MatchPattern, *, most: int, counts: Counts) -> None:
        self._pattern = pattern
        self._most = most
        self._counts = counts
        self._queues: list[list[Occurrence]] = [[] for _ in pattern.needed]
        self._denials_ns: list[list[int]] = [[] for _ in pattern.negations]
        self.clock_ns = -NEVER
        self.due_ns = NEVER

    @property
    def held(self) -> int:
        """Number of occurrences in memory."""
        return sum(map(len, self._queues)) + sum(map(len, self._denials_ns))

    def _add(self, slot: int, seen: Occurrence) -> None:
        self._put(self._queues[slot], seen)

    def _forbid(self, mask: int, t_ns: int) -> None:
        """Record forbidden occurrences."""
        mask >>= len(self._queues)
        for negation, times_ns in enumerate(self._denials_ns):
            if mask >> negation & 1:
                self._put(times_ns, t_ns)

    def _put(self, queue: list[T], one: T) -> None:
        queue.append(one)
        if len(queue) > self._most:
            del queue[0]
            self._counts.evicted += 1

    def _forget_denials(self, oldest_ns: int) -> None:
        for times_ns in self._denials_ns:
            del times_ns[: bisect_left(times_ns, oldest_ns)]

    def _denied_by(self, candidate: Sequence[Occurrence]) -> int | None:
        """Return the anchor of the denying negation, if any; set `due_ns` if it is still open."""
        self.due_ns = NEVER
        lasted_ns = candidate[-1].last_ns - candidate[0].last_ns
        for negation, times_ns in zip(self._pattern.negations, self._denials_ns, strict=True):
            start_ns, stop_ns = negation.span(candidate, lasted_ns)
            near = bisect_left(times_ns, start_ns)
            if near < len(times_ns) and times_ns[near] <= stop_ns:
                return negation.anchor
            if stop_ns >= self.clock_ns:  # a line with the same time may still come
                self.due_ns = stop_ns + 1
                return None
        return None

    @property
    def _waits(self) -> bool:
        return self.due_ns != NEVER

    def _consume(self) -> PatternMatch:
        parts: list[Occurrence] = []
        for queue, needed in zip(self._queues, self._pattern.needed, strict=True):
            parts += queue[:needed]
            del queue[:needed]
        return PatternMatch(self.clock_ns, tuple(parts))
