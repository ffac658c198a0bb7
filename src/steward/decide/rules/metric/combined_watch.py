"""Watch of one term in two places: over local samples, and over those of a remote server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steward.decide.rules.metric.sample_buffer import WatchCounts
from steward.decide.rules.metric.sorted_frame import KeyIndex, SortedFrame
from steward.decide.rules.metric.watch import Ended, TermWatch
from steward.model.rules import Item

__all__ = ["CombinedWatch"]


class CombinedWatch:
    """Combine the matches of a `local` watch, if there is one, and of a `remote` one.

    The remote watch gets ticks only: samples may come from machines whose clock is ahead.
    """

    def __init__(
        self, local: TermWatch | None, remote: TermWatch, *, again: Callable[[], TermWatch]
    ) -> None:
        self._local = () if local is None else (local,)
        self._remote = remote
        self._again = again
        self.metrics = frozenset[str]() if local is None else local.metrics
        self.ended: list[Ended] = []

    @property
    def counts(self) -> WatchCounts:
        """Samples that could not be used, local and remote."""
        found = [each.counts for each in (*self._local, self._remote)]
        return WatchCounts(
            late=sum(each.late for each in found),
            untimed=sum(each.untimed for each in found),
            evicted=sum(each.evicted for each in found),
            failed=sum(each.failed for each in found),
            problem="; ".join(each.problem for each in found if each.problem),
        )

    def share(self, keys: KeyIndex) -> None:
        """Store samples together with all other terms that share these keys."""
        for each in self._local:
            each.share(keys)

    def add(self, frame: SortedFrame) -> list[Item]:
        """Read new samples."""
        items = [item for each in self._local for item in each.add(frame)]
        return self._reported(items, self._local)

    def tick(self, t_ns: int) -> list[Item]:
        """Advance time without samples."""
        both = (*self._local, self._remote)
        return self._reported([item for each in both for item in each.tick(t_ns)], both)

    def finish(self) -> list[Item]:
        """Evaluate what is pending."""
        both = (*self._local, self._remote)
        return self._reported([item for each in both for item in each.finish()], both)

    def holding(self) -> frozenset[str]:
        """Return the entities for which it was reported and still holds."""
        return frozenset().union(*(each.holding() for each in (*self._local, self._remote)))

    def fresh(self) -> TermWatch:
        """Return the same term with nothing read yet."""
        return self._again()

    def _reported(self, items: list[Item], by: Sequence[TermWatch]) -> list[Item]:
        self.ended = [ended for each in by for ended in each.ended]
        return items
