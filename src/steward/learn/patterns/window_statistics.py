"""Robust figures of each window of each column: by numpy's SIMD sort of float32, NaN-aware.

NaN sorts last, so the median of what is known is an index. Windows of one length are sorted
together; others are padded with NaN to the next multiple of eight rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = ["STATISTICS", "Statistic", "window_statistics"]

Statistic = Literal["median", "spread", "slope", "periodicity"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
_PAD = 8
_CHUNK = 1 << 22  # values that are transformed at once for the periodicity
_CLIP = 3.0  # spreads from the median: a single spike is no period
Floats = NDArray[np.float32]


def window_statistics(
    values: Floats, edges: NDArray[np.int64], statistics: Sequence[Statistic], *, period_s: float
) -> dict[Statistic, Floats]:
    """Return columns x windows per statistic. Window i has the rows edges[i] to edges[i + 1].

    A window without a value has NaN. The slope is per second.
    """
    columns, windows = len(values), len(edges) - 1
    found = {each: np.full((columns, windows), np.nan, np.float32) for each in statistics}
    for places, block in _blocks(values, edges):
        for each, result in _of_block(block, statistics, period_s):
            found[each][:, places] = result
    return found


def _blocks(
    values: Floats, edges: NDArray[np.int64]
) -> Iterator[tuple[slice | NDArray[np.int64], Floats]]:
    """Yield windows of one length as columns x windows x rows, in new memory."""
    counts = np.diff(edges)
    if not len(counts):
        return
    length = int(counts[0])
    if (counts == length).all():
        start, end = int(edges[0]), int(edges[-1])
        block = values[:, start:end].reshape(len(values), len(counts), length)
        yield slice(None), np.array(block, copy=True)
        return
    padded = (counts + _PAD - 1) // _PAD * _PAD
    for length in np.unique(padded):
        places = np.flatnonzero(padded == length)
        rows = edges[places][:, None] + np.arange(length)[None, :]
        beyond = rows >= edges[places + 1][:, None]
        rows[beyond] = 0
        block = values[:, rows]
        block[:, beyond] = np.nan
        yield places, block


def _of_block(
    block: Floats, statistics: Sequence[Statistic], period_s: float
) -> Iterator[tuple[Statistic, Floats]]:
    if "slope" in statistics:
        yield "slope", _slope(block, period_s)
    original = block.copy() if "periodicity" in statistics else block
    block.sort(axis=2)
    known = _known(block)
    median = _order(block, known, (known - 1) // 2, known // 2)
    if "median" in statistics:
        yield "median", median
    spread = _order(block, known, known - 1 - known // 4) - _order(block, known, known // 4)
    if "spread" in statistics:
        yield "spread", spread
    if "periodicity" in statistics:
        yield "periodicity", _periodicity(original, median, spread)


def _known(ordered: Floats) -> NDArray[np.int64]:
    """Return how many values each sorted window has before its NaN."""
    length = ordered.shape[2]
    known = np.full(ordered.shape[:2], length, np.int64)
    partly = np.isnan(ordered[:, :, -1])
    if partly.any():
        known[partly] = length - np.isnan(ordered[partly]).sum(axis=1)
    return known


def _order(ordered: Floats, known: NDArray[np.int64], *places: NDArray[np.int64]) -> Floats:
    """Return the mean of the values at these places of each sorted window."""
    total: NDArray[np.float64] | float = 0.0
    length = ordered.shape[2]
    for place in places:
        if known.size and (known == length).all():
            picked = ordered[:, :, int(place.flat[0])]
        else:
            inside = np.clip(place, 0, length - 1)[:, :, None]
            picked = np.take_along_axis(ordered, inside, axis=2)[:, :, 0]
        total = total + picked.astype(np.float64)
    found = (total / len(places)).astype(np.float32)  # type: ignore[union-attr]
    return np.where(known > 0, found, np.float32(np.nan))


def _slope(block: Floats, period_s: float) -> Floats:
    """Return Tukey's resistant line: from the median of the first third to that of the last."""
    length = block.shape[2]
    third = length // 3
    if not third:
        return np.full(block.shape[:2], np.nan, np.float32)
    ends = []
    for part in (block[:, :, :third], block[:, :, length - third :]):
        ordered = np.sort(part, axis=2)
        known = _known(ordered)
        ends.append(_order(ordered, known, (known - 1) // 2, known // 2))
    rise: Floats = (ends[1] - ends[0]) / np.float32((length - third) * period_s)
    return rise


def _periodicity(block: Floats, median: Floats, spread: Floats) -> Floats:
    """Return 0..1: how far a window repeats itself at the best lag after its first zero."""
    columns, windows, length = block.shape
    flat = block.reshape(-1, length)
    middle, width = median.reshape(-1, 1), spread.reshape(-1, 1) * np.float32(_CLIP)
    found = np.full(len(flat), np.nan, np.float32)
    if length < 6:
        return found.reshape(columns, windows)
    step = max(1, _CHUNK // (4 * length))
    for start in range(0, len(flat), step):
        rows = slice(start, start + step)
        moved = flat[rows] - middle[rows]
        limit = np.where(width[rows] > 0, width[rows], np.inf)
        found[rows] = _repetition(np.nan_to_num(np.clip(moved, -limit, limit)))
    found[np.isnan(middle[:, 0])] = np.nan
    return found.reshape(columns, windows)


def _repetition(rows: Floats) -> Floats:
    length = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, 2 * length, axis=1)) ** 2
    lags = np.fft.irfft(power, axis=1)[:, : length // 2 + 1]
    lags *= length / (length - np.arange(lags.shape[1]))
    own = lags[:, :1]
    share = np.divide(lags, own, out=np.zeros_like(lags), where=own > 1e-12)
    after = np.maximum.accumulate(share < 0.0, axis=1)
    best = np.where(after, share, 0.0).max(axis=1)
    clipped: Floats = np.clip(best, 0.0, 1.0).astype(np.float32)
    return clipped
