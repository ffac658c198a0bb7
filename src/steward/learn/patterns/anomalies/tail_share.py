"""Scores of unusualness: how small a share of the recent past was at least as extreme.

A score is -log10 of that share. It needs no assumption about a distribution, and it forgets: what
was extreme and stays (a level shift) is usual as soon as the recent past holds enough of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = ["damped", "rolling_spread", "tail_scores"]

Array = NDArray[Any]
_TAIL_SHARE = 0.02  # of the past, from which the tail beyond its largest value is estimated
_LEAST_TAIL = 0.1
_HIGHEST = 12.0


@njit
def _insert(ordered: Array, count: int, value: float) -> None:
    place = np.searchsorted(ordered[:count], value)
    for i in range(count, place, -1):
        ordered[i] = ordered[i - 1]
    ordered[place] = value


@njit
def _delete(ordered: Array, count: int, value: float) -> None:
    for i in range(np.searchsorted(ordered[:count], value), count - 1):
        ordered[i] = ordered[i + 1]


@njit
def _beyond(ordered: Array, count: int, value: float) -> float:
    """Return the score of a value beyond all `count` earlier ones: Hill's Pareto tail."""
    top, tail = ordered[count - 1], max(1, int(count * _TAIL_SHARE))
    if top <= 0.0:
        return float(np.log10(count + 1.0) + 1.0)
    start, index = ordered[count - 1 - tail], 0.0
    for i in range(count - tail, count):
        index += np.log(ordered[i] / start) if start > 0.0 else 1.0
    index = max(index / tail, _LEAST_TAIL)
    return float(min(_HIGHEST, np.log10(count + 1.0) + np.log10(value / top) / index))


@njit
def tail_scores(values: Array, history: int, warm_up: int) -> Array:
    """Return each value's score against the `history` values before it; 0 in the first `warm_up`.

    Values are at least 0; NaN is left out and scores 0.
    """
    scores = np.zeros(len(values))
    ordered, ring = np.empty(history), np.empty(history)
    seen = 0
    for t in range(len(values)):
        value = values[t]
        if np.isnan(value):
            continue
        count = min(seen, history)
        if count >= warm_up:
            larger = count - np.searchsorted(ordered[:count], value)
            if larger > 0:
                scores[t] = np.log10((count + 1.0) / (larger + 1.0))
            else:
                scores[t] = _beyond(ordered, count, value)
        if count == history:
            _delete(ordered, count, ring[seen % history])
            count -= 1
        _insert(ordered, count, value)
        ring[seen % history] = value
        seen += 1
    return scores


@njit
def rolling_spread(values: Array, width: int, warm_up: int) -> tuple[Array, Array]:
    """Return median and half the central 68 % of the `width` values before each one."""
    n = len(values)
    middle, spread = np.full(n, np.nan), np.full(n, np.nan)
    ordered = np.empty(width)
    for t in range(n):
        count = min(t, width)
        if count >= warm_up:
            middle[t] = ordered[count // 2]
            spread[t] = 0.5 * (ordered[int(count * 0.84)] - ordered[int(count * 0.16)])
        if count == width:
            _delete(ordered, count, values[t - width])
            count -= 1
        _insert(ordered, count, values[t])
    return middle, spread


@njit
def damped(scores: Array, fade: float) -> Array:
    """Return the scores that exceed what is left of earlier ones, 0 elsewhere.

    An event then has its high scores at its beginning and not all along.
    """
    kept = np.zeros(len(scores))
    level = 0.0
    for t in range(len(scores)):
        level *= fade
        if scores[t] > level:
            kept[t] = level = scores[t]
    return kept
