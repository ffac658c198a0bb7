"""Evaluation of all entities at the same times: whole steps with a sample of any entity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.evaluation import EvaluatedPoints
from steward.decide.rules.metric.kernels import NEVER_NS, HoldState, Longs
from steward.decide.rules.metric.lookups import AcrossEntitiesLookup
from steward.decide.rules.metric.results import Results
from steward.decide.rules.metric.sample_buffer import TermSamples
from steward.decide.rules.metric.silences import Silence, Silences
from steward.decide.rules.metric.sorted_frame import SortedFrame
from steward.decide.rules.promql.evaluator import LOOKBACK_NS, evaluate
from steward.decide.rules.promql.expression import Expression
from steward.decide.rules.promql.vectors import Labels
from steward.errors import StewardError

__all__ = ["AcrossEntities"]

STEP_NS = 10**9  # default interval of conditions that compare entities
_MOST_CELLS = 2_000_000


class AcrossEntities:
    """Evaluate conditions that compare entities, or that depend on phases."""

    def __init__(
        self,
        expression: Expression,
        buffer: TermSamples,
        *,
        silences: Sequence[Silence],
        interval_ns: int,
        for_ns: int,
    ) -> None:
        # Absence is evaluated when it is due, and not in between.
        self.gap_ns = NEVER_NS if silences else max(LOOKBACK_NS, interval_ns)
        self._expression = expression
        self._buffer = buffer
        self._step_ns = interval_ns or STEP_NS
        steps_ns = -(-for_ns // self._step_ns) * self._step_ns
        self._silences = Silences(buffer, silences, steps_ns)
        self._done_ns = -NEVER_NS
        self._waiting = np.zeros(0, np.int64)  # steps that are not over yet
        self._results = Results()
        self.due_ns = NEVER_NS
        buffer.reader = self

    @property
    def read_ns(self) -> Longs:
        return np.full(len(self._buffer.known), self._done_ns)

    def forget(self, kept: NDArray[np.bool_]) -> None:
        del kept  # results have rows of their own
        self._results.forget_others()

    @property
    def state(self) -> HoldState:
        return self._results.state

    def identity(self, series: int) -> tuple[str, Labels]:
        return self._results.identity(series, self._buffer.known.entities)

    def add(
        self, rows: SortedFrame | None, clock_ns: int, *, last: bool = False
    ) -> Iterator[EvaluatedPoints]:
        times = [self._waiting]
        if rows is not None:
            times.append(self._buffer.add_and_list_times(rows))
        if not self._buffer.known:
            return  # no series has these columns
        if self._silences:
            times += [each.t for each in self._silences.until(clock_ns, self.read_ns)]
        whole = -(-np.concatenate(times) // self._step_ns) * self._step_ns
        steps = np.unique(whole) if len(whole) > 1 else whole
        steps = steps[steps > self._done_ns]
        ready = steps if last else steps[steps <= clock_ns]
        self._waiting = steps[len(ready) :]
        yield from self._looks(ready)
        self._buffer.counts.evicted += self._results.forget(self._buffer.most_series)
        ahead = int(np.min(self._waiting, initial=NEVER_NS))
        self.due_ns = min(ahead, self._silences.next_ns(clock_ns))

    def _looks(self, times: Longs) -> Iterator[EvaluatedPoints]:
        size = max(1, _MOST_CELLS // max(1, len(self._buffer.known)))
        for begin in range(0, len(times), size):
            part = times[begin : begin + size]
            self._done_ns = int(part[-1])
            if not self._buffer.can_hold:
                yield self._results.none(part)
                continue
            look = AcrossEntitiesLookup(
                known=self._buffer.known,
                wanted=self._buffer.wanted,
                columns_kept=self._buffer.columns_kept,
                times=part,
                found=self._buffer.found_at(b"", part),
            )
            try:
                found = evaluate(self._expression, look)
            except StewardError as wrong:  # depends on the series, and new ones may come
                self._buffer.counts.failed += 1
                self._buffer.counts.problem = f"{wrong.problem}; {wrong.hint}"
                continue
            yield self._results.laid_out(found, part)
