"""Evaluation of each entity by itself, at each sample, or at the first in each interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.evaluation import EvaluatedPoints, no_series, only, widened
from steward.decide.rules.metric.kernels import NEVER_NS, Longs, Points
from steward.decide.rules.metric.layout import due
from steward.decide.rules.metric.lookups import PerEntityLookup
from steward.decide.rules.metric.sample_buffer import TermSamples
from steward.decide.rules.metric.silences import Silence, Silences
from steward.decide.rules.metric.sorted_frame import SortedFrame
from steward.decide.rules.promql.evaluator import LOOKBACK_NS, evaluate
from steward.decide.rules.promql.expression import Expression
from steward.decide.rules.promql.vectors import Labels

__all__ = ["PerEntity"]


class PerEntity:
    """Evaluate conditions whose value for one entity depends on no other."""

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
        self._silences = Silences(buffer, silences, for_ns)
        self._interval_ns = 0 if silences else interval_ns  # absence has no samples to wait for
        self.state = no_series()
        self.due_ns = NEVER_NS
        buffer.reader = self

    @property
    def read_ns(self) -> Longs:
        return self.state.last

    def forget(self, kept: NDArray[np.bool_]) -> None:
        self.state = only(widened(self.state, len(kept)), kept)

    def identity(self, series: int) -> tuple[str, Labels]:
        known = self._buffer.known
        return known.keys[series][0], known.labels[series]

    def add(
        self, rows: SortedFrame | None, clock_ns: int, *, last: bool = False
    ) -> Iterator[EvaluatedPoints]:
        del last  # nothing is ever pending
        points = Points(np.zeros(len(self._buffer.known) + 1, np.int64), np.zeros(0, np.int64))
        if rows is not None:
            points = self._buffer.add(rows)
        if not self._buffer.known:
            return  # no series has these columns
        self.state = widened(self.state, len(self._buffer.known))
        if self._silences:
            points = _united([points, *self._silences.until(clock_ns, self.state.last)])
        points = Points(*due(points, self.state.last, self._interval_ns))
        if len(points.t) and not self._buffer.can_hold:
            yield EvaluatedPoints(points=points, values=np.full(len(points.t), np.nan))
        elif len(points.t):
            look = PerEntityLookup(
                known=self._buffer.known,
                wanted=self._buffer.wanted,
                columns_kept=self._buffer.columns_kept,
                points=points,
                found=self._buffer.found_at(points.off.tobytes(), points.t),
            )
            yield EvaluatedPoints(points=points, values=evaluate(self._expression, look).values[0])
        self.due_ns = self._silences.next_ns(clock_ns)


def _united(parts: Sequence[Points]) -> Points:
    """Return the points of all, sorted, by series."""
    number = np.concatenate([np.repeat(np.arange(len(p.off) - 1), np.diff(p.off)) for p in parts])
    t = np.concatenate([each.t for each in parts])
    order = np.lexsort((t, number))
    off = np.append(0, np.cumsum(np.bincount(number, minlength=len(parts[0].off) - 1)))
    return Points(off, t[order])
