"""One term looked at in two places: over the samples that are seen here, and where others are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steward.decide.rules.metric.sample_buffer import WatchCounts
from steward.decide.rules.metric.sorted_frame import KeyIndex, SortedFrame
from steward.decide.rules.metric.watch import Ended, TermWatch
from steward.model.rules import Item

__all__ = ["CombinedWatch"]


class CombinedWatch:
    """Tells what is seen `here`, if that can be, and what is known `there` of others.

    There, only the passing of time counts: samples may come from machines whose clock is ahead.
    """

    def __init__(
        self, here: TermWatch | None, there: TermWatch, *, again: Callable[[], TermWatch]
    ) -> None:
        self._here = () if here is None else (here,)
        self._there = there
        self._again = again
        self.metrics = frozenset[str]() if here is None else here.metrics
        self.ended: list[Ended] = []

    @property
    def counts(self) -> WatchCounts:
        """What of the telemetry could not be used, here and there."""
        found = [each.counts for each in (*self._here, self._there)]
        return WatchCounts(
            late=sum(each.late for each in found),
            untimed=sum(each.untimed for each in found),
            evicted=sum(each.evicted for each in found),
            failed=sum(each.failed for each in found),
            problem="; ".join(each.problem for each in found if each.problem),
        )

    def share(self, keys: KeyIndex) -> None:
        """Store samples together with all other terms that share these keys."""
        for each in self._here:
            each.share(keys)

    def add(self, frame: SortedFrame) -> list[Item]:
        """Read new samples."""
        items = [item for each in self._here for item in each.add(frame)]
        return self._told(items, self._here)

    def tick(self, t_ns: int) -> list[Item]:
        """Let time pass without samples."""
        both = (*self._here, self._there)
        return self._told([item for each in both for item in each.tick(t_ns)], both)

    def finish(self) -> list[Item]:
        """Look at what still waits."""
        both = (*self._here, self._there)
        return self._told([item for each in both for item in each.finish()], both)

    def holding(self) -> frozenset[str]:
        """Return the entities for which it was told and still holds."""
        return frozenset().union(*(each.holding() for each in (*self._here, self._there)))

    def fresh(self) -> TermWatch:
        """Return the same term with nothing read yet."""
        return self._again()

    def _told(self, items: list[Item], by: Sequence[TermWatch]) -> list[Item]:
        self.ended = [ended for each in by for ended in each.ended]
        return items
