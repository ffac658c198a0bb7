"""Rows of runs become windows, block by block: a window may go on in the next block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.window_statistics import Statistic, window_statistics

__all__ = ["Combined", "WindowFold", "Windows", "usual_step"]

_ROUNDING = 1e-6  # of a window: 49.9999999 rows of 0.1 s are 5 s
_MOST_CARRIED = 16 << 20  # values that wait for the next block; more are finished at once
Floats = NDArray[np.float32]
Combined = Callable[[Mapping[Statistic, Floats]], Floats]  # columns become groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Windows of one size, in the order of runs; `number` counts from the run's beginning."""

    run: NDArray[np.int64]
    number: NDArray[np.int64]
    rows: NDArray[np.int64]
    span_s: NDArray[np.float64]  # from the first to the last row
    values: Floats  # windows x groups


def usual_step(t_s: NDArray[np.float64], series: NDArray[np.int64]) -> float:
    """Return the median time between samples of one series; 0 if there are no two."""
    order = np.argsort(series, kind="stable")
    steps = np.diff(t_s[order])[np.diff(series[order]) == 0]
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 0.0


@dataclass(slots=True, kw_only=True)
class WindowFold:
    """Fold blocks of one file. `aligned_s`: windows begin anew at multiples of it, if not 0."""

    windows_s: Sequence[float]
    statistics: Sequence[Statistic]
    combine: Combined
    columns: int
    aligned_s: float = 0.0
    period_s: float = 0.0  # between samples of one device; the caller knows it from `usual_step`
    backwards: int = 0  # times that go back within a run
    begin_s: list[float] = field(default_factory=list)  # per run
    _t_s: NDArray[np.float64] = field(init=False)
    _run: NDArray[np.int64] = field(init=False)
    _values: Floats = field(init=False)
    _todo: NDArray[np.bool_] = field(init=False)  # sizes x carried rows
    _found: list[list[Windows]] = field(init=False)

    def __post_init__(self) -> None:
        self._found = [[] for _ in self.windows_s]
        self._forget()

    def add(self, t_s: NDArray[np.float64], run: NDArray[np.int64], values: Floats) -> None:
        """Add rows; `run` counts runs in the order in which they were first met."""
        if not len(t_s):
            return
        self._begin(t_s, run)
        self._step(t_s, run, values, last=False)

    def finish(self) -> list[Windows]:
        """Return all windows by size, ordered by run and number; each is there once."""
        empty = np.zeros(0, np.int64)
        self._step(np.zeros(0), empty, np.zeros((self.columns, 0), np.float32), last=True)
        return [_united(found) for found in self._found]

    def _begin(self, t_s: NDArray[np.float64], run: NDArray[np.int64]) -> None:
        runs, first = np.unique(run, return_index=True)
        begins = t_s[first]
        if self.aligned_s:
            begins = np.floor(begins / self.aligned_s) * self.aligned_s
        for each, begin in zip(runs.tolist(), begins.tolist(), strict=True):
            self.begin_s.extend([np.nan] * (each + 1 - len(self.begin_s)))
            if np.isnan(self.begin_s[each]):
                self.begin_s[each] = begin
        steps = np.diff(t_s)[np.diff(run) == 0]
        self.backwards += int(np.count_nonzero(steps < 0))

    def _step(
        self, t_s: NDArray[np.float64], run: NDArray[np.int64], values: Floats, *, last: bool
    ) -> None:
        new = len(t_s)
        t_s, run = np.concatenate([self._t_s, t_s]), np.concatenate([self._run, run])
        if self._values.shape[1]:
            values = np.concatenate([self._values, values], axis=1)
        if not len(t_s):
            return
        todo = np.concatenate([self._todo, np.ones((len(self.windows_s), new), np.bool_)], axis=1)
        begin = np.asarray(self.begin_s)[run]
        alone = 1 + np.count_nonzero(np.diff(run)) == len(np.unique(run))
        for size, window_s in enumerate(self.windows_s):
            number = np.floor((t_s - begin) / window_s + _ROUNDING).astype(np.int64)
            rows = np.flatnonzero(todo[size])
            rows, edges = _in_windows(rows, run, number)
            held = 0 if last else _held(rows, edges, run, alone=alone)
            waiting = np.zeros(len(edges) - 1, np.bool_)
            waiting[held] = not last
            todo[size] = False
            self._emit(
                size,
                _Rows(rows=rows, edges=edges, run=run, number=number, t_s=t_s),
                values,
                waiting,
            )
            if not last:
                todo[size, rows[np.repeat(waiting, np.diff(edges))]] = True
        kept = np.flatnonzero(todo.any(axis=0))
        self._t_s, self._run, self._todo = t_s[kept], run[kept], todo[:, kept]
        self._values = np.ascontiguousarray(values[:, kept])
        if not last and self._values.size > _MOST_CARRIED:
            empty = np.zeros(0, np.int64)
            self._step(np.zeros(0), empty, values[:, :0], last=True)
            self._forget()

    def _emit(self, size: int, rows: _Rows, values: Floats, waiting: NDArray[np.bool_]) -> None:
        counts = np.diff(rows.edges)[~waiting]
        if not counts.sum():
            return
        order = rows.rows[np.repeat(~waiting, np.diff(rows.edges))]
        edges, t_s = np.concatenate([[0], np.cumsum(counts)]), rows.t_s[order]
        whole = order[-1] - order[0] + 1 == len(order) and bool((np.diff(order) > 0).all())
        block = values[:, order[0] : order[-1] + 1] if whole else values[:, order]
        figures = window_statistics(
            block, edges, self.statistics, period_s=self.period_s or self.windows_s[size]
        )
        first = order[edges[:-1]]
        self._found[size].append(
            Windows(
                run=rows.run[first],
                number=rows.number[first],
                rows=counts,
                span_s=np.maximum.reduceat(t_s, edges[:-1]) - np.minimum.reduceat(t_s, edges[:-1]),
                values=self.combine(figures),
            )
        )

    def _forget(self) -> None:
        self._t_s, self._run = np.zeros(0), np.zeros(0, np.int64)
        self._values = np.zeros((self.columns, 0), np.float32)
        self._todo = np.zeros((len(self.windows_s), 0), np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    rows: NDArray[np.intp]
    edges: NDArray[np.int64]
    run: NDArray[np.int64]
    number: NDArray[np.int64]
    t_s: NDArray[np.float64]


def _in_windows(
    rows: NDArray[np.intp], run: NDArray[np.int64], number: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return rows so that those of one window are together, and where windows begin and end."""
    runs, numbers = run[rows], number[rows]
    ahead = np.diff(runs)
    if ((ahead < 0) | ((ahead == 0) & (np.diff(numbers) < 0))).any():
        rows = rows[np.lexsort((numbers, runs))]  # stable: rows keep their order within a window
        runs, numbers = run[rows], number[rows]
    change = np.flatnonzero((np.diff(runs) != 0) | (np.diff(numbers) != 0)) + 1
    return rows, np.concatenate([[0], change, [len(rows)]]).astype(np.int64)


def _held(
    rows: NDArray[np.intp], edges: NDArray[np.int64], run: NDArray[np.int64], *, alone: bool
) -> NDArray[np.intp]:
    """Return which windows may go on: the last one, or that of each run where runs alternate."""
    runs = run[rows[edges[:-1]]] if len(rows) else np.zeros(0, np.int64)
    lasts = np.flatnonzero(np.append(np.diff(runs) != 0, True))[: len(runs)]
    return lasts[-1:] if alone else lasts


def _united(found: Sequence[Windows]) -> Windows:
    """Put the windows of all blocks together; of one that was met twice the fuller stays."""
    if not found:
        none = np.zeros(0, np.int64)
        values = np.zeros((0, 0), np.float32)
        return Windows(run=none, number=none, rows=none, span_s=np.zeros(0), values=values)
    run = np.concatenate([each.run for each in found])
    number = np.concatenate([each.number for each in found])
    rows = np.concatenate([each.rows for each in found])
    values = np.concatenate([each.values for each in found])
    span_s = np.concatenate([each.span_s for each in found])
    order = np.lexsort((-rows, number, run))
    run, number = run[order], number[order]
    first = np.append(True, (np.diff(run) != 0) | (np.diff(number) != 0))
    kept = order[first]
    return Windows(
        run=run[first],
        number=number[first],
        rows=rows[kept],
        span_s=span_s[kept],
        values=values[kept],
    )
