"""Samples kept for a term: the last of each series, or all of its longest range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.kernels import Longs, SeriesSamples
from steward.decide.rules.metric.layout import merge

__all__ = ["ColumnSamples"]

Bools = NDArray[np.bool_]


class ColumnSamples:
    """Samples of one column, for all series that a term knows."""

    def __init__(self) -> None:
        self.reach_ns = 0  # age before the last evaluation that is kept
        self.samples = SeriesSamples(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def add(self, new: SeriesSamples, looked_ns: Longs) -> int:
        """Add new samples, laid out by series; return how many were too late."""
        off, t, v, late = merge(self.samples, new, looked_ns - self.reach_ns)
        self.samples = SeriesSamples(off, t, v)
        return int(late)

    def widen(self, series: int) -> None:
        """Make room for series without any samples."""
        more = series + 1 - len(self.samples.off)
        if more > 0:
            off = np.full(series + 1, self.samples.off[-1])
            off[:-more] = self.samples.off
            self.samples = SeriesSamples(off, self.samples.t, self.samples.v)

    def only(self, kept: Bools) -> None:
        """Forget all other series."""
        counts = np.diff(self.samples.off)
        rows = np.repeat(kept, counts)
        off = np.append(0, np.cumsum(counts[kept]))
        self.samples = SeriesSamples(off, self.samples.t[rows], self.samples.v[rows])
