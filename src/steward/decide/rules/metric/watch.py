"""A metric term at work: tells when its condition has held for long enough, for each entity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import polars as pl

from steward.decide.rules.metric.arranging import Arranged, arrange
from steward.decide.rules.metric.intake import Intake, WatchCounts
from steward.decide.rules.metric.kernels import NEVER_NS, held
from steward.decide.rules.metric.looking import Wanted
from steward.decide.rules.metric.promql.checking import across, check
from steward.decide.rules.metric.promql.evaluating import LOOKBACK_NS
from steward.decide.rules.metric.promql.expression import Call, Expression, Selector, walk
from steward.decide.rules.metric.promql.functions import ABSENCE
from steward.decide.rules.metric.promql.names import PHASE, Column
from steward.decide.rules.metric.promql.parsing import parse
from steward.decide.rules.metric.series import Chosen
from steward.decide.rules.metric.ways import ApartWay, Seen, Silence, TogetherWay, Way
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.rules import Item, MetricTerm

__all__ = ["MOST_SERIES", "MetricWatch", "compile_metric"]

MOST_SERIES = 100_000  # of one term; then those silent for longest are forgotten
_NS = 10**9


class MetricWatch:
    """Reads telemetry for one metric term; state is kept for each series.

    `metrics` are the columns that it wants. A condition that came true is told once, and again
    only after it has not held, or was not looked at for too long, in between.
    """

    def __init__(
        self,
        term: MetricTerm,
        way: Way,
        *,
        metrics: Sequence[str],
        counts: WatchCounts,
        again: Callable[[], MetricWatch],
    ) -> None:
        self.term = term
        self.metrics = frozenset(metrics)
        self.counts = counts
        self._way = way
        self._names = ", ".join(dict.fromkeys(metrics))
        self._again = again
        self._for_ns = round(term.for_s * _NS)
        self._clock_ns = -NEVER_NS

    @property
    def due_ns(self) -> int:
        """The earliest time at which a tick can change something."""
        return self._way.due_ns

    def take(self, frame: Frame | Arranged) -> list[Item]:
        """Read new samples, in any order; returns what has held for long enough by now."""
        rows = frame if isinstance(frame, Arranged) else arrange(frame)
        self._clock_ns = max(self._clock_ns, rows.clock_ns)
        return self._told(self._way.take(rows, self._clock_ns))

    def tick(self, t_ns: int) -> list[Item]:
        """Let time pass without samples: what is silent may be missed now."""
        if t_ns < self.due_ns:
            return []
        self._clock_ns = max(self._clock_ns, t_ns)
        return self._told(self._way.take(None, self._clock_ns))

    def finish(self) -> list[Item]:
        """Look at what still waits. That the telemetry ends is nobody's silence."""
        return self._told(self._way.take(None, self._clock_ns, last=True))

    def values(self, frame: Frame) -> Frame:
        """Return what the expression is worth at all its times: `t_s`, `entity`, `value`."""
        rows = arrange(frame)
        parts = [pl.DataFrame(schema={T_S: pl.Float64, ENTITY: pl.String, "value": pl.Float64})]
        with np.errstate(all="ignore"):
            for seen in self._way.take(rows, rows.clock_ns, last=True):
                counts = np.diff(seen.points.off)
                whose = [self._way.whose(series)[0] for series in range(len(counts))]
                columns = {
                    T_S: seen.points.t / _NS,
                    ENTITY: np.repeat(np.array(whose, object), counts),
                    "value": seen.values,
                }
                parts.append(pl.DataFrame(columns, schema=parts[0].schema))
        return pl.concat(parts).filter(pl.col("value").is_not_nan())

    def fresh(self) -> MetricWatch:
        """Return the same term with nothing read yet."""
        return self._again()

    def _told(self, looks: Iterator[Seen]) -> list[Item]:
        found: list[Item] = []
        with np.errstate(all="ignore"):
            for seen in looks:
                state = self._way.state
                at, since = held(seen.values, seen.points, state, self._for_ns, self._way.gap_ns)
                series = np.searchsorted(seen.points.off, at, side="right") - 1
                columns = (series, seen.points.t[at], since, seen.values[at])
                rows = zip(*(each.tolist() for each in columns), strict=True)
                found += [self._item(*row) for row in rows]
        return sorted(found, key=lambda item: (item.t_ns, item.entity))

    def _item(self, series: int, t_ns: int, since_ns: int, value: float) -> Item:
        entity, labels = self._way.whose(series)
        return Item(
            t_ns=t_ns,
            text=f"{self.term.expr}: {value:.6g}",
            entity=entity,
            metric=self._names,
            since_ns=since_ns,
            value=value,
            extracted=MappingProxyType(dict(labels)),
        )


@lru_cache(maxsize=1024)  # the same rules are made ready for every example they are tested on
def _read(expr: str) -> tuple[Expression, Mapping[Selector, Column]]:
    expression = parse(expr)
    return expression, MappingProxyType(check(expression, expr))


def _silences(expression: Expression, columns: Mapping[Selector, Column]) -> tuple[Silence, ...]:
    found = []
    for each in walk(expression):
        if isinstance(each, Call) and each.name in ABSENCE and isinstance(each.args[0], Selector):
            of = each.args[0]
            after_ns = (of.range_ns or LOOKBACK_NS) + of.offset_ns
            found.append(Silence(column=columns[of].name, after_ns=after_ns))
    return tuple(found)


def compile_metric(term: MetricTerm, *, most_series: int = MOST_SERIES) -> MetricWatch:
    """Make a metric term ready; raises with the place in the expression if it cannot be."""
    expression, columns = _read(term.expr)
    metrics = [column.name for column in columns.values()]
    silences = _silences(expression, columns)
    wanted = {
        selector: Wanted(column=column, chosen=Chosen(selector, column, term.expr))
        for selector, column in columns.items()
    }
    intake = Intake(wanted=wanted, most_series=most_series, by_job=not silences)
    together = across(expression) or PHASE in metrics
    way: Way = (TogetherWay if together else ApartWay)(
        expression,
        intake,
        silences=silences,
        interval_ns=round(term.interval_s * _NS),
        for_ns=round(term.for_s * _NS),
    )
    return MetricWatch(
        term,
        way,
        metrics=metrics,
        counts=intake.counts,
        again=lambda: compile_metric(term, most_series=most_series),
    )
