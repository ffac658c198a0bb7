"""Metric terms of all rules: report what holds to the nodes that need or forbid it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from steward.decide.rules.joining import MatchQueue, MetricLeaf, NodeMatch, attributes_of
from steward.decide.rules.matching import NEVER, Occurrence
from steward.decide.rules.metric import Ended, KeyIndex, SortedFrame, TermWatch, WatchCounts
from steward.model.rules import Item, MetricTerm

__all__ = ["MetricTerms"]

Stretch = tuple[MetricTerm, str, int, tuple[tuple[str, str], ...]]


class MetricTerms:
    """All metric terms of all rules; equal terms are evaluated once.

    A required condition occurs at the moment when it has held for long enough. A forbidden one is
    an interval: from its beginning until it no longer holds.
    """

    def __init__(
        self, watches: Sequence[MetricLeaf], compile_metric: Callable[[MetricTerm], TermWatch]
    ) -> None:
        self._watches = watches
        self._compile = compile_metric
        self._wanted_by: dict[MetricTerm, list[MetricLeaf]] = {}
        for watch in watches:
            self._wanted_by.setdefault(watch.term, []).append(watch)
        self._terms = {term: compile_metric(term) for term in self._wanted_by}
        self._reported = 0
        self._forbidden_open: dict[Stretch, int] = {}  # serials of open forbidden intervals

    def fresh(self) -> MetricTerms:
        """Return the same terms with nothing read yet."""
        made = {term: each.fresh() for term, each in self._terms.items()}
        return MetricTerms(self._watches, made.__getitem__)

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that some term needs."""
        return frozenset().union(*(each.metrics for each in self._terms.values()))

    @property
    def counts(self) -> tuple[tuple[MetricTerm, WatchCounts], ...]:
        """Samples that each term could not use."""
        return tuple((term, each.counts) for term, each in self._terms.items())

    def holding(self) -> dict[str, frozenset[str]]:
        """Return by expression the entities for which a condition was reported and still holds."""
        found: dict[str, frozenset[str]] = {}
        for term, watch in self._terms.items():
            found[term.expr] = found.get(term.expr, frozenset()) | watch.holding()
        return found

    def share(self, keys: KeyIndex) -> None:
        """Share one sample buffer among all terms."""
        for watch in self._terms.values():
            watch.share(keys)

    def add(self, rows: SortedFrame, queue: MatchQueue) -> None:
        """Read samples."""
        for term, watch in self._terms.items():
            self._post(term, watch.add(rows), watch.ended, queue)

    def tick(self, t_ns: int, queue: MatchQueue) -> None:
        """Advance time without samples."""
        for term, watch in self._terms.items():
            self._post(term, watch.tick(t_ns), watch.ended, queue)

    def finish(self, queue: MatchQueue) -> None:
        """Evaluate what is pending."""
        for term, watch in self._terms.items():
            self._post(term, watch.finish(), watch.ended, queue)

    def _post(
        self, term: MetricTerm, items: Iterable[Item], ended: Iterable[Ended], queue: MatchQueue
    ) -> None:
        watches = self._wanted_by[term]
        for item in items:
            self._reported += 1
            self._begin(item, watches, queue)
        for item, until_ns in ended:
            serial = self._forbidden_open.pop(_stretch(term, item), 0)
            for watch in watches if serial else ():
                if watch.forbids:
                    seen = Occurrence(until_ns - 1, serial, item.since_ns, _report(item, watch))
                    queue.post(watch.up, seen, until_ns)

    def _begin(self, item: Item, watches: Sequence[MetricLeaf], queue: MatchQueue) -> None:
        serial = -self._reported
        for watch in watches:
            report = _report(item, watch)
            if watch.forbids:
                self._forbidden_open[_stretch(watch.term, item)] = serial
                seen = Occurrence(NEVER, serial, item.since_ns, report)
            else:
                seen = Occurrence(item.t_ns, serial, item.t_ns, report)
            queue.post(watch.up, seen, item.t_ns)


def _stretch(term: MetricTerm, item: Item) -> Stretch:
    """Return the key of a stretch of a condition."""
    return term, item.entity, item.since_ns, tuple(item.extracted.items())


def _report(item: Item, watch: MetricLeaf) -> NodeMatch:
    return NodeMatch(
        items=(item,),
        entity=item.entity,
        attributes=attributes_of(item),
        t_ns=item.t_ns,
        fired_ns=item.t_ns,
        origin=watch.origin,
    )
