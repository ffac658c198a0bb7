"""Metric terms in the loop, beside a Prometheus: it is asked about what is not seen here.

Nobody waits for it. A question goes out when a step is over, and its answer is read in the turn
after it has come. Nodes whose samples come to steward itself are judged by those; what Prometheus
says of them is set aside. What it does not answer is unknown, and unknown is nobody's finding.
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
from steward.inspection.series.prometheus_terms import Steps, answered_rows
from steward.model.rules import MetricTerm

__all__ = ["MOST_SERIES", "metrics_beside"]

MOST_SERIES = 2_000  # of one term: about 50 ms of a turn; a rule has 50 open findings at most
MOST_STEPS = 40  # that are asked for again after a silence; ten minutes, unless the rule says
ORIGIN = "Prometheus"
_NS = 10**9

Speaking = Callable[[int], frozenset[str]]  # the nodes that were heard of here since a time


def metrics_beside(questions: QueryWorker) -> Callable[[MetricTerm], TermWatch]:
    """Return what makes a metric term ready. What only a Prometheus understands, it answers."""

    def compiled(term: MetricTerm) -> TermWatch:
        try:
            here = compile_metric(term)
        except StewardError:
            return CombinedWatch(None, later(term, _nobody), again=lambda: compiled(term))
        if PHASE in here.metrics or _asks_for_silence(term.expr):
            return here  # phases are known here alone, and silence is that of who has spoken here
        return CombinedWatch(here, later(term, here.speaking), again=lambda: compiled(term))

    def later(term: MetricTerm, speaking: Speaking) -> MetricWatch:
        counts = WatchCounts()
        evaluation = _LaterAnswers(term, questions, counts, speaking=speaking)
        return MetricWatch(
            term,
            evaluation,
            metrics=(),
            counts=counts,
            again=lambda: later(term, speaking),
            origin=ORIGIN,
        )

    return compiled


def _nobody(_since_ns: int) -> frozenset[str]:
    return frozenset()


def _asks_for_silence(expr: str) -> bool:
    return any(
        isinstance(each, FunctionCall) and each.name in ABSENCE for each in walk(parse(expr))
    )


class _LaterAnswers(Steps):
    """Asks for the newest steps, and lays the answer out when it is there."""

    def __init__(
        self, term: MetricTerm, questions: QueryWorker, counts: WatchCounts, *, speaking: Speaking
    ) -> None:
        super().__init__(term, counts)
        self._questions = questions
        self._speaking = speaking
        self._open: tuple[RangeQuery, Longs] | None = None

    def add(
        self, rows: SortedFrame | None, clock_ns: int, *, last: bool = False
    ) -> Iterator[EvaluatedPoints]:
        del rows, last  # it has its own samples, and nobody waits for the rest of them
        if self._done_ns == -NEVER_NS:
            self._done_ns = clock_ns // self._step_ns * self._step_ns - self._step_ns
            self.due_ns = clock_ns
        if self._open is not None:
            yield from self._answered(*self._open, clock_ns)
        if self._open is None and clock_ns >= self.due_ns:
            self._ask(clock_ns)

    def _answered(
        self, question: RangeQuery, times: Longs, clock_ns: int
    ) -> Iterator[EvaluatedPoints]:
        found = self._questions.answer(question)
        if found is None:
            return
        self._open = None
        if isinstance(found, StewardError):
            self._failed(found)
            self.due_ns = clock_ns + self._step_ns  # then the same steps are asked for again
            return
        self._done_ns = int(times[-1])
        self.due_ns = self._done_ns + self._step_ns
        answer = answered_rows(found, times, self._step_ns)
        yield self._results.laid_out(self._of_others(answer, clock_ns), times)
        self._counts.evicted += self._results.forget(MOST_SERIES)

    def _ask(self, clock_ns: int) -> None:
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
        self.due_ns = -NEVER_NS  # any moment now

    def _of_others(self, found: LabelledRows, clock_ns: int) -> LabelledRows:
        """Leave out the nodes that are seen here, and sums of which a part is seen here."""
        heard = self._speaking(clock_ns - self.gap_ns) if len(found.labels) else frozenset()
        if not heard:
            return found
        nodes = [dict(labels).get("node", "") for labels in found.labels]
        others = [row for row, node in enumerate(nodes) if node and node not in heard]
        kept = np.array(others, np.int64)
        return LabelledRows(labels=found.labels.only(kept), values=found.values[kept])
