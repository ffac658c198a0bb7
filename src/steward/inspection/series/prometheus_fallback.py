"""Metric terms in the loop with a Prometheus as fallback for nodes without local samples.

Queries are asynchronous: one is sent when a step is over, and its answer is read in the turn after
it arrived. Nodes with local samples are evaluated by those, and left out of the answer. What
Prometheus does not answer is unknown, and unknown makes no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from steward.clients.query_worker import QueryWorker, RangeQuery
from steward.decide.rules.metric import (
    CombinedWatch,
    EvaluatedPoints,
    MetricWatch,
    SortedFrame,
    TermWatch,
    WatchCounts,
    compile_metric,
)
from steward.decide.rules.metric.kernels import NEVER_NS, Longs
from steward.decide.rules.promql.expression import FunctionCall, walk
from steward.decide.rules.promql.functions import ABSENCE
from steward.decide.rules.promql.metric_columns import PHASE
from steward.decide.rules.promql.parser import parse
from steward.decide.rules.promql.vectors import LabelledRows
from steward.errors import StewardError
from steward.inspection.series.prometheus_terms import StepEvaluation, answered_rows
from steward.model.rules import MetricTerm

__all__ = ["MOST_SERIES", "compile_with_fallback"]

MOST_SERIES = 2_000  # of one term: about 50 ms of a turn; a rule has 50 open findings at most
MOST_STEPS = 40  # queried again after an outage; ten minutes by default
ORIGIN = "Prometheus"
_NS = 10**9

ReportingNodes = Callable[[int], frozenset[str]]  # nodes with local samples since a time


def compile_with_fallback(questions: QueryWorker) -> Callable[[MetricTerm], TermWatch]:
    """Return the compiler of metric terms. Prometheus answers those that only it supports."""

    def compiled(term: MetricTerm) -> TermWatch:
        try:
            local = compile_metric(term)
        except StewardError:
            return CombinedWatch(None, deferred(term, _no_nodes), again=lambda: compiled(term))
        if PHASE in local.metrics or _tests_absence(term.expr):
            return local  # phases and absence are known locally only
        return CombinedWatch(
            local, deferred(term, local.reporting_nodes), again=lambda: compiled(term)
        )

    def deferred(term: MetricTerm, reporting_nodes: ReportingNodes) -> MetricWatch:
        counts = WatchCounts()
        evaluation = _DeferredSteps(term, questions, counts, reporting_nodes=reporting_nodes)
        return MetricWatch(
            term,
            evaluation,
            metrics=(),
            counts=counts,
            again=lambda: deferred(term, reporting_nodes),
            origin=ORIGIN,
        )

    return compiled


def _no_nodes(_since_ns: int) -> frozenset[str]:
    return frozenset()


def _tests_absence(expr: str) -> bool:
    return any(
        isinstance(each, FunctionCall) and each.name in ABSENCE for each in walk(parse(expr))
    )


class _DeferredSteps(StepEvaluation):
    """Query the newest steps, and read the answer when it has arrived."""

    def __init__(
        self,
        term: MetricTerm,
        questions: QueryWorker,
        counts: WatchCounts,
        *,
        reporting_nodes: ReportingNodes,
    ) -> None:
        super().__init__(term, counts)
        self._questions = questions
        self._reporting_nodes = reporting_nodes
        self._open: tuple[RangeQuery, Longs] | None = None

    def add(
        self, rows: SortedFrame | None, clock_ns: int, *, last: bool = False
    ) -> Iterator[EvaluatedPoints]:
        del rows, last  # the samples are remote, and nothing is pending
        if self._done_ns == -NEVER_NS:
            self._done_ns = clock_ns // self._step_ns * self._step_ns - self._step_ns
            self.due_ns = clock_ns
        if self._open is not None:
            yield from self._read_answer(*self._open, clock_ns)
        if self._open is None and clock_ns >= self.due_ns:
            self._send_query(clock_ns)

    def _read_answer(
        self, question: RangeQuery, times: Longs, clock_ns: int
    ) -> Iterator[EvaluatedPoints]:
        found = self._questions.answer(question)
        if found is None:
            return
        self._open = None
        if isinstance(found, StewardError):
            self._failed(found)
            self.due_ns = clock_ns + self._step_ns  # then the same steps are queried again
            return
        self._done_ns = int(times[-1])
        self.due_ns = self._done_ns + self._step_ns
        answer = answered_rows(found, times, self._step_ns)
        yield self._results.laid_out(self._of_remote_nodes(answer, clock_ns), times)
        self._counts.evicted += self._results.forget(MOST_SERIES)

    def _send_query(self, clock_ns: int) -> None:
        over = (clock_ns - self._done_ns) // self._step_ns
        newest_ns = self._done_ns + over * self._step_ns
        times = newest_ns - np.arange(min(over, MOST_STEPS), dtype=np.int64)[::-1] * self._step_ns
        question = RangeQuery(
            expr=self._expr,
            from_s=float(times[0]) / _NS,
            to_s=float(times[-1]) / _NS,
            step_s=self._step_ns / _NS,
        )
        self._questions.submit(question)
        self._open = (question, times)
        self.due_ns = -NEVER_NS  # poll on every call

    def _of_remote_nodes(self, found: LabelledRows, clock_ns: int) -> LabelledRows:
        """Leave out nodes with local samples, and sums over them."""
        reporting = (
            self._reporting_nodes(clock_ns - self.gap_ns) if len(found.labels) else frozenset()
        )
        if not reporting:
            return found
        nodes = [dict(labels).get("node", "") for labels in found.labels]
        others = [row for row, node in enumerate(nodes) if node and node not in reporting]
        kept = np.array(others, np.int64)
        return LabelledRows(labels=found.labels.only(kept), values=found.values[kept])
