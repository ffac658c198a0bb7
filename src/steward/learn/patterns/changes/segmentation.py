"""Change points of recorded series: the cheapest division into stretches, over all metrics (PELT).

Every metric is brought to the same scale and cut off a few deviations from its mean, so that
outliers count little; how much it jumps from sample to sample is a series of its own, so that a
change of spread is found as one of level is. A stretch costs its squared distances from its mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = ["Segmentation", "change_points"]

Array = NDArray[Any]
_MOST_ALIKE = 0.95  # correlation of neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class Segmentation:
    """How finely to divide: a change has to save `penalty` + `metric_penalty` x metrics.

    Both are in units of log(samples), and grow with how much samples repeat one another.
    """

    penalty: float = 2.0
    metric_penalty: float = 0.25
    shortest: int = 5  # samples
    most_cells: int = 5000  # a longer series is divided on a grid, and its changes refined
    cut_off: float = 3.0  # deviations
    spread_weight: float = 0.4
    block: int = 50  # samples between which few changes lie: for how alike neighbours are


def change_points(values: Array, how: Segmentation | None = None) -> tuple[Array, Array]:
    """Return the first row of each stretch but the first, and what each change saves.

    Savings are in units of the penalty: a change worth 1 is only just one.
    """
    how = how or Segmentation()
    level = _scaled(values)
    rows, metrics = level.shape
    if rows < 2 * how.shortest or metrics == 0:
        return np.zeros(0, np.int64), np.zeros(0)
    penalty = (how.penalty + how.metric_penalty * metrics) * np.log(rows)
    penalty *= np.sqrt(_repetition(level, how.block))
    level = np.clip(level, -how.cut_off, how.cut_off)
    jumps = np.abs(np.diff(level, axis=0, prepend=level[:1]))
    series = np.hstack((level, how.spread_weight * np.minimum(jumps, how.cut_off)))
    sums = np.concatenate((np.zeros((1, 2 * metrics)), np.cumsum(series, axis=0)))
    step = max(1, -(-rows // how.most_cells))
    cuts = _refined(sums, _pelt(sums, step, how.shortest, penalty), step)
    return cuts, _savings(sums, cuts) / penalty


def _scaled(values: Array) -> Array:
    """Return the metrics that vary, each with mean 0 and deviation 1; absent is its mean."""
    columns = []
    for column in values.T:
        there = column[np.isfinite(column)]
        if len(there) and there.min() < there.max():
            there = there / np.abs(there).max()
            scaled = np.zeros(len(column))
            spread = max(float(there.std()), np.finfo(float).tiny)
            scaled[np.isfinite(column)] = (there - there.mean()) / spread
            columns.append(scaled)
    return np.array(columns).T if columns else np.zeros((len(values), 0))


def _repetition(level: Array, block: int) -> float:
    """Return how many samples in a row hold the information of one, as a mean over metrics.

    It follows from the correlation of neighbours inside blocks; the median over blocks, since few
    of them have a change inside.
    """
    blocks = max(1, len(level) // block)
    parts = level[: blocks * (len(level) // blocks)].reshape(blocks, -1, level.shape[1])
    rest = parts - parts.mean(axis=1, keepdims=True)
    variance = np.sum(rest * rest, axis=1)
    product = np.sum(rest[:, 1:] * rest[:, :-1], axis=1)
    factors = []
    for own, shared in zip(variance.T, product.T, strict=True):
        varies = own > 1e-9
        alike = float(np.median(shared[varies] / own[varies])) if varies.any() else 0.0
        alike = min(max(alike, 0.0), _MOST_ALIKE)
        factors.append((1.0 + alike) / (1.0 - alike))
    return float(np.mean(factors))


@njit
def _saved(sums: Array, begin: int, end: int) -> float:
    """Return what describing a stretch by its means saves: its cost, less what all rows cost."""
    total = 0.0
    for k in range(sums.shape[1]):
        part = sums[end, k] - sums[begin, k]
        total += part * part
    return total / (end - begin)


@njit
def _pelt(sums: Array, step: int, shortest: int, penalty: float) -> Array:
    """Return the changes of the cheapest division whose changes lie on a grid."""
    rows = len(sums) - 1
    cells = rows // step
    edges = np.arange(cells + 1) * step
    edges[cells] = rows
    least = max(1, -(-shortest // step))
    best = np.full(cells + 1, np.inf)
    best[0] = -penalty
    last = np.zeros(cells + 1, np.int64)
    begins = np.zeros(cells + 1, np.int64)
    costs = np.zeros(cells + 1)
    count = 0
    for end in range(least, cells + 1):
        begins[count] = end - least
        count += 1
        for i in range(count):
            costs[i] = best[begins[i]] - _saved(sums, edges[begins[i]], edges[end])
            if costs[i] + penalty < best[end]:
                best[end], last[end] = costs[i] + penalty, begins[i]
        kept = 0
        for i in range(count):
            if costs[i] <= best[end] or end - begins[i] < 2 * least:
                begins[kept] = begins[i]
                kept += 1
        count = kept
    found = np.zeros(cells + 1, np.int64)
    number, at = 0, cells
    while last[at] > 0:
        at = last[at]
        found[number] = edges[at]
        number += 1
    return found[:number][::-1].copy()


@njit
def _refined(sums: Array, cuts: Array, step: int) -> Array:
    """Return changes that were found on a grid, moved to their best rows near it."""
    moved = cuts.copy()
    for i in range(len(cuts)):
        begin = moved[i - 1] if i else 0
        end = cuts[i + 1] if i + 1 < len(cuts) else len(sums) - 1
        best = -np.inf
        for row in range(max(begin + 1, cuts[i] - step), min(end - 1, cuts[i] + step) + 1):
            saved = _saved(sums, begin, row) + _saved(sums, row, end)
            if saved > best:
                best, moved[i] = saved, row
    return moved


def _savings(sums: Array, cuts: Array) -> Array:
    edges = [0, *(int(cut) for cut in cuts), len(sums) - 1]
    return np.array(
        [
            _saved(sums, edges[i], edges[i + 1])
            + _saved(sums, edges[i + 1], edges[i + 2])
            - _saved(sums, edges[i], edges[i + 2])
            for i in range(len(cuts))
        ]
    )
