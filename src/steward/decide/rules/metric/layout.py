"""Compiled loops that lay samples out by series, and select new times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.rules.metric.kernels import Floats, Longs, Points, SeriesSamples

__all__ = ["due", "lay_out", "merge"]

_NEVER = np.iinfo(np.int64).min


@njit
def lay_out(  # noqa: C901 - compiled
    rows: SeriesSamples, present: NDArray[np.bool_], own: Longs, series: int
) -> tuple[Longs, Longs, Floats]:
    """Return the present rows by series: those of key `i` are of series `own[i]`.

    Rows without values give times only.
    """
    off = np.zeros(series + 1, np.int64)
    for i in range(len(own)):
        for j in range(rows.off[i], rows.off[i + 1]):
            if present[j]:
                off[own[i] + 1] += 1
    for i in range(series):
        off[i + 1] += off[i]
    free = off.copy()
    t = np.empty(off[series], np.int64)
    v = np.empty(off[series] if len(rows.v) else 0, np.float64)
    for i in range(len(own)):
        for j in range(rows.off[i], rows.off[i + 1]):
            if present[j]:
                k = free[own[i]]
                free[own[i]] += 1
                t[k] = rows.t[j]
                if len(rows.v):
                    v[k] = rows.v[j]
    return off, t, v


@njit
def merge(old: SeriesSamples, new: SeriesSamples, keep: Longs) -> tuple[Longs, Longs, Floats, int]:
    """Append new samples to those of each series; drop what is older than `keep[i]`.

    The last sample before `keep[i]` stays, so that there is always a lookback value. New
    samples that are not newer than what is there are left out and counted.
    """
    n = len(new.off) - 1
    off = np.zeros(n + 1, np.int64)
    t = np.empty(len(old.t) + len(new.t), np.int64)
    v = np.empty(len(old.t) + len(new.t), np.float64)
    late = 0
    k = 0
    for i in range(n):
        first = old.off[i] if i < len(old.off) - 1 else 0
        end = old.off[i + 1] if i < len(old.off) - 1 else 0
        last = old.t[end - 1] if end > first else _NEVER
        while first + 1 < end and old.t[first + 1] < keep[i]:
            first += 1
        for j in range(first, end):
            t[k] = old.t[j]
            v[k] = old.v[j]
            k += 1
        for j in range(new.off[i], new.off[i + 1]):
            if new.t[j] > last:
                last = new.t[j]
                t[k] = last
                v[k] = new.v[j]
                k += 1
            else:
                late += 1
        off[i + 1] = k
    if 10 * k < 9 * len(t):  # else little memory is saved
        return off, t[:k].copy(), v[:k].copy(), late
    return off, t[:k], v[:k], late


@njit
def due(points: Points, looked: Longs, interval_ns: int) -> tuple[Longs, Longs]:
    """Return the points that are new, each once, and only the first of each interval."""
    off = np.zeros(len(points.off), np.int64)
    t = np.empty(len(points.t), np.int64)
    count = 0
    for i in range(len(points.off) - 1):
        before = looked[i]
        for k in range(points.off[i], points.off[i + 1]):
            at = points.t[k]
            new = at > max(before, looked[i])
            if new and (interval_ns == 0 or at // interval_ns > before // interval_ns):
                t[count] = at
                count += 1
            before = at
        off[i + 1] = count
    return off, t[:count].copy()
