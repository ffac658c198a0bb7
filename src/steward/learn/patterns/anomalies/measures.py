"""Measures of one series whose extremes are anomalies: deviation, shift, spread, unseen shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.learn.patterns.anomalies.tail_share import rolling_spread, tail_scores

__all__ = ["Horizons", "series_scores"]

Array = NDArray[Any]
_FLOOR_SHARE = 1e-3  # of the level: a spread below it is no scale
_WORST_SHARE = 0.5  # weight of the most unusual measure; the mean of all has the rest
_NEIGHBOURS = 3
_LARGEST, _TINY = 1e100, 1e-9
_FEWEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizons:
    """Lengths in samples. The defaults suit a day of five-minute steps as well as minutes at 10 Hz.

    Nothing after a sample counts: a live series has the same scores.
    """

    history: int = 1000  # against which each measure is ranked
    long: int = 576
    short: int = 48
    smooth: int = 12
    shapes: tuple[int, ...] = (1, 6, 24, 72)
    search: int = 2016  # how far back a shape is looked for

    def warm_up(self, samples: int) -> int:
        """Return how many samples go by before anything is scored."""
        return max(_FEWEST, min(100, samples // 20))


def series_scores(values: Array, horizons: Horizons) -> Array:
    """Return how unusual each value of a series is, about -log10 of a tail share; NaN scores 0."""
    there = np.isfinite(values)
    scores = np.zeros(len(values))
    series = np.ascontiguousarray(values[there], np.float64)
    warm_up = horizons.warm_up(len(series))
    if len(series) <= warm_up or series.min() == series.max():
        return scores
    ranked = np.array(
        [tail_scores(each, horizons.history, warm_up) for each in _measures(series, horizons)]
    )
    scores[there] = _WORST_SHARE * ranked.max(0) + (1.0 - _WORST_SHARE) * ranked.mean(0)
    return scores


def _measures(series: Array, horizons: Horizons) -> list[Array]:
    warm_up = horizons.warm_up(len(series))
    largest = float(np.abs(series).max())
    if largest > _LARGEST:
        series = series / largest  # so that squares do not overflow
    level, spread = rolling_spread(series, horizons.long, warm_up)
    near, _ = rolling_spread(series, horizons.short, _FEWEST)
    floor = _FLOOR_SHARE * np.abs(level) + _TINY
    smooth = _trailing_mean(series, horizons.smooth)
    noise = _trailing_mean(series**2, 2 * horizons.smooth)
    noise = np.sqrt(np.maximum(noise - _trailing_mean(series, 2 * horizons.smooth) ** 2, 0.0))
    noise = np.log(np.maximum(noise, _TINY))
    usual_noise, _ = rolling_spread(noise, horizons.long, warm_up)
    return [
        np.abs(series - level) / (spread + floor),
        np.abs(series - near),
        np.abs(smooth - level),
        np.abs(noise - usual_noise),
        *(
            nearest_distance(series, length, horizons.search, _NEIGHBOURS)
            for length in horizons.shapes
        ),
    ]


def _trailing_mean(series: Array, width: int) -> Array:
    """Return the mean of each value and those before it, `width` in all where there are so many."""
    total = np.concatenate(([0.0], np.cumsum(series)))
    ends = np.arange(1, len(series) + 1)
    begins = np.maximum(ends - width, 0)
    mean: Array = (total[ends] - total[begins]) / (ends - begins)
    return mean


@njit
def nearest_distance(series: Array, length: int, search: int, neighbours: int) -> Array:
    """Return how far the last `length` values are from the nearest such stretches before them."""
    n = len(series)
    found = np.full(n, np.nan)
    best = np.empty(neighbours)
    for t in range(2 * length + 10, n):
        best[:] = np.inf
        for u in range(t - length, max(length - 1, t - search) - 1, -1):
            total = 0.0
            for i in range(length):
                step = series[t - i] - series[u - i]
                total += step * step
                if total >= best[-1]:
                    break
            place = neighbours - 1
            if total < best[place]:
                while place > 0 and best[place - 1] > total:
                    best[place] = best[place - 1]
                    place -= 1
                best[place] = total
        found[t] = np.sqrt(best.mean())
    return found
