"""Periods of series, how strong they are, and where they are lost and come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PeriodLoss", "Periodicity", "periodicity"]

Array = NDArray[Any]
_CLEAR = 0.3  # autocorrelation at the period
_FEWEST_PERIODS = 4
_SHORTEST = 4  # samples
_AS_GOOD = 0.9  # a shorter period with so much of the best one's strength is preferred


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodLoss:
    """A stretch without the period; the first and last row of it."""

    from_row: int
    to_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodicity:
    """What repeats in a series, every so many rows."""

    period_rows: int
    strength: float  # autocorrelation at the period, 1 at most
    losses: tuple[PeriodLoss, ...]


def periodicity(values: Array) -> Periodicity | None:
    """Return the clearest period of a series in steady steps, None if there is none."""
    there = np.isfinite(values)
    if there.sum() < _FEWEST_PERIODS * _SHORTEST or np.ptp(values[there]) == 0.0:
        return None
    series = np.where(there, values, np.mean(values[there]))
    series = series / np.abs(series).max()
    low, high = np.quantile(series, (0.005, 0.995))
    series = np.clip(series, low, high)  # a single spike is no pattern
    if low == high:
        return None
    alike = _autocorrelation(series - _trend(series))
    period = _first_clear_peak(alike)
    if period is None:
        return None
    return Periodicity(
        period_rows=period, strength=float(alike[period]), losses=tuple(_losses(series, period))
    )


def _trend(series: Array) -> Array:
    rows = np.arange(len(series))
    found: Array = np.polyval(np.polyfit(rows, series, 1), rows)
    return found


def _autocorrelation(series: Array) -> Array:
    """Return the correlation with itself at each lag, not shrunk where few rows overlap."""
    rows = len(series)
    spectrum = np.fft.rfft(series, 2 * rows)
    product = np.fft.irfft(spectrum * np.conj(spectrum))[:rows]
    product = product * rows / (rows - np.arange(rows))
    found: Array = product / max(float(product[0]), np.finfo(float).tiny)
    return found


def _first_clear_peak(alike: Array) -> int | None:
    """Return the shortest lag that is about as good as the best one behind the first trough."""
    last = len(alike) // _FEWEST_PERIODS
    negative = np.flatnonzero(alike[:last] < 0.0)
    if not len(negative):
        return None
    first = max(_SHORTEST, int(negative[0]))
    inner = alike[first : last + 1]
    if len(inner) < 3:
        return None
    peaks = np.flatnonzero((inner[1:-1] >= inner[:-2]) & (inner[1:-1] >= inner[2:])) + 1
    clear = peaks[inner[peaks] >= max(_CLEAR, 4.0 / np.sqrt(len(alike)))]
    if not len(clear):
        return None
    good = clear[inner[clear] >= _AS_GOOD * inner[clear].max()]
    return int(first + good[0])


def _losses(series: Array, period: int) -> list[PeriodLoss]:
    """Return where each period no longer resembles what the series usually does in one.

    The usual shape is the median over all periods; a period resembles it by correlation.
    """
    whole = len(series) // period
    folded = series[: whole * period].reshape(whole, period)
    shape = np.median(folded, axis=0)
    strengths = np.array([_correlation(each, shape) for each in folded])
    usual = float(np.median(strengths))
    if usual < _CLEAR:  # no steady shape: there is nothing to lose
        return []
    missing = strengths < 0.5 * usual
    edges = np.flatnonzero(np.diff(np.concatenate(([0], missing.astype(int), [0]))))
    return [
        PeriodLoss(from_row=int(begin * period), to_row=int(end * period - 1))
        for begin, end in edges.reshape(-1, 2)
        if end - begin >= 2  # one odd period is an anomaly, not a loss
    ]


def _correlation(one: Array, other: Array) -> float:
    one, other = one - one.mean(), other - other.mean()
    size = float(np.sqrt(np.sum(one * one) * np.sum(other * other)))
    return float(np.sum(one * other)) / size if size > 0.0 else 0.0
