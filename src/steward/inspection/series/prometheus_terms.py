"""Metric terms evaluated by a Prometheus: all of PromQL, over its recorded series.

Used where one is configured. The expression is sent as it is written; hold times are computed here,
as for our own telemetry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from steward.clients.prometheus import QuerySeries
from steward.clients.query_worker import RangeServer
from steward.decide.rules.metric import (
    EvaluatedPoints,
    MetricWatch,
    Results,
    SortedFrame,
    WatchCounts,
)
from steward.decide.rules.metric.kernels import NEVER_NS, HoldState, Longs
from steward.decide.rules.promql.evaluator import LOOKBACK_NS
from steward.decide.rules.promql.label_index import LabelIndex
from steward.decide.rules.promql.vectors import LabelledRows, Labels
from steward.errors import StewardError, TemporaryError
from steward.model.rules import MetricTerm
from steward.observe.translate.entities import node_name

__all__ = ["QueryServer", "StepEvaluation", "answered_rows", "prometheus_compiler"]

STEP_NS = 15 * 10**9  # default interval between steps
_MOST_STEPS = 10_000  # steps of one query; Prometheus answers at most 11,000
_NS = 10**9
_NODE = (
    "Hostname",
    "hostname",
    "nodename",
    "instance",
)  # node labels of exporters
_WITHOUT = ("__name__", "job")  # labels of the scrape, not of the entity


class QueryServer(RangeServer, Protocol):
    """Instant and range queries, as `clients.prometheus.PrometheusServer` has them."""

    def query(self, promql: str, *, at_s: float | None = None) -> list[QuerySeries]:
        """Return the value of an expression at one time."""
        ...


def prometheus_compiler(
    server: QueryServer, *, most_series: int = 100_000
) -> Callable[[MetricTerm], MetricWatch]:
    """Return the compiler of metric terms; it raises at once what Prometheus rejects."""

    def compiled(term: MetricTerm) -> MetricWatch:
        server.query(term.expr, at_s=0.0)
        return made(term)

    def made(term: MetricTerm) -> MetricWatch:
        counts = WatchCounts()
        evaluation = _QueriedSteps(term, server, counts, most_series=most_series)
        return MetricWatch(term, evaluation, metrics=(), counts=counts, again=lambda: made(term))

    return compiled


class StepEvaluation:
    """Evaluation of a term at whole steps by another server."""

    def __init__(self, term: MetricTerm, counts: WatchCounts) -> None:
        self._expr = term.expr
        self._counts = counts
        self._step_ns = round(term.interval_s * _NS) or STEP_NS
        self._done_ns = -NEVER_NS
        self._results = Results()
        self.gap_ns = max(LOOKBACK_NS, self._step_ns)
        self.due_ns = -NEVER_NS

    @property
    def state(self) -> HoldState:
        """Since when the term holds, by result."""
        return self._results.state

    def identity(self, series: int) -> tuple[str, Labels]:
        """Return the entity and labels of a row."""
        return self._results.identity(series, {})

    def _failed(self, fault: StewardError) -> None:
        self._counts.failed += 1
        self._counts.problem = str(fault)


class _QueriedSteps(StepEvaluation):
    """Query every step until now, many at once."""

    def __init__(
        self, term: MetricTerm, server: QueryServer, counts: WatchCounts, *, most_series: int
    ) -> None:
        super().__init__(term, counts)
        self._server = server
        self._most_series = most_series

    def add(
        self, rows: SortedFrame | None, clock_ns: int, *, last: bool = False
    ) -> Iterator[EvaluatedPoints]:
        del last  # nothing is pending: a step is queried when it is over
        if self._done_ns == -NEVER_NS:
            begin_ns = clock_ns if rows is None or not len(rows.t_ns) else int(rows.t_ns.min())
            self._done_ns = (begin_ns - 1) // self._step_ns * self._step_ns
        while self._done_ns + self._step_ns <= clock_ns:
            whole = (clock_ns - self._done_ns) // self._step_ns
            steps = np.arange(1, min(whole, _MOST_STEPS) + 1, dtype=np.int64) * self._step_ns
            times = self._done_ns + steps
            found = self._query(times)
            if found is None:
                return  # the same steps are queried next time
            self._done_ns = int(times[-1])
            yield self._results.laid_out(found, times)
            self._counts.evicted += self._results.forget(self._most_series)
        self.due_ns = self._done_ns + self._step_ns

    def _query(self, times: Longs) -> LabelledRows | None:
        try:
            found = self._server.query_range(
                self._expr,
                from_s=float(times[0]) / _NS,
                to_s=float(times[-1]) / _NS,
                step_s=self._step_ns / _NS,
            )
        except TemporaryError as fault:
            self._failed(fault)
            return None
        return answered_rows(found, times, self._step_ns)


def _normalised_labels(labels: Mapping[str, str]) -> Labels:
    """Return the labels with the node under our label name, if an exporter uses another."""
    own = {name: value for name, value in labels.items() if name not in _WITHOUT}
    if "node" not in own:
        at = next((own[name] for name in _NODE if own.get(name)), "")
        own |= {"node": node_name(at)} if at else {}
    own.pop("instance", None)
    return tuple(sorted(own.items()))


def answered_rows(found: Sequence[QuerySeries], times: Longs, step_ns: int) -> LabelledRows:
    """Lay an answer out: a row for each entity, a column for each time queried."""
    values = np.full((len(found), len(times)), np.nan)
    for row, each in enumerate(found):
        at = np.round((np.array(each.t_s) - times[0] / _NS) / (step_ns / _NS))
        inside = (at >= 0) & (at < len(times))  # a server may return other times
        values[row, at[inside].astype(np.int64)] = np.array(each.values)[inside]
    merged: dict[Labels, list[int]] = {}
    for row, each in enumerate(found):
        merged.setdefault(_normalised_labels(each.labels), []).append(row)
    united = [np.fmax.reduce(values[rows]) for rows in merged.values()]
    shape = (len(merged), len(times))
    return LabelledRows(labels=LabelIndex().names(merged), values=np.array(united).reshape(shape))
