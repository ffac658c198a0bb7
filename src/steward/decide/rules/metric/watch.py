"""Watch of a metric term: reports when its condition has held for long enough, per entity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from steward.decide.rules.metric.across_entities import AcrossEntities
from steward.decide.rules.metric.evaluation import EvaluatedPoints, TermEvaluation
from steward.decide.rules.metric.kernels import NEVER_NS, ONGOING, held
from steward.decide.rules.metric.lookups import SelectorColumn
from steward.decide.rules.metric.per_entity import PerEntity
from steward.decide.rules.metric.sample_buffer import TermSamples, WatchCounts
from steward.decide.rules.metric.series_index import SelectedSeries
from steward.decide.rules.metric.silences import Silence
from steward.decide.rules.metric.sorted_frame import KeyIndex, SortedFrame, sort_frame
from steward.decide.rules.promql.evaluator import LOOKBACK_NS
from steward.decide.rules.promql.expression import Expression, FunctionCall, Selector, walk
from steward.decide.rules.promql.functions import ABSENCE
from steward.decide.rules.promql.metric_columns import PHASE, MetricColumn
from steward.decide.rules.promql.parser import parse
from steward.decide.rules.promql.required_selectors import required_selectors
from steward.decide.rules.promql.type_check import across, check
from steward.decide.rules.promql.vectors import Labels
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.rules import Item, MetricTerm

__all__ = ["MOST_SERIES", "Ended", "MetricWatch", "TermWatch", "compile_metric"]

MOST_SERIES = 100_000  # of one term; beyond it those without samples for longest are evicted
_NS = 10**9


class Ended(NamedTuple):
    """A reported condition that no longer holds, or is no longer known."""

    item: Item
    until_ns: int  # first time at which it did not hold


class TermWatch(Protocol):
    """Watch of one metric term, over local or remote telemetry."""

    @property
    def metrics(self) -> frozenset[str]:
        """The columns that the term needs."""
        ...

    @property
    def counts(self) -> WatchCounts:
        """Samples that could not be used."""
        ...

    @property
    def ended(self) -> list[Ended]:
        """Reported conditions that ended as of the last call."""
        ...

    def share(self, keys: KeyIndex) -> None:
        """Store samples together with all other terms that share these keys."""
        ...

    def add(self, frame: SortedFrame) -> list[Item]:
        """Read new samples; return conditions that have held for long enough."""
        ...

    def tick(self, t_ns: int) -> list[Item]:
        """Advance time without samples."""
        ...

    def finish(self) -> list[Item]:
        """Evaluate what is pending."""
        ...

    def holding(self) -> frozenset[str]:
        """Return the entities for which it was reported and still holds."""
        ...

    def fresh(self) -> TermWatch:
        """Return the same term with nothing read yet."""
        ...


class MetricWatch:
    """Evaluate one metric term over telemetry; state is kept for each series.

    `metrics` are the columns that it needs. A condition that came true is reported once, and again
    only after it has not held, or was not evaluated for too long, in between. `ended` are the
    reported ones that were over at the last call. `origin` names the server that answered, if not
    our own samples.
    """

    def __init__(  # noqa: PLR0913 - the parts of a term
        self,
        term: MetricTerm,
        evaluation: TermEvaluation,
        *,
        metrics: Sequence[str],
        counts: WatchCounts,
        again: Callable[[], MetricWatch],
        samples: TermSamples | None = None,
        origin: str = "",
    ) -> None:
        self._samples = samples
        self._origin = origin
        self.term = term
        self.metrics = frozenset(metrics)
        self.counts = counts
        self._evaluation = evaluation
        self._names = ", ".join(dict.fromkeys(metrics))
        self._again = again
        self._for_ns = round(term.for_s * _NS)
        self._clock_ns = -NEVER_NS
        self._holding: dict[tuple[str, Labels], Item] = {}
        self._evicted = 0
        self.ended: list[Ended] = []

    @property
    def due_ns(self) -> int:
        """The earliest time at which a tick can change something."""
        return self._evaluation.due_ns

    def share(self, keys: KeyIndex) -> None:
        """Store samples together with all other terms that share these keys."""
        if self._samples is not None:
            self._samples.share(keys)

    def reporting_nodes(self, since_ns: int) -> frozenset[str]:
        """Return the nodes of which there was a sample since then."""
        return self._samples.nodes(since_ns) if self._samples is not None else frozenset()

    def add(self, frame: Frame | SortedFrame) -> list[Item]:
        """Read new samples, in any order; return conditions that have held for long enough."""
        rows = frame if isinstance(frame, SortedFrame) else sort_frame(frame)
        self._clock_ns = max(self._clock_ns, rows.clock_ns)
        if self._samples is not None and not self._samples.in_frame(rows):
            self.counts.untimed += rows.untimed
            return self.tick(self._clock_ns)
        return self._reported(self._evaluation.add(rows, self._clock_ns))

    def tick(self, t_ns: int) -> list[Item]:
        """Advance time without samples: absence may be due now."""
        if t_ns < self.due_ns:
            self.ended = []
            self._end_silent(t_ns)
            self._sort_ended()
            return []
        self._clock_ns = max(self._clock_ns, t_ns)
        return self._reported(self._evaluation.add(None, self._clock_ns))

    def finish(self) -> list[Item]:
        """Evaluate what is pending. The end of the telemetry is not absence."""
        return self._reported(self._evaluation.add(None, self._clock_ns, last=True))

    def values(self, frame: Frame) -> Frame:
        """Return the values of the expression at all its times: `t_s`, `entity`, `value`."""
        rows = sort_frame(frame)
        parts = [pl.DataFrame(schema={T_S: pl.Float64, ENTITY: pl.String, "value": pl.Float64})]
        with np.errstate(all="ignore"):
            for seen in self._evaluation.add(rows, rows.clock_ns, last=True):
                counts = np.diff(seen.points.off)
                identity = [self._evaluation.identity(series)[0] for series in range(len(counts))]
                columns = {
                    T_S: seen.points.t / _NS,
                    ENTITY: np.repeat(np.array(identity, object), counts),
                    "value": seen.values,
                }
                parts.append(pl.DataFrame(columns, schema=parts[0].schema))
        return pl.concat(parts).filter(pl.col("value").is_not_nan())

    def holding(self) -> frozenset[str]:
        """Return the entities for which it was reported and still holds."""
        return frozenset(entity for entity, _ in self._holding)

    def fresh(self) -> MetricWatch:
        """Return the same term with nothing read yet."""
        return self._again()

    def _reported(self, looks: Iterator[EvaluatedPoints]) -> list[Item]:
        found: list[Item] = []
        self.ended = []
        with np.errstate(all="ignore"):
            for seen in looks:
                state = self._evaluation.state
                points = seen.points
                at, since, until = held(
                    seen.values, points, state, self._for_ns, self._evaluation.gap_ns
                )
                if not len(at):
                    continue  # as in most turns: nothing began and nothing ended
                series = np.searchsorted(points.off, at, side="right") - 1
                columns = (series, points.t[at], since, until, seen.values[at])
                for number, t_ns, since_ns, until_ns, value in zip(
                    *(each.tolist() for each in columns), strict=True
                ):
                    identity = self._evaluation.identity(number)
                    if until_ns != ONGOING:
                        self._end(identity, until_ns)
                        continue
                    self._holding[identity] = item = self._item(identity, t_ns, since_ns, value)
                    found.append(item)
        self._end_silent(self._clock_ns)
        self._sort_ended()
        return sorted(found, key=_place)

    def _sort_ended(self) -> None:
        self.ended.sort(key=lambda each: _place(each.item))

    def _end(self, identity: tuple[str, Labels], until_ns: int) -> None:
        item = self._holding.pop(identity, None)
        if item is not None:
            self.ended.append(Ended(item, max(until_ns, item.t_ns + 1)))

    def _end_silent(self, clock_ns: int) -> None:
        """End conditions without samples for too long, and evicted ones."""
        if not self._holding:
            return
        state, gap_ns = self._evaluation.state, self._evaluation.gap_ns
        silent = np.flatnonzero(state.reported & (clock_ns - state.last > gap_ns)).tolist()
        for series in silent:
            self._end(self._evaluation.identity(series), int(state.last[series]) + gap_ns)
        if self.counts.evicted != self._evicted:
            self._evicted = self.counts.evicted
            known = {
                self._evaluation.identity(series)
                for series in np.flatnonzero(state.reported).tolist()
            }
            for identity in [each for each in self._holding if each not in known]:
                self._end(identity, clock_ns)

    def _item(self, identity: tuple[str, Labels], t_ns: int, since_ns: int, value: float) -> Item:
        entity, labels = identity
        return Item(
            t_ns=t_ns,
            text=f"{self.term.expr}: {value:.6g}",
            entity=entity,
            stream=self._origin,
            metric=self._names,
            expr=self.term.expr,
            since_ns=since_ns,
            value=value,
            extracted=MappingProxyType(dict(labels)),
        )


def _place(item: Item) -> tuple[int, str, tuple[tuple[str, str], ...]]:
    """Return what items are sorted by; the order of series depends on what else was read."""
    return item.t_ns, item.entity, tuple(item.extracted.items())


@lru_cache(maxsize=1024)  # the same rules are compiled for every example they are tested on
def _read(expr: str) -> tuple[Expression, Mapping[Selector, MetricColumn]]:
    expression = parse(expr)
    return expression, MappingProxyType(check(expression, expr))


def _silences(
    expression: Expression, columns: Mapping[Selector, MetricColumn]
) -> tuple[Silence, ...]:
    found = []
    for each in walk(expression):
        if (
            isinstance(each, FunctionCall)
            and each.name in ABSENCE
            and isinstance(each.args[0], Selector)
        ):
            of = each.args[0]
            after_ns = (of.range_ns or LOOKBACK_NS) + of.offset_ns
            found.append(Silence(column=columns[of].name, after_ns=after_ns))
    return tuple(found)


def compile_metric(term: MetricTerm, *, most_series: int = MOST_SERIES) -> MetricWatch:
    """Compile a metric term; raise with the place in the expression if that fails."""
    expression, columns = _read(term.expr)
    metrics = [column.name for column in columns.values()]
    silences = _silences(expression, columns)
    wanted = {
        selector: SelectorColumn(
            column=column, selected=SelectedSeries(selector, column, term.expr)
        )
        for selector, column in columns.items()
    }
    required = {columns[selector].name for selector in required_selectors(expression)} - {PHASE}
    samples = TermSamples(
        wanted, most_series=most_series, by_job=not silences, required=frozenset(required)
    )
    together = across(expression) or PHASE in metrics
    evaluation: TermEvaluation = (AcrossEntities if together else PerEntity)(
        expression,
        samples,
        silences=silences,
        interval_ns=round(term.interval_s * _NS),
        for_ns=round(term.for_s * _NS),
    )
    return MetricWatch(
        term,
        evaluation,
        metrics=metrics,
        counts=samples.counts,
        again=lambda: compile_metric(term, most_series=most_series),
        samples=samples,
    )
